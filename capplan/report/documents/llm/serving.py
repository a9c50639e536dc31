"""Estimates, simulations and validations of LLM serving as typed documents. Times in seconds, shares as fractions."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal, TypedDict, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from capplan.core.numbers import Interval
from capplan.llm.core.measured import SkippedRun
from capplan.llm.core.serving.accuracy import Accuracy, CellAccuracy, ServingValidation
from capplan.llm.core.serving.cases import Metric
from capplan.llm.core.serving.energy import EnergyMetric
from capplan.llm.core.serving.estimate import ServingEstimate, ServingPoint, StepPart
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.simulation.load_answer import LatencyLimits, LoadAnswer, Percentiles, Simulation
from capplan.shapes.codec import SCHEMA_VERSION, Document


class ShardingFields(TypedDict):
    """How the GPUs of a replica share the model, by the usual names."""

    tp: int
    pp: int
    ep: int
    dp: int


def sharding_fields(sharding: Sharding) -> ShardingFields:
    """Return how the GPUs of a replica share the model, by the usual names.

    Args:
        sharding: The GPUs of one replica.
    """
    return {"tp": sharding.tensor, "pp": sharding.pipeline, "ep": sharding.expert, "dp": sharding.data}


class ServedModel(msgspec.Struct, frozen=True, kw_only=True):
    """The model that is served, and the parameters that one token passes."""

    name: str
    params: int
    active_params: int


class ServingPointDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What clients see at one concurrency."""

    concurrency: int
    ttft_s: Annotated[Interval, Meta(description="time to first token")]
    tpot_s: Annotated[Interval, Meta(description="time per output token after the first")]
    output_tokens_per_s: Interval
    output_tokens_per_s_per_gpu: float
    output_tokens_per_s_per_user: float
    e2e_s: Annotated[float, Meta(description="expected time of a whole answer")]
    requests_per_s: float
    running: Annotated[float, Meta(description="sequences that are processed at a time; the others wait")]
    queued: bool
    evidence: str
    power_w: (
        Annotated[Interval, Meta(description="mean power of all GPUs of the replica, without the host")] | UnsetType
    ) = UNSET
    joules_per_output_token: Interval | UnsetType = UNSET
    power_evidence: str | UnsetType = UNSET


class StepPartDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One share of a step on one GPU; fields that have no meaning for it are absent."""

    name: str
    time_s: float
    flops: float | UnsetType = UNSET
    traffic_bytes: float | UnsetType = UNSET
    launches: float | UnsetType = UNSET


class MeasuredRuns(msgspec.Struct, frozen=True, kw_only=True):
    """Measured runs of this deployment, and what they change TPOT by."""

    runs: int
    tpot_factor: float | None


class LlmEstimateDocument(Document, frozen=True, kw_only=True):
    """What `capplan llm estimate --format json` writes: one replica at each concurrency."""

    model: ServedModel
    gpu: str
    gpus: int
    tp: int
    pp: int
    ep: int
    dp: int
    engine: str
    version: str | None
    weights: str
    kv: str
    input_len: float
    output_len: float
    sequences_that_fit: int
    points: tuple[ServingPointDocument, ...]
    decode_step: Annotated[tuple[StepPartDocument, ...], Meta(description="one decode step at the last concurrency")]
    prefill_step: Annotated[tuple[StepPartDocument, ...], Meta(description="one prefill step at the last concurrency")]
    calibration: str
    measured: MeasuredRuns
    notes: tuple[str, ...]


def llm_estimate_document(estimate: ServingEstimate) -> LlmEstimateDocument:
    """Return an estimate as a document.

    Args:
        estimate: The answers of one replica.
    """
    sharding = estimate.sharding
    return LlmEstimateDocument(
        schema_version=SCHEMA_VERSION,
        model=ServedModel(name=estimate.model, params=estimate.params, active_params=estimate.active_params),
        gpu=estimate.gpu,
        gpus=sharding.gpus,
        **sharding_fields(sharding),
        engine=estimate.engine,
        version=estimate.version or None,
        weights=estimate.weights,
        kv=estimate.kv,
        input_len=estimate.input_len,
        output_len=estimate.output_len,
        sequences_that_fit=int(estimate.sequences_that_fit),
        points=tuple(_point(point, sharding.gpus) for point in estimate.points),
        decode_step=tuple(map(_part, estimate.decode_parts)),
        prefill_step=tuple(map(_part, estimate.prefill_parts)),
        calibration=estimate.calibration,
        measured=MeasuredRuns(runs=estimate.measured_runs, tpot_factor=estimate.measured_factor),
        notes=estimate.notes,
    )


def _point(point: ServingPoint, gpus: int) -> ServingPointDocument:
    return ServingPointDocument(
        concurrency=point.concurrency,
        ttft_s=point.ttft_s,
        tpot_s=point.tpot_s,
        output_tokens_per_s=point.output_tokens_per_s,
        output_tokens_per_s_per_gpu=point.output_tokens_per_s.expected / gpus,
        output_tokens_per_s_per_user=1.0 / point.tpot_s.expected,
        e2e_s=point.e2e_s,
        requests_per_s=point.requests_per_s,
        running=point.running,
        queued=point.queued,
        evidence=point.evidence,
        power_w=point.energy.power_w if point.energy else UNSET,
        joules_per_output_token=point.energy.joules_per_output_token if point.energy else UNSET,
        power_evidence=point.energy.evidence if point.energy else UNSET,
    )


def _part(part: StepPart) -> StepPartDocument:
    return StepPartDocument(
        name=part.name,
        time_s=part.time_s,
        flops=UNSET if part.flops is None else part.flops,
        traffic_bytes=UNSET if part.traffic_bytes is None else part.traffic_bytes,
        launches=UNSET if part.launches is None else part.launches,
    )


ServingMetricName = Literal[
    "ttft", "tpot", "output_tokens_per_s", "power_w", "power_w_end_to_end", "joules_per_output_token"
]


class ServingCellDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The accuracy of one metric in one cell, which has the columns that `--by` names."""

    gpu: str | UnsetType = UNSET
    engine: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    version: str | UnsetType = UNSET
    weights: str | UnsetType = UNSET
    kv: str | UnsetType = UNSET
    tp: str | UnsetType = UNSET
    pp: str | UnsetType = UNSET
    ep: str | UnsetType = UNSET
    dp: str | UnsetType = UNSET
    serving: str | UnsetType = UNSET
    quality: str | UnsetType = UNSET
    metric: ServingMetricName
    n: int
    mdape: float
    p90: float
    bias: float
    coverage: float
    width: float
    spearman: float | None
    within_factor_two: float


class OverallAccuracy(msgspec.Struct, frozen=True, kw_only=True):
    """The accuracy of each metric over all rows; null where nothing was measured."""

    ttft: Accuracy | None
    tpot: Accuracy | None
    output_tokens_per_s: Accuracy | None
    power_w: Accuracy | None
    power_w_end_to_end: Accuracy | None
    joules_per_output_token: Accuracy | None


class LlmValidationDocument(Document, frozen=True, kw_only=True):
    """What `capplan llm validate --format json` writes. Errors and shares are fractions: 0.07 is 7 %."""

    cells: tuple[ServingCellDocument, ...]
    overall: OverallAccuracy
    skipped: tuple[SkippedRun, ...]


def llm_validation_document(found: ServingValidation, *, by: Sequence[str]) -> LlmValidationDocument:
    """Return a validation as a document: a cell for each metric and combination of columns.

    Args:
        found: The judged answers.
        by: Columns that make a cell.
    """
    overall = found.overall()
    return LlmValidationDocument(
        schema_version=SCHEMA_VERSION,
        cells=tuple(map(_cell, found.cells(by))),
        overall=OverallAccuracy(
            ttft=overall[Metric.TTFT],
            tpot=overall[Metric.TPOT],
            output_tokens_per_s=overall[Metric.OUTPUT_TOKENS_PER_S],
            power_w=overall[EnergyMetric.POWER],
            power_w_end_to_end=overall[EnergyMetric.POWER_END_TO_END],
            joules_per_output_token=overall[EnergyMetric.JOULES],
        ),
        skipped=found.skipped,
    )


