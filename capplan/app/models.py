"""Open a model once for a use case, and trace each of its recordings at most once.

A model is given as words (`ModelRequest`), as a trace that was read, or as a `Target` made from a module. Whether a
model scales with the batch is decided here and nowhere else.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from capplan.app.feedback import SILENCE, Feedback
from capplan.app.trace_cache import OpenedFiles, TraceCache, TraceKey, default_cache, files_behind, watched
from capplan.core.latency.calibration import Calibration
from capplan.core.memory.replays import SharedStreams
from capplan.core.memory.types import MemoryCalibration
from capplan.core.ops.flops import Formulas, check_operators, uncounted
from capplan.core.plan.planner import Prepared
from capplan.core.quantisation.rewrite import quantise_trace
from capplan.core.quantisation.schemes import Scheme, find_scheme
from capplan.core.trace.format import TRACE_SUFFIXES, is_trace_content, load_trace
from capplan.core.trace.types import Recording, Trace
from capplan.core.workload import BatchChoice, Batches, Configuration, Variant, Workload
from capplan.errors import TraceError, UsageError
from capplan.files import read_file
from capplan.probe.inputs.grammar import ModelRequest
from capplan.probe.target.hub_names import find_on_hub
from capplan.probe.target.names import canonical_words
from capplan.strict_json import LARGEST_TEXT_BYTES

if TYPE_CHECKING:
    from capplan.probe.target.types import Target

ModelSource: TypeAlias = "ModelRequest | Trace | Target | Model | QuantisedSource"
"""How a caller names a model: by words, by its trace, by a target made from a module, or opened; quantised or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantisedSource:
    """A model whose linear layers are quantised once it is traced."""

    source: "ModelRequest | Trace | Target | Model"
    scheme: Scheme


_TRACE_SUFFIXES = (*TRACE_SUFFIXES, ".json.gz")


class Model(ABC):
    """A model opened for one use case."""

    words: str
    can_be_traced: bool

    @property
    def name(self) -> str:
        return self.words

    @abstractmethod
    def trace(self, configurations: Sequence[Configuration], *, exact_batch: int | None = None) -> Trace:
        """Return the trace with the recordings asked for."""

    @abstractmethod
    def target(self) -> "Target":
        """Return what the model is built from."""

    @property
    def own_request(self) -> ModelRequest | None:
        """The words that name the model; None for a trace, or for a target made from a module."""
        return None

    def prepared(
        self,
        trace: Trace,
        workload: Workload,
        *,
        calibration: Calibration,
        memory_calibration: MemoryCalibration,
        streams: SharedStreams | None = None,
    ) -> Prepared:
        """Return what plans of a trace share; a model that outlives a question may keep it."""
        return Prepared.of(
            trace, workload, calibration=calibration, memory_calibration=memory_calibration, streams=streams
        )

    def with_input(self, *, input_size: str | None = None, seq_len: int | None = None) -> "Model | None":
        """Return the same model on an input of another size; None where words do not name the model."""
        del input_size, seq_len
        return None

    def with_step(self, step: str) -> "Model | None":
        """Return the same model with one more step of preparation; None where words do not name it or it has steps."""
        del step
        return None

    def recording(self, configuration: Configuration) -> Recording:
        return self.trace([configuration]).recording(configuration)

    def scales(self, configuration: Configuration) -> bool:
        """Return True if the sizes of the model's tensors are known functions of the batch."""
        return self.recording(configuration).exact_batch is None

    def fixed_batch(self, configuration: Configuration) -> int | None:
        """Return the only batch that a file or trace holds at; None for what can be asked at others."""
        only = self.recording(configuration).exact_batch
        return None if only is None else self._fixed_batch(only)

    def usual_batch(self, configuration: Configuration) -> int:
        """Return the batch to answer for where none is asked: 1, or the only one that the model runs at."""
        only = self.recording(configuration).exact_batch
        if only is None:
            return 1
        if (fixed := self._fixed_batch(only)) is not None:
            return fixed
        try:
            self.trace_at(configuration, 1)
        except TraceError:
            return only
        return 1

    def _fixed_batch(self, exact_batch: int) -> int | None:
        """Return the batch that a model is bound to, which holds at one batch as it was traced."""
        return exact_batch

    def trace_at(self, configuration: Configuration, batch: int) -> Trace:
        """Return the trace that holds at a batch: traced there anew if the model does not scale with the batch."""
        if self._is_traced_at_each(configuration):
            return self.trace([configuration], exact_batch=batch)
        first = self.trace([configuration])
        if first.recording(configuration).exact_batch in (None, batch) or not self.can_be_traced:
            return first
        # A trace with the notes of an earlier one of the same model, made at other batches, before its own.
        later = self.trace([configuration], exact_batch=batch)
        notes = tuple(dict.fromkeys((*first.provenance.notes, *later.provenance.notes)))
        return replace(later, provenance=replace(later.provenance, notes=notes))

    def _is_traced_at_each(self, configuration: Configuration) -> bool:
        """Return True if it is known not to scale from another configuration: three batches are not tried again."""
        del configuration
        return False

    def traces_at(self, configurations: Sequence[Configuration], batch: int) -> Trace:
        """Return one trace with several recordings, each of which holds at a batch where it can be traced there."""
        if not self.can_be_traced:
            return self.trace(configurations)
        return _joined([self.trace_at(configuration, batch) for configuration in configurations])

    def traces_for(self, configuration: Configuration, batches: Batches) -> list[tuple[Trace, Batches]]:
        """Return the traces that answer for batches, each with those that it holds at.

        A model that must be traced batch by batch is traced at `UNSCALED_BATCHES` where the batch is left to capplan,
        at those of them that it runs at.
        """
        exact_batch = self.recording(configuration).exact_batch
        if exact_batch is None or not self.can_be_traced:
            if exact_batch is not None and {*batches.sizes} - {exact_batch}:
                instead = f"its trace holds at batch {exact_batch} alone, so ask for ⟨batch⟩ {exact_batch}"
                raise not_scaling(self.words, instead)
            return [(self.trace([configuration]), batches)]
        if batches.choice is BatchChoice.MAX:
            raise not_scaling(self.words, "list the batches to plan, such as ⟨batch⟩ 1,8,32")
        if batches.choice is BatchChoice.LISTED:
            traced = [(self.trace_at(configuration, size), size) for size in batches.sizes]
        else:
            traced = list(self._traces_found(configuration))
        return [(trace, Batches(choice=BatchChoice.LISTED, sizes=(size,))) for trace, size in traced]

    def _traces_found(self, configuration: Configuration) -> Iterator[tuple[Trace, int]]:
        """Trace at the usual batches; where the model runs at none of them, at the one that its inputs allow."""
        fixed = self.fixed_batch(configuration)
        if fixed is not None:
            yield self.trace([configuration]), fixed
            return
        failures = 0
        for size in UNSCALED_BATCHES:
            try:
                yield self.trace_at(configuration, size), size
            except TraceError:
                failures += 1
        if failures == len(UNSCALED_BATCHES):
            only = self.recording(configuration).exact_batch
            assert only is not None
            yield self.trace([configuration]), only


