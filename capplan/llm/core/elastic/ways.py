"""Compare four ways to serve the load of a week: standing, scaled, by the second, and by the token."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from math import exp, log
from statistics import median

import numpy as np

from capplan.core.gpus.by_use import ServerlessOffers, TokenPrice
from capplan.core.gpus.prices import Price
from capplan.core.numbers import Interval, ceil_guarded
from capplan.core.scaling.load import HOUR_S, WEEK_S, WeekLoad
from capplan.core.scaling.policy import Damping, ReplicaBounds, ScalingPolicy, Signal
from capplan.core.scaling.scaler import Scaler
from capplan.llm.core.elastic.answer import (
    WEEKS_PER_MONTH,
    ElasticFleet,
    Elasticity,
    ScalingSetting,
    charge_of,
    draw_starts,
    settings_of,
    standing_fleet,
)
from capplan.llm.core.elastic.charge import Charge, charged_usd
from capplan.llm.core.elastic.replica_curve import ReplicaCurve, replica_curve
from capplan.llm.core.elastic.week import replay
from capplan.llm.core.fleet.deployment_plan import DeploymentFit
from capplan.llm.core.fleet.ways import Crossing, ServingWays, Way, WayCost
from capplan.llm.core.search.replica import Replica
from capplan.llm.core.search.search import Search

_FACTORS = tuple(2.0**power for power in range(-8, 7, 2))
"""Loads at which the ways are compared, times the one that is asked for."""
_COARSE_S, _FINE_S = 120.0, 30.0
Costs = Mapping[Way, Callable[[float], float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaysAsked:
    """What is asked of a comparison: the week, the autoscaler with the start, and the prices by use.

    `start_of` returns the time that a replica of a fit takes to start, from the order of its machine on or, where a
    platform has machines ready, without that.
    """

    week: WeekLoad
    asked: Elasticity
    serverless: ServerlessOffers
    tokens: tuple[TokenPrice, ...]
    start_of: Callable[[DeploymentFit], Interval]


def compare_ways(search: Search, fits: Sequence[DeploymentFit], asked: WaysAsked) -> ServingWays:
    """Return what each way costs a month; the fits are those of a plan, the recommended one first."""
    best = fits[0]
    curve, fleet = _curve(search, best), _fleet(search, best, asked.week)
    elasticity = replace(asked.asked, start_s=asked.start_of(best))
    standing = standing_fleet(fleet, curve, share=elasticity.share)
    setting = settings_of(fleet, elasticity, curve, standing.replicas)[0]
    rows = [_standing_row(best, standing.replicas, standing.usd_per_week, standing.inside, elasticity.share)]
    rows.append(_scaled_row(best, setting, elasticity))
    costs: dict[Way, Callable[[float], float]] = {
        Way.STANDING: lambda factor: _standing_usd(fleet, curve, factor, elasticity.share),
        Way.AUTOSCALED: lambda factor: _scaled_usd(fleet, curve, elasticity, setting, factor),
    }
    by_second = _cheapest_by_second(search, fits, asked, elasticity)
    if by_second is not None:
        rows.append(by_second.row)
        costs[Way.SERVERLESS] = by_second.usd
    else:
        rows.append(_unknown(Way.SERVERLESS, "no offer by the second is known of a GPU that carries the load"))
    tokens = _token_row(search, asked)
    rows.append(tokens)
    if tokens.usd_per_month is not None:
        month = tokens.usd_per_month.expected
        costs[Way.API] = lambda factor: month * factor
    return ServingWays(
        requests_per_day=asked.week.requests / 7,
        peak_per_s=asked.week.peak_per_s,
        share=elasticity.share,
        start_s=elasticity.start_s,
        costs=tuple(sorted(rows, key=_order)),
        crossings=crossings_of(costs, asked.week.requests / 7),
    )


def _order(row: WayCost) -> tuple[bool, bool, float]:
    unknown = row.usd_per_month is None
    return unknown, row.keeps is False, 0.0 if row.usd_per_month is None else row.usd_per_month.expected


def _curve(search: Search, fit: DeploymentFit) -> ReplicaCurve:
    question = search.question
    return replica_curve(_replica(search, fit), question.load, question.limits, requests=800)


def _replica(search: Search, fit: DeploymentFit) -> Replica:
    deployment = search.find(search.words_of(fit))
    return Replica.of(search.service(deployment), deployment, search.question.load)


def _fleet(search: Search, fit: DeploymentFit, week: WeekLoad) -> ElasticFleet:
    rent = fit.rent
    charge = Charge(usd_per_machine_hour=0.0) if rent is None else _one_replica(search, fit, rent)
    standing = charge if rent is None else charge_of(rent, fit.sharding)
    return ElasticFleet(
        replica=_replica(search, fit),
        load=search.question.load,
        week=week,
        limits=search.question.limits,
        charge=charge,
        standing_charge=standing,
    )


def _one_replica(search: Search, fit: DeploymentFit, rent: Price) -> Charge:
    """Return how the machines are charged that hold one replica for the least."""
    offers = [offer for offer in search.question.offers_of(fit.gpu) if offer.instance_gpus >= fit.sharding.gpus]
    charges = [charge_of(offer, fit.sharding) for offer in offers] or [charge_of(rent, fit.sharding)]
    return min(charges, key=lambda charge: charge.machines(1) * charge.usd_per_machine_hour)


def _standing_row(fit: DeploymentFit, replicas: int, week_usd: float, inside: float, share: float) -> WayCost:
    rent = fit.rent
    return WayCost(
        way=Way.STANDING,
        usd_per_month=None if rent is None else Interval.exact(week_usd * WEEKS_PER_MONTH),
        inside=inside,
        keeps=inside >= share,
        words=f"{replicas} × {fit.sharding.gpus} {fit.gpu}",
        source="no rent is known" if rent is None else f"{rent.machine_words}, {rent.date}",
    )


def _scaled_row(fit: DeploymentFit, setting: ScalingSetting, asked: Elasticity) -> WayCost:
    rent = fit.rent
    return WayCost(
        way=Way.AUTOSCALED,
        usd_per_month=None if rent is None else setting.usd_per_week * WEEKS_PER_MONTH,
        inside=setting.inside,
        keeps=setting.inside >= asked.share,
        words=f"{asked.name}, {setting.minimum} at least, {setting.mean_replicas:.2f} in the mean",
        source="no rent is known" if rent is None else f"the cheapest machine of {fit.gpu} for one replica",
    )


def _unknown(way: Way, words: str) -> WayCost:
    return WayCost(way=way, usd_per_month=None, inside=None, keeps=None, words=words, source="")


def _standing_usd(fleet: ElasticFleet, curve: ReplicaCurve, factor: float, share: float) -> float:
    replicas = max(1, ceil_guarded(factor * fleet.week.peak_per_s / curve.admissible_per_s(share)))
    machines = fleet.standing_charge.machines(replicas)
    return machines * fleet.standing_charge.usd_per_machine_hour * WEEK_S / HOUR_S * WEEKS_PER_MONTH


def _scaled_usd(
    fleet: ElasticFleet, curve: ReplicaCurve, asked: Elasticity, setting: ScalingSetting, factor: float
) -> float:
    minimum = min(setting.minimum, 1) if factor < 1 else ceil_guarded(setting.minimum * factor)
    most = max(2, ceil_guarded(2 * factor * fleet.week.peak_per_s / curve.admissible_per_s(asked.share)))
    bounds = ReplicaBounds(minimum=minimum, maximum=max(most, minimum))
    scaler = Scaler(asked.policy, bounds, signal=asked.signal, target=setting.target)
    starts = draw_starts(asked.start_s, 0.5)
    rates = fleet.week.rates(_COARSE_S) * factor
    run = replay(rates, _COARSE_S, curve, scaler, starts_s=starts, seed=11)
    return charged_usd(run.replicas, _COARSE_S, fleet.charge) * WEEKS_PER_MONTH


@dataclass(frozen=True, slots=True)
class _BySecond:
    """The cheapest offer by the second: its row, and what it costs at a load."""

    row: WayCost
    usd: Callable[[float], float]


def _cheapest_by_second(
    search: Search, fits: Sequence[DeploymentFit], asked: WaysAsked, elasticity: Elasticity
) -> _BySecond | None:
    """Return the cheapest of the offers of the GPUs that carry the load; two fits are looked at, for time."""
    offered = [fit for fit in fits if asked.serverless.of(fit.gpu)]
    price = {fit: min(offer.usd_per_s for offer, _ in asked.serverless.of(fit.gpu)) for fit in offered}
    offered.sort(key=lambda fit: price[fit] * fit.sharding.gpus)
    kept = {fit.gpu: fit for fit in reversed(offered)}.values()
    found = []
    for fit in sorted(kept, key=lambda fit: price[fit] * fit.sharding.gpus)[:2]:
        curve = _curve(search, fit)
        if curve.admissible_per_s(elasticity.share) > 0:
            found.append(_by_second(fit, curve, asked, elasticity))
    return min(found, key=lambda one: _order(one.row), default=None)


def _by_second(fit: DeploymentFit, curve: ReplicaCurve, asked: WaysAsked, elasticity: Elasticity) -> _BySecond:
    """Return the cheapest offer by the second of a fit's GPU."""
    offer, provider = min(asked.serverless.of(fit.gpu), key=lambda one: one[0].usd_per_s)
    own = asked.start_of(fit)
    start_s = own + Interval.exact(provider.platform_start_s)
    admissible = curve.admissible_per_s(elasticity.share)
    target = max(1.0, curve.in_flight_at(admissible))
    policy = ScalingPolicy(
        interval_s=1.0, up=Damping(), down=Damping(hold_s=provider.idle_s), idle_s=provider.idle_s, wake_s=0.0
    )
    charge = Charge(usd_per_machine_hour=offer.usd_per_s * fit.sharding.gpus * HOUR_S, minimum_s=provider.smallest_s)

    def run(factor: float, quantile: float, tick_s: float) -> tuple[float, float]:
        most = max(2, ceil_guarded(3 * factor * asked.week.peak_per_s / admissible))
        scaler = Scaler(policy, ReplicaBounds(minimum=0, maximum=most), signal=Signal.IN_FLIGHT, target=target)
        starts = draw_starts(start_s, quantile)
        seen = replay(asked.week.rates(tick_s) * factor, tick_s, curve, scaler, starts_s=starts, seed=11)
        free_s = 0.0 if provider.charges_start else seen.starts * start_s.expected
        usd = charged_usd(seen.replicas, tick_s, charge) - free_s / HOUR_S * charge.usd_per_machine_hour
        return usd * WEEKS_PER_MONTH, seen.inside

    ends = sorted(run(1.0, quantile, _FINE_S)[0] for quantile in (0.05, 0.5, 0.95))
    inside = run(1.0, elasticity.certainty, _FINE_S)[1]
    row = WayCost(
        way=Way.SERVERLESS,
        usd_per_month=Interval(low=ends[0], expected=ends[1], high=ends[2]),
        inside=inside,
        keeps=inside >= elasticity.share,
        words=f"{offer.provider}, {fit.sharding.gpus} × {fit.gpu} by the second, idle for {provider.idle_s:g} s",
        source=f"{provider.source}, read {provider.read}",
    )
    return _BySecond(row, lambda factor: run(factor, 0.5, _COARSE_S)[0])


