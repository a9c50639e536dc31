"""Answers about training as typed documents: bytes, seconds, tokens per second, US dollars."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from capplan.core.gpus.machines import LocalAmount
from capplan.core.numbers import Interval
from capplan.llm.core.tensors import count_active_parameters, count_parameters
from capplan.llm.core.training.accuracy import TrainingValidation
from capplan.llm.core.training.estimate import TrainingMemoryAnswer
from capplan.llm.core.training.job import TrainingJob
from capplan.llm.core.training.launch import launch_config
from capplan.llm.core.training.parameters import adapter_parameters
from capplan.llm.core.training.plan import PricedTraining, TrainingPlan
from capplan.shapes.codec import SCHEMA_VERSION, Document, SignedDocument
from capplan.version import __version__


class TrainingJobDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A training job."""

    model: str
    params: int
    active_params: int
    method: str
    trained_params: int
    base: Annotated[str | None, Meta(description="Format of a frozen base; null where all parameters are trained.")]
    compute: str
    states: str
    optimizer: str
    framework: str
    gpus: int
    tp: int
    pp: int
    vp: int
    cp: int
    ep: int
    dp: int
    shard: str
    seq_len: int
    micro_batch: int
    accumulate: int
    global_batch: Annotated[int, Meta(description="Sequences of one optimizer step.")]
    recompute: str
    attention: str


class TrainingPartDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a whole, in bytes or seconds."""

    part: str
    value: float


class TrainingMemoryDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The memory of one GPU at the peak of a step."""

    gpu: str
    fits: bool
    verdict: str
    peak_bytes: Interval
    usable_bytes: int
    fit_probability: Annotated[
        float, Meta(description="The share of peaks that were held out which would fit at the same prediction.")
    ]
    parts_bytes: tuple[TrainingPartDocument, ...]
    load_bytes: int
    host_bytes: Annotated[int, Meta(description="Memory of one server for what is offloaded.")]
    evidence: str


class LlmTrainMemoryDocument(SignedDocument, frozen=True, kw_only=True):
    """What `capplan llm train memory --format json` writes."""

    job: TrainingJobDocument
    memory: TrainingMemoryDocument


class TrainingRunDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A run over a data set, with failures and checkpoints."""

    tokens: float
    steps: float
    wall_s: Interval
    gpu_hours: Interval
    failures: float
    checkpoint_bytes: float
    checkpoint_interval_s: float
    goodput_fraction: float


class TrainingSpeedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The speed of a job, and its run where tokens are known."""

    job: TrainingJobDocument
    memory: TrainingMemoryDocument
    tokens_per_s: Interval
    tokens_per_s_per_gpu: Interval
    step_s: Interval
    mfu_fraction: float | None
    hfu_fraction: float | None
    model_flops_per_s: float
    parts_s: tuple[TrainingPartDocument, ...]
    limited_by: Annotated[str, Meta(description="What takes most of a step beside matrix products.")]
    evidence: str
    run: TrainingRunDocument | None
    usd: Interval | None
    usd_per_gpu_hour: float | None
    provider: str | None
    energy_j: Interval | None
    launch: Annotated[str | None, Meta(description="A configuration for the framework; null where none is written.")]


class LlmTrainEstimateDocument(SignedDocument, frozen=True, kw_only=True):
    """What `capplan llm train estimate --format json` writes."""

    estimate: TrainingSpeedDocument


class LlmTrainPlanDocument(SignedDocument, frozen=True, kw_only=True):
    """What `capplan llm train plan --format json` writes."""

    cheapest: TrainingSpeedDocument | None
    safer: Annotated[
        TrainingSpeedDocument | None,
        Meta(description="At most 5 % dearer than the cheapest and clearly more probable to fit; null where needless."),
    ]
    fastest: TrainingSpeedDocument | None
    fewest: TrainingSpeedDocument | None
    all: tuple[TrainingSpeedDocument, ...]
    rejected: dict[str, int]
    refused: dict[str, str]
    layouts_tried: int
    local: Annotated[LocalAmount | None, Meta(description="the cheapest run in the currency asked for")] = None


class TrainingCellDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The accuracy of one metric in one cell. Errors and shares are fractions."""

    key: dict[str, str]
    metric: str
    n: int
    mdape: float
    p90: float
    bias: float
    coverage: float
    width: float


class TrainingRowDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One measured value with its prediction."""

    row: str
    model: str
    gpu: str
    framework: str
    metric: str
    measured: float
    predicted: Interval
    evidence: str


class TrainingVerdictDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a run that is known to have fitted, or to have run out of memory, was predicted to fit."""

    row: str
    ran_out: bool
    predicted_fits: bool
    fit_probability: float


class SkippedTrainingDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A row that was not predicted."""

    file: str
    line: int
    model: str
    gpu: str
    reason: str


class LlmTrainValidateDocument(Document, frozen=True, kw_only=True):
    """What `capplan llm train validate --format json` writes."""

    overall: tuple[TrainingCellDocument, ...]
    cells: tuple[TrainingCellDocument, ...]
    rows: tuple[TrainingRowDocument, ...]
    verdicts: tuple[TrainingVerdictDocument, ...]
    skipped: tuple[SkippedTrainingDocument, ...]


