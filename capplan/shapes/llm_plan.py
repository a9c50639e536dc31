"""The shapes of plans of LLM serving. Times in seconds, money in US dollars, memory in bytes of one GPU."""

from operator import attrgetter
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from capplan.core.economics.cost import OwnedCost
from capplan.core.gpus.prices import Price
from capplan.core.numbers import Interval
from capplan.llm.core.fleet.deployment_plan import (
    DeploymentFit,
    DeploymentRejection,
    FrontPoint,
    MixedFleet,
    ReplicaShare,
    front,
    load_front,
)
from capplan.llm.core.fleet.disaggregated import DisaggregatedFit
from capplan.llm.core.fleet.launch import Launch
from capplan.llm.core.fleet.money import FleetMoney, PaymentOption, PlannedFleet
from capplan.llm.core.fleet.replan import Replan
from capplan.llm.core.serving.load_curve import LoadPoint
from capplan.llm.core.simulation.load_answer import Percentiles
from capplan.shapes.common import VERSIONED
from capplan.shapes.llm_serving import SERVED_MODEL, metered, shared_words, sharing_of
from capplan.shapes.shape import NOWHERE, Nested, Shape, Typed, View, column, figure, itself, reads
from capplan.shapes.ways import WAYS
from capplan.units import format_rate, format_seconds

_JOULES_PER_KWH = 3.6e6
MOST_CURVES = 12
"""Deployments whose load curve is written out: the best ones."""


class WrittenFit(NamedTuple):
    """A deployment with its place among those of the plan."""

    fit: DeploymentFit
    on_front: bool
    has_curve: bool


class SeenTime(NamedTuple):
    """A time that requests see: estimated, and simulated where it was. [s]"""

    interval: Interval
    simulated: Percentiles | None


def alone(fit: DeploymentFit) -> WrittenFit:
    """Return a deployment without its place among others."""
    return WrittenFit(fit, on_front=False, has_curve=False)


def _p99(percentiles: str) -> Typed:
    """Return how the 99th percentile of a simulated time is read. [s]"""
    return reads(
        float | None,
        lambda written: attrgetter(f"{percentiles}.p99")(written.fit.simulated) if written.fit.simulated else None,
    )


def _seen(interval: str, percentiles: str) -> Nested:
    """Return how a time is read of a deployment: the estimate's interval, and the percentiles of its simulation."""

    def seen(written: WrittenFit) -> SeenTime:
        simulated = written.fit.simulated
        return SeenTime(getattr(written.fit, interval), getattr(simulated, percentiles) if simulated else None)

    return SEEN_TIME.at(seen)


def _written(fleet: PlannedFleet) -> tuple[WrittenFit, ...]:
    best = {id(fit) for fit in front(fleet.plan.fits)}
    return tuple(WrittenFit(fit, id(fit) in best, place < MOST_CURVES) for place, fit in enumerate(fleet.plan.fits))


def _curve(written: WrittenFit) -> tuple[tuple[LoadPoint, DeploymentFit], ...] | None:
    return tuple((point, written.fit) for point in written.fit.curve) if written.has_curve else None


def _per_gpu(pair: tuple[LoadPoint, DeploymentFit]) -> float:
    point, fit = pair
    return point.rate_per_s * fit.output_len / fit.sharding.gpus


GENERATED: Final = ("tpot_expected_s", "tpot_p99_s", "output_tokens_per_s_per_gpu", "output_tokens_per_s_per_user")
"""Figures of tasks that generate tokens."""
_USD_PER_MILLION: Final = column("USD/M tokens", "{:.3g}".format)