def _token_row(search: Search, asked: WaysAsked) -> WayCost:
    load, name = search.question.load, search.model.architecture.name
    prices = [price for price in asked.tokens if price.model == name]
    if not prices:
        return _unknown(Way.API, f"no price by the token is known of {name}; ⟨api-price⟩ states one")
    month = asked.week.requests * WEEKS_PER_MONTH
    costs = [
        price.usd_per_request(
            input_len=load.input_tokens, output_len=load.output_len, cached_fraction=load.prefix_fraction
        )
        for price in prices
    ]
    each, cheapest = sorted(costs), prices[costs.index(min(costs))]
    return WayCost(
        way=Way.API,
        usd_per_month=Interval(low=each[0] * month, expected=median(each) * month, high=each[-1] * month),
        inside=None,
        keeps=None,
        words=f"median of {len(prices)} providers; cheapest {cheapest.provider}",
        source=f"genai-prices, {min(price.checked for price in prices)} to {max(price.checked for price in prices)}",
    )


def crossings_of(costs: Costs, requests_per_day: float) -> tuple[Crossing, ...]:
    """Return the loads at which one way becomes cheaper than another, between the loads that are compared."""
    tables = {way: [max(usd(factor), 1e-9) for factor in _FACTORS] for way, usd in costs.items()}
    found = []
    for first, second in combinations(tables, 2):
        gaps = np.log(np.array(tables[first]) / np.array(tables[second]))
        for (low, before), (high, after) in pairwise(zip(_FACTORS, gaps.tolist(), strict=True)):
            if before * after >= 0:
                continue
            share = before / (before - after)
            at = exp(log(low) + share * (log(high) - log(low)))
            below, above = (second, first) if before > 0 else (first, second)
            found.append(Crossing(requests_per_day=requests_per_day * at, below=below, above=above))
    return tuple(sorted(found, key=lambda one: one.requests_per_day))
