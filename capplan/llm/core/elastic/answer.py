"""Answer what a fleet of a language model's replicas costs that follows its load, what a burst sees, and other ways."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

import numpy as np

from capplan.core.gpus.by_use import TokenPrice
from capplan.core.gpus.prices import Price
from capplan.core.numbers import Interval
from capplan.core.scaling.answer import Way, WayCost, unknown_way
from capplan.core.scaling.charge import Charge
from capplan.core.scaling.fleet import (
    WEEKS_PER_MONTH,
    ElasticFleet,
    Elasticity,
    ScalingSetting,
    StandingFleet,
    draw_starts,
    target_of,
)
from capplan.core.scaling.load import WeekLoad
from capplan.core.scaling.policy import ReplicaBounds, Signal
from capplan.core.scaling.replica_curve import ReplicaCurve
from capplan.core.scaling.scaler import Scaler
from capplan.core.scaling.ways import ReplicaOnGpu
from capplan.llm.core.elastic.burst import BurstSeen, follow_burst
from capplan.llm.core.fleet.deployment_plan import DeploymentFit
from capplan.llm.core.fleet.rented import servers_of_replica
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.search.replica import Replica
from capplan.llm.core.search.search import Search
from capplan.llm.core.serving.load_curve import load_curve
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.simulation.arrivals import random_arrivals
from capplan.llm.core.simulation.load_answer import LatencyLimits, Simulation

_MOST_BURST_REQUESTS = 12_000
_BURST_S = 600.0


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
        return self.settings[0]

    @property
    def keeps(self) -> bool:
        return self.best.inside >= self.asked.share


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticSimulation(Simulation):
    """What requests of one replica see, and a fleet of such replicas that follows the load of a week."""

    elastic: ElasticAnswer


def charge_of(offer: Price, sharding: Sharding, *, minimum_s: float | None = None) -> Charge:
    spread = servers_of_replica(offer.server, sharding) or 1
    return Charge(
        usd_per_machine_hour=offer.usd_per_machine_hour,
        replicas_per_machine=offer.instance_gpus // sharding.gpus if spread == 1 else 1,
        machines_per_replica=spread,
        minimum_s=offer.minimum_s or 0.0 if minimum_s is None else minimum_s,
    )


_FRACTIONS = (0.2, 0.5, 0.7, 0.85, 0.95)
_TABLE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedReplica:
    """One replica of a language model, the load that it shares with others, and what its requests must keep."""

    replica: Replica
    load: TokenLoad
    limits: LatencyLimits

    def curve(self, *, requests: int = 1200) -> ReplicaCurve:
        """Follow the replica from idle to full, and simulate at some rates how many requests keep the limits."""
        service = self.replica.service
        points = sorted(load_curve(service, self.replica.demand), key=lambda point: point.rate_per_s)
        full = points[-1].rate_per_s * service.of_engine("offline_scale")
        rates = np.linspace(0.0, full, _TABLE)
        known = np.array([0.0, *(point.rate_per_s for point in points)])
        ttft = np.interp(rates, known, [points[0].ttft_s, *(point.ttft_s for point in points)])
        e2e_s = [point.e2e_s(self.load.output_len) for point in points]
        e2e = np.interp(rates, known, [e2e_s[0], *e2e_s])
        loads = [replace(self.load, rate_per_s=fraction * full) for fraction in _FRACTIONS]
        answers = [self.replica.simulate(load, limits=self.limits, requests=requests) for load in loads]
        shares = [1.0 if answer.goodput_fraction is None else answer.goodput_fraction for answer in answers]
        inside = np.interp(rates / full, [0.0, *_FRACTIONS, 1.0], [shares[0], *np.minimum.accumulate(shares), 0.0])
        pairs = ((self.limits.ttft_s, ttft), (self.limits.e2e_s, e2e))
        rest = [limit - seen for limit, seen in pairs if limit is not None]
        slack = np.min([np.full(_TABLE, np.inf), *rest], axis=0)
        return ReplicaCurve(
            full_per_s=full, in_flight=rates * e2e, ttft_s=ttft, e2e_s=e2e, inside_fraction=inside, slack_s=slack,
            ttft_limit_s=self.limits.ttft_s,
        )  # fmt: skip


def replicas_of(
    search: Search, fits: Sequence[DeploymentFit], start_of: Callable[[DeploymentFit], Interval]
) -> tuple[ReplicaOnGpu, ...]:
    return tuple(_replica_on_gpu(search, fit, start_of(fit)) for fit in fits)


def _replica_on_gpu(search: Search, fit: DeploymentFit, start_s: Interval) -> ReplicaOnGpu:
    rent, time_s = fit.rent, fit.tpot_s if fit.tpot_s.expected > 0 else fit.ttft_s
    offers = [offer for offer in search.question.offers_of(fit.gpu) if offer.instance_gpus >= fit.sharding.gpus]
    nothing = Charge(usd_per_machine_hour=0.0)
    standing = nothing if rent is None else charge_of(rent, fit.sharding)
    charges = [standing] if rent is None or not offers else [charge_of(offer, fit.sharding) for offer in offers]
    return ReplicaOnGpu(
        gpu=fit.gpu,
        gpus=fit.sharding.gpus,
        most_per_s=fit.max_rate_per_s,
        curve_of=partial(_curve, search, fit),
        start_s=start_s,
        rent=rent,
        charge=min(charges, key=lambda charge: charge.machines(1) * charge.usd_per_machine_hour),
        standing_charge=standing,
        slowness=time_s * (1.0 / time_s.expected),
    )


def _curve(search: Search, fit: DeploymentFit) -> ReplicaCurve:
    deployment = search.find(search.words_of(fit))
    replica = Replica.of(search.service(deployment), deployment, search.question.load)
    return LoadedReplica(replica=replica, load=search.question.load, limits=search.question.limits).curve(requests=800)


def token_row(search: Search, week: WeekLoad, tokens: Sequence[TokenPrice]) -> WayCost:
    """Return what the providers of a model's API ask for the requests of a month."""
    load, name = search.question.load, search.model.architecture.name
    prices = [price for price in tokens if price.model == name]
    if not prices:
        return unknown_way(Way.API, f"no price by the token is known of {name}; ⟨api-price⟩ states one")
    month = week.requests * WEEKS_PER_MONTH
    costs = [
        price.usd_per_request(
            input_len=load.input_tokens, output_len=load.output_len, cached_fraction=load.prefix_fraction
        )
        for price in prices
    ]
    each, cheapest, days = sorted(costs), prices[costs.index(min(costs))], [price.checked for price in prices]
    return WayCost(
        way=Way.API,
        usd_per_month=Interval(low=each[0] * month, expected=median(each) * month, high=each[-1] * month),
        inside=None,
        keeps=None,
        words=f"median of {len(prices)} providers; cheapest {cheapest.provider}",
        source=f"public price lists, {min(days)} to {max(days)}",
    )


