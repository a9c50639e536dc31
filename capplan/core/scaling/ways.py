"""Compare four ways to serve the load of a week: a fleet that stands, one that scales, GPUs by the second, an API."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from math import exp, log

import numpy as np

from capplan.core.gpus.by_use import ServerlessOffer, ServerlessOffers, ServerlessProvider
from capplan.core.gpus.prices import Price
from capplan.core.numbers import Interval
from capplan.core.scaling.answer import Crossing, ServingWays, Way, WayCost, WayCurve, unknown_way
from capplan.core.scaling.charge import Charge
from capplan.core.scaling.fleet import (
    WEEKS_PER_MONTH,
    ElasticFleet,
    Elasticity,
    ScalingSetting,
    settings_of,
    settled,
    standing_fleet,
    tried_settings,
    usd_per_month_at,
)
from capplan.core.scaling.load import HOUR_S, WEEK_S, WeekLoad
from capplan.core.scaling.policy import Damping, ScalingPolicy, Signal
from capplan.core.scaling.replica_curve import ReplicaCurve

_FACTORS = tuple(2.0**power for power in range(-8, 7, 2))
"""Loads at which the ways are compared, times the one that is asked for."""
_MOST_OFFERS = 4


Costs = Mapping[Way, Callable[[float], float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOnGpu:
    """A replica that may serve the load: its GPUs, how it starts, how fast it is, and how its machines are charged.

    `curve_of` simulates it, which takes a second; `most_per_s` is what it serves as planned. [1/s] `rent` is the offer
    that a standing fleet takes, None where no price is known; `charge` is that of the cheapest machine for one replica.
    """

    gpu: str
    gpus: int
    most_per_s: float
    curve_of: Callable[[], ReplicaCurve]
    start_s: Interval
    rent: Price | None
    charge: Charge
    standing_charge: Charge
    slowness: Interval


def compare_ways(
    replicas: Sequence[ReplicaOnGpu], week: WeekLoad, *, asked: Elasticity, serverless: ServerlessOffers, api: WayCost
) -> ServingWays:
    """Return what each way costs a month; the first replica is that of the recommended plan."""
    best = replicas[0]
    fleet = ElasticFleet(curve=best.curve_of(), week=week, charge=best.charge, standing_charge=best.standing_charge)
    elastic = replace(asked, start_s=best.start_s, slowness=best.slowness)
    standing = standing_fleet(fleet, share=elastic.share)
    setting = settings_of(fleet, elastic)[0]

    def stands(factor: float) -> float:
        return standing_fleet(fleet, share=elastic.share, factor=factor).usd_per_week * WEEKS_PER_MONTH

    low, expected, high = (stands(factor) for factor in (best.slowness.low, 1.0, best.slowness.high))
    rows = [
        WayCost(
            way=Way.STANDING,
            usd_per_month=Interval(low=low, expected=expected, high=high) if best.rent else None,
            inside=standing.inside,
            keeps=standing.inside >= elastic.share,
            words=f"{standing.replicas * best.gpus} × {best.gpu}",
            source=f"{best.rent.machine_words}, {best.rent.date}" if best.rent else "no rent is known",
        ),
        WayCost(
            way=Way.AUTOSCALED,
            usd_per_month=setting.usd_per_week * WEEKS_PER_MONTH if best.rent else None,
            inside=setting.inside,
            keeps=setting.inside >= elastic.share,
            words=f"{elastic.name}, {setting.minimum} at least, {setting.mean_replicas:.2f} in the mean",
            source=f"the cheapest machine of {best.gpu} for one replica" if best.rent else "no rent is known",
        ),
        api,
    ]
    costs: dict[Way, Callable[[float], float]] = {}
    if best.rent is not None:
        costs = {Way.STANDING: stands, Way.AUTOSCALED: lambda factor: usd_per_month_at(factor, fleet, elastic, setting)}
    if (found := _cheapest_by_second(replicas, serverless, asked, fleet)) is not None:
        rows.append(_by_second_row(found))
        costs[Way.SERVERLESS] = lambda factor: usd_per_month_at(factor, found.fleet, found.asked, found.setting)
    else:
        rows.append(unknown_way(Way.SERVERLESS, "no offer by the second is known of a GPU that carries the load"))
    if api.usd_per_month is not None:
        month = api.usd_per_month.expected
        costs[Way.API] = lambda factor: month * factor
    per_day = week.requests / 7
    curves = curves_of(costs, per_day)
    return ServingWays(
        requests_per_day=per_day,
        peak_per_s=week.peak_per_s,
        share=elastic.share,
        start_s=elastic.start_s,
        costs=tuple(sorted(rows, key=_order)),
        crossings=crossings_of(curves),
        curves=curves,
    )


def _order(row: WayCost) -> tuple[bool, bool, float]:
    unknown = row.usd_per_month is None
    return unknown, row.keeps is False, 0.0 if row.usd_per_month is None else row.usd_per_month.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class _BySecond:
    """An offer by the second at work: workers that come with the first request and go when they were idle."""

    replica: ReplicaOnGpu
    offer: ServerlessOffer
    provider: ServerlessProvider
    fleet: ElasticFleet
    asked: Elasticity
    setting: ScalingSetting


def _cheapest_by_second(
    replicas: Sequence[ReplicaOnGpu], serverless: ServerlessOffers, asked: Elasticity, best: ElasticFleet
) -> _BySecond | None:
    """Return the cheapest offer by the second that keeps the share, of each provider's cheapest at the mean load."""
    first: dict[str, ReplicaOnGpu] = {}
    for replica in replicas:
        first.setdefault(replica.gpu, replica)
    offers = [
        (offer, provider, replica) for replica in first.values() for offer, provider in serverless.of(replica.gpu)
    ]
    mean_per_s = best.week.requests / WEEK_S
    offers.sort(key=lambda one: one[0].usd_per_s * one[2].gpus * max(1.0, mean_per_s / one[2].most_per_s))
    of_provider: dict[str, tuple[ServerlessOffer, ServerlessProvider, ReplicaOnGpu]] = {}
    for one in offers:
        of_provider.setdefault(one[0].provider, one)
    curves = {replicas[0].gpu: best.curve}
    tried = []
    for offer, provider, replica in list(of_provider.values())[:_MOST_OFFERS]:
        curve = curves.setdefault(replica.gpu, curves.get(replica.gpu) or replica.curve_of())
        if curve.admissible_per_s(asked.share) > 0:
            tried.append(_try_offer(offer, provider, replica, replace(best, curve=curve), asked))
    if not tried:
        return None
    found = min(tried, key=lambda one: (one.setting.inside < asked.share, one.setting.usd_per_week.expected))
    return replace(found, setting=settled(found.fleet, found.asked, found.setting))


