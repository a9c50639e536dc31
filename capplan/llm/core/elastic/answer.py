"""Answer what a fleet that follows its load costs beside one that stands, and what its requests see."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from capplan.core.gpus.prices import Price
from capplan.core.numbers import FloatArray, Interval, ceil_guarded
from capplan.core.scaling.load import WEEK_S, WeekLoad
from capplan.core.scaling.policy import ReplicaBounds, ScalingPolicy, Signal
from capplan.core.scaling.scaler import Scaler
from capplan.errors import UsageError
from capplan.llm.core.elastic.burst import BurstSeen, follow_burst
from capplan.llm.core.elastic.charge import Charge, charged_usd
from capplan.llm.core.elastic.replica_curve import ReplicaCurve, replica_curve
from capplan.llm.core.elastic.week import ReplayedWeek, replay
from capplan.llm.core.fleet.rented import servers_of_replica
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.search.replica import Replica
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.simulation.arrivals import random_arrivals
from capplan.llm.core.simulation.load_answer import LatencyLimits

WEEKS_PER_MONTH = 365 / 12 / 7
_TRIED_S, _FINE_S = 60.0, 30.0
"""Ticks of the settings that are tried, and of the one that is taken. [s]"""
_DRAWS = 64
_JITTER = 0.1
"""Standard deviation of the logarithm of one start around those of its fleet, as five runs of a start vary (1 to 3 % in
the public logs, more with a shared disk). From memory."""
_FILLS = (1.0, 0.7)
_MOST_BURST_REQUESTS = 12_000
_BURST_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Elasticity:
    """How a fleet follows its load: the autoscaler, its signal and target, bounds of replicas, and its starts.

    `target` is that of the signal for one replica, None for what a replica has at its highest rate within the limits.
    `minimum` and `maximum` are None for what is cheapest, and for twice the standing fleet. `share` of the requests
    must keep the limits, with a `certainty` as the interval of the start says.
    """

    name: str
    policy: ScalingPolicy
    signal: Signal
    start_s: Interval
    target: float | None = None
    minimum: int | None = None
    maximum: int | None = None
    share: float = 0.95
    certainty: float = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSetting:
    """The bounds and the target of an autoscaler, and what they lead to.

    `usd_per_week` has the interval of the start time. `inside` is the share of a week's requests that keep the limits
    with the certainty asked for, `worst_minute` that of the worst minute of the week.
    """

    minimum: int
    target: float
    usd_per_week: Interval
    inside: float
    worst_minute: float
    mean_replicas: float
    starts: int
    asleep_fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingFleet:
    """The fleet that carries the peak all week, and its rent. [USD]"""

    replicas: int
    usd_per_week: float
    inside: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticAnswer:
    """A fleet that follows its load, beside the one that stands.

    `settings` are those that were tried, the cheapest that keeps the share first; `keeps` says whether the first does.
    `burst` is the peak that comes at once on the least replicas, None where no request was simulated.
    """

    model: str
    gpu: str
    gpus: int
    engine: str
    asked: Elasticity
    load: WeekLoad
    offer: Price | None
    standing: StandingFleet
    settings: tuple[ScalingSetting, ...]
    burst: BurstSeen | None
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> ScalingSetting:
        """Return the setting that is taken."""
        return self.settings[0]

    @property
    def keeps(self) -> bool:
        """Return True if the share that is asked for keeps the limits."""
        return self.best.inside >= self.asked.share


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticFleet:
    """What is asked of a fleet that follows its load: a replica, its load, and what machines are charged."""

    replica: Replica
    load: TokenLoad
    week: WeekLoad
    limits: LatencyLimits
    charge: Charge
    standing_charge: Charge


def charge_of(offer: Price, sharding: Sharding, *, minimum_s: float | None = None) -> Charge:
    """Return how an offer's machines are charged for replicas."""
    spread = servers_of_replica(offer.server, sharding) or 1
    return Charge(
        usd_per_machine_hour=offer.usd_per_machine_hour,
        replicas_per_machine=offer.instance_gpus // sharding.gpus if spread == 1 else 1,
        machines_per_replica=spread,
        minimum_s=offer.minimum_s or 0.0 if minimum_s is None else minimum_s,
    )


def curve_of(fleet: ElasticFleet) -> ReplicaCurve:
    return replica_curve(fleet.replica, fleet.load, fleet.limits)


def standing_fleet(fleet: ElasticFleet, curve: ReplicaCurve, *, share: float) -> StandingFleet:
    """Return the fleet that carries the peak of the week all the time.

    Raises:
        UsageError: One replica does not keep the limits even when it is almost idle.
    """
    admissible = curve.admissible_per_s(share)
    if not admissible:
        raise UsageError(
            f"not {share:.0%} of the requests keep the limits even on an idle replica; take longer limits, more GPUs "
            "for a replica, or a smaller share."
        )
    replicas = max(1, ceil_guarded(fleet.week.peak_per_s / admissible))
    rates = fleet.week.rates(_FINE_S) / replicas / curve.full_per_s * curve.last
    inside = curve.inside_fraction[np.minimum(np.round(rates).astype(int), curve.last)]
    weights = fleet.week.rates(_FINE_S)
    machines = fleet.standing_charge.machines(replicas)
    return StandingFleet(
        replicas=replicas,
        usd_per_week=machines * fleet.standing_charge.usd_per_machine_hour * WEEK_S / 3600.0,
        inside=float((inside * weights).sum() / weights.sum()),
    )


