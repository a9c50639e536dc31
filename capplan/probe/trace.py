"""Trace a model: run it on the meta device, under the rules of CUDA, and keep what it runs as a list of facts."""

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from capplan.core.formulas import Formulas
from capplan.core.trace import InputTensor, Parameter, Provenance, Recording, Role, Trace
from capplan.core.workload import Configuration, Layout, Variant
from capplan.errors import TraceError
from capplan.probe.autocast import Autocast, cuda_autocast
from capplan.probe.recorder import Pass, Recorder
from capplan.probe.shadow import Shadows
from capplan.probe.target_code import model_code
from capplan.probe.trace_fit import DoesNotFitError, SeenInput, fit_inputs, fit_recording
from capplan.probe.trace_ladder import LARGEST_REAL_BYTES, Builder, Ground, Rung, building, building_with_values
from capplan.probe.trace_modules import ModulePaths
from capplan.probe.trace_rules import CudaRules, as_on_cuda
from capplan.probe.trace_state import globals_preserved, preserved, swapped

BATCHES = (2, 3, 5)
"""Two batches to fit, a third to check. Batch 1 is special (broadcasts, squeezes) and never fitted from."""

HALF = torch.bfloat16
"""The 16-bit type that tracing runs: float16 has extra branches against overflow in many models."""

MakeInputs = Callable[..., Any]
NO_FORMULAS: Formulas = MappingProxyType({})


def trace_module(
    module: nn.Module,
    make_inputs: MakeInputs,
    *,
    name: str,
    target: str | None = None,
    configurations: Sequence[Configuration] = (Configuration(),),
    exact_batch: int | None = None,
    provenance: Provenance | None = None,
    rebuild: Builder | None = None,
    formulas: Formulas = NO_FORMULAS,
) -> Trace:
    """Trace a module; `make_inputs(batch, device=...)` gives `args`, `kwargs` and `names`.

    The module's tensors are replaced for the time of the trace and put back; nothing else of it changes. `rebuild`
    makes the module anew where the first rung fails: on meta with small values kept, or with real weights. `formulas`
    count the FLOPs of operators that capplan does not know.

    Raises:
        TraceError: the model could not be run on any rung; the message says where it stopped.
    """
    from capplan import __version__

    batches = (exact_batch,) if exact_batch is not None else BATCHES
    tracer = _Tracer(module, make_inputs, name=name, batches=batches, rebuild=rebuild, formulas=formulas)
    parameters = tuple(_parameters(module))
    made = [tracer.record(configuration) for configuration in configurations]
    return Trace(
        name=name,
        target=target or name,
        class_name=type(module).__name__,
        parameters=parameters,
        inputs=made[0][1] if made else (),
        recordings=tuple(recording for recording, _ in made),
        provenance=provenance or Provenance(capplan_version=__version__, versions={"torch": torch.__version__}),
    )


def trace_target(
    target: Any,
    *,
    configurations: Sequence[Configuration] = (Configuration(),),
    exact_batch: int | None = None,
    formulas: Formulas = NO_FORMULAS,
) -> Trace:
    """Trace what words name: build the module on the meta device, then as `trace_module`.

    Raises:
        TraceError: as `trace_module`, or the constructor raised.
    """
    from capplan import __version__

    with building():
        module = target.build()
    return trace_module(
        module,
        target.make_inputs,
        name=target.name,
        target=target.words,
        configurations=configurations,
        exact_batch=exact_batch if exact_batch is not None else target.only_batch,
        provenance=Provenance(
            capplan_version=__version__,
            versions=target.versions,
            source_sha256=target.source_sha256,
            notes=target.notes,
        ),
        rebuild=target.build,
        formulas=formulas,
    )


Made = tuple[Recording, tuple[InputTensor, ...]]

_VALUED, _BALANCED = 1, 2
"""Attempts after the first one on meta: with the values that constructors compute; with a router's choices assumed."""


