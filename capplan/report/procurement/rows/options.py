"""Make a report's row of one option: offer, fleet, response, power and cost, each from its part of the decision."""

from dataclasses import dataclass
from datetime import date
from typing import TypedDict

from capplan.core.economics.cost import Breakdown, OwnedCost, RentedCost, break_even, payback_years
from capplan.core.economics.decide import Answer
from capplan.core.economics.evidence import Standards
from capplan.core.economics.options import Option, server_slots
from capplan.core.gpus.prices import Term
from capplan.core.numbers import Interval
from capplan.core.serving.load import Service
from capplan.core.serving.servers import concurrency, fleet_availability, months_until_exhausted
from capplan.report.documents.plan import PlanDocument
from capplan.report.procurement.rows.candidates import speed_tier
from capplan.report.procurement.types import OptionRow


def option_row(option: Option, answer: Answer, plan: PlanDocument, rank: int | None, standards: Standards) -> OptionRow:
    """Return the row of one option.

    Args:
        option: The option.
        answer: The decision that it belongs to.
        plan: The plan of the model, which holds the estimates.
        rank: Its place by cost; None without a price.
        standards: What speaks against recommending an option.
    """
    point, candidate = option.operating_point, option.sizing.capacity.candidate
    estimate = next(each for each in plan.fits_on(option.gpu) if each.batch == point.largest_batch)
    return OptionRow(
        key=option.key,
        rank=rank,
        gpu=option.gpu,
        gpu_name=candidate.name,
        **_offer(option),
        speed_tier=speed_tier(estimate.evidence).value,
        speed_evidence=estimate.evidence_reason,
        concerns=tuple(each.value for each in standards.concerns(option)),
        firm_fit=option.gpu in plan.certain_gpus,
        batch=point.largest_batch,
        rate_per_gpu_per_s=point.rate_per_s,
        **_fleet(option, answer),
        **_response(option, answer),
        batch_latency_s=estimate.latency_s.interval,
        memory_bytes=estimate.memory.total_bytes,
        usable_bytes=estimate.memory.usable_bytes,
        tdp_w=candidate.tdp_w,
        **_power(option),
        **_cost(option, answer),
        on_front=option.key in answer.recommendation.front,
        is_leading=option.key in answer.leading,
        violations=standards.violations(option),
        licence=candidate.licence,
        segment=candidate.segment,
        rack_units=option.rack_units,
    )


class _Offer(TypedDict):
    term: str
    provider: str | None
    region: str | None
    instance: str | None
    price_usd: float | None
    price_unit: str | None
    price_date: date | None
    price_source: str | None
    price_tier: str | None
    price_date_is: str | None
    includes_server: bool
    is_marketplace: bool


def _offer(option: Option) -> _Offer:
    """Return who offers the GPU, at which price, and how far that price can be trusted."""
    rent, purchase = option.rent, option.purchase
    price = rent or purchase
    return {
        "term": option.term.value if option.term else "no price",
        "provider": rent.provider if rent else purchase.seller if purchase else None,
        "region": rent.region if rent else None,
        "instance": rent.instance if rent else None,
        "price_usd": rent.usd_per_hour if rent else purchase.usd if purchase else None,
        "price_unit": "USD per GPU and hour" if rent else "USD per GPU" if purchase else None,
        "price_date": price.date if price else None,
        "price_source": price.source if price else None,
        "price_tier": price.tier.value if price else None,
        "price_date_is": price.date_is.value if price else None,
        "includes_server": purchase is not None and purchase.includes_server,
        "is_marketplace": rent is not None and rent.is_marketplace,
    }


class _Fleet(TypedDict):
    gpus_needed: int
    gpus: int
    servers: int
    needs_by_year: tuple[int, ...]
    gpus_by_year: tuple[int, ...]
    servers_by_year: tuple[int, ...]
    server_slots: int
    full_servers: bool
    gpu_hours_by_year: tuple[float, ...]
    samples_by_year: tuple[float, ...]
    headroom_fraction: float
    availability_fraction: float
    months_until_full: float | None


def _fleet(option: Option, answer: Answer) -> _Fleet:
    """Return how many GPUs and servers the load takes over the years, and how far they go."""
    money, load, last = answer.case.money, answer.demand.load, option.fleets[-1]
    form_factor = option.sizing.capacity.candidate.form_factor
    slots, full = (option.rent.instance_gpus, True) if option.rent else server_slots(form_factor, money)
    return {
        "gpus_needed": option.fleet.need,
        "gpus": option.fleet.gpus,
        "servers": option.fleet.servers,
        "needs_by_year": tuple(fleet.need for fleet in option.fleets),
        "gpus_by_year": tuple(fleet.gpus for fleet in option.fleets),
        "servers_by_year": tuple(fleet.servers for fleet in option.fleets),
        "server_slots": slots,
        "full_servers": full,
        "gpu_hours_by_year": option.gpu_hours_by_year,
        "samples_by_year": option.samples_by_year,
        "headroom_fraction": option.headroom_fraction,
        "availability_fraction": fleet_availability(
            option.fleet, failures_per_gpu_year=money.failures_per_gpu_year, repair_days=money.repair_days
        ),
        "months_until_full": months_until_exhausted(
            capacity_per_s=(last.gpus - last.spares * last.gpus_per_server) * option.operating_point.rate_per_s,
            peak_per_s=load.peak_per_s,
            growth_per_year_fraction=load.growth_per_year_fraction,
        )
        if isinstance(load, Service)
        else None,
    }


