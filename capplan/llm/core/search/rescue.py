"""What would rescue a deployment that carries too little, and which would be cheaper if they were a little faster."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from capplan.core.engine_names import Engine, find_engine
from capplan.core.numbers import ceil_guarded
from capplan.errors import CapplanError
from capplan.llm.core.fleet.deployment_plan import DeploymentFit, DeploymentRejection, Obstacle
from capplan.llm.core.fleet.limits import expected_limits, fullest_point, highest_point
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.memory_answer import StatedDeployment, answer_memory
from capplan.llm.core.search.search import DRAW_OPTION, OFFER_OPTION, Search
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.simulation.load_answer import LatencyLimits
from capplan.units import format_seconds


def with_rescues(
    search: Search, rejections: Sequence[DeploymentRejection], fits: Sequence[DeploymentFit]
) -> tuple[DeploymentRejection, ...]:
    """Add to every rejection what would rescue it.

    Where a larger replica of the same GPU carries the load, that is named. Otherwise the memory model is asked what
    other formats would change, once for each GPU, and a broken limit is set beside the least time that was found.
    """
    nearest: dict[tuple[str, str], DeploymentFit] = {}
    for fit in sorted(fits, key=lambda fit: (fit.sharding.gpus, fit.sharding.pipeline)):
        nearest.setdefault((fit.gpu, fit.engine), fit)
    changes: dict[tuple[str, str], str | None] = {}
    found: list[DeploymentRejection] = []
    for rejection in rejections:
        key = (rejection.gpu, rejection.engine)
        if rejection.obstacle is Obstacle.SETTING:
            found.append(rejection)
            continue
        carrying = nearest.get(key)
        if carrying is not None:
            found.append(replace(rejection, rescue=f"{sharding_words(carrying.sharding)} carries the load on this GPU"))
            continue
        if rejection.obstacle is Obstacle.LIMIT:
            found.append(replace(rejection, rescue=_other_limit(rejection)))
            continue
        if key not in changes:
            alike = [other for other in rejections if (other.gpu, other.engine) == key]
            changes[key] = _other_formats(search, max(alike, key=lambda other: other.sharding.gpus))
        found.append(replace(rejection, rescue=changes[key]))
    return tuple(found)


def sharding_words(sharding: Sharding) -> str:
    """Return a way to share a model as the options that state it."""
    named = (("⟨tp⟩", sharding.tensor), ("⟨pp⟩", sharding.pipeline), ("⟨ep⟩", sharding.expert), ("⟨dp⟩", sharding.data))
    words = [f"{option} {size}" for option, size in named if size > 1]
    return " ".join(words) or "⟨tp⟩ 1"


def _other_limit(rejection: DeploymentRejection) -> str | None:
    least_s, option = rejection.least_s, rejection.broken_option
    if least_s is None or option is None:
        return None
    return f"a limit of {format_seconds(least_s)} or more ({option}), more GPUs or narrower weights"


def _other_formats(search: Search, rejection: DeploymentRejection) -> str | None:
    """Ask the memory model which single change lets one request fit."""
    asked = search.question
    request = StatedDeployment(
        model=search.model,
        gpu=search.find_gpu(rejection.gpu),
        sharding=rejection.sharding,
        weights=rejection.weights,
        kv=asked.kv or None,
        engine=find_engine(rejection.engine),
        sequence_tokens=max(1, round(asked.load.cached_len)),
        fraction=asked.utilization_fraction,
        adapters=asked.adapters,
        drafter=asked.load.speculation.drafter if asked.load.speculation else None,
        draft_model=search.draft_model,
    )
    try:
        answer = answer_memory(request, search.memory)
    except CapplanError:
        return None
    helping = [change.change for change in answer.alternatives if change.fits and change.sequences >= 1]
    shown = sharding_words(rejection.sharding)
    if helping:
        return f"with {shown}: {' or '.join(helping[:3])}"
    narrow = "q4_k_m" if find_engine(rejection.engine) is Engine.LLAMACPP else "awq"
    return f"no single change does; try ⟨weights⟩ {narrow} with more GPUs per replica than {rejection.sharding.gpus}"


def advice(limits: LatencyLimits, rejections: Sequence[DeploymentRejection]) -> str:
    """Return what would make a plan without any fit possible, in one sentence."""
    if any(rejection.broken_option == DRAW_OPTION for rejection in rejections):
        return (
            f"what keeps the other limits draws more than {DRAW_OPTION} allows; raise it, or ask for other GPUs "
            "(⟨gpu⟩) or narrower weights (⟨weights⟩)."
        )
    priced = [rejection for rejection in rejections if rejection.usd_per_hour is not None]
    if priced:
        cheapest = min(priced, key=lambda rejection: rejection.usd_per_hour or 0.0)
        return (
            f"the cheapest that keeps the limits costs more than it may: {cheapest.gpu} with {cheapest.engine}, "
            f"{cheapest.reason}."
        )
    if any(rejection.broken_option == OFFER_OPTION for rejection in rejections):
        return (
            "no offer asked for holds a deployment that carries the load; name other GPUs (⟨gpu⟩), or other sellers or "
            "places (⟨provider⟩, ⟨region⟩), which `capplan prices` lists."
        )
    asked = {
        "⟨max-ttft⟩": limits.ttft_s, "⟨max-tpot⟩": limits.tpot_s, "⟨max-e2e⟩": limits.e2e_s, "⟨within⟩": limits.e2e_s,
    }  # fmt: skip
    broken = [
        (rejection.least_s / (asked.get(rejection.broken_option) or 1.0), rejection.least_s, rejection)
        for rejection in rejections
        if rejection.least_s is not None and rejection.broken_option is not None
    ]
    if broken:
        _, least, first = min(broken, key=lambda ranked: ranked[0])
        return (
            f"nothing searched keeps {first.broken_option}: the nearest is {first.gpu} with "
            f"{sharding_words(first.sharding)} at {format_seconds(least)}; a limit above that, shorter requests, "
            "other GPUs (⟨gpu⟩) or narrower weights (⟨weights⟩) would do."
        )
    rescues = [rejection for rejection in rejections if rejection.rescue]
    if rescues:
        return f"nothing searched holds the model; the nearest is {rescues[-1].gpu}: {rescues[-1].rescue}."
    reason = rejections[0].reason.rstrip(".") if rejections else "no GPU was searched"
    return f"no deployment searched is possible: {reason}."


CLEARLY_CHEAPER = 0.98


@dataclass(frozen=True, slots=True, kw_only=True)
class NearMiss:
    """A deployment with fewer replicas than the estimate asks for, which the good end of its interval allows.

    `expected` and `best` are what so few replicas carry: requests per second, or clients where the load states these.
    """

    fit: DeploymentFit
    replicas: int
    usd_per_hour: float
    expected: float
    best: float

    @property
    def words(self) -> str:
        return replace(self.fit, replicas=self.replicas).words


def near_misses(
    fits: Sequence[DeploymentFit], load: TokenLoad, limits: LatencyLimits, *, certainty: float = 0.5
) -> tuple[NearMiss, ...]:
    """Return the deployments that miss being cheapest by less than their uncertainty, the cheapest first."""
    if not fits or fits[0].usd_per_hour is None:
        return ()
    most = CLEARLY_CHEAPER * fits[0].usd_per_hour
    found = (near_miss(fit, load, limits, certainty=certainty) for fit in fits if not fit.is_transferred)
    cheaper = [miss for miss in found if miss is not None and miss.usd_per_hour < most]
    return tuple(sorted(cheaper, key=lambda miss: miss.usd_per_hour))


def near_miss(fit: DeploymentFit, load: TokenLoad, limits: LatencyLimits, *, certainty: float = 0.5) -> NearMiss | None:
    """Return how few replicas carry the load at the good end of the interval; None if that takes as many.

    There all times are shorter by one factor: limits are met at loads with longer expected times, and rates are higher.
    """
    if fit.rent is None:
        return None
    factor = fit.tpot_s.expected / fit.tpot_s.low
    asked = load.rate_per_s if load.concurrency is None else load.concurrency
    held = expected_limits(limits, certainty=certainty, ttft=fit.ttft_s, tpot=fit.tpot_s)
    expected = _carried(fit, load, held, factor=1.0)
    best = _carried(fit, load, limits, factor=factor)
    needed = max(1, ceil_guarded((asked or 0.0) / best))
    if needed >= fit.needed:
        return None
    replicas = needed + fit.replicas - fit.needed
    return NearMiss(
        fit=fit,
        replicas=replicas,
        usd_per_hour=replace(fit, replicas=replicas).usd_per_hour or 0.0,
        expected=needed * expected,
        best=needed * best,
    )


def _carried(fit: DeploymentFit, load: TokenLoad, limits: LatencyLimits, *, factor: float) -> float:
    """Return the requests per second, or clients, of one replica that is faster than expected by a factor."""
    eased = replace(
        limits,
        ttft_s=None if limits.ttft_s is None else limits.ttft_s * factor,
        tpot_s=None if limits.tpot_s is None else limits.tpot_s * factor,
        e2e_s=None if limits.e2e_s is None else limits.e2e_s * factor,
    )
    if load.concurrency is None:
        point = highest_point(fit.curve, eased, fit.output_len) or fit.curve[0]
        return point.rate_per_s * factor
    point = fullest_point(fit.curve, eased, fit.output_len) or fit.curve[0]
    return max(1.0, float(int(point.running + 1e-6)))
