"""Make the decision for one model: from candidates, a load and prices to options, a choice and its uncertainty."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from capplan.core.economics.concerns import Concern
from capplan.core.economics.constraints import (
    Assumption,
    Constraints,
    CostAssumptions,
    ExcludedOffer,
    ReportLoad,
    admitted_prices,
)
from capplan.core.economics.cost import OwnedCost, RentedCost, best_reserve, payback_years
from capplan.core.economics.evidence import Standards
from capplan.core.economics.options import Case, ProcurementOption, Reserve, evaluate
from capplan.core.economics.recommend import Decision, plainer_nearby, ranking, recommend, worth
from capplan.core.economics.uncertainty import (
    Confidence,
    Draws,
    LoadsToCarry,
    PriceSpread,
    TornadoRow,
    Uncertainty,
    confidence,
    cost_in_scenarios,
    draws_of,
    load_switches,
    sensitivity,
    switching_price_factor,
)
from capplan.core.formulas import HOURS_PER_YEAR
from capplan.core.gpus.prices import LASTING_TERMS, Price, PriceKind, PurchasePrice, Term, current_prices
from capplan.core.serving.load import OneGpu, Service
from capplan.core.serving.response import Candidate
from capplan.core.serving.servers import replicas_for_rate
from capplan.core.serving.sizing import Infeasible, Sizing, size_fleets

_CONTENDERS = 8
LEADING = 15
"""Options of the main table; the others are in the appendix."""
_LEADING_OF_A_GPU = 3
MORE_EXPENSIVE = "a cheaper offer of the same GPU and term is shown"
"""Why most offers are left out."""
WEAKER = "a price of the same GPU that is better known is shown"
"""Why a newer purchase price is left out that is undated or hearsay."""
_NEWER = "a newer price of the same GPU is shown"
PRICE_FACTORS = ("rent_price_factor", "purchase_price_factor")
"""The assumptions that multiply rents and purchase prices."""
_LOAD_FACTORS = (0.1, 0.25, 0.5, 0.75, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stress:
    """A service at today's peak with all servers up and with one down, and at twice the peak with all up.

    Times are the latency percentile [s], None where work piles up without end. Loads are shares of what the GPUs that
    are up can do with full batches.
    """

    all_up_s: float | None
    all_up_load_fraction: float
    one_down_s: float | None
    one_down_load_fraction: float | None
    doubled_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DayMix:
    """The choice's GPU rented along the daily curve: some reserved all day, the rest by the hour. [USD/year]"""

    reserved: int
    most: int
    usd_per_year: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The decision for one model; options that may be chosen come first, best first.

    Every option has the fleet that carries the share of the scenarios that is asked for; `stated` holds the options
    with the fleet for the load as stated, which suffices where every estimate is right, `carried` the share of the
    scenarios that each option's fleet carries, both by key.
    """

    demand: ReportLoad
    case: Case
    options: tuple[ProcurementOption, ...]
    infeasible: tuple[Infeasible, ...]
    recommendation: Decision
    confidence: Confidence | None
    tornado_bars: Mapping[str, TornadoRow]
    load_switches: Mapping[float, str]
    switching_price_factor: float | None
    stress: Mapping[str, Stress]
    day_mix: DayMix | None
    uncertainty: Uncertainty
    stated: Mapping[str, ProcurementOption]
    carried: Mapping[str, float]
    not_considered: tuple[Infeasible, ...] = ()
    left_out: tuple[ExcludedOffer, ...] = ()
    payback: "Payback | None" = None
    limits: Mapping[str, ProcurementOption] = field(default_factory=dict)
    ranked: tuple[ProcurementOption, ...] = ()
    standards: Standards

    @property
    def refuses_all(self) -> bool:
        """Return True if nothing may be recommended, though there are prices or nothing carries the load."""
        is_priced = any(option.cost is not None for option in self.options)
        return self.recommendation.choice is None and (is_priced or not self.options)

    @property
    def leading(self) -> frozenset[str]:
        """Return the keys of the options that the main table shows: the best, few of each GPU, and your own quotes."""
        kept: list[ProcurementOption] = []
        for option in self.ranked:
            if sum(other.gpu == option.gpu for other in kept) < _LEADING_OF_A_GPU:
                kept.append(option)
        quoted = (option for option in self.ranked if option.rent and option.rent.kind is PriceKind.QUOTE)
        return frozenset(option.key for option in (*kept[:LEADING], *quoted))


@dataclass(frozen=True, slots=True, kw_only=True)
class Payback:
    """The best purchase against the best rent among the options that may be chosen.

    `years` is when all that was paid for the purchase is less than the rent paid by then; None where it never is
    within the years counted. `staff_usd` is the cost of staff per server and year at which both cost the same a year;
    None where no staff would be cheap enough.
    """

    bought: ProcurementOption
    rented: ProcurementOption
    years: float | None
    staff_usd: float | None


def decide(
    candidates: Sequence[Candidate],
    *,
    demand: ReportLoad,
    rents: Sequence[Price],
    purchases: Sequence[PurchasePrice],
    standards: Standards,
) -> Answer:
    """Size every candidate, cost every option, choose, and say how sure that is."""
    refused = not_considered(candidates, standards.constraints)
    left = {each.candidate.gpu for each in refused}
    sized = size_fleets([candidate for candidate in candidates if candidate.gpu not in left], demand.load)
    answer = decide_sized(sized, demand=demand, rents=rents, purchases=purchases, standards=standards)
    return replace(answer, not_considered=refused)


def not_considered(candidates: Sequence[Candidate], constraints: Constraints) -> tuple[Infeasible, ...]:
    """Return the GPUs that the buyer does not admit, each with the reason."""
    refusals = ((candidate, constraints.refusal_of_gpu(candidate)) for candidate in candidates)
    return tuple(Infeasible(candidate=candidate, reason=reason) for candidate, reason in refusals if reason is not None)


def decide_sized(
    sized: Sequence[Sizing | Infeasible],
    *,
    demand: ReportLoad,
    rents: Sequence[Price],
    purchases: Sequence[PurchasePrice],
    standards: Standards,
    reserve: Reserve | None = None,
) -> Answer:
    """Cost every sized GPU, choose, and say how sure that is.

    `reserve` sizes fleets where the sizing has found what carries the asked share of the scenarios; else it is found.
    """
    sizings = tuple(sizing for sizing in sized if isinstance(sizing, Sizing))
    rented, bought, left_out = _admitted_offers(rents, purchases, standards)
    uncertainty = _uncertainty(demand, sizings)
    draws = draws_of(uncertainty)
    priced = _priced_case(demand, sizings, rented, bought)
    wide, loads = _with_reserve(priced, draws, standards.constraints.certainty_fraction)
    if reserve is not None:
        wide = replace(wide, reserve=reserve)
    elif loads is not None:
        standards = replace(standards, uncertain=_insufficient(loads, sizings, standards))
    case, beaten = _with_best_rents(wide, standards)
    options = evaluate(case)
    standards = replace(
        standards, outdone=plainer_nearby(case, ranking(case, options, standards=standards), standards=standards)
    )
    chosen = recommend(case, options, standards=standards)
    ranked = ranking(case, options, standards=standards)
    rest = sorted(
        (option for option in options if option not in ranked),
        key=lambda option: (option.cost is None, option.cost_per_year or 0.0),
    )
    choice = chosen.choice
    return Answer(
        standards=standards,
        demand=demand,
        case=case,
        options=(*ranked, *rest),
        infeasible=tuple(sizing for sizing in sized if isinstance(sizing, Infeasible)),
        left_out=(*left_out, *beaten),
        payback=_payback(ranked, demand.money),
        limits=_limit_prices(wide, demand, rents, purchases, standards, choice=choice),
        stated={option.key: option for option in evaluate(replace(case, reserve=None))},
        carried={option.key: loads.carried(option) for option in options} if loads else {},
        ranked=tuple(ranked),
        recommendation=chosen,
        confidence=_confidence(case, ranked, draws, loads, standards) if choice else None,
        tornado_bars=sensitivity(case, choice, uncertainty=uncertainty, standards=standards) if choice else {},
        load_switches={}
        if choice is None or isinstance(case.load, OneGpu)
        else load_switches(case, choice, standards=standards, factors=_LOAD_FACTORS),
        switching_price_factor=switching_price_factor(case, choice, chosen.runner_up) if choice else None,
        stress={option.key: stress for option in options if (stress := _stress(case, option))},
        day_mix=_day_mix(case, choice) if choice else None,
        uncertainty=uncertainty,
    )


def _with_reserve(case: Case, draws: Draws, share: float) -> tuple[Case, LoadsToCarry | None]:
    """Return the case with fleets that carry a share of the scenarios; unchanged where no load is stated."""
    if isinstance(case.load, OneGpu):
        return case, None
    loads = LoadsToCarry(case, draws)
    return replace(case, reserve=loads.reserve(share)), loads


def _insufficient(loads: LoadsToCarry, sizings: Sequence[Sizing], standards: Standards) -> frozenset[str]:
    share = standards.constraints.certainty_fraction
    return frozenset(sizing.gpu for sizing in sizings if not loads.suffices(share, sizing.gpu))


def _limit_prices(
    wide: Case,
    demand: ReportLoad,
    rents: Sequence[Price],
    purchases: Sequence[PurchasePrice],
    standards: Standards,
    *,
    choice: ProcurementOption | None,
) -> dict[str, ProcurementOption]:
    """Return the best option without a constraint, on the load as stated, where it costs less than the choice."""
    found = {}
    for name, constraints in standards.constraints.relaxed().items():
        freer = replace(standards, constraints=constraints)
        rented, bought, _ = _admitted_offers(rents, purchases, freer)
        priced = _priced_case(demand, wide.sizings, rented, bought)
        case, _ = _with_best_rents(replace(priced, reserve=wide.reserve), freer)
        ranked = ranking(case, evaluate(case), standards=freer)
        if ranked and (choice is None or worth(case, ranked[0]) < worth(case, choice)):
            found[name] = ranked[0]
    return found


def _payback(ranked: Sequence[ProcurementOption], money: CostAssumptions) -> Payback | None:
    """Compare the best purchase with the best rent, where there are both.

    Staff is paid at the end of each year, so that a purchase's cost per year rises by as much.
    """
    for bought in ranked:
        for rented in ranked:
            if isinstance(bought.cost, OwnedCost) and isinstance(rented.cost, RentedCost):
                dearer = (bought.cost.per_year - rented.cost.per_year) / bought.fleets[-1].servers
                staff_usd = money.staff_usd_per_server_year - dearer
                return Payback(
                    bought=bought,
                    rented=rented,
                    years=payback_years(bought.cost, rented.cost),
                    staff_usd=staff_usd if staff_usd >= 0 else None,
                )
    return None


def _confidence(
    case: Case, ranked: Sequence[ProcurementOption], draws: Draws, loads: LoadsToCarry | None, standards: Standards
) -> Confidence:
    """Return how sure the first option is, among the cheapest and the best of full evidence."""
    cheapest = sorted(ranked, key=lambda option: (worth(case, option), option.key))[:_CONTENDERS]
    sound = standards.of_full_evidence(ranked)[:_CONTENDERS]
    contenders = list({option.key: option for option in (ranked[0], *sound, *cheapest)}.values())
    spreads = {option.key: spread for option in contenders if (spread := _price_spread(option, standards))}
    return confidence(case, cost_in_scenarios(case, contenders, draws=draws, spreads=spreads), ranked[0], loads)


def _price_spread(option: ProcurementOption, standards: Standards) -> PriceSpread | None:
    """Return how far an option's price is uncertain by its age and, for spot, over zones; None where it is not."""
    price = option.rent or option.purchase
    if price is None:
        return None
    sigma = standards.drift.sigma(price, standards.today)
    zones = price.zones_usd if isinstance(price, Price) else None
    if zones is None or not isinstance(price, Price):
        return PriceSpread(sigma=sigma) if sigma > 0 else None
    low, high = (math.log(end / price.usd_per_machine_hour) for end in zones)
    return PriceSpread(sigma=sigma, low=min(0.0, low), high=max(0.0, high))


