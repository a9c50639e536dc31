"""The two stages of a sweep as functions of one model: trace it (torch), and plan it from its traces (numpy).

Both take and return plain values, so that a child process, another machine or the caller itself may run them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from capplan.app.feedback import SILENCE
from capplan.app.models import Model, QuantisedModel, ReadModel, TracedModel, open_model
from capplan.app.sweep.pipelines import pipeline_columns
from capplan.app.sweep.request import SweepContext, SweepModel
from capplan.app.sweep.serving import served_columns
from capplan.app.trace_cache import default_cache
from capplan.core.sweep.conditions import Conditions, ServingConditions
from capplan.core.sweep.grid import Columns, GridPlanner, failed_columns
from capplan.core.sweep.overview import Failed
from capplan.core.sweep.schema import FailureKind
from capplan.core.trace.format import dump_trace, load_trace
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration
from capplan.errors import CapplanError, MissingRecordingError, TraceError, UsageError
from capplan.probe.target.names import canonical_words

TraceName = tuple[str, int | None]
"""A configuration's words and the only batch that was traced, None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What tracing a model gave: traces as compressed files, or why there is none, by configuration and batch."""

    found: Mapping[TraceName, bytes] = field(default_factory=dict)
    failed: Mapping[TraceName, Failed] = field(default_factory=dict)

    def joined(self, other: "Traces") -> "Traces":
        """Return these and others."""
        return Traces(found={**self.found, **other.found}, failed={**self.failed, **other.failed})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningJob:
    """Plan one model: under these workloads, each on these GPUs. `traces` are None where they may be in the cache."""

    model: SweepModel
    asked: Mapping[str, tuple[str, ...]]
    traces: Traces | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAnswer:
    """The rows of a model as a compressed Arrow file, and the workloads that failed; or that it must be traced.

    `count` is the number of rows; those of each workload are in order.
    """

    rows: bytes | None
    count: int = 0
    failed: Mapping[str, Failed] = field(default_factory=dict)
    needs_trace: bool = False


class _NotTracedError(Exception):
    """The planning stage needs a trace that has not been made."""


