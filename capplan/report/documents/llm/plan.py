"""Plans of LLM serving as typed documents. Times in seconds, money in US dollars, memory in bytes of one GPU."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from capplan.core.economics.cost import OwnedCost
from capplan.core.gpus.machines import LocalAmount
from capplan.core.gpus.prices import Price, Term
from capplan.core.numbers import Interval
from capplan.core.serving_engines import Engine
from capplan.llm.core.fleet.deployment_plan import (
    DeploymentFit,
    DeploymentRejection,
    FrontPoint,
    MixedFleet,
    Obstacle,
    ReplicaMemory,
    front,
    load_front,
)
from capplan.llm.core.fleet.disaggregated import DisaggregatedFit, PlacedSide
from capplan.llm.core.fleet.launch import Launch, LaunchOption
from capplan.llm.core.fleet.money import ApiComparison, FleetMoney, FleetYear, PaymentOption, PlannedFleet
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.serving.load_curve import LoadPoint
from capplan.llm.core.simulation.load_answer import LatencyLimits, Percentiles
from capplan.report.documents.llm.kubernetes import kubernetes_manifest
from capplan.report.documents.llm.serving import ServedModel, ShardingFields, sharding_fields
from capplan.shapes.codec import SCHEMA_VERSION, Document
from capplan.shapes.shape import Shape, figure, reads

_JOULES_PER_KWH = 3.6e6


RENTED = Shape("RentedGpu", Price, "An offer by its price of one GPU and hour; machines are rented whole. [USD]", (
    figure("usd_per_hour"),
    figure("provider"),
    figure("day", reads(str, lambda price: price.date.isoformat())),
    figure("tier", reads(str, lambda price: price.tier.value)),
    figure("instance", reads(str, lambda price: price.instance or ""), default=""),
    figure("region", default=""),
    figure("country", default=None),
    figure("known_by", default=""),
    figure("machine_gpus", "instance_gpus", default=1),
    figure("joined", default=1),
    figure("networked", "is_networked", default=False),
))  # fmt: skip
if TYPE_CHECKING:
    RentedGpu: TypeAlias = msgspec.Struct
else:
    RentedGpu = RENTED.struct


class PaymentDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One way to pay for the fleet; `usd_per_year` is the equivalent annual cost, `yearly_usd` begins with day one."""

    term: Term
    usd_per_gpu: float
    seller: str
    day: str
    is_marketplace: bool
    usd_per_year: float
    initial_usd: float
    yearly_usd: tuple[float, ...]
    usd_per_million_output_tokens: float


class MoneyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What the recommended deployment costs over the years, the cheapest way to pay first."""

    growth_per_year_fraction: float
    years: tuple[FleetYear, ...]
    counted_years: int
    rented_hours_per_year: Annotated[float, Meta(description="hours for which machines rented by the hour are paid")]
    payments: tuple[PaymentDocument, ...]
    gpu_power_w: Annotated[Interval | None, Meta(description="mean draw of all GPUs at the load, without hosts")]
    joules_per_output_token: float | None
    kwh_per_million_output_tokens: float | None
    usd_per_kwh: float
    pue: float
    api: ApiComparison | None


class LaunchDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The command that starts one replica, with the reason of each option, and the files that it reads."""

    engine: Engine
    command: str
    arguments: tuple[str, ...]
    options: tuple[LaunchOption, ...]
    files: dict[str, str]
    port: int
    notes: tuple[str, ...]


def money_document(money: FleetMoney) -> MoneyDocument:
    """Return the money of a fleet as a document.

    Args:
        money: The money of the recommended deployment.
    """
    joules = money.joules_per_output_token
    return MoneyDocument(
        growth_per_year_fraction=money.growth_fraction,
        years=money.years,
        counted_years=money.counted_years,
        rented_hours_per_year=money.paid_hours,
        payments=tuple(map(_payment, money.payments)),
        gpu_power_w=None if money.energy is None else money.energy.power_w,
        joules_per_output_token=joules,
        kwh_per_million_output_tokens=None if joules is None else joules * 1e6 / _JOULES_PER_KWH,
        usd_per_kwh=money.usd_per_kwh,
        pue=money.pue,
        api=money.api,
    )


def _payment(payment: PaymentOption) -> PaymentDocument:
    cost = payment.cost
    return PaymentDocument(
        term=payment.term,
        usd_per_gpu=payment.usd_per_gpu,
        seller=payment.seller,
        day=payment.day,
        is_marketplace=payment.is_marketplace,
        usd_per_year=payment.usd_per_year,
        initial_usd=cost.initial if isinstance(cost, OwnedCost) else 0.0,
        yearly_usd=cost.yearly,
        usd_per_million_output_tokens=payment.usd_per_million_output_tokens,
    )