def burst_of(
    loaded: LoadedReplica, fleet: ElasticFleet, asked: Elasticity, *, best: ScalingSetting, maximum: int
) -> BurstSeen:
    """Follow the peak that comes at once on the least replicas, request by request."""
    peak, load = fleet.week.peak_per_s, loaded.load
    lasts_s = asked.start_s.expected + _BURST_S
    count = int(max(20, min(_MOST_BURST_REQUESTS, peak * lasts_s)))
    requests = random_arrivals(rate_per_s=peak, count=count, lengths=load.lengths, gap_scv=load.gap_scv)
    seen = asked.signal in (Signal.IN_FLIGHT, Signal.QUEUE)
    followed = asked if seen else replace(asked, signal=Signal.IN_FLIGHT, target=None)
    target = best.target if seen else target_of(followed, fleet.curve, fill=1.0)
    bounds = ReplicaBounds(minimum=best.minimum, maximum=max(best.minimum, maximum))
    scaler = Scaler(asked.policy, bounds, signal=followed.signal, target=target)
    admission, grid = loaded.replica.steps(count)
    starts = draw_starts(asked.start_s, 0.5)
    return follow_burst(
        requests, scaler, admission=admission, grid=grid, starts_s=starts, limits=loaded.limits,
        idle_ttft_s=float(fleet.curve.ttft_s[0]),
    )  # fmt: skip
