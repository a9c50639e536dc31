"""Stages of a sweep as functions of one model: trace it (torch), and plan, serve or run it as a pipeline (numpy)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from capplan.app.deployments import Deployments
from capplan.app.feedback import SILENCE
from capplan.app.models import Model, QuantisedModel, ReadModel, TracedModel, open_model
from capplan.app.pipelines.answer import OpenedPipeline, PipelineRequest
from capplan.app.pipelines.diffusers import find_pipeline, names_pipeline
from capplan.app.plan import PlanContext, PlanTerms
from capplan.app.sweep.grid import Columns, GridPlanner, failed_columns, plan_columns
from capplan.app.sweep.request import LLM_PREFIX, SweepContext, SweepModel
from capplan.app.sweep.schema import PLANNED_COLUMNS, FailureKind, RowStatus
from capplan.app.trace_cache import default_cache
from capplan.core.gpus.spec import GpuSpec
from capplan.core.memory.fit import usable_memory
from capplan.core.memory.types import FitStatus
from capplan.core.pipelines.types import Offload
from capplan.core.plan.planner import Prepared
from capplan.core.plan.types import Limits
from capplan.core.sweep.definition import Conditions, ServingConditions, Value
from capplan.core.sweep.overview import Failed
from capplan.core.trace.format import dump_trace, load_trace
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration
from capplan.errors import CapplanError, MissingRecordingError, TraceError, UsageError
from capplan.llm.core.deployment import NamedDeployment
from capplan.llm.core.memory import StageMemory
from capplan.llm.core.search.estimate import estimate_serving
from capplan.llm.core.search.room import OversizeError, served_demand
from capplan.llm.core.serving.estimate import ServingEstimate, ServingPoint
from capplan.llm.core.sharding import Sharding
from capplan.probe.target.names import canonical_words
from capplan.shapes.llm_serving import POINT
from capplan.specs import Gpus
from capplan.wording import as_options

TraceName = tuple[str, int | None]
"""A configuration's words and the only batch that was traced, None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What tracing a model gave: traces as compressed files, or why there is none, by configuration and batch."""

    found: Mapping[TraceName, bytes] = field(default_factory=dict)
    failed: Mapping[TraceName, Failed] = field(default_factory=dict)

    def joined(self, other: "Traces") -> "Traces":
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
    """Trace a model for workloads: every recording and batch that planning will ask for."""
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
    """Plan a model under its workloads; a workload that fails has rows that say why."""
    if job.model.unknown is not None:
        return failed_answer(job, context, Failed(kind=FailureKind.MODEL.value, reason=job.model.unknown))
    answers: dict[str, Columns] = {}
    failed: dict[str, Failed] = {}
    opened: Model | None = None
    for workload, gpu_ids in job.asked.items():
        conditions = context.workloads[workload]
        gpus = [context.gpus[gpu] for gpu in gpu_ids]
        try:
            if isinstance(conditions, ServingConditions):
                answers[workload] = served_columns(job.model, conditions, context, gpus)
            elif job.model.is_pipeline:
                answers[workload] = pipeline_columns(job.model, conditions, context, gpus)
            else:
                opened = opened or _open(job)
                answers[workload] = _planned(opened, conditions, context, gpus)
        except _NotTracedError:
            if job.traces is not None:
                raise
            return JobAnswer(rows=None, needs_trace=True)
        except CapplanError as error:
            failed[workload] = _as_failed(error)
            answers[workload] = failed_columns(
                conditions, gpus, failure=failed[workload].kind, reason=failed[workload].reason
            )
    return _job_answer(job, answers, failed)


def _job_answer(job: PlanningJob, answers: Mapping[str, Columns], failed: Mapping[str, Failed]) -> JobAnswer:
    """Return a model's rows under each workload, those of each in order."""
    from capplan.app.sweep import tables

    whole = tables.join_tables([
        tables.in_order(tables.planned_table(columns, model=job.model.label, workload=workload))
        for workload, columns in answers.items()
    ])  # fmt: skip
    return JobAnswer(rows=tables.to_bytes(whole), count=whole.num_rows, failed=failed)