class _EarlierError(TraceError):
    """Tracing failed before, or in another process."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.reason)
        self.failed = failed


@dataclass(slots=True, kw_only=True)
class _KeptModel(TracedModel):
    """A model whose traces come from the tracing stage or the cache; it is never built."""

    given: Traces | None

    def _obtain(self, configuration: Configuration, exact_batch: int | None) -> Trace:
        name = (str(configuration), exact_batch)
        if self.given is None:
            return self._find(configuration, exact_batch)
        if name in self.given.failed:
            raise _EarlierError(self.given.failed[name])
        if name not in self.given.found:
            raise _NotTracedError(f"{self.words}: {name}")
        return load_trace(self.given.found[name], where=self.words)

    def _record(self, configuration: Configuration, exact_batch: int | None) -> Trace:
        raise _NotTracedError(f"{self.words}: {configuration} at batch {exact_batch}")


@dataclass(slots=True, kw_only=True)
class _TracingModel(TracedModel):
    """A model that keeps every trace that it made, and why others could not be made."""

    made: dict[TraceName, bytes] = field(default_factory=dict)
    failed: dict[TraceName, Failed] = field(default_factory=dict)
    traces: dict[TraceName, Trace] = field(default_factory=dict)

    def _obtain(self, configuration: Configuration, exact_batch: int | None) -> Trace:
        name = (str(configuration), exact_batch)
        if name in self.failed:
            raise _EarlierError(self.failed[name])
        if name not in self.traces:
            try:
                self.traces[name] = self._find(configuration, exact_batch)
            except CapplanError as error:
                self.failed[name] = _as_failed(error)
                raise
            self.made[name] = dump_trace(self.traces[name], compress=True)
        return self.traces[name]


def trace_model(model: SweepModel, conditions: Sequence[Conditions]) -> Traces:
    """Trace a model for workloads: every recording and batch that planning will ask for.

    Args:
        model: the model.
        conditions: the workloads, with their batches.
    """
    tracing = _TracingModel(
        words=canonical_words(model.request.words), request=model.request, feedback=SILENCE, cache=default_cache()
    )
    for condition in conditions:
        configuration = condition.workload.configuration
        try:
            tracing.traces_for(configuration, condition.batches)
        except CapplanError as error:
            if not any(name[0] == str(configuration) for name in tracing.failed):
                tracing.failed[str(configuration), None] = _as_failed(error)
    return Traces(found=tracing.made, failed=tracing.failed)


def plan_model(job: PlanningJob, context: SweepContext) -> JobAnswer:
    """Plan a model under its workloads; a workload that fails has rows that say why.

    Args:
        job: the model, its workloads and GPUs.
        context: what all models share.
    """
    from capplan.app.sweep import tables

    if job.model.unknown is not None:
        return failed_answer(job, context, Failed(kind=FailureKind.MODEL.value, reason=job.model.unknown))
    made, failed = [], {}
    opened: Model | None = None
    for workload, gpu_ids in job.asked.items():
        conditions = context.workloads[workload]
        gpus = [context.gpus[gpu] for gpu in gpu_ids]
        try:
            if isinstance(conditions, ServingConditions):
                columns = served_columns(job.model, conditions, context, gpus)
            elif job.model.is_pipeline:
                columns = pipeline_columns(job.model, conditions, context, gpus)
            else:
                opened = opened or _open(job)
                columns = _planned(opened, conditions, context, gpus)
        except _NotTracedError:
            if job.traces is not None:
                raise
            return JobAnswer(rows=None, needs_trace=True)
        except CapplanError as error:
            failed[workload] = _as_failed(error)
            columns = failed_columns(conditions, gpus, failure=failed[workload].kind, reason=failed[workload].reason)
        made.append(tables.in_order(tables.planned_table(columns, model=job.model.label, workload=workload)))
    whole = tables.join_tables(made)
    return JobAnswer(rows=tables.to_bytes(whole), count=whole.num_rows, failed=failed)


def failed_answer(job: PlanningJob, context: SweepContext, failure: Failed) -> JobAnswer:
    """Return the rows of a model that has no answer under any workload.

    Args:
        job: the model, its workloads and GPUs.
        context: what all models share.
        failure: what happened.
    """
    from capplan.app.sweep import tables

    made = [
        tables.in_order(
            tables.planned_table(
                failed_columns(
                    context.workloads[workload],
                    [context.gpus[gpu] for gpu in gpu_ids],
                    failure=failure.kind,
                    reason=failure.reason,
                ),
                model=job.model.label,
                workload=workload,
            )
        )
        for workload, gpu_ids in job.asked.items()
    ]
    whole = tables.join_tables(made)
    return JobAnswer(rows=tables.to_bytes(whole), count=whole.num_rows, failed=dict.fromkeys(job.asked, failure))


def _planned(model: Model, conditions: Conditions, context: SweepContext, gpus: Sequence[Any]) -> Columns:
    columns: Columns | None = None
    if conditions.scheme is not None:
        model = QuantisedModel(inner=model, scheme=conditions.scheme)
    for trace, batches in model.traces_for(conditions.workload.configuration, conditions.batches):
        planner = GridPlanner(
            trace=trace,
            conditions=replace(conditions, batches=batches),
            calibration=context.calibration,
            memory_calibration=context.memory_calibration,
            power_law=context.power_law if conditions.energy else None,
        )
        found = planner.columns(gpus)
        columns = found if columns is None else {name: columns[name] + found[name] for name in columns}
    assert columns is not None
    return columns


def _open(job: PlanningJob) -> Model:
    opened = open_model(job.model.request, feedback=SILENCE)
    if isinstance(opened, ReadModel):
        return opened
    return _KeptModel(
        words=opened.words, request=job.model.request, feedback=SILENCE, cache=default_cache(), given=job.traces
    )


_KINDS: Sequence[tuple[type[CapplanError], FailureKind]] = (
    (MissingRecordingError, FailureKind.RECORDING),
    (TraceError, FailureKind.TRACE),
    (UsageError, FailureKind.MODEL),
)


def _as_failed(error: CapplanError) -> Failed:
    if isinstance(error, _EarlierError):
        return error.failed
    kind = next((kind for type_, kind in _KINDS if isinstance(error, type_)), FailureKind.MODEL)
    return Failed(kind=kind.value, reason=str(error))
