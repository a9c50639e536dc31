"""Make a report's row of one option: offer, fleet, response, power and cost, each from its part of the decision."""

from capplan.app.procurement.candidates import speed_tier
from capplan.core.economics.cost import OwnedCost, RentedCost, break_even, payback_years
from capplan.core.economics.decide import Answer
from capplan.core.economics.evidence import Standards
from capplan.core.economics.options import ProcurementOption, comes_on_boards, reliability, server_of, slots_of
from capplan.core.gpus.prices import Term
from capplan.core.numbers import Interval
from capplan.core.serving.load import Service
from capplan.core.serving.response import PCIE
from capplan.core.serving.servers import concurrency, months_until_exhausted
from capplan.report.procurement.types import (
    OptionCount,
    OptionEvidence,
    OptionMemory,
    OptionMoney,
    OptionOffer,
    OptionPower,
    OptionResponse,
    OptionRow,
    OptionSpeed,
    OptionStated,
)
from capplan.shapes.types import PlanDocument, PlannedFit


def option_row(
    option: ProcurementOption, answer: Answer, plan: PlanDocument, rank: int | None, standards: Standards
) -> OptionRow:
    """Return the row of one option."""
    candidate = option.sizing.capacity.candidate
    estimate = next(
        fit for fit in plan.fits if (fit.gpu, fit.batch) == (option.gpu, option.operating_point.largest_batch)
    )
    return OptionRow(
        key=option.key,
        rank=rank,
        gpu=option.gpu,
        gpu_name=candidate.name,
        segment=candidate.segment,
        licence=candidate.licence,
        porting=candidate.porting,
        offer=_offer(option),
        evidence=_evidence(option, answer, estimate, standards),
        speed=_speed(option, estimate),
        response=_response(option, answer),
        count=_count(option, answer),
        stated=_stated(answer.stated[option.key]),
        memory=OptionMemory(memory_bytes=estimate.memory.total_bytes, usable_bytes=estimate.memory.usable_bytes),
        power=_power(option, answer),
        money=_money(option, answer),
    )


def _offer(option: ProcurementOption) -> OptionOffer:
    """Return who offers the GPU, at which price, and how far that price can be trusted."""
    rent, purchase = option.rent, option.purchase
    price = rent or purchase
    return OptionOffer(
        term=option.term.value if option.term else "no price",
        provider=rent.provider if rent else purchase.seller if purchase else None,
        region=rent.region if rent else None,
        instance=rent.instance if rent else None,
        price_usd=rent.usd_per_hour if rent else purchase.usd if purchase else None,
        price_unit="USD per GPU and hour" if rent else "USD per GPU" if purchase else None,
        price_date=price.date if price else None,
        price_source=price.source if price else None,
        price_tier=price.tier.value if price else None,
        price_known_by=price.known_by if price else None,
        price_date_is=price.date_is.value if price else None,
        includes_server=purchase is not None and purchase.includes_server,
        is_marketplace=rent is not None and rent.is_marketplace,
        is_beside_sound=rent is not None and rent.is_beside_sound,
        is_own_beside=rent is not None and rent.is_own_beside,
        sku=price.quote.sku if price else None,
        price_valid_until=price.quote.valid_until if price else None,
        lead_time_days=price.quote.lead_time_days if price else None,
        warranty_years=price.quote.warranty_years if price else None,
        upfront_fraction=rent.upfront_fraction if rent else None,
        minimum_s=rent.minimum_s if rent else None,
        country=rent.country if rent else None,
    )


def _evidence(option: ProcurementOption, answer: Answer, estimate: PlannedFit, standards: Standards) -> OptionEvidence:
    """Return how far the option can be trusted."""
    return OptionEvidence(
        speed_tier=speed_tier(estimate.evidence).value,
        speed_evidence=estimate.evidence_reason,
        concerns=tuple(concern.value for concern in standards.concerns(option)),
        certain_fit=standards.fits_certainly(option),
        violations=standards.violations(option),
        is_leading=option.key in answer.leading,
        on_front=option.key in answer.recommendation.front,
        aged_factor=standards.aged_factor(option),
    )