def target_of(asked: Elasticity, curve: ReplicaCurve, *, fill: float) -> float:
    """Return the target of the signal for one replica: the one stated, or a share of what its highest rate has."""
    if asked.target is not None:
        return asked.target
    admissible = curve.admissible_per_s(asked.share)
    if asked.signal in (Signal.RATE, Signal.UTILISATION):
        return fill * admissible / curve.full_per_s
    if asked.signal is Signal.TTFT:
        return fill * (curve.limits.ttft_s or 2.0 * float(curve.ttft_s[0]))
    in_flight = curve.in_flight_at(admissible)
    return max(1.0, fill * in_flight) if asked.signal is Signal.IN_FLIGHT else max(1.0, (1.5 - fill) * in_flight)


def draw_starts(start_s: Interval, quantile: float, *, seed: int = 5) -> FloatArray:
    """Draw the starts of a fleet whose law is off by as much as a quantile says. [s]"""
    middle = start_s.not_exceeded(quantile) if start_s.high > start_s.expected > 0 else start_s.expected
    jitter = np.random.default_rng(seed).normal(0.0, _JITTER, _DRAWS)
    return np.asarray(middle * np.exp(jitter))


def settings_of(
    fleet: ElasticFleet, asked: Elasticity, curve: ReplicaCurve, standing: int
) -> tuple[ScalingSetting, ...]:
    """Return the settings of an autoscaler, the cheapest that keeps the share first, then by the share that is kept."""
    maximum = asked.maximum or 2 * standing
    floor = 0 if asked.policy.idle_s is not None else 1
    least = [asked.minimum] if asked.minimum is not None else sorted({floor, 1, (standing + 1) // 2})
    fills = (1.0,) if asked.target is not None or maximum == 1 else _FILLS
    tried = []
    for minimum in least:
        bounds = ReplicaBounds(minimum=minimum, maximum=max(maximum, minimum))
        for fill in fills:
            target = target_of(asked, curve, fill=fill)
            run = _run(fleet, asked, curve, bounds, target, at=asked.certainty, tick_s=_TRIED_S)
            tried.append(_setting(fleet, minimum, target, [run] * 4))
    tried.sort(key=lambda one: _order(one, asked.share))
    best = tried[0]
    bounds = ReplicaBounds(minimum=best.minimum, maximum=max(maximum, best.minimum))
    runs = [
        _run(fleet, asked, curve, bounds, best.target, at=at, tick_s=_FINE_S)
        for at in (0.05, 0.5, 0.95, asked.certainty)
    ]
    return (_setting(fleet, best.minimum, best.target, runs), *tried[1:])


def _order(setting: ScalingSetting, share: float) -> tuple[bool, float]:
    fails = setting.inside < share
    return fails, -setting.inside if fails else setting.usd_per_week.expected


def _run(
    fleet: ElasticFleet, asked: Elasticity, curve: ReplicaCurve, bounds: ReplicaBounds, target: float,
    *, at: float, tick_s: float,
) -> ReplayedWeek:  # fmt: skip
    scaler = Scaler(asked.policy, bounds, signal=asked.signal, target=target)
    starts = draw_starts(asked.start_s, at)
    return replay(fleet.week.rates(tick_s), tick_s, curve, scaler, starts_s=starts, seed=11)


def _setting(fleet: ElasticFleet, minimum: int, target: float, runs: Sequence[ReplayedWeek]) -> ScalingSetting:
    costs = sorted(charged_usd(run.replicas, run.tick_s, fleet.charge) for run in runs[:3])
    middle, certain = runs[1], runs[3]
    return ScalingSetting(
        minimum=minimum,
        target=target,
        usd_per_week=Interval(low=costs[0], expected=costs[1], high=costs[2]),
        inside=certain.inside,
        worst_minute=certain.worst_minute,
        mean_replicas=float(middle.replicas.mean()),
        starts=middle.starts,
        asleep_fraction=float((middle.replicas == 0).mean()),
    )


def burst_of(
    fleet: ElasticFleet, asked: Elasticity, curve: ReplicaCurve, best: ScalingSetting, maximum: int
) -> BurstSeen:
    """Follow the peak that comes at once on the least replicas, request by request."""
    peak = fleet.week.peak_per_s
    lasts_s = asked.start_s.expected + _BURST_S
    count = int(max(20, min(_MOST_BURST_REQUESTS, peak * lasts_s)))
    requests = random_arrivals(rate_per_s=peak, count=count, lengths=fleet.load.lengths, gap_scv=fleet.load.gap_scv)
    seen = asked.signal in (Signal.IN_FLIGHT, Signal.QUEUE)
    followed = asked if seen else replace(asked, signal=Signal.IN_FLIGHT, target=None)
    target = best.target if seen else target_of(followed, curve, fill=1.0)
    bounds = ReplicaBounds(minimum=best.minimum, maximum=max(maximum, best.minimum))
    scaler = Scaler(asked.policy, bounds, signal=followed.signal, target=target)
    admission, grid = fleet.replica.steps(count)
    starts = draw_starts(asked.start_s, 0.5)
    return follow_burst(requests, scaler, curve, admission=admission, grid=grid, starts_s=starts)