def launch_document(launch: Launch) -> LaunchDocument:
    """Return a launch command with its explained options as a document.

    Args:
        launch: The command of one replica.
    """
    return LaunchDocument(
        engine=launch.engine,
        command=launch.command,
        arguments=launch.arguments,
        options=launch.options,
        files=dict(launch.files),
        port=launch.port,
        notes=launch.notes,
    )


MOST_CURVES = 12
"""Deployments whose load curve is written out: the best ones."""


class RequestTime(msgspec.Struct, frozen=True, kw_only=True):
    """A time that requests see: the interval of the estimate, and percentiles, null where it was not simulated. [s]"""

    low: float
    expected: float
    high: float
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None


class TokenPrices(msgspec.Struct, frozen=True, kw_only=True):
    """Prices of a million input and of a million output tokens, divided by busy time. [USD]"""

    input: float
    output: float


class ConcurrencyPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One replica with so many requests in it."""

    running: float
    rate_per_s: float
    ttft_s: float
    tpot_s: float
    output_tokens_per_s_per_gpu: float


class DeploymentFitDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A deployment that carries the load within the limits."""

    gpu: str
    gpus: Annotated[int, Meta(description="GPUs of all replicas")]
    replicas: int
    replicas_needed: int
    words: str
    tp: int
    pp: int
    ep: int
    dp: int
    engine: str
    weights: str
    kv: str
    memory: ReplicaMemory
    ttft_s: RequestTime
    tpot_s: RequestTime
    e2e_s: RequestTime
    itl_s: Percentiles | None
    rate_per_s: float
    running_per_replica: float
    batch_limit: int
    output_tokens_per_s: float
    output_tokens_per_s_per_gpu: float
    output_tokens_per_s_per_user: float
    max_rate_per_s: Annotated[float, Meta(description="requests per second that all replicas carry within the limits")]
    max_rate_per_s_per_replica: float
    job_s: Annotated[float | None, Meta(description="time of a job at the highest rate; null without a job")]
    job_usd: float | None
    goodput_fraction: float | None
    usd_per_hour: float | None
    usd_per_million_output_tokens: float | None
    usd_per_million_tokens: float | None
    split_usd_per_million_tokens: TokenPrices | None
    machines: Annotated[int | None, Meta(description="rented machines that hold all replicas; null: no offer does")]
    rent: RentedGpu | None
    evidence: str
    holds_at_worst: Annotated[bool, Meta(description="true: the limits hold at the far ends of the intervals, too")]
    on_front: Annotated[
        bool, Meta(description="true: no other deployment has more tokens/s per GPU and per user at the load")
    ]
    curve: tuple[ConcurrencyPoint, ...] | None
    power_w: Annotated[
        Interval | UnsetType, Meta(description="of all GPUs at the load, idle time included, without hosts; --energy")
    ] = UNSET
    joules_per_output_token: Interval | UnsetType = UNSET
    power_evidence: str | UnsetType = UNSET


class ReplicaDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What a description of replicas begins with: their GPU, and how its GPUs share the model."""

    gpu: str
    tp: int
    pp: int
    ep: int
    dp: int


class FrontDocument(ReplicaDocument, frozen=True, kw_only=True):
    """A deployment with so many requests at a time that no other beats per GPU and per user."""

    engine: str
    weights: str
    running: float
    output_tokens_per_s_per_gpu: float
    output_tokens_per_s_per_user: float


class PrefillSide(ReplicaDocument, frozen=True, kw_only=True):
    """The replicas that process prompts only; `prompt_s` is the time of one prompt alone."""

    replicas: int
    prompt_s: float


class DecodeSide(ReplicaDocument, frozen=True, kw_only=True):
    """The replicas that generate tokens only, with so many requests at a time on each."""

    replicas: int
    running: float


class DisaggregatedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Prefill replicas and decode replicas that carry the load within the limits."""

    gpu: Annotated[str | None, Meta(description="null where prompts and answers are on different GPUs")]
    gpus: int
    words: str
    engine: str
    weights: str
    prefill: PrefillSide
    decode: DecodeSide
    ratio: float
    transfer_s: float
    ttft_s: float
    tpot_s: float
    e2e_s: float
    output_tokens_per_s: float
    usd_per_hour: float | None


