"""`llm scale`: what a fleet that follows its load costs and keeps, beside one that stands."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from capplan.core.scaling.policy import Signal
from capplan.errors import UsageError
from capplan.verbs.llm.fields import FilesHereFields, LatencyLimitFields, LengthFields, ReplicaFields, TaskFields, Word
from capplan.verbs.llm.start import StartedReplicaFields, start_of
from capplan.verbs.llm.ways import StatedWeekFields
from capplan.verbs.llm.week import WeekFields
from capplan.verbs.statement.contract import Context, Effort, Outcome, Verb, laid_out_by
from capplan.verbs.statement.options import Option
from capplan.verbs.statement.words import SHARE, TIME_LIMIT, Words

if TYPE_CHECKING:
    from capplan.core.gpus.prices import Price
    from capplan.core.scaling.fleet import ElasticFleet, Elasticity
    from capplan.core.scaling.load import WeekLoad
    from capplan.llm.core.elastic.answer import ElasticAnswer, LoadedReplica
    from capplan.specs.scalers import Preset


def _known_scaler(given: Any, what: str) -> str:
    from capplan.specs.scalers import load_presets

    names = tuple(load_presets())
    if given not in names:
        raise UsageError(f"{what} {given}: write one of {', '.join(names)}.")
    return str(given)


SCALER = Words(python="str", read=_known_scaler, wire=Word)
"""The name of an autoscaler whose rules are known."""


@dataclass(frozen=True, kw_only=True)
class ScalerFields:
    """How a fleet follows its load."""

    scaler: Annotated[
        Word,
        Option(
            help="hpa, keda, knative, ray-serve, sagemaker or llm-d, by its documented rules.", metavar="NAME",
            words=SCALER, shows_default=True,
        ),
    ] = "keda"  # fmt: skip
    signal: Annotated[
        Signal | None,
        Option(help="What it looks at: in-flight, queue, rate, utilisation or ttft; the usual one by default."),
    ] = None
    target: Annotated[
        float | None,
        Meta(gt=0, le=1e9),
        Option(help="The signal that one replica should have; what its highest rate within the limits has by default."),
    ] = None
    min_replicas: Annotated[
        int | None,
        Meta(ge=0, le=10**6),
        Option(help="Replicas at least; the cheapest that keeps the share by default."),
    ] = None
    max_replicas: Annotated[
        int | None, Meta(ge=1, le=10**6), Option(help="Replicas at most; twice the standing fleet by default.")
    ] = None
    look_every_s: Annotated[
        float | None,
        Meta(gt=0, le=86_400),
        Option(help="Time between two looks.", flags=("--look-every",), metavar="TIME", words=TIME_LIMIT),
    ] = None
    up_delay_s: Annotated[
        float | None,
        Meta(ge=0, le=86_400),
        Option(help="How long more must be wanted.", flags=("--up-delay",), metavar="TIME", words=TIME_LIMIT),
    ] = None
    down_delay_s: Annotated[
        float | None,
        Meta(ge=0, le=86_400),
        Option(help="How long fewer must be wanted.", flags=("--down-delay",), metavar="TIME", words=TIME_LIMIT),
    ] = None
    idle_s: Annotated[
        float | None,
        Meta(ge=0, le=86_400),
        Option(help="Time without a request until no replica is kept.", flags=("--idle",), metavar="TIME",
               words=TIME_LIMIT),
    ] = None  # fmt: skip
    minimum_charge_s: Annotated[
        float | None,
        Meta(ge=0, le=1e7),
        Option(
            help="Shortest time that a machine is charged for; the offer's by default.", flags=("--min-charge",),
            metavar="TIME", words=TIME_LIMIT,
        ),
    ] = None  # fmt: skip
    share: Annotated[
        float,
        Meta(ge=0.01, le=1.0),
        Option(help="Share of the requests that keeps the limits.", metavar="SHARE", words=SHARE, shows_default=True),
    ] = 0.95
    certainty_fraction: Annotated[
        float,
        Meta(ge=0.5, le=0.999),
        Option(
            help="Probability of that, as the interval of the start says.", flags=("--certainty",), metavar="SHARE",
            words=SHARE, shows_default=True,
        ),
    ] = 0.9  # fmt: skip

    def preset(self) -> "Preset":
        """Return the autoscaler with what is stated otherwise."""
        from capplan.specs.scalers import load_presets

        found = load_presets()[self.scaler]
        policy, up, down = found.policy, found.policy.up, found.policy.down
        if self.up_delay_s is not None:
            up = replace(up, window_s=0.0, hold_s=self.up_delay_s)
        if self.down_delay_s is not None:
            down = replace(down, window_s=0.0, hold_s=self.down_delay_s)
        policy = replace(
            policy,
            up=up,
            down=down,
            interval_s=self.look_every_s or policy.interval_s,
            idle_s=policy.idle_s if self.idle_s is None else self.idle_s,
        )
        return replace(found, policy=policy, signal=self.signal or found.signal)


@dataclass(frozen=True, kw_only=True)
class ScaledReplicaFields(
    ReplicaFields, StartedReplicaFields, StatedWeekFields, ScalerFields, LengthFields, TaskFields, LatencyLimitFields,
    FilesHereFields,
):  # fmt: skip
    """A replica of which a fleet is made, and how the fleet follows the load of a week."""


@dataclass(frozen=True, kw_only=True)
class LlmScaleQuestion(WeekFields, ScaledReplicaFields):
    """What a fleet that follows its load costs over a week, and which share of the requests keeps the limits."""


def answer_llm_scale(question: LlmScaleQuestion, context: Context) -> "ElasticAnswer":
    """Return what a fleet that follows its load costs and keeps, beside one that stands.

    Raises:
        CapplanError: a name is not known, the model does not fit, no machine is rented, or no replica keeps the limits.
    """
    from capplan.verbs.llm.load_file import with_load

    week = question.week_load()
    question = replace(with_load(question, question.lengths_file(), model=question.model), load_file=None)
    return follow_week(question, context, week)


def follow_week(question: ScaledReplicaFields, context: Context, week: "WeekLoad") -> "ElasticAnswer":
    """Return what a fleet that follows the load of a week costs and keeps, beside one that stands."""
    from capplan.core.scaling.fleet import settings_of, standing_fleet
    from capplan.llm.core.elastic.answer import ElasticAnswer, burst_of

    with context.feedback.progress("following a week"):
        loaded, fleet, asked, offer = _fleet_of(question, context, week)
        standing = standing_fleet(fleet, share=asked.share)
        settings = settings_of(fleet, asked)
        burst = burst_of(loaded, fleet, asked, best=settings[0], maximum=asked.maximum or 2 * standing.replicas)
    return ElasticAnswer(
        model=loaded.replica.deployment.model.architecture.name,
        gpu=loaded.replica.deployment.gpu.id,
        gpus=loaded.replica.deployment.words.sharding.gpus,
        engine=loaded.replica.deployment.engine,
        asked=asked,
        load=week,
        offer=offer,
        standing=standing,
        settings=settings,
        burst=burst,
        notes=_notes(question, asked),
    )


def _fleet_of(
    question: ScaledReplicaFields, context: Context, week: "WeekLoad"
) -> "tuple[LoadedReplica, ElasticFleet, Elasticity, Price]":
    """Return a replica, its fleet, how this follows its load, and the offer that it runs on."""
    from capplan.app.deployments import on_demand_offers
    from capplan.core.scaling.fleet import ElasticFleet
    from capplan.llm.core.elastic.answer import LoadedReplica, charge_of
    from capplan.llm.core.fleet.limits import PATIENCE
    from capplan.llm.core.search.replica import Replica
    from capplan.llm.core.timing.constants import constants_of
    from capplan.llm.read.calibrations import load_time_calibration

    deployments = question.deployments(context)
    model = context.language_model(question.model)
    deployment = deployments.find(question.words(model, question.named_drafter(context)))
    load = question.with_task(question.load(context, rate_per_s=1.0, concurrency=None), deployments.model(model))
    service = deployment.service(constants_of(load_time_calibration(question.calibration)), flags=question.flags())
    limits = question.limits()
    offers = on_demand_offers(context.price_list(question.specs)).get(deployment.gpu.id, ())
    sharding = deployment.words.sharding
    charges = [(offer, charge_of(offer, sharding, minimum_s=question.minimum_charge_s)) for offer in offers]
    held = [(offer, charge) for offer, charge in charges if charge.replicas_per_machine]
    if not held:
        raise UsageError(f"no offer on demand is known of {deployment.gpu.id} that holds a replica; see ⟨specs⟩.")
    offer, charge = min(held, key=lambda one: one[1].machines(1) * one[1].usd_per_machine_hour)
    per_replica = min(
        (one for _, one in held),
        key=lambda one: one.usd_per_machine_hour * one.machines_per_replica / one.replicas_per_machine,
    )
    loaded = LoadedReplica(
        replica=Replica.of(service, deployment, load),
        load=load,
        limits=limits if limits.are_set else replace(PATIENCE, statistic=limits.statistic),
    )
    fleet = ElasticFleet(curve=loaded.curve(), week=week, charge=charge, standing_charge=per_replica)
    preset = question.preset()
    start = start_of(question, deployments.model(model), gpu=deployment.gpu.id).whole_s
    asked = preset.elasticity(
        start_s=start,
        target=question.target,
        minimum=question.min_replicas,
        maximum=question.max_replicas,
        share=question.share,
        certainty=question.certainty_fraction,
    )
    return loaded, fleet, asked, offer


def _notes(question: ScaledReplicaFields, asked: "Elasticity") -> tuple[str, ...]:
    notes = []
    if not question.limits().are_set:
        notes.append("No limits were asked: a TTFT of 10 s and a TPOT of 200 ms are held, what a reader waits for.")
    if question.requests_per_day is not None:
        notes.append("The day is that of an office, as assumed; ⟨week⟩ states another.")
    if question.provision_s is None:
        notes.append("Machines are there at once and hold the image; ⟨provision⟩ counts new ones.")
    if asked.signal not in (Signal.IN_FLIGHT, Signal.QUEUE):
        notes.append("The burst is followed with requests in flight as the signal.")
    if question.scaler == "sagemaker" or asked.policy.idle_s is None:
        notes.append(f"{asked.name} keeps one replica at least.")
    return tuple(notes)


LLM_SCALE = Verb(
    path="llm scale",
    question=LlmScaleQuestion,
    summary="Follow a fleet that scales with its load over a week: cost beside the standing fleet, limits, bursts.\n\n"
    "Exit 1 if no setting keeps the share of the requests that is asked for.",
    examples=(
        "capplan llm scale qwen3-8b --gpu l40s --requests-per-day 20000 --max-ttft 5s --storage 2GB/s --scaler keda",
        "capplan llm scale qwen3-32b --gpu h100-sxm5-80gb --tp 2 --week week.yaml --max-ttft 2s --min-replicas 1",
    ),
    answer=answer_llm_scale,
    effort=Effort.LONG,
    sections=laid_out_by("capplan.report.text.llm.scale:llm_scale_sections"),
    fits_one_screen=True,
    document=laid_out_by("capplan.shapes.llm_scale:SCALE"),
    outcome=lambda found: Outcome(exit_code=0 if found.keeps else 1),
    schema="llm-scale",
    returns="capplan.llm.core.elastic.answer:ElasticAnswer",
)
