"""Fleets that follow their load beside one that stands: settings of an autoscaler, what they cost and keep."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from capplan.core.numbers import FloatArray, Interval, ceil_guarded
from capplan.core.scaling.charge import Charge, charged_usd
from capplan.core.scaling.load import HOUR_S, WEEK_S, WeekLoad
from capplan.core.scaling.policy import ReplicaBounds, ScalingPolicy, Signal
from capplan.core.scaling.replica_curve import ReplicaCurve
from capplan.core.scaling.scaler import Scaler
from capplan.core.scaling.week import ReplayedWeek, replay, tick_for
from capplan.errors import UsageError

WEEKS_PER_MONTH = 365 / 12 / 7
_TRIED_TICKS, _FINE_TICKS = 6_000, 20_000
"""Most ticks with work of a week in which a setting is tried, and in which the one that is taken is followed."""
_DRAWS = 64
_JITTER = 0.1
"""Standard deviation of the logarithm of one start around those of its fleet, as five runs of a start vary (1 to 3 % in
the public logs, more with a shared disk). From memory."""
_FILLS = (1.0, 0.7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elasticity:
    """How a fleet follows its load: the autoscaler, its signal and target, bounds of replicas, and its starts.

    `target` is that of the signal for one replica, None for what a replica has at its highest rate within the limits.
    `minimum` and `maximum` are None for what is cheapest, and for twice the standing fleet. `share` of the requests
    must keep the limits, with a `certainty` as the interval of the start says. `slowness` is by how much a replica may
    be slower or faster than expected, 1 where nothing is known of that.
    """

    name: str
    policy: ScalingPolicy
    signal: Signal
    start_s: Interval = field(default_factory=lambda: Interval.exact(0.0))
    target: float | None = None
    minimum: int | None = None
    maximum: int | None = None
    share: float = 0.95
    certainty: float = 0.9
    slowness: Interval = field(default_factory=lambda: Interval.exact(1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSetting:
    """The bounds and the target of an autoscaler, and what they lead to.

    `usd_per_week` has the interval of the start time and of a replica's speed. `inside` is the share of a week's
    requests that keep the limits with the certainty asked for, `worst_minute` that of the worst minute of the week.
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
class ElasticFleet:
    """A fleet that follows its load: one replica over its load, the week, and what machines are charged.

    `charge` is that of machines for one replica at a time, `standing_charge` that of the fleet that carries the peak.
    """

    curve: ReplicaCurve
    week: WeekLoad
    charge: Charge
    standing_charge: Charge


def standing_fleet(fleet: ElasticFleet, *, share: float, factor: float = 1.0) -> StandingFleet:
    """Return the fleet that carries the peak of the week, times a factor, all the time."""
    curve, rates = fleet.curve, fleet.week.rates(60.0) * factor
    admissible = curve.admissible_per_s(share)
    if not admissible:
        raise UsageError(
            f"not {share:.0%} of the requests keep the limits even on an idle replica; take longer limits, more GPUs "
            "for a replica, or a smaller share."
        )
    replicas = max(1, ceil_guarded(factor * fleet.week.peak_per_s / admissible))
    places = np.round(rates / replicas / curve.full_per_s * curve.last).astype(int)
    inside = curve.inside_fraction[np.minimum(places, curve.last)]
    machines = fleet.standing_charge.machines(replicas)
    return StandingFleet(
        replicas=replicas,
        usd_per_week=machines * fleet.standing_charge.usd_per_machine_hour * WEEK_S / HOUR_S,
        inside=float((inside * rates).sum() / rates.sum()),
    )


def target_of(asked: Elasticity, curve: ReplicaCurve, *, fill: float) -> float:
    """Return the target of the signal for one replica: the one stated, or what it has at a share of its highest rate.

    What is in flight grows faster than the rate: a share of that of a full replica would let a fleet swing.
    """
    if asked.target is not None:
        return asked.target
    admissible = curve.admissible_per_s(asked.share)
    if asked.signal in (Signal.RATE, Signal.UTILISATION):
        return fill * admissible / curve.full_per_s
    if asked.signal is Signal.TTFT:
        return fill * (curve.ttft_limit_s or 2.0 * float(curve.ttft_s[0]))
    if asked.signal is Signal.QUEUE:
        return max(1.0, (1.5 - fill) * curve.in_flight_at(admissible))
    return max(1.0, curve.in_flight_at(fill * admissible))