def failed_answer(job: PlanningJob, context: SweepContext, failure: Failed) -> JobAnswer:
    """Return the rows of a model that has no answer under any workload."""
    answers = {
        workload: failed_columns(
            context.workloads[workload],
            [context.gpus[gpu] for gpu in gpu_ids],
            failure=failure.kind,
            reason=failure.reason,
        )
        for workload, gpu_ids in job.asked.items()
    }
    return _job_answer(job, answers, dict.fromkeys(job.asked, failure))


def _planned(model: Model, conditions: Conditions, context: SweepContext, gpus: Sequence[Any]) -> Columns:
    columns: Columns | None = None
    if conditions.scheme is not None:
        model = QuantisedModel(inner=model, scheme=conditions.scheme)
    for trace, batches in model.traces_for(conditions.workload.configuration, conditions.batches):
        prepared = Prepared.of(
            trace,
            conditions.workload,
            calibration=context.calibration,
            memory_calibration=context.memory_calibration,
        )
        planner = GridPlanner(
            prepared=prepared,
            conditions=replace(conditions, batches=batches),
            power_law=context.power_law if conditions.energy else None,
        )
        more = planner.columns(gpus)
        columns = more if columns is None else {name: columns[name] + more[name] for name in columns}
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
    return Failed(kind=kind.value, reason=as_options(str(error)))


def served_columns(
    model: SweepModel, conditions: ServingConditions, context: SweepContext, gpus: Sequence[GpuSpec]
) -> Columns:
    """Return a row for each GPU and number of clients."""
    assert context.llm is not None
    known = Gpus(context.gpus, architectures={})
    law = (
        replace(context.power_law, cap_w=conditions.power_limit_w) if conditions.energy and context.power_law else None
    )
    deployments = Deployments(gpus=known, memory=context.llm.memory, power_law=law)
    columns: Columns = {column.name: [] for column in PLANNED_COLUMNS}
    for gpu in gpus:
        asked = {**conditions.asked(), "gpu": gpu.id, "usable_bytes": round(usable_memory(gpu).expected)}
        for row in _rows(_replica(model, conditions, gpu), conditions, asked, deployments, context):
            for name, values in columns.items():
                values.append(row.get(name))
    return columns


def _replica(model: SweepModel, conditions: ServingConditions, gpu: GpuSpec) -> NamedDeployment:
    return NamedDeployment(
        model=model.request.words.removeprefix(LLM_PREFIX),
        gpu=gpu.id,
        engine=conditions.engine,
        sharding=Sharding(tensor=conditions.tp),
        weights=conditions.weights or "",
        kv=conditions.kv or "",
    )


def _rows(
    words: NamedDeployment,
    conditions: ServingConditions,
    asked: Mapping[str, Value],
    deployments: Deployments,
    context: SweepContext,
) -> list[Mapping[str, Value]]:
    """Return the rows of one GPU; where it cannot serve the model, rows that say why."""
    assert context.llm is not None
    head, times = dict(asked), context.llm.times
    try:
        find = deployments.find
        demand = served_demand(find, words, input_len=conditions.input_len, output_len=conditions.output_len)
        deployment = find(words)
        estimate = estimate_serving(
            deployment, demand, conditions.concurrency, calibration=times, power_law=deployments.power_law
        )
        head |= _memory_values(deployment.stage)
    except CapplanError as error:
        does_not_fit = isinstance(error, OversizeError)
        head["status"] = FitStatus.DOES_NOT_FIT.value if does_not_fit else RowStatus.UNSUPPORTED.value
        return [{**head, "fits": False, "reason": str(error), "batch": clients} for clients in conditions.concurrency]
    return [{**head, **_point_values(estimate, point)} for point in estimate.points]


