"""One configuration of a model on one backend, set up to be run at several batch sizes.

A single run initialises lazy layers, whose sizes are those of the first inputs that they see.
"""

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from capplan.core.ops.flops import Formulas
from capplan.core.trace.types import InputTensor, Recording, Role
from capplan.core.workload import Configuration, Layout, Variant
from capplan.errors import TraceError
from capplan.probe.cuda.autocast import Autocast, cuda_autocast
from capplan.probe.cuda.higher_order import higher_order_rules
from capplan.probe.cuda.preludes import PRELUDES
from capplan.probe.cuda.rules import CudaRules, as_on_cuda
from capplan.probe.foreign.code import model_code
from capplan.probe.foreign.machine.threads import threads_inline
from capplan.probe.foreign.preserve import host_generators, preserved, set_mode, swapped, uncollected
from capplan.probe.foreign.stored import packed_weights, stored_tensors
from capplan.probe.inputs.grammar import SELECTED_SHARE
from capplan.probe.inputs.tensors import as_forward_takes, map_tensors, named_tensors
from capplan.probe.record.answers import RecordedAnswers
from capplan.probe.record.assumed_values import CandidateSelection
from capplan.probe.record.known_values import KnownValues
from capplan.probe.record.recorder import PassLimits, Recorder
from capplan.probe.record.types import Pass
from capplan.probe.trace.backends import Backend, TensorFactory
from capplan.probe.trace.batch_fit import SeenInput, fit_inputs, fit_recording
from capplan.probe.trace.training import checkpointed_blocks, run_steps

MakeInputs = Callable[..., Any]
NO_FORMULAS: Formulas = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A recording, the inputs that it was made with, and what was assumed for it, with the line of the user's code."""

    recording: Recording
    inputs: tuple[InputTensor, ...]
    notes: tuple[str, ...] = ()


