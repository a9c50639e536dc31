"""Trace a model: run it on the meta device, under the rules of CUDA, and keep what it runs as a list of facts."""

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from capplan.core.trace import InputTensor, Parameter, Provenance, Recording, Role, Trace
from capplan.core.workload import Configuration, Layout, Variant
from capplan.errors import TraceError
from capplan.probe.autocast import Autocast, cuda_autocast
from capplan.probe.recorder import Pass, Recorder
from capplan.probe.shadow import Shadows
from capplan.probe.trace_fit import DoesNotFitError, fit_recording
from capplan.probe.trace_modules import ModulePaths
from capplan.probe.trace_rules import CudaRules, as_on_cuda

BATCHES = (2, 3, 5)
"""Two batches to fit, a third to check. Batch 1 is special (broadcasts, squeezes) and never fitted from."""

HALF = torch.bfloat16
"""The 16-bit type that tracing runs: float16 has extra branches against overflow in many models."""

MakeInputs = Callable[..., Any]


def trace_module(
    module: nn.Module,
    make_inputs: MakeInputs,
    *,
    name: str,
    target: str | None = None,
    configurations: Sequence[Configuration] = (Configuration(),),
    exact_batch: int | None = None,
    provenance: Provenance | None = None,
) -> Trace:
    """Trace a module; `make_inputs(batch, device=...)` gives `args` and `kwargs` (and `names`).

    The module's tensors are replaced by meta tensors for the time of the trace and put back.

    Raises:
        TraceError: the model could not be run on any rung; the message says where it stopped.
    """
    from capplan import __version__

    batches = (exact_batch,) if exact_batch is not None else BATCHES
    parameters = tuple(_parameters(module))
    recordings = []
    inputs: tuple[InputTensor, ...] = ()
    for configuration in configurations:
        recording, inputs = _record(module, make_inputs, configuration, batches)
        recordings.append(recording)
    return Trace(
        name=name,
        target=target or name,
        class_name=type(module).__name__,
        parameters=parameters,
        inputs=inputs,
        recordings=tuple(recordings),
        provenance=provenance or Provenance(capplan_version=__version__, versions={"torch": torch.__version__}),
    )


def trace_target(
    target: Any, *, configurations: Sequence[Configuration] = (Configuration(),), exact_batch: int | None = None
) -> Trace:
    """Trace what words name: build the module on the meta device, then as `trace_module`."""
    from capplan import __version__

    with building():
        module = target.build()
    return trace_module(
        module,
        target.make_inputs,
        name=target.name,
        target=target.words,
        configurations=configurations,
        exact_batch=exact_batch,
        provenance=Provenance(
            capplan_version=__version__,
            versions=target.versions,
            source_sha256=target.source_sha256,
            notes=target.notes,
        ),
    )


@contextlib.contextmanager
def building() -> Iterator[None]:
    """Build modules without weights while the context lasts."""
    with torch.device("meta"):
        yield


def _record(
    module: nn.Module, make_inputs: MakeInputs, configuration: Configuration, batches: Sequence[int]
) -> tuple[Recording, tuple[InputTensor, ...]]:
    stage = Stage(module, make_inputs, configuration)
    with stage.set():
        passes = [stage.run(batch) for batch in batches]
        try:
            recording = stage.fit(passes, batches)
        except DoesNotFitError:
            recording = _record_warm(stage, batches)
        inputs = stage.input_tensors(batches[: len(passes)])
    return recording, inputs


def _record_warm(stage: "Stage", batches: Sequence[int]) -> Recording:
    """Record again what a first pass may have changed: models that keep tensors of theirs for later calls."""
    passes = [stage.run(batch) for batch in batches]
    try:
        return stage.fit(passes, batches)
    except DoesNotFitError:
        return stage.fit(passes[:1], batches[:1])


@dataclass(slots=True)
class _Seen:
    """The inputs of one pass: name, dtype, shape."""

    batch: int
    tensors: list[tuple[str, torch.dtype, tuple[int, ...]]]