def _day_mix(case: Case, choice: ProcurementOption) -> DayMix | None:
    """Cost the choice with hourly scaling along the day, redundancy included: a bound on what scaling saves."""
    prices = {
        price.term: price
        for price in case.rents
        if price.gpu == choice.gpu and not (price.is_marketplace or price.is_beside_sound or price.is_own_beside)
    }
    by_hour = prices.get(Term.ON_DEMAND)
    if not isinstance(case.load, Service) or not case.load.daily_per_s or by_hour is None:
        return None
    needs = [
        replicas_for_rate(rate_per_s=choice.reserve * rate, per_replica_per_s=choice.operating_point.rate_per_s)
        if rate
        else 0
        for rate in case.load.weekly_per_s
    ]
    held = choice.fleet.spares
    rented = [(ceil(need / by_hour.instance_gpus) + held * (need > 0)) * by_hour.instance_gpus for need in needs]
    reserved_price = next((prices[term] for term in (Term.RESERVED_1Y, Term.RESERVED_3Y) if term in prices), by_hour)
    reserved = 0
    if reserved_price is not by_hour:
        reserved = best_reserve(
            demand=rented, on_demand_per_hour=by_hour.usd_per_hour, reserved_per_hour=reserved_price.usd_per_hour
        )
    spilled = sum(max(0, count - reserved) for count in rented)
    daily = reserved * len(rented) * reserved_price.usd_per_hour + spilled * by_hour.usd_per_hour
    return DayMix(reserved=reserved, most=max(rented), usd_per_year=daily * HOURS_PER_YEAR / len(rented))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranked:
    """An offer with what ranks it among those of its GPU and term: whether its price is weakly known, and its cost."""

    price: Price
    is_weak: bool
    cost_usd_per_year: float

    @property
    def rank(self) -> tuple[bool, float]:
        return self.is_weak, self.cost_usd_per_year