UNSCALED_BATCHES = (1, 8, 32)
"""Batches that are planned for a model that must be traced at each of them, where none is asked for."""


def _is_exact(trace: Trace) -> bool:
    """Return True if some recording of a trace holds at one batch alone."""
    return any(recording.exact_batch is not None for recording in trace.recordings)


def _joined(traces: Sequence[Trace]) -> Trace:
    """Return the first of several traces of one model, with the recordings of all."""
    return replace(traces[0], recordings=tuple(recording for trace in traces for recording in trace.recordings))


def not_scaling(words: str, instead: str) -> UsageError:
    """Return the error for a model that does not scale with the batch, with what can be asked instead."""
    return UsageError(f"{words} does not grow evenly with the batch; {instead}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadModel(Model):
    """A trace that was read from a file or handed over by the caller."""

    held: Trace
    words: str
    can_be_traced: bool = False

    def trace(self, configurations: Sequence[Configuration], *, exact_batch: int | None = None) -> Trace:
        del configurations, exact_batch
        return self.held

    def target(self) -> "Target":
        """Raise an error, because a trace holds no module that could be built."""
        raise UsageError(f"{self.words} is a trace: the other counters need the model itself.")


@dataclass(slots=True, kw_only=True)
class TracedModel(Model):
    """A model that is built at most once and traced once for each recording.

    `request` is None where the caller handed over a target; only what words name is kept in the cache. With
    `is_at_full_width` a quantised checkpoint is answered as the model that it was made from. `is_unscaled` says that it
    was found not to scale with the batch on inputs of another size, so that no trace at three batches is tried.
    `found_notes` say where a name of the Hub led to.
    """

    words: str
    request: ModelRequest | None
    feedback: Feedback
    cache: TraceCache | None
    formulas: Formulas = field(default_factory=dict)
    can_be_traced: bool = True
    is_at_full_width: bool = False
    is_unscaled: bool = False
    found_notes: tuple[str, ...] = ()
    _target: "Target | None" = None
    _opened: OpenedFiles = field(default_factory=OpenedFiles)
    _module: Any = None  # an nn.Module, whose type would be an import of torch
    _traces: dict[tuple[Configuration, int | None], Trace] = field(default_factory=dict)
    _wide: dict[tuple[Configuration, int | None], Trace] = field(default_factory=dict)

    def at_full_width(self) -> Model:
        """Return the same model without the quantisation of its checkpoint."""
        return replace(self, is_at_full_width=True, _traces=dict(self._wide), _wide={})

    def trace(self, configurations: Sequence[Configuration], *, exact_batch: int | None = None) -> Trace:
        """Return one trace with the recordings asked for, each from the cache or traced."""
        return _joined([self._obtain(configuration, exact_batch) for configuration in dict.fromkeys(configurations)])

    @property
    def own_request(self) -> ModelRequest | None:
        """The words that name the model; None for a target made from a module."""
        return self.request

    def with_input(self, *, input_size: str | None = None, seq_len: int | None = None) -> Model | None:
        """Return the same model on an input of another size; None where words do not name the model."""
        if self.request is None:
            return None
        changed = replace(
            self.request,
            input_size=input_size or self.request.input_size,
            seq_len=seq_len or self.request.seq_len,
        )
        return self._of(changed)

    def with_step(self, step: str) -> Model | None:
        """Return the same model with one more step of preparation; None where it has steps or frozen parameters."""
        if self.request is None or self.request.prepare or self.request.freeze:
            return None
        return self._of(replace(self.request, prepare=(step,)))

    def _of(self, request: ModelRequest) -> Model:
        unscaled = any(_is_exact(trace) for trace in self._traces.values())
        fresh = replace(self, request=request, _target=None, _module=None, _traces={}, _wide={}, _opened=OpenedFiles())
        return replace(fresh, is_unscaled=unscaled)

    def _is_traced_at_each(self, configuration: Configuration) -> bool:
        if (configuration, None) in self._traces:
            return False
        whole = [trace for (_, exact_batch), trace in self._traces.items() if exact_batch is None]
        return self.is_unscaled or any(map(_is_exact, whole))

    def target(self) -> "Target":
        """Return what the model is built from; found once."""
        if self._target is None:
            from capplan.probe.target.resolve import load_target

            assert self.request is not None
            found = load_target(self.request.words, request=self.request.parse())
            self._target = replace(found, notes=(*self.found_notes, *found.notes))
        return self._target

    def _fixed_batch(self, exact_batch: int) -> int | None:
        """Return the batch that a file is bound to; None for code, which is traced at each batch."""
        del exact_batch
        return self.target().only_batch

    def _obtain(self, configuration: Configuration, exact_batch: int | None) -> Trace:
        key = configuration, exact_batch
        if key not in self._traces:
            self._traces[key] = self._find(configuration, exact_batch)
        return self._traces[key]

    def _find(self, configuration: Configuration, exact_batch: int | None) -> Trace:
        if self.cache is None or self.request is None:
            return self._record(configuration, exact_batch)
        question = TraceKey(
            words=self.request.words,
            options=(*self.request.options, *([_FULL_WIDTH] if self.is_at_full_width else [])),
            configurations=(configuration,),
            exact_batch=exact_batch,
        )
        if (kept := self.cache.find(question)) is not None:
            return kept
        import capplan.probe.trace.tracer  # noqa: F401 # torch must load unwatched: a CUDA build runs ldconfig

        with watched(self._opened):
            trace = self._record(configuration, exact_batch)
        if not self._opened.asked_outside:
            files = [*files_behind(question), *self._opened.of_the_user()]
            self.cache.keep(question, trace, files=files)
            wide = self._wide.get((configuration, exact_batch), trace)
            if wide is not trace:
                self.cache.keep(replace(question, options=(*question.options, _FULL_WIDTH)), wide, files=files)
        return trace

    def _record(self, configuration: Configuration, exact_batch: int | None) -> Trace:
        """Trace one recording; a module whose tracing failed is built anew for the next."""
        with self.feedback.progress(f"tracing {self.words}"):
            from capplan.probe.trace.tracer import build_module, trace_target

            target = self.target()
            module, self._module = self._module or build_module(target), None
            trace = trace_target(
                target,
                configurations=[configuration],
                exact_batch=exact_batch,
                formulas=self.formulas,
                module=module,
            )
            self._module = module
            if self.is_at_full_width or target.scheme is None:
                return trace
            self._wide[configuration, exact_batch] = trace
            return _as_checkpoint(trace, target.scheme, configuration)


_FULL_WIDTH = "without the quantisation of the checkpoint"
"""What stands among the options of a cached question that asks for a quantised checkpoint's model at full width."""


def _as_checkpoint(trace: Trace, scheme: Scheme, configuration: Configuration) -> Trace:
    """Return a trace with the linear layers quantised as the model's checkpoint has them.

    Training steps and autocast, which no quantised kernel serves, are answered at full width, with a note.
    """
    if configuration.training is None and configuration.variant is not Variant.AMP:
        return quantise_trace(trace, scheme)
    note = f"quantised ({scheme.name}) but counted at full width: training and autocast have no quantised kernels."
    return replace(trace, provenance=replace(trace.provenance, notes=(*trace.provenance.notes, note)))


@dataclass(slots=True, kw_only=True)
class QuantisedModel(Model):
    """A model whose linear layers run with quantised weights; `inner` is the model as it is."""

    inner: Model
    scheme: Scheme

    @property
    def words(self) -> str:  # type: ignore[override] # read only
        return self.inner.words

    @property
    def can_be_traced(self) -> bool:  # type: ignore[override] # read only
        """Return True if further recordings can be made."""
        return self.inner.can_be_traced

    def trace(self, configurations: Sequence[Configuration], *, exact_batch: int | None = None) -> Trace:
        """Return the trace with its linear layers quantised."""
        whole = self.inner.trace(configurations, exact_batch=exact_batch)
        asked = tuple(recording for recording in whole.recordings if recording.configuration in configurations)
        return quantise_trace(replace(whole, recordings=asked) if asked else whole, self.scheme)

    def target(self) -> "Target":
        """Refuse to build a module, because the quantised model is worked out from a trace."""
        raise UsageError(
            f"{self.words} quantised by ⟨weights⟩ is worked out, not run: quantise the module in a step of your own, "
            "⟨prepare⟩ FILE.py:FUNCTION."
        )

    def _fixed_batch(self, exact_batch: int) -> int | None:
        return self.inner._fixed_batch(exact_batch)

    def _is_traced_at_each(self, configuration: Configuration) -> bool:
        return self.inner._is_traced_at_each(configuration)

    def with_input(self, *, input_size: str | None = None, seq_len: int | None = None) -> Model | None:
        """Return the same model on an input of another size; None where words do not name the model."""
        inner = self.inner.with_input(input_size=input_size, seq_len=seq_len)
        return None if inner is None else QuantisedModel(inner=inner, scheme=self.scheme)


def open_model(source: ModelSource, *, feedback: Feedback = SILENCE, formulas: Formulas | None = None) -> Model:
    """Open a model; a trace file is read now, anything else is found and built when its trace is first asked for."""
    if isinstance(source, Model):
        return source
    if isinstance(source, QuantisedSource):
        inner = open_model(source.source, feedback=feedback, formulas=formulas)
        return QuantisedModel(inner=inner, scheme=source.scheme)
    if isinstance(source, ModelRequest) and (scheme := find_scheme(source.weights, source.activations)) is not None:
        plain = replace(source, weights=None, activations=None)
        return open_model(QuantisedSource(source=plain, scheme=scheme), feedback=feedback, formulas=formulas)
    if isinstance(source, Trace):
        return ReadModel(held=source, words=source.target)
    if not isinstance(source, ModelRequest):
        return TracedModel(
            words=source.words, request=None, feedback=feedback, cache=None, formulas=formulas or {}, _target=source
        )
    if (trace := read_trace_file(source.words)) is not None:
        if source.options:
            raise UsageError(f"{source.words} is a trace: its arguments and inputs are fixed; trace the model again.")
        return ReadModel(held=trace, words=source.words)
    named = find_on_hub(replace(source, words=canonical_words(source.words)))
    cache = None if formulas else default_cache()
    return TracedModel(
        words=named.request.words,
        request=named.request,
        feedback=feedback,
        cache=cache,
        formulas=formulas or {},
        found_notes=named.notes,
    )


def may_name_trace(words: str) -> bool:
    """Return True if words name a JSON file, which is read as a trace; other models are not named so."""
    return words.endswith(_TRACE_SUFFIXES) or (":" not in words and words.endswith(".json"))


def read_trace_file(words: str) -> Trace | None:
    """Read a trace, if the words name a file that holds one; None for any other model."""
    if not may_name_trace(words):
        return None
    try:
        content = read_file(Path(words), at_most=LARGEST_TEXT_BYTES)
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        raise UsageError(f"cannot read {words}: {getattr(error, 'strerror', None) or error}.") from error
    if words.endswith(_TRACE_SUFFIXES) or is_trace_content(content):
        trace = load_trace(content, where=words)
        check_operators(trace, where=words)
        return trace
    raise UsageError(f"{words} holds no trace of `capplan trace`; a config.json of transformers is named hf:{words}.")


def refuse_uncertain(words: str, recording: Recording) -> None:
    """Refuse a recording with operators that could not be counted or values that were assumed."""
    unknown = [*uncounted(recording), *(assumed.what for assumed in recording.assumed_values)]
    if unknown:
        raise TraceError(f"{words}: ⟨strict⟩, and not known for certain are {', '.join(unknown)}.")