def _job(job: TrainingJob) -> TrainingJobDocument:
    layout = job.layout
    total = count_parameters(job.architecture)
    return TrainingJobDocument(
        model=job.architecture.name,
        params=total,
        active_params=count_active_parameters(job.architecture),
        method=job.method.value,
        trained_params=adapter_parameters(job.architecture, job.adapter) if job.is_adapted else total,
        base=job.base.value if job.is_adapted else None,
        compute=job.compute.value,
        states=job.states.value,
        optimizer=job.optimizer.value,
        framework=job.framework.name,
        gpus=layout.gpus,
        tp=layout.tensor,
        pp=layout.pipeline,
        vp=layout.virtual,
        cp=layout.context,
        ep=layout.expert,
        dp=layout.data,
        shard=layout.shard.value,
        seq_len=job.sequence_tokens,
        micro_batch=job.micro_batch,
        accumulate=job.accumulation,
        global_batch=job.global_batch,
        recompute=job.recompute.value,
        attention=job.attention.value,
    )


def _parts(parts: Sequence[tuple[str, float]]) -> tuple[TrainingPartDocument, ...]:
    return tuple(TrainingPartDocument(part=name, value=value) for name, value in parts)


def _memory(answer: TrainingMemoryAnswer) -> TrainingMemoryDocument:
    return TrainingMemoryDocument(
        gpu=answer.gpu.id,
        fits=answer.fits,
        verdict=answer.verdict,
        peak_bytes=answer.peak,
        usable_bytes=round(answer.usable_bytes),
        fit_probability=answer.fit_probability,
        parts_bytes=_parts(answer.parts[:-1]),
        load_bytes=round(answer.outlook.load),
        host_bytes=round(answer.outlook.host),
        evidence=str(answer.evidence),
    )


def training_memory_document(answer: TrainingMemoryAnswer) -> LlmTrainMemoryDocument:
    """Return the memory of a job as a document.

    Args:
        answer: The answer.
    """
    return LlmTrainMemoryDocument(
        schema_version=SCHEMA_VERSION, capplan_version=__version__, job=_job(answer.job), memory=_memory(answer)
    )


def _speed(answer: PricedTraining) -> TrainingSpeedDocument:
    estimate, run, offer = answer.estimate, answer.run, answer.offer
    return TrainingSpeedDocument(
        job=_job(answer.job),
        memory=_memory(estimate.memory),
        tokens_per_s=estimate.tokens_per_s,
        tokens_per_s_per_gpu=estimate.tokens_per_s_per_gpu,
        step_s=estimate.step_s,
        mfu_fraction=estimate.rates.mfu_fraction,
        hfu_fraction=estimate.rates.hfu_fraction,
        model_flops_per_s=estimate.rates.model_flops_per_s,
        parts_s=_parts(estimate.parts),
        limited_by=estimate.step.largest,
        evidence=str(estimate.evidence),
        run=None
        if run is None
        else TrainingRunDocument(
            tokens=run.tokens,
            steps=run.steps,
            wall_s=run.wall_s,
            gpu_hours=run.gpu_hours,
            failures=run.failures,
            checkpoint_bytes=run.checkpoint_bytes,
            checkpoint_interval_s=run.checkpoint_interval_s,
            goodput_fraction=run.goodput_fraction,
        ),
        usd=answer.usd,
        usd_per_gpu_hour=offer.usd_per_hour if offer else None,
        provider=offer.machine_words if offer else None,
        energy_j=answer.energy_j,
        launch=launch_config(answer.job),
    )


def training_estimate_document(answer: PricedTraining) -> LlmTrainEstimateDocument:
    """Return the speed of a job as a document.

    Args:
        answer: The answer.
    """
    return LlmTrainEstimateDocument(schema_version=SCHEMA_VERSION, capplan_version=__version__, estimate=_speed(answer))


def training_plan_document(plan: TrainingPlan) -> LlmTrainPlanDocument:
    """Return a plan as a document.

    Args:
        plan: The plan.
    """
    return LlmTrainPlanDocument(
        schema_version=SCHEMA_VERSION,
        capplan_version=__version__,
        cheapest=_speed(plan.cheapest) if plan.cheapest else None,
        safer=_speed(plan.safer) if plan.safer else None,
        fastest=_speed(plan.fastest) if plan.fastest else None,
        fewest=_speed(plan.fewest) if plan.fewest else None,
        all=tuple(map(_speed, plan.priced)),
        rejected=dict(plan.rejected),
        refused=dict(plan.refused),
        layouts_tried=plan.tried,
        local=plan.local_cost,
    )


def training_validation_document(found: TrainingValidation, *, by: Sequence[str]) -> LlmTrainValidateDocument:
    """Return a validation as a document.

    Args:
        found: The judged answers.
        by: Columns that make a cell.
    """

    def cells(names: Sequence[str]) -> tuple[TrainingCellDocument, ...]:
        return tuple(
            TrainingCellDocument(
                key=dict(zip(names, cell.key, strict=True)),
                metric=str(cell.metric),
                n=cell.accuracy.n,
                mdape=cell.accuracy.mdape,
                p90=cell.accuracy.p90,
                bias=cell.accuracy.bias,
                coverage=cell.accuracy.coverage,
                width=cell.accuracy.width,
            )
            for cell in found.cells(names)
        )

    return LlmTrainValidateDocument(
        schema_version=SCHEMA_VERSION,
        overall=cells(()),
        cells=cells(by),
        rows=tuple(
            TrainingRowDocument(
                row=item.run.row,
                model=item.run.model,
                gpu=item.run.gpu,
                framework=item.run.framework,
                metric=str(item.metric),
                measured=item.measured,
                predicted=item.predicted,
                evidence=str(item.evidence),
            )
            for item in found.answers
        ),
        verdicts=tuple(
            TrainingVerdictDocument(
                row=item.run.row,
                ran_out=item.run.ran_out,
                predicted_fits=item.predicted_fits,
                fit_probability=item.fit_probability,
            )
            for item in found.fits
        ),
        skipped=tuple(
            SkippedTrainingDocument(file=row.file, line=row.line, model=row.model, gpu=row.gpu, reason=row.reason)
            for row in found.skipped
        ),
    )