def _asked_for_values(error: TraceError) -> bool:
    """Tell a refusal of tensors without data from what a model's own code found wrong."""
    cause = error.__cause__
    words = str(cause).replace("device='meta'", "")  # a tensor printed in a message of the model's own
    return isinstance(cause, NotImplementedError) or "meta" in words


def _guess_count(made: Made) -> int:
    return sum(guess.count for guess in made[0].guesses)


class _Tracer:
    """One model on its way up the ladder."""

    def __init__(
        self,
        module: nn.Module,
        make_inputs: MakeInputs,
        *,
        name: str,
        batches: Sequence[int],
        rebuild: Builder | None,
        formulas: Formulas,
    ) -> None:
        self._formulas = formulas
        self._module = module
        self._make_inputs = make_inputs
        self._name = name
        self._batches = batches
        self._rebuild = rebuild
        self._on_meta = any(tensor.is_meta for tensor in module.parameters())
        self._from = 0
        self._stage: Stage | None = None

    def record(self, configuration: Configuration) -> Made:
        """Record one configuration on the first rung that serves it."""
        attempts: list[Callable[[], Made]] = [
            lambda: self._attempt(self._module, Rung.META, configuration),
            lambda: self._attempt(self._valued_module(), Rung.META, configuration),
            lambda: self._attempt(self._valued_module(), Rung.META, configuration, assumes_choices=True),
            lambda: self._attempt(self._module, Rung.FAKE, configuration),
            lambda: self._attempt(self._real_module(), Rung.REAL, configuration),
        ]
        failures: list[TraceError] = []
        guessing: tuple[int, Made] | None = None
        for index, attempt in enumerate(attempts):
            if index < self._from or self._is_idle(index, guesses=guessing is not None):
                continue
            try:
                made = attempt()
            except TraceError as error:
                if error.__cause__ is None or (not failures and not self._lacks_values(error.__cause__)):
                    raise
                failures.append(error)
                continue
            if not made[0].guesses or index > _BALANCED:
                self._from = index
                return made
            if guessing is None or index == _VALUED or _guess_count(made) < _guess_count(guessing[1]):
                guessing = (index, made)
        if guessing is not None:
            self._from, made = guessing
            return made
        raise failures[-1] if _asked_for_values(failures[0]) else failures[0]

    def _is_idle(self, index: int, *, guesses: bool) -> bool:
        """Tell whether an attempt could not better what there is: a recording with guesses is all that is to be had."""
        if index == _VALUED:
            return self._rebuild is None
        if index == _BALANCED:
            return self._stage is None or not self._stage.chose
        return index > _BALANCED and guesses

    def _lacks_values(self, cause: BaseException) -> bool:
        """Tell whether another rung could cure what the first one raised: it guessed, or has no data to give."""
        if isinstance(cause, NotImplementedError) or (self._stage is not None and self._stage.guessed):
            return True
        words = str(cause).lower()
        return any(word in words for word in ("meta", "device", "cuda", "fake", "data"))

    def _attempt(
        self, module: nn.Module, rung: Rung, configuration: Configuration, *, assumes_choices: bool = False
    ) -> Made:
        stage = Stage(module, self._make_inputs, configuration, name=self._name, rung=rung)
        stage.assumes_choices = assumes_choices
        stage.formulas = self._formulas
        self._stage = stage
        with stage.set():
            passes = [stage.run_again(self._batches[0])]
            for batch in self._batches[1:]:
                passes.append(stage.run_again(batch))
                if len(passes[-1].op_kernels) == len(passes[0].op_kernels):
                    continue
                # Models that note that they were called run another graph from then on.
                passes[0] = stage.run(self._batches[0])
                if len(passes[-1].op_kernels) != len(passes[0].op_kernels):
                    return stage.fit(passes[:1], self._batches[:1])
            try:
                return stage.fit(passes, self._batches)
            except DoesNotFitError:
                passes[0] = stage.run(self._batches[0])
        try:
            return stage.fit(passes, self._batches)
        except DoesNotFitError:
            return stage.fit(passes[:1], self._batches[:1])

    def _valued_module(self) -> nn.Module:
        if self._rebuild is None:
            return self._module
        with building_with_values():
            return self._rebuild()

    def _real_module(self) -> nn.Module:
        if not self._on_meta:
            return self._module
        size = sum(tensor.nbytes for tensor in self._module.parameters())
        if self._rebuild is None or size > LARGEST_REAL_BYTES:
            raise TraceError(
                f"{self._name} needs values that tensors without data cannot give, and is too large to be run for real."
            ) from MemoryError()
        with globals_preserved():
            torch.manual_seed(0)  # what depends on weights is the same every time
            return self._rebuild()