def _try_offer(
    offer: ServerlessOffer, provider: ServerlessProvider, replica: ReplicaOnGpu, fleet: ElasticFleet, asked: Elasticity
) -> _BySecond:
    charge = Charge(usd_per_machine_hour=offer.usd_per_s * replica.gpus * HOUR_S, minimum_s=provider.smallest_s)
    fleet = replace(fleet, charge=charge, standing_charge=charge)
    policy = ScalingPolicy(
        interval_s=1.0, up=Damping(), down=Damping(hold_s=provider.idle_s), idle_s=provider.idle_s, wake_s=0.0
    )
    asked = replace(
        asked,
        policy=policy,
        signal=Signal.IN_FLIGHT,
        start_s=replica.start_s + Interval.exact(provider.platform_start_s),
        slowness=replica.slowness,
        minimum=0,
    )
    return _BySecond(
        replica=replica,
        offer=offer,
        provider=provider,
        fleet=fleet,
        asked=asked,
        setting=tried_settings(fleet, asked)[0],
    )


def _by_second_row(found: _BySecond) -> WayCost:
    replica, provider = found.replica, found.provider
    return WayCost(
        way=Way.SERVERLESS,
        usd_per_month=found.setting.usd_per_week * WEEKS_PER_MONTH,
        inside=found.setting.inside,
        keeps=found.setting.inside >= found.asked.share,
        words=f"{found.offer.provider}, {replica.gpus} × {replica.gpu} by the second, idle for {provider.idle_s:g} s",
        source=f"{provider.source}, read {provider.read}",
    )


def curves_of(costs: Costs, requests_per_day: float) -> tuple[WayCurve, ...]:
    """Return what each way costs at the loads that are compared."""
    return tuple(
        WayCurve(way=way, points=tuple((requests_per_day * factor, usd(factor)) for factor in _FACTORS))
        for way, usd in costs.items()
    )


def crossings_of(curves: Sequence[WayCurve]) -> tuple[Crossing, ...]:
    """Return the loads at which one way becomes cheaper than another, between the loads that are compared."""
    found = []
    for first, second in combinations(curves, 2):
        loads = [load for load, _ in first.points]
        costs = [np.log(np.maximum([usd for _, usd in curve.points], 1e-9)) for curve in (first, second)]
        for (low, before), (high, after) in pairwise(zip(loads, (costs[0] - costs[1]).tolist(), strict=True)):
            if before * after >= 0:
                continue
            at = exp(log(low) + before / (before - after) * (log(high) - log(low)))
            below, above = (second.way, first.way) if before > 0 else (first.way, second.way)
            found.append(Crossing(requests_per_day=at, below=below, above=above))
    return tuple(sorted(found, key=lambda one: one.requests_per_day))
