"""The replicas of a plan, as the ways to serve a load take them, and what an API asks for its tokens."""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

from capplan.core.gpus.by_use import TokenPrice
from capplan.core.numbers import Interval
from capplan.core.scaling.answer import Way, WayCost, unknown_way
from capplan.core.scaling.charge import Charge
from capplan.core.scaling.fleet import WEEKS_PER_MONTH
from capplan.core.scaling.load import WeekLoad
from capplan.core.scaling.replica_curve import ReplicaCurve
from capplan.core.scaling.ways import ReplicaOnGpu
from capplan.llm.core.elastic.answer import charge_of
from capplan.llm.core.elastic.replica_curve import LoadedReplica
from capplan.llm.core.fleet.deployment_plan import DeploymentFit
from capplan.llm.core.search.replica import Replica
from capplan.llm.core.search.search import Search


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