class TraceStage:
    """One configuration of one model on one backend, set up to be run at several batch sizes."""

    def __init__(
        self, module: nn.Module, make_inputs: MakeInputs, configuration: Configuration, *, name: str, backend: Backend
    ) -> None:
        self.module = module
        self.make_inputs = make_inputs
        self.configuration = configuration
        self.name = name
        self.paths = ModulePaths(module)
        self._half: torch.dtype = getattr(torch, configuration.half_dtype)
        self.factory = TensorFactory(
            backend,
            half=self._half if configuration.variant is Variant.HALF else None,
            channels_last=configuration.layout is Layout.NHWC,
        )
        self.formulas: Formulas = NO_FORMULAS
        self._operators: dict[Any, Any] = {}
        self._seen: dict[int, list[SeenInput]] = {}
        self.assumes_choices = False
        self.selected_share = SELECTED_SHARE
        self.limits = PassLimits()
        self.differentiates = self.grew = False
        self.as_cpu = False
        self.answers: Mapping[int, RecordedAnswers] = {}
        self.heard = RecordedAnswers()
        self.assumed: Set[str] = frozenset()
        self.chose = False
        self.notes: tuple[str, ...] = ()
        self._keeps = self._draws = False
        self._parameter_count = sum(1 for _ in module.parameters())
        self._autocast = Autocast(keeps_weights=configuration.training is not None)
        self._weights: list[tuple[Tensor, Role]] = []
        self._packed: dict[int, tuple[Tensor, ...]] = {}
        self._parameters: dict[int, int] = {}

    @contextlib.contextmanager
    def set(self) -> Iterator[None]:
        """Replace the model's tensors by others, and restore everything afterwards."""
        with preserved(self.module):
            self._parameter_count = sum(1 for _ in self.module.parameters())
            set_mode(self.module, training=self.configuration.training is not None)
            is_half = self.configuration.variant is Variant.HALF
            self.factory.kept_full = kept_in_full(self.module, self._half) if is_half else frozenset()
            swapped(self.module, self.factory.weight)
            packed = list(packed_weights(self.module))
            self._packed = {hash(weights.holder): weights.tensors for weights in packed}
            self._weights = [
                *_weights(self.module),
                *(
                    (tensor, Role.BUFFER if is_scale else Role.PARAMETER)
                    for weights in packed
                    for tensor, is_scale in zip(weights.tensors, weights.is_scale, strict=True)
                ),
            ]
            yield

    def run_again(self, batch: int) -> Pass:
        """Repeat a pass if the model kept tensors of the first one, so that it runs as all later calls do."""
        first = self.run(batch)
        return self.run(batch) if self._keeps and self.configuration.training is None else first

    def run(self, batch: int) -> Pass:
        known = KnownValues(
            self.factory.device,
            assumes_choices=self.assumes_choices,
            selection=CandidateSelection(share=self.selected_share, batch=batch),
            answers=self.answers.get(batch),
        )
        recorder = Recorder(self._operators, known, PRELUDES, self.limits)
        if self.factory.backend is Backend.REAL:
            torch.manual_seed(0)  # what is drawn is the same every time; `preserved` puts the generator back
        self._parameters = {}
        for index, (tensor, role) in enumerate(self._weights):
            self._parameters.setdefault(recorder.adopt(tensor, role), index)
        recorder.packed = self._packed
        args, kwargs = self._inputs(batch, recorder)
        training = self.configuration.training
        as_cpu = self.as_cpu or self.factory.backend is not Backend.META
        recorder.trains = training is not None
        checkpoints = training is not None and training.checkpointing
        try:
            with uncollected():  # to the record's end: a collector's chance frees would be deaths in it
                with (
                    self._told_where(),
                    torch.set_grad_enabled(training is not None or self.differentiates),
                    threads_inline(),
                    self.factory.entered(),
                    self.paths.watched(recorder),
                    as_on_cuda(known.note, as_cpu=as_cpu),
                    checkpointed_blocks(self.module) if checkpoints else contextlib.nullcontext(),
                    higher_order_rules(recorder),
                    CudaRules(recorder, self._autocast, place=self.factory.device.type, as_cpu=as_cpu),
                    recorder,
                ):
                    output = self._execute(args, kwargs, recorder)
                record = recorder.close()
        finally:
            recorder.forget(tensor for tensor, _ in self._weights)
            self.assumed, self.chose = known.assumed.keys(), known.chose
        if output is None:
            raise TraceError(f"{type(self.module).__name__} returned nothing; its forward must return its output.")
        record.assumed = known.assumed
        record.selected_share = self.selected_share
        self.heard = known.heard
        self.grew = sum(1 for _ in self.module.parameters()) > self._parameter_count
        self.notes = (
            *([_DRAWS_NOTE] if self._draws else ()),
            *([_GRADIENT_NOTE] if self.differentiates and training is None else ()),
            *known.notes(),
        )
        del output
        self._keeps = recorder.outlived()
        return record

    @contextlib.contextmanager
    def _told_where(self) -> Iterator[None]:
        try:
            with model_code(f"running {self.name}"):
                yield
        except TraceError as error:
            if error.__cause__ is None:
                raise
            located = self.paths.locate(str(error)).rstrip(".")
            advice = self._channels_advice(located) or self._advice(error.__cause__)
            raise TraceError(located + self._given() + advice) from error.__cause__

    def _channels_advice(self, located: str) -> str:
        """Return how many channels the first convolution takes if it failed; empty where something else did."""
        place = re.search(r"\(in ([\w.]+) \(Conv\w*\)\)$", located)
        given = next((shape[1] for _, _, shape in next(reversed(self._seen.values()), []) if len(shape) > 2), None)
        first = next(((path, part) for path, part in self.module.named_modules() if hasattr(part, "in_channels")), None)
        if place is None or first is None or first[0] != place[1] or given is None or "channel" not in located:
            return ""
        takes = first[1].in_channels
        build = f"build the model for {given} (timm: ⟨arg⟩ in_chans={given})"
        return f"; {place[1]} takes {takes} channels: give inputs of as many, or {build}."

    def _advice(self, cause: BaseException) -> str:
        """Return what to do about a failure; nothing where other inputs would not help."""
        words = str(cause)
        if item := re.search(r"for its item '(\w+)', as of a dictionary", words):
            name = next((name for name, _, _ in next(reversed(self._seen.values()), [])), "batch").partition(".")[0]
            name = "batch" if re.fullmatch(r"input\d+", name) else name
            return f"; give each item, ⟨input⟩ {name}.{item[1]}=DIMS, or all by ⟨inputs-from⟩."
        if "type" in words and ("half" in words.lower() or "bfloat16" in words.lower() or "float16" in words):
            half = "bfloat16" if "bfloat16" in words.lower() else "float16"
            batch, given = next(reversed(self._seen.items()), (1, []))
            floats = [(name, shape) for name, dtype, shape in given if dtype is torch.float32]
            name, shape = floats[0] if floats else ("", (batch, 3, 224, 224))
            dims = "x".join(("N", *map(str, shape[1:])) if shape[:1] == (batch,) else map(str, shape))
            named = "" if name.startswith("input") or not name.isidentifier() else f"{name}="
            return f"; for weights of 16 bits give inputs of their dtype, such as ⟨input⟩ {named}{half}:{dims}."
        is_of_code = isinstance(cause, ImportError | AttributeError | NameError | NotImplementedError | OSError)
        return "." if is_of_code or any(part in words.lower() for part in _NOT_OF_INPUTS) else _ADVICE

    def _given(self) -> str:
        """Format the inputs of the last pass: "; given x float32 [2, 3, 224, 224]"."""
        last = next(reversed(self._seen.values()), [])
        inputs_text = (f"{name} {str(dtype).removeprefix('torch.')} {list(shape)}" for name, dtype, shape in last)
        return f"; given {', '.join(inputs_text)}" if last else ""

    def _execute(self, args: Any, kwargs: Any, recorder: Recorder) -> Any:
        def call() -> Any:
            before = host_generators()
            output = self.module(*args, **kwargs)
            self._draws |= host_generators() != before
            return output

        training = self.configuration.training
        if training is None:
            with self._autocasting():
                return call()
        return run_steps(self.module, call, recorder=recorder, training=training, autocasting=self._autocasting)

    def _autocasting(self) -> contextlib.AbstractContextManager[None]:
        amp = self.configuration.variant is Variant.AMP
        return cuda_autocast(self._half, self._autocast) if amp else contextlib.nullcontext()

    def _inputs(self, batch: int, recorder: Recorder) -> tuple[tuple[Any, ...], dict[str, Any]]:
        made = self.make_inputs(batch, device=self.factory.device)
        leaves = (tensor for _, tensor in named_tensors(tuple(made.args), dict(made.kwargs)))
        if any(leaf.is_meta and not leaf.is_floating_point() for leaf in leaves):
            made = self.make_inputs(batch, device=torch.device("cpu"))
        made = as_forward_takes(made, self.module.forward)
        seen: list[SeenInput] = []

        def place(value: Tensor) -> Tensor:
            name = made.names[len(seen)] if len(seen) < len(made.names) else f"input{len(seen)}"
            seen.append((name, value.dtype, tuple(value.shape)))
            placed = self.factory.input(value)
            recorder.adopt(placed, Role.INPUT)
            return placed

        args, kwargs = map_tensors((tuple(made.args), dict(made.kwargs)), place)
        self._seen[batch] = seen
        return args, kwargs

    @property
    def uses_sparse(self) -> bool:
        """Return True if a pass met operators on sparse tensors, whose sizes depend on data."""
        return any("sparse" in operator.name for operator in self._operators.values())

    @property
    def last_batch(self) -> int | None:
        """Return the batch of the last pass; None before the first."""
        return next(reversed(self._seen), None)

    def fit(self, passes: Sequence[Pass], batches: Sequence[int]) -> Made:
        """Fit the recording and the inputs' shapes to the passes."""
        recording = fit_recording(
            passes,
            batches,
            configuration=self.configuration,
            modules=self.paths.names,
            half=None if self.configuration.variant is Variant.FULL else self._half,
            parameters=self._parameters,
            backend=self.factory.backend.value,
            formulas=self.formulas,
        )
        inputs = fit_inputs([self._seen[batch] for batch in batches], batches)
        notes = (*self.notes, _PACKED_NOTE) if self._packed else self.notes
        return Made(recording=recording, inputs=inputs, notes=notes)