def _speed(option: ProcurementOption, estimate: PlannedFit) -> OptionSpeed:
    """Return how fast one GPU is, what its host can feed it, and what training beside others leaves of its rate."""
    point, candidate = option.operating_point, option.sizing.capacity.candidate
    host = min(candidate.host_limits, key=lambda limit: limit.rate_per_s, default=None)
    rates = point.parallel
    most_per_s = option.sizing.capacity.host_per_s
    return OptionSpeed(
        batch=point.largest_batch,
        rate_per_gpu_per_s=point.rate_per_s,
        batch_latency_s=estimate.latency_s.interval,
        finish_s=option.finish_s,
        host_limit=host.name if host else None,
        host_per_s=host.rate_per_s if host else None,
        pcie_per_s=next((limit.rate_per_s for limit in candidate.host_limits if limit.name == PCIE), None),
        is_host_bound=(rates.alone_per_s if rates else point.rate_per_s) >= most_per_s * (1 - 1e-9),
        scaling_fraction=point.rate_per_s / rates.alone_per_s if rates else None,
        link=_link(option),
        rate_alone_per_s=rates.alone_per_s if rates else None,
        rate_within_server_per_s=rates.within_per_s if rates else None,
        rate_across_servers_per_s=rates.across_per_s if rates else None,
    )


def _link(option: ProcurementOption) -> str | None:
    """Name the link over which GPUs exchange gradients; None where they do not."""
    exchange, rates = option.sizing.capacity.candidate.exchange, option.operating_point.parallel
    fleet = option.fleet
    working = fleet.servers - fleet.spares
    if exchange is None or rates is None or working * fleet.gpus_per_server == 1:
        return None
    return (
        exchange.inside_name
        if working == 1
        else f"the network at {exchange.network_bytes_per_s * 8 / 1e9:g} Gbit/s per GPU"
    )


def _count(option: ProcurementOption, answer: Answer) -> OptionCount:
    """Return how many GPUs and servers the load takes over the years, and how far they go."""
    money, load, last = answer.case.money, answer.demand.load, option.fleets[-1]
    slots, full = slots_of(option, money)
    return OptionCount(
        reserve_factor=option.reserve,
        carried_fraction=answer.carried.get(option.key),
        gpus_needed=option.fleet.need,
        gpus=option.fleet.gpus,
        servers=option.fleet.servers,
        needs_by_year=tuple(fleet.need for fleet in option.fleets),
        gpus_by_year=tuple(fleet.gpus for fleet in option.fleets),
        servers_by_year=tuple(fleet.servers for fleet in option.fleets),
        server_slots=slots,
        full_servers=full,
        gpu_hours_by_year=option.gpu_hours_by_year,
        samples_by_year=option.samples_by_year,
        headroom_fraction=option.headroom_fraction,
        spares=option.fleet.spares,
        availability_fraction=reliability(load, money).of_fleet(option.fleet),
        months_until_full=months_until_exhausted(
            capacity_per_s=(last.gpus - last.spares * last.gpus_per_server) * option.operating_point.rate_per_s,
            peak_per_s=load.peak_per_s,
            growth_per_year_fraction=load.growth_per_year_fraction,
        )
        if isinstance(load, Service)
        else None,
        rack_units=option.rack_units,
    )


def _stated(option: ProcurementOption) -> OptionStated:
    return OptionStated(
        stated_gpus=option.fleet.gpus,
        stated_gpus_last_year=option.fleets[-1].gpus,
        stated_cost_usd_per_year=option.cost_per_year,
    )