class MixedPartDocument(ReplicaDocument, frozen=True, kw_only=True):
    """The replicas on one of two kinds of GPUs, and the share of the requests that they get."""

    replicas: int
    engine: str
    weights: str
    share: float
    usd_per_hour: float | None


class MixedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Replicas on two kinds of GPUs that carry the load together for less."""

    gpus: int
    words: str
    usd_per_hour: float
    parts: tuple[MixedPartDocument, ...]


class DeploymentRejectionDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A deployment that does not carry the load: why, and what would rescue it."""

    gpu: str
    reason: str
    obstacle: Obstacle
    rescue: str | None
    tp: int
    pp: int
    ep: int
    dp: int
    engine: str
    weights: str | None
    least_s: Annotated[float | None, Meta(description="the broken limit's time with one request at a time")]


class LlmPlanDocument(Document, frozen=True, kw_only=True):
    """What `capplan llm plan --format json` writes; memory is that of one GPU."""

    model: ServedModel
    load: TokenLoad
    limits: LatencyLimits
    certainty_fraction: Annotated[float, Meta(description="probability with which the intervals keep the limits")]
    recommended: DeploymentFitDocument | None
    cheaper_on_weaker_evidence: str | None
    fits: tuple[DeploymentFitDocument, ...]
    front: tuple[FrontDocument, ...]
    disaggregated: tuple[DisaggregatedDocument, ...]
    mixed: Annotated[MixedDocument | None, Meta(description="null where two kinds of GPUs save nothing")]
    rejections: tuple[DeploymentRejectionDocument, ...]
    advice: str | None
    money: MoneyDocument | None
    launch: LaunchDocument | None
    kubernetes: Annotated[str | None, Meta(description="manifest of the recommended deployment, as YAML")]
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]
    local: Annotated[LocalAmount | None, Meta(description="an hour in the currency asked for")] = None


def llm_plan_document(fleet: PlannedFleet) -> LlmPlanDocument:
    """Return a plan with its money and hand-over as a document.

    Args:
        fleet: The deployments that carry a load and those that do not, and what follows from the recommended one.
    """
    plan = fleet.plan
    best = {id(fit) for fit in front(plan.fits)}
    fits = tuple(
        _fit(fit, on_front=id(fit) in best, with_curve=index < MOST_CURVES) for index, fit in enumerate(plan.fits)
    )
    return LlmPlanDocument(
        schema_version=SCHEMA_VERSION,
        model=ServedModel(name=plan.model, params=plan.params, active_params=plan.active_params),
        load=plan.load,
        limits=plan.limits,
        certainty_fraction=plan.certainty_fraction,
        recommended=fits[0] if fits else None,
        cheaper_on_weaker_evidence=plan.cheaper.gpu if plan.cheaper else None,
        fits=fits,
        front=tuple(map(_front, load_front(plan.fits))),
        disaggregated=tuple(map(_disaggregated, plan.disaggregated)),
        mixed=None if plan.mixed is None else _mixed(plan.mixed),
        rejections=tuple(map(_rejection, plan.rejections)),
        advice=plan.advice,
        money=money_document(fleet.money) if fleet.money else None,
        launch=launch_document(fleet.launch) if fleet.launch else None,
        kubernetes=manifest_of(fleet),
        assumptions=plan.assumptions,
        notes=plan.notes,
        local=fleet.local_cost,
    )


def manifest_of(fleet: PlannedFleet) -> str | None:
    """Return the Kubernetes manifest of the recommended deployment; None where nothing fits.

    Args:
        fleet: The plan with its hand-over.
    """
    best = fleet.plan.recommended
    if best is None or fleet.launch is None:
        return None
    return kubernetes_manifest(best, fleet.launch, model=fleet.plan.model, vendor=best.vendor)