_PACKED_NOTE = (
    "layers that torch.ao quantised (quantize_dynamic, convert) keep packed weights, counted as they are stored; "
    "PyTorch runs them on CPUs alone"
)
_DRAWS_NOTE = (
    "what the model runs may change from call to call: its forward draws random numbers from Python's or numpy's "
    "generator; one draw was traced"
)
_GRADIENT_NOTE = (
    "gradients are on in inference, because the forward differentiates or ⟨grad⟩ asks for it: what a backward pass "
    "takes is kept"
)
_ADVICE = "; see that the inputs are what the model takes (⟨input⟩, ⟨inputs-from⟩) and that it runs on the CPU."
_NOT_OF_INPUTS = (
    "not supported", "not implemented", "not read", "not an operator", "cannot be counted", "meta tensor", "cuda",
    "need their data", "exceeds", "a loop of more than", "overflow",
)  # fmt: skip
"""Words of failures that other inputs would not help."""


def _weights(module: nn.Module) -> Iterator[tuple[Tensor, Role]]:
    """Yield each parameter and buffer once, in the order of the trace's parameters."""
    seen: set[int] = set()
    for role, held in ((Role.PARAMETER, module.parameters()), (Role.BUFFER, module.buffers())):
        for tensor in held:
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield from ((stored, role) for _, stored in stored_tensors(tensor))