class Stage:
    """One configuration of one model on one rung, set up to be run at several batch sizes."""

    def __init__(
        self, module: nn.Module, make_inputs: MakeInputs, configuration: Configuration, *, name: str, rung: Rung
    ) -> None:
        self.module = module
        self.make_inputs = make_inputs
        self.configuration = configuration
        self.name = name
        self.paths = ModulePaths(module)
        self.ground = Ground(
            rung,
            half=HALF if configuration.variant is Variant.HALF else None,
            channels_last=configuration.layout is Layout.NHWC,
        )
        self.formulas: Formulas = NO_FORMULAS
        self._operators: dict[Any, Any] = {}
        self._seen: dict[int, list[SeenInput]] = {}
        self.assumes_choices = False
        self.guessed = self.chose = False
        self._keeps = False
        self._autocast = Autocast(keeps_weights=configuration.training is not None)
        self._weights: list[tuple[Tensor, Role]] = []
        self._parameters: dict[int, int] = {}

    @contextlib.contextmanager
    def set(self) -> Iterator[None]:
        """Put other tensors in the model's place, and everything back afterwards."""
        with preserved(self.module):
            self.module.train(self.configuration.training is not None)
            swapped(self.module, self.ground.weight)
            self._weights = list(_weights(self.module))
            yield

    def run_again(self, batch: int) -> Pass:
        """Run a pass as all calls but a model's first go: once more where it kept tensors of the first.

        Raises:
            TraceError: as `run`.
        """
        first = self.run(batch)
        return self.run(batch) if self._keeps and self.configuration.training is None else first

    def run(self, batch: int) -> Pass:
        """Run one pass.

        Raises:
            TraceError: the model's code raised, or its output is of no use.
        """
        shadows = Shadows(self.ground.device, assumes_choices=self.assumes_choices)
        recorder = Recorder(self._operators, shadows)
        tensors = self._adopt_weights(recorder)
        args, kwargs = self._inputs(batch, recorder)
        training = self.configuration.training
        recorder.trains = training is not None
        try:
            with (
                self._told_where(),
                _uncollected(),
                torch.set_grad_enabled(training is not None),
                self.ground.entered(),
                self.paths.watched(recorder),
                as_on_cuda(),
                self._checkpointing(),
                CudaRules(recorder, self._autocast),
                recorder,
            ):
                output = self._execute(args, kwargs, recorder)
            record = recorder.close()
        finally:
            recorder.forget(tensors)
            self.guessed, self.chose = bool(shadows.guesses), shadows.chose
        if output is None:
            raise TraceError(f"{type(self.module).__name__} returned nothing; its forward must return its output.")
        record.guesses = shadows.guesses
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
            told = self.paths.locate(str(error)).rstrip(".") + self._given() + _ADVICE
            raise TraceError(told) from error.__cause__

    def _given(self) -> str:
        """Spell the inputs of the last pass: "; given x float32 [2, 3, 224, 224]"."""
        last = next(reversed(self._seen.values()), [])
        spelt = (f"{name} {str(dtype).removeprefix('torch.')} {list(shape)}" for name, dtype, shape in last)
        return f"; given {', '.join(spelt)}" if last else ""

    def _execute(self, args: Any, kwargs: Any, recorder: Recorder) -> Any:
        def call() -> Any:
            return self.module(*args, **kwargs)

        training = self.configuration.training
        if training is None:
            with self._autocasting():
                return call()
        from capplan.probe.training import run_steps

        return run_steps(self.module, call, recorder=recorder, training=training, autocasting=self._autocasting)

    def _checkpointing(self) -> contextlib.AbstractContextManager[None]:
        from capplan.probe.training import checkpointed_blocks

        training = self.configuration.training
        wanted = training is not None and training.checkpointing
        return checkpointed_blocks(self.module) if wanted else contextlib.nullcontext()

    def _autocasting(self) -> contextlib.AbstractContextManager[None]:
        amp = self.configuration.variant is Variant.AMP
        return cuda_autocast(HALF, self._autocast) if amp else contextlib.nullcontext()

    def _adopt_weights(self, recorder: Recorder) -> list[Tensor]:
        self._parameters = {}
        for index, (tensor, role) in enumerate(self._weights):
            self._parameters.setdefault(recorder.adopt(tensor, role), index)
        return [tensor for tensor, _ in self._weights]

    def _inputs(self, batch: int, recorder: Recorder) -> tuple[tuple[Any, ...], dict[str, Any]]:
        made = self.make_inputs(batch, device=self.ground.device)
        leaves = pytree.tree_leaves((made.args, made.kwargs))
        if any(isinstance(leaf, Tensor) and leaf.is_meta and not leaf.is_floating_point() for leaf in leaves):
            made = self.make_inputs(batch, device=torch.device("cpu"))
        seen: list[SeenInput] = []

        def place(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            name = made.names[len(seen)] if len(seen) < len(made.names) else f"input{len(seen)}"
            seen.append((name, value.dtype, tuple(value.shape)))
            placed = self.ground.input(value)
            recorder.adopt(placed, Role.INPUT)
            return placed

        args, kwargs = pytree.tree_map(place, (tuple(made.args), dict(made.kwargs)))
        self._seen[batch] = seen
        return args, kwargs

    def fit(self, passes: Sequence[Pass], batches: Sequence[int]) -> Made:
        """Make the recording of the passes, and the inputs' shapes.

        Raises:
            DoesNotFitError: sizes or operators do not follow the batch.
        """
        recording = fit_recording(
            passes,
            batches,
            configuration=self.configuration,
            modules=self.paths.names,
            half=None if self.configuration.variant is Variant.FULL else HALF,
            parameters=self._parameters,
            rung=self.ground.rung.value,
            formulas=self.formulas,
        )
        return recording, fit_inputs([self._seen[batch] for batch in batches], batches)


_ADVICE = "; see that the inputs are what the model takes (--input, --inputs-from) and that it runs on the CPU."


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector out, so that passes free the same storages at the same ops."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _weights(module: nn.Module) -> Iterator[tuple[Tensor, Role]]:
    """Give each parameter and buffer once, in the order of the trace's parameters."""
    seen: set[int] = set()
    for role, held in ((Role.PARAMETER, module.parameters()), (Role.BUFFER, module.buffers())):
        for tensor in held:
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield tensor, role


def _parameters(module: nn.Module) -> Iterator[Parameter]:
    names: dict[int, list[str]] = {}
    tensors: dict[int, tuple[Tensor, bool]] = {}
    for is_buffer, named in (
        (False, module.named_parameters(remove_duplicate=False)),
        (True, module.named_buffers(remove_duplicate=False)),
    ):
        for name, tensor in named:
            names.setdefault(id(tensor), []).append(name)
            tensors.setdefault(id(tensor), (tensor, is_buffer))
    for key, (tensor, is_buffer) in tensors.items():
        yield Parameter(
            names=tuple(names[key]),
            dtype=str(tensor.dtype).removeprefix("torch."),
            shape=tuple(tensor.shape),
            is_buffer=is_buffer,
            trainable=tensor.requires_grad,
        )