def _fit(fit: DeploymentFit, *, on_front: bool, with_curve: bool) -> DeploymentFitDocument:
    simulated, split = fit.simulated, fit.split_usd_per_million
    return DeploymentFitDocument(
        gpu=fit.gpu,
        gpus=fit.gpus,
        replicas=fit.replicas,
        replicas_needed=fit.needed,
        words=fit.words,
        **sharding_fields(fit.sharding),
        engine=fit.engine,
        weights=fit.weights,
        kv=fit.kv,
        memory=fit.memory,
        ttft_s=_time(fit.ttft_s, simulated.ttft_s if simulated else None),
        tpot_s=_time(fit.tpot_s, simulated.tpot_s if simulated else None),
        e2e_s=_time(fit.e2e_s, simulated.e2e_s if simulated else None),
        itl_s=simulated.itl_s if simulated else None,
        rate_per_s=fit.rate_per_s,
        running_per_replica=fit.running,
        batch_limit=fit.batch_limit,
        output_tokens_per_s=fit.output_tokens_per_s,
        output_tokens_per_s_per_gpu=fit.output_tokens_per_s_per_gpu,
        output_tokens_per_s_per_user=fit.output_tokens_per_s_per_user,
        max_rate_per_s=fit.max_rate_per_s * fit.replicas,
        max_rate_per_s_per_replica=fit.max_rate_per_s,
        job_s=fit.job_s,
        job_usd=fit.job_usd,
        goodput_fraction=simulated.goodput_fraction if simulated else None,
        usd_per_hour=fit.usd_per_hour,
        usd_per_million_output_tokens=fit.usd_per_million_output_tokens,
        usd_per_million_tokens=fit.usd_per_million_tokens,
        split_usd_per_million_tokens=None if split is None else TokenPrices(input=split[0], output=split[1]),
        machines=fit.machines,
        rent=None if fit.rent is None else RENTED.document(fit.rent),
        evidence=fit.evidence,
        holds_at_worst=fit.holds_at_worst,
        on_front=on_front,
        curve=tuple(_point(point, fit) for point in fit.curve) if with_curve else None,
        power_w=fit.energy.power_w if fit.energy else UNSET,
        joules_per_output_token=fit.energy.joules_per_output_token if fit.energy else UNSET,
        power_evidence=fit.energy.evidence if fit.energy else UNSET,
    )


def _point(point: LoadPoint, fit: DeploymentFit) -> ConcurrencyPoint:
    return ConcurrencyPoint(
        running=point.running,
        rate_per_s=point.rate_per_s,
        ttft_s=point.ttft_s,
        tpot_s=point.tpot_s,
        output_tokens_per_s_per_gpu=point.rate_per_s * fit.output_len / fit.sharding.gpus,
    )


def _time(interval: Interval, simulated: Percentiles | None) -> RequestTime:
    return RequestTime(
        low=interval.low,
        expected=interval.expected,
        high=interval.high,
        p50=simulated.p50 if simulated else None,
        p90=simulated.p90 if simulated else None,
        p95=simulated.p95 if simulated else None,
        p99=simulated.p99 if simulated else None,
    )


def _front(point: FrontPoint) -> FrontDocument:
    return FrontDocument(
        gpu=point.fit.gpu,
        **sharding_fields(point.fit.sharding),
        engine=point.fit.engine,
        weights=point.fit.weights,
        running=point.running,
        output_tokens_per_s_per_gpu=point.per_gpu,
        output_tokens_per_s_per_user=point.per_user,
    )


def _disaggregated(split: DisaggregatedFit) -> DisaggregatedDocument:
    return DisaggregatedDocument(
        gpu=split.gpu,
        gpus=split.gpus,
        words=split.words,
        engine=split.engine,
        weights=split.weights,
        prefill=PrefillSide(**_side_fields(split.prefill), prompt_s=split.prefill_s),
        decode=DecodeSide(**_side_fields(split.decode), running=split.decode_running),
        ratio=split.ratio,
        transfer_s=split.transfer_s,
        ttft_s=split.ttft_s,
        tpot_s=split.tpot_s,
        e2e_s=split.e2e_s,
        output_tokens_per_s=split.rate_per_s * split.output_len,
        usd_per_hour=split.usd_per_hour,
    )


def _mixed(mixed: MixedFleet) -> MixedDocument:
    parts = tuple(
        MixedPartDocument(
            gpu=part.fit.gpu,
            **sharding_fields(part.fit.sharding),
            replicas=part.fit.replicas,
            engine=part.fit.engine,
            weights=part.fit.weights,
            share=part.share,
            usd_per_hour=part.fit.usd_per_hour,
        )
        for part in mixed.parts
    )
    return MixedDocument(gpus=mixed.gpus, words=mixed.words, usd_per_hour=mixed.usd_per_hour, parts=parts)


class _SideFields(ShardingFields):
    gpu: str
    replicas: int


def _side_fields(side: PlacedSide) -> _SideFields:
    return {"gpu": side.gpu, **sharding_fields(side.sharding), "replicas": side.replicas}


def _rejection(rejection: DeploymentRejection) -> DeploymentRejectionDocument:
    return DeploymentRejectionDocument(
        gpu=rejection.gpu,
        reason=rejection.reason,
        obstacle=rejection.obstacle,
        rescue=rejection.rescue,
        **sharding_fields(rejection.sharding),
        engine=rejection.engine,
        weights=rejection.weights,
        least_s=rejection.least_s,
    )