def _with_best_rents(case: Case, standards: Standards) -> tuple[Case, tuple[ExcludedOffer, ...]]:
    """Keep the offer of each GPU and term whose fleet costs least, a sound one beside a weak one, and your own quote.

    The fleet's cost counts, not the rate alone, because instances hold different numbers of GPUs. A price that is old
    or hearsay must not hide a sound one, which may be recommended.
    """
    offers: dict[str, list[_Ranked]] = {}
    for price, option in _by_offer(case):
        weak = set(standards.concerns_of_price(price)) - {Concern.MARKETPLACE}  # marketplaces are a class of their own
        cost = (option.cost_per_year or 0.0) * standards.high_price_factor(price)
        ranked = _Ranked(price=price, is_weak=bool(weak), cost_usd_per_year=cost)
        offers.setdefault(option.key, []).append(ranked)
    kept: list[Price] = []
    left_out: list[ExcludedOffer] = []
    for held in offers.values():
        best, cheapest = min(held, key=lambda offer: offer.rank), min(held, key=lambda offer: offer.cost_usd_per_year)
        kept.append(best.price)
        shown = [best]
        if cheapest.cost_usd_per_year < best.cost_usd_per_year:
            kept.append(replace(cheapest.price, is_beside_sound=True))
            shown.append(cheapest)
        quotes = [offer for offer in held if offer.price.kind is PriceKind.QUOTE]
        own = min(quotes, key=lambda offer: offer.rank, default=None)
        if own is not None and not any(offer.price.kind is PriceKind.QUOTE for offer in shown):
            kept.append(replace(own.price, is_own_beside=True))
            shown.append(own)
        others = (offer for offer in held if not any(offer is seen for seen in shown))
        left_out += [ExcludedOffer(price=other.price, reason=MORE_EXPENSIVE) for other in others]
    return replace(case, rents=tuple(kept)), tuple(left_out)