# fmt: off
PAYMENT: Final = Shape("PaymentDocument", PaymentOption, "One way to pay for the fleet; `usd_per_year` is the equivalent annual cost, `yearly_usd` begins with day one.", (
    figure("term"),
    figure("usd_per_gpu"),
    figure("seller"),
    figure("day"),
    figure("is_marketplace", reads(bool, lambda payment: bool(payment.option.rent and payment.option.rent.is_marketplace))),
    figure("usd_per_year"),
    figure("initial_usd", reads(float, lambda payment: payment.cost.initial if isinstance(payment.cost, OwnedCost) else 0.0)),
    figure("yearly_usd", reads(tuple[float, ...], lambda payment: payment.cost.yearly)),
    figure("usd_per_million_output_tokens"),
))
MONEY: Final = Shape("MoneyDocument", FleetMoney, "What the recommended deployment costs over the years, the cheapest way to pay first.", (
    figure("growth_per_year_fraction", "growth_fraction"),
    figure("years"),
    figure("counted_years"),
    figure("rented_hours_per_year", "paid_hours", "hours for which machines rented by the hour are paid"),
    figure("payments", PAYMENT),
    figure("gpu_power_w", "energy.power_w", "mean draw of all GPUs at the load, without hosts"),
    figure("joules_per_output_token"),
    figure("kwh_per_million_output_tokens", reads(float | None, lambda money: (
        None if money.joules_per_output_token is None else money.joules_per_output_token * 1e6 / _JOULES_PER_KWH))),
    figure("usd_per_kwh"),
    figure("pue"),
    figure("api"),
))
LAUNCH: Final = Shape("LaunchDocument", Launch, "The command that starts one replica, with the reason of each option, and the files that it reads.", (
    figure("engine"),
    figure("command"),
    figure("commands", meaning="of every server of a replica; HEAD stands for the address of the first", default=()),
    figure("arguments"),
    figure("options"),
    figure("files", reads(dict[str, str], lambda launch: dict(launch.files))),
    figure("port"),
    figure("notes"),
))
SEEN_TIME: Final = Shape("RequestTime", SeenTime, "A time that requests see: the interval of the estimate, and percentiles, null where it was not simulated. [s]", (
    figure("low", "interval.low"),
    figure("expected", "interval.expected"),
    figure("high", "interval.high"),
    figure("p50", "simulated.p50"),
    figure("p90", "simulated.p90"),
    figure("p95", "simulated.p95"),
    figure("p99", "simulated.p99"),
))
TOKEN_PRICES: Final = Shape("TokenPrices", tuple[float, float], "Prices of a million input and of a million output tokens, divided by busy time. [USD]", (
    figure("input", reads(float, lambda prices: prices[0])),
    figure("output", reads(float, lambda prices: prices[1])),
))
CURVE_POINT: Final = Shape("ConcurrencyPoint", tuple[LoadPoint, DeploymentFit], "One replica with so many requests in it.", (
    figure("running", reads(float, lambda pair: pair[0].running)),
    figure("rate_per_s", reads(float, lambda pair: pair[0].rate_per_s)),
    figure("ttft_s", reads(float, lambda pair: pair[0].ttft_s)),
    figure("tpot_s", reads(float, lambda pair: pair[0].tpot_s)),
    figure("output_tokens_per_s_per_gpu", _per_gpu),
))
RENTED: Final = Shape("RentedGpu", Price, "An offer by its price of one GPU and hour; machines are rented whole. [USD]", (
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
))
DEPLOYMENT: Final = Shape("DeploymentFitDocument", WrittenFit, "A deployment that carries the load within the limits.", (
    figure("gpu", "fit.gpu", show=column("GPU").seen(View.ANSWER, title="or")),
    figure("gpus", "fit.gpus", "GPUs of all replicas", column("GPUs").seen(View.ANSWER)),
    figure("replicas", "fit.replicas", show=column("replicas")),
    figure("replicas_needed", "fit.needed"),
    figure("words", "fit.words"),
    *sharing_of("fit.sharding"),
    figure("shared", reads(str, lambda written: shared_words(written.fit.sharding)), show=column("shared").alone()),
    figure("placed", reads(str, lambda written: f"{written.fit.replicas} × {shared_words(written.fit.sharding)}"),
        show=NOWHERE.alone().seen(View.ANSWER, title="shared", rank=1)),
    figure("engine", "fit.engine", show=column("engine").seen(View.ANSWER, rank=2)),
    figure("weights", "fit.weights", show=column("weights").seen(View.ANSWER, rank=3)),
    figure("kv", "fit.kv"),
    figure("memory", "fit.memory"),
    figure("ttft_s", _seen("ttft_s", "ttft_s")),
    figure("ttft_expected_s", "fit.ttft_s", show=column("{first}", format_seconds).alone().seen(View.ANSWER, title="TTFT")),
    figure("ttft_p99_s", _p99("ttft_s"), show=column("{percentile}", format_seconds).alone()),
    figure("tpot_s", _seen("tpot_s", "tpot_s")),
    figure("tpot_expected_s", "fit.tpot_s", show=column("TPOT", format_seconds).alone().seen(View.ANSWER)),
    figure("tpot_p99_s", _p99("tpot_s"), show=column("TPOT p99", format_seconds).alone()),
    figure("e2e_s", _seen("e2e_s", "e2e_s")),
    figure("e2e_expected_s", "fit.e2e_s",
        show=NOWHERE.alone().seen(View.ANSWER, title="latency", form=format_seconds)),
    figure("itl_s", "fit.simulated.itl_s"),
    figure("rate_per_s", "fit.rate_per_s"),
    figure("running_per_replica", "fit.running"),
    figure("batch_limit", "fit.batch_limit"),
    figure("output_tokens_per_s", "fit.output_tokens_per_s"),
    figure("output_tokens_per_s_per_gpu", "fit.output_tokens_per_s_per_gpu", show=column("per GPU", format_rate)),
    figure("output_tokens_per_s_per_user", "fit.output_tokens_per_s_per_user", show=column("per user", format_rate)),
    figure("max_rate_per_s", reads(float, lambda written: written.fit.max_rate_per_s * written.fit.replicas),
        "requests per second that all replicas carry within the limits", column("max req/s", format_rate)),
    figure("max_rate_per_s_per_replica", "fit.max_rate_per_s"),
    figure("job_s", "fit.job_s", "time of a job at the highest rate; null without a job"),
    figure("job_usd", "fit.job_usd"),
    figure("goodput_fraction", "fit.simulated.goodput_fraction"),
    figure("usd_per_hour", "fit.usd_per_hour", show=column("USD/h", "{:,.2f}".format).seen(View.ANSWER)),
    figure("usd_per_million_output_tokens", "fit.usd_per_million_output_tokens",
        show=_USD_PER_MILLION.seen(View.ANSWER, title="USD/M out")),
    figure("usd_per_million_tokens", "fit.usd_per_million_tokens", show=_USD_PER_MILLION.seen(View.ANSWER)),
    figure("split_usd_per_million_tokens", TOKEN_PRICES.at("fit.split_usd_per_million")),
    figure("machines", "fit.machines", "rented machines that hold all replicas; null: no offer does"),
    figure("rent", RENTED.at("fit.rent")),
    figure("evidence", "fit.evidence"),
    figure("evidence_words", reads(str, lambda written: written.fit.evidence.partition(":")[0]),
        show=column("evidence").alone()),
    figure("holds_at_worst", "fit.holds_at_worst", "true: the limits hold at the far ends of the intervals, too"),
    figure("on_front", meaning="true: no other deployment has more tokens/s per GPU and per user at the load"),
    figure("curve", CURVE_POINT.at(_curve)),
    *metered("fit.energy", "of all GPUs at the load, idle time included, without hosts; --energy"),
))
FRONT: Final = Shape("FrontDocument", FrontPoint, "A deployment with so many requests at a time that no other beats per GPU and per user.", (
    figure("gpu", "fit.gpu"),
    *sharing_of("fit.sharding"),
    figure("engine", "fit.engine"),
    figure("weights", "fit.weights"),
    figure("running"),
    figure("output_tokens_per_s_per_gpu", "per_gpu"),
    figure("output_tokens_per_s_per_user", "per_user"),
))
PREFILL: Final = Shape("PrefillSide", DisaggregatedFit, "The replicas that process prompts only; `prompt_s` is the time of one prompt alone.", (
    figure("gpu", "prefill.gpu"),
    *sharing_of("prefill.sharding"),
    figure("replicas", "prefill.replicas"),
    figure("prompt_s", "prefill_s"),
))
DECODE: Final = Shape("DecodeSide", DisaggregatedFit, "The replicas that generate tokens only, with so many requests at a time on each.", (
    figure("gpu", "decode.gpu"),
    *sharing_of("decode.sharding"),
    figure("replicas", "decode.replicas"),
    figure("running", "decode_running"),
))
DISAGGREGATED: Final = Shape("DisaggregatedDocument", DisaggregatedFit, "Prefill replicas and decode replicas that carry the load within the limits.", (
    figure("gpu", meaning="null where prompts and answers are on different GPUs"),
    figure("gpus"),
    figure("words"),
    figure("engine"),
    figure("weights"),
    figure("prefill", PREFILL.at(itself(DisaggregatedFit))),
    figure("decode", DECODE.at(itself(DisaggregatedFit))),
    figure("ratio"),
    figure("transfer_s"),
    figure("ttft_s"),
    figure("tpot_s"),
    figure("e2e_s"),
    figure("output_tokens_per_s", reads(float, lambda split: split.rate_per_s * split.output_len)),
    figure("usd_per_hour"),
))
MIXED_PART: Final = Shape("MixedPartDocument", ReplicaShare, "The replicas on one of two kinds of GPUs, and the share of the requests that they get.", (
    figure("gpu", "fit.gpu"),
    *sharing_of("fit.sharding"),
    figure("replicas", "fit.replicas"),
    figure("engine", "fit.engine"),
    figure("weights", "fit.weights"),
    figure("share"),
    figure("usd_per_hour", "fit.usd_per_hour"),
))
MIXED: Final = Shape("MixedDocument", MixedFleet, "Replicas on two kinds of GPUs that carry the load together for less.", (
    figure("gpus"),
    figure("words"),
    figure("usd_per_hour"),
    figure("parts", MIXED_PART.at(reads(tuple[ReplicaShare, ...], lambda mixed: mixed.parts))),
))
REJECTED: Final = Shape("DeploymentRejectionDocument", DeploymentRejection, "A deployment that does not carry the load: why, and what would rescue it.", (
    figure("gpu"),
    figure("reason"),
    figure("obstacle"),
    figure("rescue"),
    *sharing_of("sharding"),
    figure("engine"),
    figure("weights"),
    figure("least_s", meaning="the broken limit's time with one request at a time"),
))
REPLAN: Final = Shape("ReplanDocument", Replan, "What runs beside the smallest fleet of the same GPUs that carries the load.", (
    figure("gpus", meaning="that run now"),
    figure("gpu"),
    figure("gpus_needed", "fit.gpus", "null: no fleet of these GPUs carries the load"),
    figure("gpus_with_fp8", "narrow.gpus"),
    figure("usd_per_hour_saved"),
    figure("sentences"),
    figure("change", meaning="of the launch files, as a unified diff"),
))
LLM_PLAN: Final = Shape("LlmPlanDocument", PlannedFleet, "What `capplan llm plan --format json` writes; memory is that of one GPU.", (
    *VERSIONED,
    figure("model", SERVED_MODEL.at(reads(Any, lambda fleet: fleet.plan))),
    figure("load", "plan.load"),
    figure("limits", "plan.limits"),
    figure("certainty_fraction", "plan.certainty_fraction", "probability with which the intervals keep the limits"),
    figure("recommended", DEPLOYMENT.at(reads(WrittenFit | None, lambda fleet: next(iter(_written(fleet)), None)))),
    figure("cheaper_on_weaker_evidence", "plan.cheaper.gpu"),
    figure("fits", DEPLOYMENT.at(_written)),
    figure("front", FRONT.at(reads(tuple[FrontPoint, ...], lambda fleet: load_front(fleet.plan.fits)))),
    figure("disaggregated", DISAGGREGATED.at("plan.disaggregated")),
    figure("mixed", MIXED.at("plan.mixed"), "null where two kinds of GPUs save nothing"),
    figure("rejections", REJECTED.at("plan.rejections")),
    figure("advice", "plan.advice"),
    figure("money", MONEY),
    figure("launch", LAUNCH),
    figure("kubernetes", reads(str | None, lambda fleet: fleet.launch_files.get("kubernetes.yaml")), "manifest of the recommended deployment, as YAML"),
    figure("launch_files", reads(dict[str, str], lambda fleet: dict(fleet.launch_files)),
        "files of platforms that start the recommended deployment, by name", default=UNSET),
    figure("assumptions", "plan.assumptions"),
    figure("notes", "plan.notes"),
    figure("machine", "plan.machine", "sentences on this machine, where it is planned for", default=()),
    figure("local", "local_cost", "an hour in the currency asked for", default=None),
    figure("replan", REPLAN, "where GPUs that run are stated", default=UNSET),
    figure("ways", WAYS, "where they are asked for", default=UNSET),
))
# fmt: on