class Stage:
    """One configuration of one model, set up to be run at several batch sizes."""

    def __init__(self, module: nn.Module, make_inputs: MakeInputs, configuration: Configuration) -> None:
        self.module = module
        self.make_inputs = make_inputs
        self.configuration = configuration
        self.paths = ModulePaths(module)
        self.device = torch.device("meta")
        self.half = HALF if configuration.variant is not Variant.FULL else None
        self._operators: dict[Any, Any] = {}
        self._seen: list[_Seen] = []
        self._parameters: dict[int, int] = {}

    @contextlib.contextmanager
    def set(self) -> Iterator[None]:
        """Put meta tensors in the model's place, and everything back afterwards."""
        from capplan.probe.trace_state import preserved, swapped

        with preserved(self.module):
            self.module.train(self.configuration.training is not None)
            with swapped(
                self.module,
                half=HALF if self.configuration.variant is Variant.HALF else None,
                channels_last=self.configuration.layout is Layout.NHWC,
            ):
                yield

    def run(self, batch: int) -> Pass:
        """Run one pass."""
        shadows = Shadows(self.device)
        recorder = Recorder(self._operators, shadows)
        tensors = self._adopt_weights(recorder)
        args, kwargs = self._inputs(batch, recorder)
        autocast = Autocast(keeps_weights=self.configuration.training is not None)
        training = self.configuration.training
        recorder.trains = training is not None
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            with (
                torch.set_grad_enabled(training is not None),
                self.paths.watched(recorder),
                as_on_cuda(),
                self._checkpointing(),
                CudaRules(recorder, autocast),
                recorder,
            ):
                output = self._execute(args, kwargs, recorder, autocast)
            record = recorder.close()
            record.guesses = shadows.guesses
            if output is None:
                raise TraceError(f"{type(self.module).__name__} returned nothing; its forward must return its output.")
            return record
        finally:
            recorder.forget(tensors)
            if was_enabled:
                gc.enable()

    def _execute(self, args: Any, kwargs: Any, recorder: Recorder, autocast: Autocast) -> Any:
        def call() -> Any:
            return self.module(*args, **kwargs)

        training = self.configuration.training
        if training is None:
            with self._autocasting(autocast):
                return call()
        from capplan.probe.training import run_steps

        autocasting = partial(self._autocasting, autocast)
        return run_steps(self.module, call, recorder=recorder, training=training, autocasting=autocasting)

    def _checkpointing(self) -> contextlib.AbstractContextManager[None]:
        from capplan.probe.training import checkpointed_blocks

        training = self.configuration.training
        wanted = training is not None and training.checkpointing
        return checkpointed_blocks(self.module) if wanted else contextlib.nullcontext()

    def _autocasting(self, autocast: Autocast) -> contextlib.AbstractContextManager[None]:
        amp = self.configuration.variant is Variant.AMP
        return cuda_autocast(HALF, autocast) if amp else contextlib.nullcontext()

    def _adopt_weights(self, recorder: Recorder) -> list[Tensor]:
        tensors: list[Tensor] = []
        self._parameters = {}
        seen: set[int] = set()
        for role, named in (
            (Role.PARAMETER, self.module.parameters()),
            (Role.BUFFER, self.module.buffers()),
        ):
            for tensor in named:
                if id(tensor) in seen:
                    continue
                seen.add(id(tensor))
                storage = recorder.adopt(tensor, role)
                self._parameters.setdefault(storage, len(tensors))
                tensors.append(tensor)
        return tensors

    def _inputs(self, batch: int, recorder: Recorder) -> tuple[tuple[Any, ...], dict[str, Any]]:
        made = self.make_inputs(batch, device=self.device)
        leaves, _ = pytree.tree_flatten((made.args, made.kwargs))
        if any(isinstance(leaf, Tensor) and not leaf.is_floating_point() for leaf in leaves):
            made = self.make_inputs(batch, device=torch.device("cpu"))
        half = HALF if self.configuration.variant is Variant.HALF else None
        channels_last = self.configuration.layout is Layout.NHWC
        seen: list[tuple[str, torch.dtype, tuple[int, ...]]] = []

        def place(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            dtype = half if half is not None and value.is_floating_point() else value.dtype
            placed = torch.empty(value.shape, dtype=dtype, device=self.device)
            if channels_last and value.dim() == 4 and value.is_floating_point():
                placed = placed.to(memory_format=torch.channels_last)
            if not value.is_floating_point() and not value.is_meta:
                placed._shadow = value  # type: ignore[attr-defined]  # our own mark
            recorder.adopt(placed, Role.INPUT)
            name = made.names[len(seen)] if len(seen) < len(made.names) else f"input{len(seen)}"
            seen.append((name, value.dtype, tuple(value.shape)))
            return placed

        args, kwargs = pytree.tree_map(place, (made.args, made.kwargs))
        self._seen.append(_Seen(batch, seen))
        return args, kwargs

    def input_tensors(self, batches: Sequence[int]) -> tuple[InputTensor, ...]:
        """Give the inputs' shapes over the batch."""
        from capplan.core.affine import Affine, fit_affine

        first = self._seen[0]
        second = self._seen[1] if len(batches) > 1 else first
        found = []
        for (name, dtype, shape), (_, _, other) in zip(first.tensors, second.tensors, strict=True):
            dims = []
            for a, b in zip(shape, other, strict=True):
                fitted = Affine(a) if a == b else fit_affine(first=(first.batch, a), second=(second.batch, b))
                dims.append(fitted or Affine(a))
            found.append(InputTensor(name=name, dtype=str(dtype).removeprefix("torch."), shape=tuple(dims)))
        return tuple(found)

    def fit(self, passes: Sequence[Pass], batches: Sequence[int]) -> Recording:
        """Make the recording of the passes."""
        return fit_recording(
            passes,
            batches,
            configuration=self.configuration,
            modules=self.paths.names,
            half=self.half,
            parameters=self._parameters,
            rung="meta",
        )


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