def _priced_case(
    demand: ReportLoad, sizings: tuple[Sizing, ...], rents: Iterable[Price], purchases: Iterable[PurchasePrice]
) -> Case:
    """Make the case, every price multiplied by the factor that the assumptions state for its kind."""
    rent, purchase = (factor_of(demand.assumptions, key) for key in PRICE_FACTORS)
    return Case(
        load=demand.load,
        money=demand.money,
        sizings=sizings,
        rents=tuple(_times(price, rent) for price in rents),
        purchases=tuple(replace(price, usd=purchase * price.usd) for price in purchases),
    )


def _times(price: Price, factor: float) -> Price:
    """Return an offer at so many times its price, those of its zones with it."""
    zones = price.zones_usd and (factor * price.zones_usd[0], factor * price.zones_usd[1])
    return replace(price, usd_per_hour=factor * price.usd_per_hour, zones_usd=zones)


def factor_of(assumptions: Sequence[Assumption], key: str) -> float:
    """Return the value of an assumption; 1 where it is not stated."""
    return next((assumption.value for assumption in assumptions if assumption.key == key), 1.0)


def _relative(assumption: Assumption) -> Assumption:
    """Return the range of a price factor relative to prices that it already multiplies."""
    if assumption.key not in PRICE_FACTORS:
        return assumption
    return replace(
        assumption, value=1.0, low=assumption.low / assumption.value, high=assumption.high / assumption.value
    )