class _Response(TypedDict):
    latency_s: Interval
    latency_if_fast_s: float
    latency_if_slow_s: float | None
    load_fraction: float | None
    busy_fraction: float | None
    mean_batch: float | None
    in_flight: float | None
    all_up_latency_s: float | None
    all_up_load_fraction: float | None
    one_down_latency_s: float | None
    one_down_load_fraction: float | None
    doubled_latency_s: float | None


def _response(option: Option, answer: Answer) -> _Response:
    """Return what requests see: at the size needed, with all GPUs up, with one down, and at twice the load."""
    response, load, stress = option.sizing.response, answer.demand.load, answer.stress.get(option.key)
    latency_s, fast_s, slow_s = _latencies(option)
    in_flight = None
    if response and response.mean_s and isinstance(load, Service):
        in_flight = concurrency(rate_per_s=load.peak_per_s, response_s=response.mean_s.expected)
    return {
        "latency_s": latency_s,
        "latency_if_fast_s": fast_s,
        "latency_if_slow_s": slow_s,
        "load_fraction": response.load_fraction if response else None,
        "busy_fraction": response.busy_fraction if response else None,
        "mean_batch": response.batch if response else None,
        "in_flight": in_flight,
        "all_up_latency_s": stress.all_up_s if stress else None,
        "all_up_load_fraction": stress.all_up_load_fraction if stress else None,
        "one_down_latency_s": stress.one_down_s if stress else None,
        "one_down_load_fraction": stress.one_down_load_fraction if stress else None,
        "doubled_latency_s": stress.doubled_s if stress else None,
    }


class _Power(TypedDict):
    nameplate_w: float | None
    energy_kwh_per_year: float | None
    carbon_kg_per_year: float | None
    embodied_kg: float | None


def _power(option: Option) -> _Power:
    """Return power, energy and carbon of the fleet; None where the GPU's power limit is unknown."""
    energy = option.energy
    return {
        "nameplate_w": energy.nameplate_w if energy else None,
        "energy_kwh_per_year": energy.kwh_per_year if energy else None,
        "carbon_kg_per_year": energy.use_kg_per_year if energy else None,
        "embodied_kg": energy.embodied_kg if energy else None,
    }


class _Cost(TypedDict):
    yearly_usd: tuple[float, ...]
    initial_usd: float | None
    running_usd_per_year: float | None
    cost_usd_per_year: float | None
    present_usd: float | None
    total_usd: float | None
    usd_per_million: float | None
    break_even_hours_per_year: float | None
    break_even_against: str | None
    breakdown_usd: Breakdown | None
    payback_years: float | None
    payback_against: str | None


def _cost(option: Option, answer: Answer) -> _Cost:
    """Return what the option costs, and when a purchase pays off against renting the same GPU."""
    cost = option.cost
    owned = cost if isinstance(cost, OwnedCost) else None
    rented = _best_rent(option.gpu, answer)
    even, against = _break_even(option, answer)
    return {
        "yearly_usd": cost.yearly if cost else (),
        "initial_usd": owned.initial if owned else 0.0 if cost else None,
        "running_usd_per_year": owned.running_per_year if owned else cost.yearly[1] if cost else None,
        "cost_usd_per_year": cost.per_year if cost else None,
        "present_usd": cost.present if cost else None,
        "total_usd": cost.total if cost else None,
        "usd_per_million": option.cost_per_million,
        "break_even_hours_per_year": even,
        "break_even_against": against,
        "breakdown_usd": cost.breakdown if cost else None,
        "payback_years": payback_years(owned, rented.cost) if owned and rented else None,
        "payback_against": rented.key if owned and rented else None,
    }


def _best_rent(gpu: str, answer: Answer) -> "_Rented | None":
    """Return the cheapest rent of a GPU that may be chosen: what its purchase is set against."""
    for option in answer.ranked:
        if option.gpu == gpu and isinstance(option.cost, RentedCost):
            return _Rented(key=option.key, cost=option.cost)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rented:
    key: str
    cost: RentedCost


def _latencies(option: Option) -> tuple[Interval, float, float | None]:
    """Return the latency that counts, with the simulation's interval, and its values if the estimate is off. [s]"""
    response, batch = option.sizing.response, option.sizing.batch_latency_s
    if response is None or response.percentile_s is None:
        return batch, batch.low, batch.high
    middle = response.percentile_s
    low, high = (
        option.sizing.percentile_s(response.rate_per_s, latency_factor=end / batch.expected)
        for end in (batch.low, batch.high)
    )
    return middle, min(low or middle.low, middle.expected), high


def _break_even(option: Option, answer: Answer) -> tuple[float | None, str | None]:
    """Return the hours of use a year above which buying this GPU beats renting it on demand."""
    rent = next((p for p in answer.case.rents if p.gpu == option.gpu and p.term is Term.ON_DEMAND), None)
    if rent is None or not isinstance(option.cost, OwnedCost):
        return None, None
    hours = break_even(option.cost, gpus=option.fleets[-1].gpus, rent=rent)
    return hours, f"{rent.provider} {rent.instance or ''} on demand".replace("  ", " ")