def _memory_values(stage: StageMemory) -> dict[str, Value]:
    """Return the memory of the tightest GPU: what an engine holds from its start on, the whole cache among it."""
    pool = max(0.0, stage.pool_bytes)
    return {
        "total_bytes": round(stage.weight_bytes + stage.activation_bytes + stage.other_bytes + pool),
        "weight_bytes": round(stage.weight_bytes),
        "kv_pool_bytes": round(pool),
    }


_POINT = tuple(column for column in POINT.flat_columns if column.name in {planned.name for planned in PLANNED_COLUMNS})
"""The columns of a row that a point states itself."""


def _point_values(estimate: ServingEstimate, point: ServingPoint) -> dict[str, Value]:
    return {
        **{column.name: column.value(point, estimate) for column in _POINT},
        "batch": point.concurrency,
        "precision": estimate.weights,
        "status": FitStatus.FITS.value,
        "fits": True,
        "weights": estimate.weights,
        "kv": estimate.kv,
        "latency_s": point.e2e_s,
        "latency_low_s": _answer_s(point, estimate.output_len, point.output_tokens_per_s.high),
        "latency_high_s": _answer_s(point, estimate.output_len, point.output_tokens_per_s.low),
        "throughput_per_s": point.requests_per_s,
        "max_batch": int(estimate.sequences_that_fit),
        "calibration": estimate.calibration,
        "model_name": estimate.model,
        "parameters": estimate.params,
    }


def _answer_s(point: ServingPoint, output_len: float, tokens_per_s: float) -> float:
    """Return the time of a whole answer at a rate of all clients' tokens, by Little's law. [s]"""
    return point.concurrency * output_len / tokens_per_s


def imports_code(model: SweepModel) -> bool:
    """Return True if a model is made, fed or prepared by code that its entry or its pipeline's file names."""
    if model.is_pipeline:
        return find_pipeline(model.request.words).code_part is not None
    return not model.is_served and model.request.names_code


def refuse_options(model: SweepModel) -> None:
    """Refuse options of a model beside a pipeline, those of a pipeline beside a model, and what it has not."""
    words, own = model.request.words, model.pipeline
    if not names_pipeline(words):
        if own.options:
            raise UsageError(f"{', '.join(own.options[::2])} describe a pipeline, and {words} is a model; drop them.")
        return
    if model.request.options:
        raise UsageError(
            f"{words} is a pipeline: {', '.join(model.request.options[::2])} belongs to a model; set its parameters "
            "with `set`, its parts with `part`, or write a FILE.pipeline.yaml in which they have them."
        )
    if model.unknown is None and own.options:
        _request(model).pipeline()


def _request(model: SweepModel) -> PipelineRequest:
    own = model.pipeline
    return PipelineRequest(
        words=model.request.words, settings=dict(own.settings), part_settings=dict(own.part_settings),
        offload=Offload(own.offload) if own.offload else None, states_precision=True,
        allow_code=True,  # what is not allowed was refused when the sweep's names were looked up
    )  # fmt: skip


def pipeline_columns(
    model: SweepModel, conditions: Conditions, context: SweepContext, gpus: Sequence[GpuSpec]
) -> Columns:
    if conditions.activations is not None:
        raise UsageError(f"{model.label} is a pipeline, whose activations are not quantised: leave `activations` out.")
    surroundings = PlanContext(
        gpus=tuple(gpus), calibration=context.calibration, memory_calibration=context.memory_calibration
    )
    law = context.power_law if conditions.energy else None
    terms = PlanTerms(
        batches=conditions.batches,
        workload=conditions.workload,
        limits=Limits(utilization_fraction=conditions.utilization_fraction),
        power_law=replace(law, cap_w=conditions.power_limit_w) if law else None,
    )
    request = replace(_request(model), workload=conditions.workload, weights=conditions.weights)
    return plan_columns(OpenedPipeline.of(request, surroundings).plan(terms), conditions)