def _by_offer(case: Case) -> Iterator[tuple[Price, ProcurementOption]]:
    """Pair every rent of a sized GPU with the option that it makes."""
    rents: dict[str, list[Price]] = {}
    for price in case.rents:
        rents.setdefault(price.gpu, []).append(price)
    rented = (option for option in evaluate(replace(case, purchases=())) if option.rent)
    ordered = (price for sizing in case.sizings for price in rents.get(sizing.gpu, ()))
    return zip(ordered, rented, strict=True)


def _admitted_offers(
    rents: Sequence[Price], purchases: Sequence[PurchasePrice], standards: Standards
) -> tuple[Sequence[Price], Iterable[PurchasePrice], tuple[ExcludedOffer, ...]]:
    """Keep the newest offers of lasting terms that the buyer admits; the others are kept apart, with their reasons."""
    current = current_prices(rents)
    brief = [
        ExcludedOffer(price=price, reason="too short a term") for price in current if price.term not in LASTING_TERMS
    ]
    lasting = [price for price in current if price.term in LASTING_TERMS]
    rented, bought, refused = admitted_prices(lasting, purchases, standards.constraints)
    # of each GPU the newest price among those that are well known, else among all
    by_worth = sorted(bought, key=lambda price: (not standards.concerns_of_price(price), price.date))
    kept = {price.gpu: price for price in by_worth}
    older = [
        ExcludedOffer(price=price, reason=_NEWER if price.date <= kept[price.gpu].date else WEAKER)
        for price in bought
        if price is not kept[price.gpu]
    ]
    return rented, kept.values(), (*brief, *refused, *older)


def _uncertainty(demand: ReportLoad, sizings: Sequence[Sizing]) -> Uncertainty:
    bounds = {
        sizing.gpu: (
            sizing.batch_latency_s.low / sizing.batch_latency_s.expected,
            sizing.batch_latency_s.high / sizing.batch_latency_s.expected,
        )
        for sizing in sizings
    }
    return Uncertainty(assumptions=tuple(map(_relative, demand.assumptions)), latency=bounds)


def _stress(case: Case, option: ProcurementOption) -> Stress | None:
    if not isinstance(case.load, Service):
        return None
    left, peak_per_s = option.fleet.gpus_after_failures, case.load.peak_per_s
    capacity_per_s = option.operating_point.rate_per_s / case.load.utilization_ceiling_fraction
    return Stress(
        all_up_s=option.sizing.percentile_s(peak_per_s / option.fleet.gpus),
        all_up_load_fraction=peak_per_s / (option.fleet.gpus * capacity_per_s),
        one_down_load_fraction=peak_per_s / (left * capacity_per_s) if left else None,
        one_down_s=option.sizing.percentile_s(peak_per_s / left) if left else None,
        doubled_s=option.sizing.percentile_s(2 * peak_per_s / option.fleet.gpus),
    )
