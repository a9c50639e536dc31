"""Trace a model: run it on the meta device, under the rules of CUDA, and keep what it runs as a list of facts."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from capplan.core.ops.flops import Formulas, kernel_macs
from capplan.core.trace.types import Parameter, Provenance, Recording, Trace
from capplan.core.workload import Configuration, Training
from capplan.errors import TraceError
from capplan.probe.foreign.code import uncompiled
from capplan.probe.foreign.preserve import globals_preserved
from capplan.probe.foreign.stored import is_main, packed_weights, stored_tensors
from capplan.probe.inputs.grammar import SELECTED_SHARE
from capplan.probe.inputs.tensors import as_forward_takes
from capplan.probe.record.answers import ANSWERED, RecordedAnswers
from capplan.probe.record.assumed_values import SELECTING
from capplan.probe.record.recorder import PassLimits
from capplan.probe.target.types import Built
from capplan.probe.trace.backends import LARGEST_REAL_BYTES, Backend, Builder, MemoryZeroed, building_with_values
from capplan.probe.trace.batch_fit import DoesNotFitError
from capplan.probe.trace.stage import (
    NO_FORMULAS,
    Made,
    MakeInputs,
    TraceStage,
    initialise_lazy,
    is_uninitialised,
    run_once,
)

BATCHES = (2, 3, 5)
"""Two batches to fit, a third to check. Batch 1 is special (broadcasts, squeezes) and never fitted from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remake:
    """How a module is made anew where the first backend fails: on meta with small values kept, or with real weights.

    `has_values` says that the module's small buffers carry theirs already. `as_cpu` lets `torch.cuda` and tensors
    answer as on a machine without a CUDA device. `differentiates` leaves gradients on in inference.
    """

    rebuild: Builder | None = None
    has_values: bool = False
    as_cpu: bool = False
    differentiates: bool = False


def trace_module(
    module: nn.Module,
    make_inputs: MakeInputs,
    *,
    name: str,
    configurations: Sequence[Configuration] = (Configuration(),),
    exact_batch: int | None = None,
    remake: Remake = Remake(),
    formulas: Formulas = NO_FORMULAS,
    selected_share: float = SELECTED_SHARE,
) -> Trace:
    """Trace a module; `make_inputs(batch, device=...)` gives `args`, `kwargs` and `names`.

    The module's tensors are replaced for the time of the trace and put back; nothing else of it changes. `remake` says
    how the module is made anew where the first backend fails. `formulas` count the FLOPs of operators that capplan does
    not know. `selected_share` is the share of candidates that stay where the data decides.
    """
    from capplan.version import __version__

    batches = (exact_batch,) if exact_batch is not None else BATCHES
    module = uncompiled(module)
    initialise_lazy(module, make_inputs, name=name)
    tracer = _Tracer(
        module, make_inputs, name=name, batches=batches, remake=remake, formulas=formulas, selected_share=selected_share
    )
    _refuse_sharded(module)
    made = [tracer.record(configuration) for configuration in configurations]
    parameters = tuple(_parameters(module))
    unread = _note_of_no_products(made[0].recording, parameters) if made else ()
    assumptions = dict.fromkeys((*unread, *(note for recorded in made for note in recorded.notes)))
    return Trace(
        name=name,
        target=name,
        class_name=type(module).__name__,
        parameters=parameters,
        inputs=made[0].inputs if made else (),
        recordings=tuple(recorded.recording for recorded in made),
        provenance=Provenance(
            capplan_version=__version__, versions={"torch": torch.__version__}, notes=tuple(assumptions)
        ),
    )


def _refuse_sharded(module: nn.Module) -> None:
    """Refuse weights that are spread over processes: each holds a part, in other shapes."""
    kinds = {base.__name__ for part in module.modules() for base in type(part).__mro__}
    tensors = {type(parameter).__name__ for parameter in module.parameters()}
    if kinds & {"FullyShardedDataParallel", "FSDPModule"} or "DTensor" in tensors:
        raise TraceError(
            f"the weights of {type(module).__name__} are sharded (FSDP, DTensor), so that one process holds a part of "
            "them: trace the module as it is before it is sharded."
        )


