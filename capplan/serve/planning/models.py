"""Find a model's traces, never make them: what is missing is noted, and traced in another process."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from capplan.app.models import Model, ReadModel
from capplan.app.trace_cache import TraceCache
from capplan.core.latency.calibration import Calibration
from capplan.core.memory.replays import SharedStreams
from capplan.core.memory.types import MemoryCalibration
from capplan.core.ops.flops import check_operators
from capplan.core.plan.planner import Prepared
from capplan.core.trace.format import load_trace
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration, Workload
from capplan.errors import CapplanError, TraceError, UsageError
from capplan.probe.inputs.grammar import ModelRequest
from capplan.serve.planning.files import TRACE_SUFFIX, read_kept
from capplan.serve.planning.messages import Refusal, TraceJob

if TYPE_CHECKING:
    from capplan.probe.target.types import Target

MOST_HELD = 64
"""Traces that a process holds in memory; the least recently used is dropped."""
MOST_PREPARED = 32
"""Models under a workload whose replays a process keeps; the least recently used is dropped."""
MOST_USES = 40
"""How often the replays of one model are used before they are made anew: they grow with every new batch."""


class TraceNeededError(CapplanError):
    """A trace is missing and has to be made before the question can be answered."""


class TraceShelf:
    """The traces that this process holds, before those that are kept on disk."""

    def __init__(self, *, cache: TraceCache, uploads: Path) -> None:
        """Store the folders that traces are read from."""
        self._cache = cache
        self._uploads = uploads
        self._held: OrderedDict[TraceJob | str, Trace] = OrderedDict()
        self._prepared: OrderedDict[tuple[int, Workload, int], tuple[Prepared, int]] = OrderedDict()

    def find(self, job: TraceJob) -> Trace | None:
        """Return the trace of a job; None where it has not been made."""
        if (held := self._take(job)) is not None:
            return held
        if (kept := self._cache.find(job.question)) is None:
            return None
        return self._hold(job, kept)

    def uploaded(self, trace_id: str) -> Trace:
        """Return an uploaded trace."""
        if (held := self._take(trace_id)) is not None:
            return held
        packed = read_kept(self._uploads, trace_id, TRACE_SUFFIX)
        if packed is None:
            raise UsageError(f"there is no trace {trace_id[:100]!r} here; GET /api/v1/traces lists what was uploaded.")
        trace = load_trace(packed, where=f"trace:{trace_id}")
        check_operators(trace, where=f"trace:{trace_id}")
        return self._hold(trace_id, trace)

    def prepared(
        self, trace: Trace, workload: Workload, *, calibration: Calibration, memory_calibration: MemoryCalibration
    ) -> Prepared:
        """Return what plans of a trace share, from an earlier plan where there was one.

        It grows with every new batch, so that it is made anew after a number of uses.
        """
        key = (id(trace), workload, id(calibration))
        kept, uses = self._prepared.pop(key, (None, 0))
        if kept is None or kept.trace is not trace:
            kept = Prepared.of(trace, workload, calibration=calibration, memory_calibration=memory_calibration)
            uses = 0
        elif uses >= MOST_USES:
            kept, uses = kept.renewed(), 0
        self._prepared[key] = (kept, uses + 1)
        while len(self._prepared) > MOST_PREPARED:
            self._prepared.popitem(last=False)
        return kept

    def _take(self, key: TraceJob | str) -> Trace | None:
        if key in self._held:
            self._held.move_to_end(key)
        return self._held.get(key)

    def _hold(self, key: TraceJob | str, trace: Trace) -> Trace:
        self._held[key] = trace
        while len(self._held) > MOST_HELD:
            self._held.popitem(last=False)
        return trace


@dataclass(slots=True, kw_only=True)
class NamedModel(Model):
    """A model named by words or by its config, whose traces come from the shelf.

    Attributes:
        content: The content of its config.json or file, None for a model of a library.
        failures: What could not be traced, and why.
        needed: The traces that were asked for and are missing, in order.
    """

    words: str
    request: ModelRequest
    shelf: TraceShelf
    content: bytes | None = None
    failures: Mapping[TraceJob, Refusal] = field(default_factory=dict)
    needed: dict[TraceJob, None] = field(default_factory=dict)
    can_be_traced: bool = True

    @property
    def name(self) -> str:
        """Return the words that name the model."""
        return self.words

    def trace(self, configurations: Sequence[Configuration], *, exact_batch: int | None = None) -> Trace:
        """Return one trace with the recordings asked for."""
        traces = [self._obtain(configuration, exact_batch) for configuration in dict.fromkeys(configurations)]
        if len(traces) == 1:
            return traces[0]
        return replace(traces[0], recordings=tuple(recording for trace in traces for recording in trace.recordings))

    def prepared(
        self,
        trace: Trace,
        workload: Workload,
        *,
        calibration: Calibration,
        memory_calibration: MemoryCalibration,
        streams: SharedStreams | None = None,
    ) -> Prepared:
        """Return what plans of a trace share, kept from an earlier question in this process."""
        del streams
        return self.shelf.prepared(trace, workload, calibration=calibration, memory_calibration=memory_calibration)

    def target(self) -> "Target":
        """Raise an error, because the module itself is not built in this process."""
        raise UsageError(f"{self.words}: the service builds no modules, it only reads traces.")

    @property
    def own_request(self) -> ModelRequest | None:
        """The words that name the model."""
        return self.request

    def with_input(self, *, input_size: str | None = None, seq_len: int | None = None) -> "Model | None":
        """Return the same model on an input of another size."""
        changed = replace(
            self.request,
            input_size=input_size or self.request.input_size,
            seq_len=seq_len or self.request.seq_len,
        )
        return replace(self, request=changed)

    def _obtain(self, configuration: Configuration, exact_batch: int | None) -> Trace:
        job = TraceJob(request=self.request, content=self.content, configuration=configuration, exact_batch=exact_batch)
        if (failure := self.failures.get(job)) is not None:
            raise as_error(failure)
        if (trace := self.shelf.find(job)) is None:
            self.needed[job] = None
            raise TraceNeededError(f"{self.words} is not traced yet.")
        return trace


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedModel(ReadModel):
    """An uploaded trace, whose replays are kept from one question to the next."""

    shelf: TraceShelf

    def prepared(
        self,
        trace: Trace,
        workload: Workload,
        *,
        calibration: Calibration,
        memory_calibration: MemoryCalibration,
        streams: SharedStreams | None = None,
    ) -> Prepared:
        """Return what plans of a trace share, kept from an earlier question in this process."""
        del streams
        return self.shelf.prepared(trace, workload, calibration=calibration, memory_calibration=memory_calibration)


def as_error(failure: Refusal) -> CapplanError:
    """Return the error that a failure stands for."""
    return TraceError(failure.message) if failure.exit_code == TraceError.exit_code else UsageError(failure.message)