def _cell(cell: CellAccuracy) -> ServingCellDocument:
    columns: dict[str, Any] = dict(cell.key)
    return ServingCellDocument(**columns, metric=cast(ServingMetricName, cell.metric.value), **asdict(cell.accuracy))


class Definitions(msgspec.Struct, frozen=True, kw_only=True):
    """What the figures of a simulation mean."""

    ttft_s: str = "from arrival to the first token"
    tpot_s: str = "(e2e_s - ttft_s) / (output tokens - 1), the mean of each request"
    inclusive_tpot_s: str = "e2e_s / output tokens, which some tools call TPOT"
    itl_s: str = "between any two tokens of a request, over all tokens"
    e2e_s: str = "from arrival to the last token"
    goodput_fraction: str = "share of the requests that keep every limit"


class LoadAnswerDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One replica under a load; `concurrency` is null for an open load, `label` names the part of a day."""

    label: str | None
    rate_per_s: float
    concurrency: int | None
    load_fraction: float
    requests: int
    ttft_s: Percentiles
    tpot_s: Percentiles
    itl_s: Percentiles | None
    e2e_s: Percentiles
    inclusive_tpot_s: float
    output_tokens_per_s: float
    output_tokens_per_s_per_gpu: float
    output_tokens_per_s_per_user: float | None
    input_tokens_per_s: float
    goodput_fraction: float | None
    goodput_per_s: float | None
    mean_running: float
    busy_fraction: float
    cached_fraction: float
    preemptions: int
    keeps_up: bool
    power_w: Annotated[Interval | UnsetType, Meta(description="of the replica's GPUs, idle time included")] = UNSET
    joules_per_output_token: Interval | UnsetType = UNSET
    power_evidence: str | UnsetType = UNSET


class SimulationDocument(Document, frozen=True, kw_only=True):
    """What `capplan llm simulate --format json` writes."""

    model: str
    gpu: str
    gpus: int
    engine: str
    sequences_that_fit: int
    saturation_rate_per_s: float
    saturated_from_per_s: float | None
    limits: LatencyLimits
    loads: tuple[LoadAnswerDocument, ...]
    definitions: Definitions
    notes: tuple[str, ...]


def simulation_document(found: Simulation) -> SimulationDocument:
    """Return simulated loads as a document.

    Args:
        found: The answers of one replica at each load.
    """
    return SimulationDocument(
        schema_version=SCHEMA_VERSION,
        model=found.model,
        gpu=found.gpu,
        gpus=found.gpus,
        engine=found.engine,
        sequences_that_fit=int(found.sequences_that_fit),
        saturation_rate_per_s=found.saturation_rate_per_s,
        saturated_from_per_s=found.saturated_from_per_s,
        limits=found.limits,
        loads=tuple(_answer(answer, found) for answer in found.answers),
        definitions=Definitions(),
        notes=found.notes,
    )


def _answer(load: LoadAnswer, found: Simulation) -> LoadAnswerDocument:
    return LoadAnswerDocument(
        label=load.label or None,
        rate_per_s=load.rate_per_s,
        concurrency=load.clients,
        load_fraction=found.load_fraction(load),
        requests=load.requests,
        ttft_s=load.ttft_s,
        tpot_s=load.tpot_s,
        itl_s=load.itl_s,
        e2e_s=load.e2e_s,
        inclusive_tpot_s=load.inclusive_tpot_s,
        output_tokens_per_s=load.output_tokens_per_s,
        output_tokens_per_s_per_gpu=load.output_tokens_per_s / found.gpus,
        output_tokens_per_s_per_user=load.output_tokens_per_s_per_user,
        input_tokens_per_s=load.input_tokens_per_s,
        goodput_fraction=load.goodput_fraction,
        goodput_per_s=load.goodput_per_s,
        mean_running=load.mean_running,
        busy_fraction=load.busy_fraction,
        cached_fraction=load.cached_fraction,
        preemptions=load.preemptions,
        keeps_up=load.keeps_up,
        power_w=load.energy.power_w if load.energy else UNSET,
        joules_per_output_token=load.energy.joules_per_output_token if load.energy else UNSET,
        power_evidence=load.energy.evidence if load.energy else UNSET,
    )