def _note_of_no_products(recording: Recording, parameters: Sequence[Parameter]) -> tuple[str, ...]:
    """Explain why a model that has matrices multiplies none; empty where it multiplies."""
    matrices = [
        index for index, parameter in enumerate(parameters) if len(parameter.shape) > 1 and not parameter.is_buffer
    ]
    if not matrices or any(kernel_macs(kernel, 1) for kernel in recording.kernels):
        return ()
    read = {recording.storages[index].parameter for op in recording.ops for index in op.reads}
    unread = [parameters[index].names[0] for index in matrices if index not in read]
    if not unread:
        return ("no products of matrices: the model's matrices are looked up or added, not multiplied",)
    named = ", ".join(unread[:3]) + (f" and {len(unread) - 3} more" if len(unread) > 3 else "")
    lines = list(dict.fromkeys(line for value in recording.assumed_values for line in value.lines))
    if lines:
        raise TraceError(
            f"a loop or branch at {lines[0]} depends on data that is unknown, and without it nothing multiplies "
            f"{named}, so that no count would be true: bound the loop, or give inputs with values (⟨inputs-from⟩) that "
            "a run on the CPU ends with."
        )
    return (f"no products of matrices: nothing that was traced reads {named}",)


def trace_target(
    target: Any,
    *,
    configurations: Sequence[Configuration] = (Configuration(),),
    exact_batch: int | None = None,
    formulas: Formulas = NO_FORMULAS,
    module: Built | None = None,
) -> Trace:
    """Trace a target: build its module on the meta device, then as `trace_module`."""
    from capplan.version import __version__

    built = build_module(target) if module is None else module
    made = trace_module(
        built.module,
        target.make_inputs,
        name=target.name,
        configurations=configurations,
        exact_batch=exact_batch if exact_batch is not None else target.only_batch,
        remake=Remake(
            rebuild=target.build,
            has_values=built.is_from_cpu,
            as_cpu=target.as_cpu,
            differentiates=target.differentiates,
        ),
        formulas=formulas,
        selected_share=target.selected_share,
    )
    provenance = Provenance(
        capplan_version=__version__,
        versions=target.versions,
        source_sha256=target.source_sha256,
        notes=(*target.notes, *built.notes, *made.provenance.notes),
    )
    return replace(made, target=target.words, provenance=provenance)


def build_module(target: Any) -> Built:
    """Build a target's module on the meta device."""
    with torch.device("meta"):
        built: Built = target.build_noted()
    return built


_VALUED, _BALANCED = 1, 2
"""Attempts after the first one on meta: with the values that constructors compute; with a router's choices assumed."""


def _asked_for_values(error: TraceError) -> bool:
    """Return True if a tensor without data caused the error, not the model's own code."""
    cause = error.__cause__
    words = str(cause).replace("device='meta'", "")  # a tensor printed in a message of the model's own
    return isinstance(cause, NotImplementedError) or "meta" in words


NO_ANSWERS: Mapping[int, RecordedAnswers] = MappingProxyType({})

_ANSWERING = PassLimits(calls=100_000, seconds=30.0, live_bytes=8 * 10**9)
"""Limits of a run on the CPU that only answers what the model asks of its data."""

_REAL = PassLimits(calls=200_000)
"""Limits of a model that is traced as it runs on the CPU: a loop that does not end there has no other answer."""

_MOST_MACS = 2 * 10**11
"""Multiply-accumulates from which on such a run is not begun: some ten seconds of one core."""


def _is_small(recording: Recording, batch: int) -> bool:
    """Return True if a pass, as it was recorded with assumed values, may be run on the CPU."""
    counts = recording.calls_per_kernel()
    macs = sum(count * kernel_macs(kernel, batch) for kernel, count in zip(recording.kernels, counts, strict=True))
    return macs <= _MOST_MACS and sum(counts) <= _ANSWERING.calls


def _assumed_count(made: Made) -> int:
    return sum(assumed.count for assumed in made.recording.assumed_values)


def _noting_change(made: Made, before: int, after: int) -> Made:
    """Note that a model ran another number of operators when it was called again at the same batch."""
    if before == after:
        return made
    note = (
        f"what the model runs changes from call to call: {before} operators in one call, {after} in a later one at the "
        "same batch; the later one was traced, and other calls may take more or less"
    )
    return replace(made, notes=(note, *made.notes))


