"""A plan as a typed document: base units, fractions from 0 to 1, intervals as objects."""

import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from capplan.core.gpus.machines import LocalAmount
from capplan.core.latency.types import Binding, Evidence, LatencyEstimate
from capplan.core.memory.fit import usable_memory
from capplan.core.memory.types import FitStatus, MemoryEstimate
from capplan.core.numbers import Interval
from capplan.core.plan.types import (
    ConditionEffect,
    Constraint,
    Fit,
    JobSize,
    Limits,
    ModelFacts,
    PipelineFacts,
    Plan,
    Recommendation,
    Rejection,
)
from capplan.errors import UsageError
from capplan.report.documents.codec import SCHEMA_VERSION, SignedDocument, from_plain
from capplan.report.documents.common import Bounded, WorkloadDocument, bounded, bounded_latency, workload_document
from capplan.version import __version__


class PlannedModel(msgspec.Struct, frozen=True, kw_only=True):
    """What holds of the model on any GPU."""

    name: str
    class_name: str = field(name="class")
    params: Annotated[int, Meta(description="elements of all parameters, each counted once")]
    buffers: int
    macs_per_sample: Annotated[
        int, Meta(description="multiply-accumulates of convolutions, matrix products and attention")
    ]
    flops_per_sample: Annotated[int, Meta(description="two FLOPs per multiply-accumulate")]
    weight_bytes: int
    activation_peak_bytes: Annotated[
        int,
        Meta(description="most live bytes besides weights, buffers and inputs, at batch 1 and before rounding"),
    ]
    traffic_fixed_bytes: Annotated[
        int, Meta(description="bytes that the operators move whatever the batch, weights above all")
    ]
    traffic_bytes_per_sample: Annotated[int, Meta(description="bytes that the operators move for each sample")]
    input_bytes_per_sample: int
    input: Annotated[str, Meta(description="the size of one sample: 3x224x224, or 128 tokens")] = ""
    input_source: Annotated[str, Meta(description="whose default that size is; empty where it was asked for")] = ""
    dtype: Annotated[str | None, Meta(description="the dtype of most parameter bytes; null without parameters")] = None
    uncounted: tuple[str, ...]

    def intensity(self, batch: int) -> float | None:
        """Return FLOPs over the bytes that the operators move at a batch; None if they move none. [FLOP/byte]"""
        moved = self.traffic_fixed_bytes + self.traffic_bytes_per_sample * batch
        return self.flops_per_sample * batch / moved if moved else None


class PlannedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Peak memory of one process on one GPU, by part. [bytes]"""

    peak_allocated_bytes: Interval
    peak_reserved_bytes: Interval
    total_bytes: Annotated[Interval, Meta(description="what nvidia-smi would show for the process")]
    usable_bytes: float | None
    usable_is_reported: Annotated[
        bool, Meta(description="false: nobody reported it, and the share usual among cards of its kind is taken")
    ] = True
    parts: dict[str, Interval]

    def all_parts(self) -> dict[str, Interval]:
        """Return the parts with fragmentation and CUDA context, which add up to the total. [bytes]"""
        return {
            **self.parts,
            "fragmentation": _difference(self.peak_reserved_bytes, self.peak_allocated_bytes),
            "CUDA context": _difference(self.total_bytes, self.peak_reserved_bytes),
        }


def _difference(whole: Interval, part: Interval) -> Interval:
    return Interval(low=whole.low - part.low, expected=whole.expected - part.expected, high=whole.high - part.high)


class RentDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The dated offer of machines that are rented whole, by the price of one GPU."""

    usd_per_hour: float
    provider: str
    region: str
    date: datetime.date
    instance: str | None = None
    machine_gpus: int = 1
    machines: Annotated[int, Meta(description="for the load, else for one GPU or those that work together")] = 1
    usd_per_hour_of_machines: float | None = None
    local: Annotated[LocalAmount | None, Meta(description="the machines an hour in the currency asked for")] = None


class PlannedPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part's share of a batch of items on one GPU."""

    name: str
    times: Annotated[float, Meta(description="how often it runs for the batch")]
    compute_s: Annotated[float, Meta(description="all its runs")]
    moving_s: Annotated[float, Meta(description="its weights between the host and the GPU")]
    peak_bytes: Annotated[float, Meta(description="the process while it runs; 0 on a CPU")]
    start_s: Annotated[float, Meta(description="when its first run starts")] = 0.0
    on: Annotated[str, Meta(description="gpu, stream, another or a CPU")] = "gpu"
    offload: Annotated[str, Meta(description="none, model, streamed or sequential")] = "none"


class PipelinePart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a pipeline on any GPU."""

    name: str
    class_name: str = field(name="class")
    params: int
    weight_bytes: int
    times: Annotated[float, Meta(description="how often it runs for a batch of one item")]
    flops_per_item: float


class PlannedPipeline(msgspec.Struct, frozen=True, kw_only=True):
    """What a pipeline makes; samples of the plan are its items."""

    item: str
    parameters: dict[str, float]
    parts: tuple[PipelinePart, ...]
    item_seconds: Annotated[float | None, Meta(description="how long an item of sound or film plays")] = None
    gpu_count: Annotated[int, Meta(description="GPUs that share an item's sequence")] = 1
    sharing: str = ""


class PlannedFit(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that serves one batch within the limits, certainly or perhaps."""

    gpu: str
    gpu_name: str
    batch: int
    status: Annotated[FitStatus, Meta(description="never 'does not fit': that is a rejection")]
    memory: PlannedMemory
    max_batch: Annotated[int, Meta(description="the largest batch by the expected sizes")] = 0
    certain_batch: Annotated[
        int, Meta(description="the largest batch that fits at the unfavourable end of every size: what `max` plans")
    ] = 0
    scales: Annotated[
        bool, Meta(description="false where sizes hold at one batch only: max_batch is then that batch, a lower bound")
    ] = True
    recommended_batch: Annotated[
        int | None, Meta(description="where more batch stops buying throughput, within memory and latency limit")
    ] = None
    latency_s: Annotated[Bounded, Meta(description="per batch; bound is the roofline, which cannot be beaten")]
    interval_s: Annotated[
        Interval | None, Meta(description="from one batch to the next where batches of a pipeline overlap")
    ] = None
    throughput_per_s: Bounded
    bound_by: Binding
    share_by_binding: dict[Binding, float] = {}
    host_copy_s: Annotated[
        float | None, Meta(description="a bound: the batch's input over PCIe, outside the latency")
    ] = None
    rent: Annotated[RentDocument | None, Meta(description="the lowest dated on-demand price known for this GPU")] = None
    usd_per_million_samples: Annotated[float | None, Meta(description="at that price, at full load")] = None
    gpu_hours: Annotated[
        Interval | None, Meta(description="how long one such GPU needs for the job; null without one")
    ] = None
    gpus_for_rate: Annotated[
        int | None,
        Meta(description="GPUs that carry the load asked for, at the low end of each rate; null without one"),
    ] = None
    batching_gain: Annotated[
        float | None, Meta(description="the best throughput of a safe batch over that of batch 1; null where unknown")
    ] = None
    calibration: Annotated[str | None, Meta(description="null: the interval is uncalibrated")]
    evidence: Annotated[
        Evidence,
        Meta(
            description="What the latency rests on, the strongest first: steps timed on this GPU, steps on it in"
            " another precision, single kernels on it, steps on its architecture, on a related one, or none."
        ),
    ] = Evidence.SPEC_SHEET
    evidence_reason: str = ""
    parts: Annotated[tuple[PlannedPart, ...], Meta(description="of a pipeline, in order")] = ()
    offload: Annotated[str, Meta(description="where a pipeline's waiting weights are: none, model, sequential")] = (
        "none"
    )
    power_w: Annotated[Interval | UnsetType, Meta(description="mean of all GPUs of the answer, without the host")] = (
        UNSET
    )
    joules_per_sample: Interval | UnsetType = UNSET
    power_evidence: str | UnsetType = UNSET
    notes: tuple[str, ...]