def _response(option: ProcurementOption, answer: Answer) -> OptionResponse:
    """Return what requests see: at the size needed, with all GPUs up, with one down, and at twice the load."""
    response, load, stress = option.sizing.response, answer.demand.load, answer.stress.get(option.key)
    latency_s, fast_s, slow_s = _latencies(option)
    in_flight = None
    if response and response.mean_s and isinstance(load, Service):
        in_flight = concurrency(rate_per_s=load.peak_per_s, response_s=response.mean_s.expected)
    return OptionResponse(
        latency_s=latency_s,
        latency_if_fast_s=fast_s,
        latency_if_slow_s=slow_s,
        load_fraction=response.load_fraction if response else None,
        busy_fraction=response.busy_fraction if response else None,
        mean_batch=response.batch if response else None,
        in_flight=in_flight,
        all_up_latency_s=stress.all_up_s if stress else None,
        all_up_load_fraction=stress.all_up_load_fraction if stress else None,
        one_down_latency_s=stress.one_down_s if stress else None,
        one_down_load_fraction=stress.one_down_load_fraction if stress else None,
        doubled_latency_s=stress.doubled_s if stress else None,
    )


def _power(option: ProcurementOption, answer: Answer) -> OptionPower:
    """Return power, energy and carbon of the fleet; None where the GPU's power limit is unknown."""
    energy, candidate = option.energy, option.sizing.capacity.candidate
    curve = candidate.power_curve(option.operating_point.largest_batch)
    return OptionPower(
        tdp_w=candidate.tdp_w,
        nameplate_w=energy.nameplate_w if energy else None,
        predicted_peak_w=energy.peak_w if energy else None,
        average_w=energy.average_w if energy else None,
        card_used_w=energy.card_used_w if energy else None,
        card_rates_per_s=curve.rates_per_s if curve else (),
        card_watts=curve.watts if curve else (),
        host_w=server_of(candidate.form_factor, answer.case.money).host_w,
        is_board=comes_on_boards(candidate.form_factor),
        power_evidence=candidate.power_evidence,
        energy_kwh_per_year=energy.kwh_per_year if energy else None,
        carbon_kg_per_year=energy.use_kg_per_year if energy else None,
        embodied_kg=energy.embodied_kg if energy else None,
    )


def _money(option: ProcurementOption, answer: Answer) -> OptionMoney:
    """Return what the option costs, and when a purchase pays off against renting the same GPU."""
    cost = option.cost
    owned = cost if isinstance(cost, OwnedCost) else None
    rented = _best_rent(option.gpu, answer)
    even, against = _break_even(option, answer)
    return OptionMoney(
        yearly_usd=cost.yearly if cost else (),
        initial_usd=owned.initial if owned else 0.0 if cost else None,
        running_usd_per_year=owned.running_per_year if owned else cost.yearly[1] if cost else None,
        cost_usd_per_year=cost.per_year if cost else None,
        present_usd=cost.present if cost else None,
        total_usd=cost.total if cost else None,
        usd_per_million=option.cost_per_million,
        residual_usd=owned.residual if owned else None,
        break_even_hours_per_year=even,
        break_even_against=against,
        breakdown_usd=cost.breakdown if cost else None,
        payback_years=payback_years(owned, rented[1]) if owned and rented else None,
        payback_against=rented[0] if owned and rented else None,
    )


def _best_rent(gpu: str, answer: Answer) -> tuple[str, RentedCost] | None:
    """Return key and cost of the cheapest rent of a GPU that may be chosen: what its purchase is set against."""
    for option in answer.ranked:
        if option.gpu == gpu and isinstance(option.cost, RentedCost):
            return option.key, option.cost
    return None


def _latencies(option: ProcurementOption) -> tuple[Interval, float, float | None]:
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


def _break_even(option: ProcurementOption, answer: Answer) -> tuple[float | None, str | None]:
    """Return the hours of use a year above which buying this GPU beats renting it on demand."""
    offers = [p for p in answer.case.rents if p.gpu == option.gpu and p.term is Term.ON_DEMAND]
    rent = min(offers, key=lambda p: p.is_marketplace or p.is_beside_sound or p.is_own_beside, default=None)
    if rent is None or not isinstance(option.cost, OwnedCost):
        return None, None
    hours = break_even(option.cost, gpus=option.fleets[-1].gpus, rent=rent)
    return hours, f"{rent.provider} {rent.instance or ''} on demand".replace("  ", " ")