class _Tracer:
    """Trace one model, trying the tracing backends in order."""

    def __init__(
        self,
        module: nn.Module,
        make_inputs: MakeInputs,
        *,
        name: str,
        batches: Sequence[int],
        remake: Remake,
        formulas: Formulas,
        selected_share: float,
    ) -> None:
        self._formulas = formulas
        self._selected_share = selected_share
        self._remake = remake
        self._differentiates = remake.differentiates
        self._module = module
        self._make_inputs = make_inputs
        self._name = name
        self._batches = batches
        self._on_meta = any(tensor.is_meta for tensor in (*module.parameters(), *module.buffers()))
        self._from = 0
        self._real: nn.Module | None = None
        self._answers: dict[tuple[Training | None, int], RecordedAnswers] = {}
        self._stage: TraceStage | None = None

    def record(self, configuration: Configuration) -> Made:
        """Record one configuration at several batches, or at one alone where the model runs at no others."""
        try:
            made = self._record(configuration)
            if self._stage is None or not self._stage.grew:
                return made
            run_once(self._module, self._make_inputs, name=self._name)  # makes the layers, which then are the model's
            return self._record(configuration)
        except TraceError as error:
            # a forward that differentiates what was run without gradients, as models of forces do
            wants_gradients = "does not require grad" in str(error.__cause__)
            if configuration.training is None and not self._differentiates and wants_gradients:
                self._differentiates = True
                return self.record(configuration)
            if len(self._batches) == 1 or error.__cause__ is None:
                raise
            ran_first = self._stage is not None and self._stage.last_batch != self._batches[0]
            batches, self._batches = self._batches, (self._batches[0] if ran_first else 1,)
            try:
                with contextlib.suppress(TraceError):
                    return self._record(configuration)
            finally:
                self._batches = batches
            raise

    def _record(self, configuration: Configuration) -> Made:
        """Record one configuration on the first tracing backend that can."""
        attempts: list[Callable[[], Made]] = [
            lambda: self._attempt(self._module, Backend.META, configuration),
            lambda: self._attempt(self._valued_module(), Backend.META, configuration),
            lambda: self._attempt(self._valued_module(), Backend.META, configuration, assumes_choices=True),
            lambda: self._attempt(self._module, Backend.FAKE, configuration),
            lambda: self._attempt(self._real_module(), Backend.REAL, configuration),
        ]
        failures: list[TraceError] = []
        assuming: tuple[int, Made] | None = None
        for index, attempt in enumerate(attempts):
            if index < self._from or self._is_idle(index, assumes=assuming is not None):
                continue
            try:
                made = attempt()
            except TraceError as error:
                if error.__cause__ is None and (answered := self._answered(index, configuration)) is not None:
                    return answered
                if error.__cause__ is None or (not failures and not self._lacks_values(error.__cause__)):
                    raise
                failures.append(error)
                continue
            if not made.recording.assumed_values or index > _BALANCED:
                self._from = index
                return made
            if assuming is None or index == _VALUED or _assumed_count(made) < _assumed_count(assuming[1]):
                assuming = (index, made)
        if assuming is not None:
            self._from, made = assuming
            answered = self._answered(self._from, configuration, made)
            return made if answered is None else answered
        raise failures[-1] if _asked_for_values(failures[0]) else failures[0]

    def _answered(self, index: int, configuration: Configuration, assuming: Made | None = None) -> Made | None:
        """Trace once more with the answers of a run on the CPU in the place of assumed ones.

        Selections of candidates keep their share: which of them stay says nothing where weights are random.

        Returns:
            None where a run would be too large, fails, or cannot answer.
        """
        assert self._stage is not None
        assumed = self._stage.assumed
        if assuming is not None:
            assumed = {value.what for value in assuming.recording.assumed_values}
            if not _is_small(assuming.recording, max(self._batches)):
                return None
        if not assumed & ANSWERED or assumed & SELECTING:
            return None
        try:
            answers = {batch: self._run_for_answers(configuration, batch) for batch in self._batches}
            module = self._module if index == 0 else self._valued_module()
            made = self._attempt(
                module, Backend.META, configuration, assumes_choices=index == _BALANCED, answers=answers
            )
        except TraceError as error:
            if assuming is None:
                return None
            why = "a run on the CPU, which would tell what hangs on data, failed"
            return replace(assuming, notes=(*assuming.notes, f"{why}: {error}"))
        is_better = assuming is None or _assumed_count(made) < _assumed_count(assuming)
        return made if is_better else None

    def _run_for_answers(self, configuration: Configuration, batch: int) -> RecordedAnswers:
        """Run the model on the CPU, within limits, and return what it was answered."""
        key = (configuration.training, batch)
        if key not in self._answers:
            if self._real is None:
                self._real = self._real_module()
            plain = Configuration(training=configuration.training)
            stage = TraceStage(self._real, self._make_inputs, plain, name=self._name, backend=Backend.REAL)
            stage.limits = _ANSWERING
            stage.differentiates = self._differentiates
            with stage.set():
                stage.run(batch)
            self._answers[key] = stage.heard
        return self._answers[key]

    def _is_idle(self, index: int, *, assumes: bool) -> bool:
        """Return True if this attempt can be skipped because it could not improve on the recording at hand."""
        if index == _VALUED:
            return self._remake.rebuild is None or self._remake.has_values
        if index == _BALANCED:
            return self._stage is None or not self._stage.chose
        return index > _BALANCED and assumes

    def _lacks_values(self, cause: BaseException) -> bool:
        """Return True if another backend might succeed: the first assumed a value, or failed for lack of data."""
        if isinstance(cause, NotImplementedError):
            return True
        if self._stage is not None and (self._stage.assumed or self._stage.uses_sparse):
            return True
        words = str(cause).lower()
        return any(word in words for word in ("meta", "device", "cuda", "fake", "data"))

    def _attempt(
        self,
        module: nn.Module,
        backend: Backend,
        configuration: Configuration,
        *,
        assumes_choices: bool = False,
        answers: Mapping[int, RecordedAnswers] = NO_ANSWERS,
    ) -> Made:
        stage = TraceStage(module, self._make_inputs, configuration, name=self._name, backend=backend)
        stage.assumes_choices = assumes_choices
        stage.answers = answers
        stage.as_cpu = self._remake.as_cpu
        stage.differentiates = self._differentiates
        stage.formulas = self._formulas
        stage.selected_share = self._selected_share
        if backend is Backend.REAL:
            stage.limits = _REAL
        self._stage = stage
        with stage.set():
            passes = [stage.run_again(self._batches[0])]
            for batch in self._batches[1:]:
                passes.append(stage.run_again(batch))
                if len(passes[-1].op_kernels) == len(passes[0].op_kernels):
                    continue
                # Models that note that they were called run another graph from then on.
                before, passes[0] = len(passes[0].op_kernels), stage.run(self._batches[0])
                if len(passes[-1].op_kernels) != len(passes[0].op_kernels):
                    only = stage.fit(passes[:1], self._batches[:1])
                    return _noting_change(only, before, len(passes[0].op_kernels))
            try:
                return stage.fit(passes, self._batches)
            except DoesNotFitError:
                passes[0] = stage.run(self._batches[0])
        try:
            return stage.fit(passes, self._batches)
        except DoesNotFitError:
            return stage.fit(passes[:1], self._batches[:1])

    def _valued_module(self) -> nn.Module:
        if self._remake.rebuild is None or self._remake.has_values:
            return self._module
        with building_with_values():
            module = self._remake.rebuild()
        initialise_lazy(module, self._make_inputs, name=self._name)
        return module

    def _real_module(self) -> nn.Module:
        if not self._on_meta:
            return self._module
        size = sum(tensor.nbytes for tensor in self._module.parameters())
        if self._remake.rebuild is None or size > LARGEST_REAL_BYTES:
            raise TraceError(
                f"{self._name} needs values that tensors without data cannot give, and is too large to be run for real."
            ) from MemoryError()
        with globals_preserved():
            torch.manual_seed(0)  # what depends on weights is the same every time
            with MemoryZeroed():  # type: ignore[no-untyped-call]  # torch leaves it untyped
                module = self._remake.rebuild()
            if is_uninitialised(module):
                made = as_forward_takes(self._make_inputs(2, device=torch.device("cpu")), module.forward)
                module(*made.args, **made.kwargs)
            return module


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
        for suffix, stored in stored_tensors(tensor):
            yield Parameter(
                names=tuple(f"{name}{suffix}" for name in names[key]),
                dtype=str(stored.dtype).removeprefix("torch."),
                shape=tuple(stored.shape),
                is_buffer=is_buffer or not is_main(tensor, stored),
                trainable=tensor.requires_grad,
            )
    for packed in packed_weights(module):
        for index, (stored, is_scale) in enumerate(zip(packed.tensors, packed.is_scale, strict=True)):
            yield Parameter(
                names=(f"{packed.name}.{index}",),
                dtype=str(stored.dtype).removeprefix("torch."),
                shape=tuple(stored.shape),
                is_buffer=is_scale,
                trainable=False,
            )