class PlannedRejection(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that cannot serve one batch: why, and by how much."""

    gpu: str
    gpu_name: str
    batch: int
    constraint: Constraint
    reason: str
    needed: Annotated[
        float | None, Meta(description="bytes, seconds, samples per second or watts, as the constraint has it")
    ] = None
    available: float | None = None
    max_batch: int = 0
    certain_batch: int = 0
    min_gpus: Annotated[int | None, Meta(description="a bound: the weights sharded evenly")] = None

    @property
    def cause(self) -> str:
        """Return the reason without the constraint's name."""
        return self.reason.removeprefix(f"{self.constraint.value}: ")


class PlannedRecommendation(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU and batch to take, and why."""

    gpu: str
    batch: int
    reason: str
    warning: str | None
    licence: Annotated[str | None, Meta(description="what the driver's licence forbids in a data centre")] = None
    porting: Annotated[str | None, Meta(description="what another vendor's GPU asks of software")] = None
    cheaper: Annotated[str | None, Meta(description="the cheapest GPU that would cost less and is not taken")] = None


class PlannedRecommendations(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs to take first, by criterion; one that no GPU meets, such as a price, is absent."""

    cheapest: PlannedRecommendation | msgspec.UnsetType = msgspec.UNSET
    fastest_priced: PlannedRecommendation | msgspec.UnsetType = msgspec.UNSET
    smallest: PlannedRecommendation | msgspec.UnsetType = msgspec.UNSET


class PlannedChange(msgspec.Struct, frozen=True, kw_only=True):
    """What one other condition, such as half precision, would make of the first recommendation."""

    name: str
    option: str
    gpu: str
    batch: int
    latency_s: Interval
    total_bytes: Interval
    speedup: float


class PlanProvenance(msgspec.Struct, frozen=True, kw_only=True):
    """What the plan was made from."""

    target: str
    versions: dict[str, str]
    calibration: str | None


class PlanDocument(SignedDocument, frozen=True, kw_only=True):
    """What `capplan plan --format json` writes for one model; for several models, a list of these."""

    model: PlannedModel
    workload: WorkloadDocument
    limits: Limits
    job: JobSize | None = None
    recommended: PlannedRecommendations = PlannedRecommendations()
    shortlist: Annotated[
        tuple[str, ...],
        Meta(description="Ids of the GPUs that the short answer sets side by side, the most important first."),
    ] = ()
    changes: Annotated[
        tuple[PlannedChange, ...], Meta(description="What other conditions would make of the first recommendation.")
    ] = ()
    pipeline: Annotated[PlannedPipeline | None, Meta(description="null for a model")] = None
    fits: tuple[PlannedFit, ...]
    rejections: tuple[PlannedRejection, ...]
    assumptions: tuple[str, ...]
    cautions: Annotated[tuple[str, ...], Meta(description="What makes the figures of this model uncertain.")] = ()
    notes: tuple[str, ...]
    provenance: PlanProvenance

    @property
    def item(self) -> str:
        """Return what is made, in the singular: a sample of a model, or what a pipeline makes."""
        return "sample" if self.pipeline is None else self.pipeline.item

    def fits_on(self, gpu: str) -> tuple[PlannedFit, ...]:
        """Return a GPU's fits, smallest batch first.

        Args:
            gpu: Id of the GPU.
        """
        return tuple(sorted((fit for fit in self.fits if fit.gpu == gpu), key=lambda fit: fit.batch))

    @property
    def gpus(self) -> tuple[str, ...]:
        """Return the ids of the GPUs that hold the model at some batch."""
        return tuple(dict.fromkeys(fit.gpu for fit in self.fits))

    @property
    def certain_gpus(self) -> frozenset[str]:
        """Return the ids of the GPUs whose memory suffices for the whole interval at some batch."""
        return frozenset(fit.gpu for fit in self.fits if fit.status is FitStatus.FITS)


def read_plan(value: object, *, where: str) -> PlanDocument:
    """Read a plan that `capplan plan --format json` wrote.

    Args:
        value: What a JSON parser returned.
        where: Name of the file, for error messages.

    Raises:
        UsageError: the value is not a plan, is damaged, or is of another schema version.
    """
    if not isinstance(value, dict) or "fits" not in value or "model" not in value:
        raise UsageError(f"{where}: is not a plan; `capplan plan MODEL --format json -o FILE` writes one.")
    if value.get("schema_version") != SCHEMA_VERSION:
        raise UsageError(
            f"{where}: a plan of schema {value.get('schema_version')!r}; this capplan reads {SCHEMA_VERSION}."
        )
    return from_plain(value, PlanDocument, where=where, noun="plan")


def plan_document(plan: Plan) -> PlanDocument:
    """Return a plan as a document.

    Args:
        plan: The plan.
    """
    return PlanDocument(
        schema_version=SCHEMA_VERSION,
        capplan_version=__version__,
        model=_model(plan.model),
        workload=workload_document(plan.workload, host=plan.host),
        limits=plan.limits,
        job=plan.job,
        recommended=_recommendations(plan),
        shortlist=plan.shortlist,
        changes=tuple(map(_change, plan.changes)),
        pipeline=None if plan.pipeline is None else planned_pipeline(plan.pipeline),
        fits=tuple(_fit(fit, plan) for fit in plan.fits),
        rejections=tuple(map(_rejection, plan.rejections)),
        assumptions=plan.assumptions,
        cautions=plan.cautions,
        notes=plan.notes,
        provenance=PlanProvenance(target=plan.target, versions=dict(plan.versions), calibration=plan.calibration),
    )


def _model(model: ModelFacts) -> PlannedModel:
    return PlannedModel(
        name=model.name,
        class_name=model.class_name,
        params=model.parameter_count,
        buffers=model.buffer_count,
        macs_per_sample=model.macs_per_sample,
        flops_per_sample=model.flops_per_sample,
        weight_bytes=model.weight_bytes,
        activation_peak_bytes=model.activation_peak_bytes,
        traffic_fixed_bytes=model.traffic_fixed_bytes,
        traffic_bytes_per_sample=model.traffic_bytes_per_sample,
        input_bytes_per_sample=model.input_bytes_per_sample,
        input=model.input.size,
        input_source=model.input.source,
        dtype=model.dtype,
        uncounted=model.uncounted,
    )


def planned_pipeline(facts: PipelineFacts) -> PlannedPipeline:
    """Return what a pipeline makes, and of what parts, as a document holds it."""
    return PlannedPipeline(
        item=facts.item,
        parameters=dict(facts.parameters),
        parts=tuple(
            PipelinePart(
                name=part.name,
                class_name=part.class_name,
                params=part.parameter_count,
                weight_bytes=part.weight_bytes,
                times=part.times,
                flops_per_item=part.flops_per_item,
            )
            for part in facts.parts
        ),
        item_seconds=facts.item_seconds,
        gpu_count=facts.gpu_count,
        sharing=facts.sharing,
    )


def _fit(fit: Fit, plan: Plan) -> PlannedFit:
    latency = fit.latency
    return PlannedFit(
        gpu=fit.gpu.id,
        gpu_name=fit.gpu.name,
        batch=fit.batch,
        status=fit.status,
        memory=_memory(fit.memory, usable_bytes=usable_memory(fit.gpu).expected),
        max_batch=fit.max_batch,
        certain_batch=fit.certain_batch,
        scales=fit.scales,
        recommended_batch=fit.recommended_batch,
        latency_s=bounded_latency(latency),
        interval_s=latency.interval_s,
        throughput_per_s=bounded(_bound_per_s(latency), latency.throughput_per_s),
        bound_by=latency.bound_by,
        share_by_binding=dict(latency.share_by_binding),
        host_copy_s=fit.host_copy_s,
        rent=_rent(plan, fit),
        usd_per_million_samples=fit.usd_per_million_samples,
        gpu_hours=plan.gpu_hours(fit),
        gpus_for_rate=plan.gpus_for_rate(fit),
        batching_gain=fit.batching_gain,
        calibration=latency.calibration,
        evidence=latency.evidence,
        evidence_reason=latency.evidence_reason,
        parts=tuple(
            PlannedPart(
                name=part.name,
                times=part.times,
                compute_s=part.compute_s,
                moving_s=part.moving_s,
                peak_bytes=part.peak_bytes,
                start_s=part.start_s,
                on=part.on,
                offload=part.offload,
            )
            for part in fit.parts
        ),
        offload=fit.offload,
        power_w=fit.energy.power_w if fit.energy else UNSET,
        joules_per_sample=fit.energy.joules_per_sample if fit.energy else UNSET,
        power_evidence=fit.energy.evidence if fit.energy else UNSET,
        notes=(*fit.memory.notes, *latency.notes),
    )


def _bound_per_s(latency: LatencyEstimate) -> float | None:
    """Return the throughput that cannot be beaten; None for a model that neither computes nor moves anything. [1/s]"""
    if not latency.bound_s:
        return None
    share = latency.interval_s.expected / latency.latency_s.expected if latency.interval_s else 1.0
    return latency.samples / (latency.bound_s * share)


def _memory(memory: MemoryEstimate, *, usable_bytes: float) -> PlannedMemory:
    return PlannedMemory(
        peak_allocated_bytes=memory.peak_allocated_bytes,
        peak_reserved_bytes=memory.peak_reserved_bytes,
        total_bytes=memory.total_bytes,
        usable_bytes=usable_bytes,
        usable_is_reported=memory.usable_bytes is not None,
        parts={part.name: part.size_bytes for part in memory.parts},
    )


def _rent(plan: Plan, fit: Fit) -> RentDocument | None:
    price, machines = fit.rent, plan.machines(fit)
    if price is None or machines is None:
        return None
    return RentDocument(
        usd_per_hour=price.usd_per_hour,
        provider=price.provider,
        region=price.region,
        date=price.date,
        instance=price.instance,
        machine_gpus=price.instance_gpus,
        machines=machines,
        usd_per_hour_of_machines=plan.usd_per_hour(fit),
        local=plan.local_cost(fit),
    )


def _rejection(rejection: Rejection) -> PlannedRejection:
    return PlannedRejection(
        gpu=rejection.gpu.id,
        gpu_name=rejection.gpu.name,
        batch=rejection.batch,
        constraint=rejection.constraint,
        reason=f"{rejection.constraint.value}: {rejection.reason}",
        needed=rejection.needed,
        available=rejection.available,
        max_batch=rejection.max_batch,
        certain_batch=rejection.certain_batch,
        min_gpus=rejection.min_gpus,
    )


def _recommendations(plan: Plan) -> PlannedRecommendations:
    given: Any = {choice.criterion.value: _recommendation(choice) for choice in plan.recommended}
    return PlannedRecommendations(**given)


def _recommendation(recommendation: Recommendation) -> PlannedRecommendation:
    return PlannedRecommendation(
        gpu=recommendation.fit.gpu.id,
        batch=recommendation.fit.batch,
        reason=recommendation.reason,
        warning=recommendation.warning,
        licence=recommendation.licence,
        porting=recommendation.porting,
        cheaper=recommendation.cheaper[0].fit.gpu.id if recommendation.cheaper else None,
    )


def _change(change: ConditionEffect) -> PlannedChange:
    return PlannedChange(
        name=change.name,
        option=change.option,
        gpu=change.after.gpu.id,
        batch=change.after.batch,
        latency_s=change.after.latency.latency_s,
        total_bytes=change.after.memory.total_bytes,
        speedup=change.speedup,
    )