def draw_starts(start_s: Interval, quantile: float, *, seed: int = 5) -> FloatArray:
    """Draw the starts of a fleet whose law is off by as much as a quantile says. [s]"""
    middle = start_s.not_exceeded(quantile) if start_s.high > start_s.expected > 0 else start_s.expected
    jitter = np.random.default_rng(seed).normal(0.0, _JITTER, _DRAWS)
    return np.asarray(middle * np.exp(jitter))


def tried_settings(fleet: ElasticFleet, asked: Elasticity) -> list[ScalingSetting]:
    """Return settings of an autoscaler in coarse ticks, the cheapest that keeps the share first, then by the share."""
    standing = standing_fleet(fleet, share=asked.share).replicas
    floor = 0 if asked.policy.idle_s is not None else 1
    fills = (1.0,) if asked.target is not None or asked.maximum == 1 else _FILLS
    tried = []
    for minimum in [asked.minimum] if asked.minimum is not None else sorted({floor, 1, (standing + 1) // 2, standing}):
        for fill in fills[:1] if minimum == standing > 1 else fills:
            target = target_of(asked, fleet.curve, fill=fill)
            run = _follow(fleet, asked, minimum, target, at=asked.certainty, ticks=_TRIED_TICKS)
            tried.append(_setting(fleet, minimum, target, [run] * 4))
    return sorted(tried, key=lambda one: _order(one, asked.share))


def settled(fleet: ElasticFleet, asked: Elasticity, setting: ScalingSetting) -> ScalingSetting:
    """Return a setting in fine ticks, with the interval that the start and the speed of a replica give its cost."""
    minimum, target, slow = setting.minimum, setting.target, asked.slowness
    ends = ((0.05, slow.low), (0.5, 1.0), (0.95, slow.high), (asked.certainty, 1.0))
    runs = [_follow(fleet, asked, minimum, target, at=at, factor=factor, ticks=_FINE_TICKS) for at, factor in ends]
    return _setting(fleet, minimum, target, runs)


def settings_of(fleet: ElasticFleet, asked: Elasticity) -> tuple[ScalingSetting, ...]:
    """Return the settings of an autoscaler, the cheapest that keeps the share first and followed in fine ticks."""
    best, *others = tried_settings(fleet, asked)
    return (settled(fleet, asked, best), *others)


def usd_per_month_at(factor: float, fleet: ElasticFleet, asked: Elasticity, setting: ScalingSetting) -> float:
    """Return what a setting costs a month if so many times the requests come; replicas at least grow with them."""
    minimum = min(setting.minimum, 1) if factor < 1 else ceil_guarded(setting.minimum * factor)
    run = _follow(fleet, asked, minimum, setting.target, at=0.5, factor=factor, ticks=_TRIED_TICKS)
    return charged_usd(run.replicas, run.tick_s, fleet.charge) * WEEKS_PER_MONTH


def _order(setting: ScalingSetting, share: float) -> tuple[bool, float]:
    fails = setting.inside < share
    return fails, -setting.inside if fails else setting.usd_per_week.expected


def _follow(
    fleet: ElasticFleet, asked: Elasticity, minimum: int, target: float, *, at: float, ticks: int, factor: float = 1.0
) -> ReplayedWeek:
    """Follow a week with so many times the requests, its starts at a quantile; as many ticks with work at most."""
    awake_s, stays_s = WEEK_S, asked.policy.idle_s
    if not minimum and stays_s is not None:
        awake_s = min(WEEK_S, factor * fleet.week.requests * (asked.start_s.expected + stays_s + fleet.curve.lone_s))
    tick_s = tick_for(max(awake_s / ticks, fleet.curve.lone_s))
    most = asked.maximum or 2 * standing_fleet(fleet, share=asked.share, factor=max(1.0, factor)).replicas
    bounds = ReplicaBounds(minimum=minimum, maximum=max(minimum, most))
    scaler = Scaler(asked.policy, bounds, signal=asked.signal, target=target)
    starts = draw_starts(asked.start_s, at)
    return replay(fleet.week.rates(tick_s) * factor, tick_s, fleet.curve, scaler, starts_s=starts, seed=11)


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