def kept_in_full(module: nn.Module, half: torch.dtype) -> frozenset[int]:
    """Return the identities of parameters and buffers that the model says it keeps in fp32.

    transformers' and diffusers' models name them in `_keep_in_fp32_modules`, for float16, and in
    `_keep_in_fp32_modules_strict`, for both 16-bit types; from_pretrained honours them. Modules whose class has its own
    `half` or `bfloat16` that does nothing are kept whole.
    """
    kept: set[int] = set()
    for part in module.modules():
        names = set(getattr(part, "_keep_in_fp32_modules_strict", None) or ())
        if half is torch.float16:
            names |= set(getattr(part, "_keep_in_fp32_modules", None) or ())
        for name, tensor in (*part.named_parameters(), *part.named_buffers()) if names else ():
            if names & set(name.split(".")):
                kept.add(id(tensor))
        if _refuses(part, half):
            kept |= {id(tensor) for tensor in (*part.parameters(), *part.buffers())}
    return frozenset(kept)


def _refuses(part: nn.Module, half: torch.dtype) -> bool:
    """Return True if a module's own conversion returns the module as it was."""
    name = "half" if half is torch.float16 else "bfloat16"
    own = getattr(type(part), name)
    if own is getattr(nn.Module, name):
        return False
    first = next((tensor for tensor in part.parameters() if tensor.is_floating_point()), None)
    if first is None:
        return False
    probe = nn.Parameter(torch.empty(1, dtype=first.dtype, device="meta"))
    twin = part.__class__.__new__(part.__class__)
    nn.Module.__init__(twin)
    twin.register_parameter("probe", probe)
    try:
        own(twin)
    except (RuntimeError, AttributeError, TypeError):
        return False
    return twin._parameters["probe"] is not None and twin._parameters["probe"].dtype is first.dtype


class ModulePaths:
    """Paths of a model's modules, by index; 0 is the model itself."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.names: list[str] = []
        self._classes: list[str] = []
        self._index: dict[int, int] = {}
        for name, module in model.named_modules():
            self._index[id(module)] = len(self.names)
            self.names.append(name)
            self._classes.append(type(module).__name__)
        self.stopped_at: int | None = None

    def locate(self, message: str) -> str:
        """Describe in which module the last pass stopped, if it did in one."""
        if self.stopped_at is None:
            return message
        path, kind = self.names[self.stopped_at], self._classes[self.stopped_at]
        return f"{message} (in {path} ({kind}))" if path else f"{message} (in {kind}.forward)"

    @contextlib.contextmanager
    def watched(self, recorder: Recorder) -> Iterator[None]:
        """Report to the recorder which module is running, while the context lasts."""
        self.stopped_at = None
        original = torch.nn.Module.__call__
        index = self._index

        def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            here = index.get(id(module))
            if here is None:
                return original(module, *args, **kwargs)
            before = recorder.module
            recorder.module = here
            try:
                return original(module, *args, **kwargs)
            except BaseException:
                if self.stopped_at is None:
                    self.stopped_at = here
                raise
            finally:
                recorder.module = before

        torch.nn.Module.__call__ = call  # type: ignore[method-assign]  # for the time of the trace
        try:
            yield
        finally:
            torch.nn.Module.__call__ = original  # type: ignore[method-assign]  # as it was


def is_uninitialised(module: nn.Module) -> bool:
    """Return True if some parameter or buffer has no shape before the first forward."""
    return any(map(is_lazy, module.parameters())) or any(map(is_lazy, module.buffers()))


def initialise_lazy(module: nn.Module, make_inputs: MakeInputs, *, name: str) -> None:
    """Size lazy layers by one forward of the inputs, as their first call does."""
    if is_uninitialised(module):
        run_once(module, make_inputs, name=name)


def run_once(module: nn.Module, make_inputs: MakeInputs, *, name: str) -> None:
    """Run one forward that may change the module: lazy layers take their sizes, and models make layers of their own."""
    stage = TraceStage(module, make_inputs, Configuration(), name=name, backend=Backend.META)
    was_training = module.training
    with warnings.catch_warnings(), torch.no_grad():
        warnings.filterwarnings("ignore", "Lazy modules are a new feature", UserWarning)
        set_mode(module, training=False)
        try:
            stage.run(2)
        finally:
            set_mode(module, training=was_training)
