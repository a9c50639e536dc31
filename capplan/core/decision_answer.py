"""The whole decision for one model: from candidates, a load and prices to options, choice and doubts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from capplan.core.cost import Price, PurchasePrice
from capplan.core.decision import (
    Confidence,
    Doubt,
    LoadSwitch,
    Recommendation,
    Swing,
    confidence,
    load_switches,
    ranking,
    recommend,
    sensitivity,
    switching_price_factor,
)
from capplan.core.decision_options import Case, Option, evaluate
from capplan.core.fleet_response import Candidate
from capplan.core.fleet_sizing import Sizing, Unfit, size_fleets
from capplan.core.load import Demand, OneGpu, Service

_CONTENDERS = 8
_DRAWS = 400
_LOAD_FACTORS = (0.1, 0.25, 0.5, 0.75, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stress:
    """The percentile at today's peak with one server down, and at twice the peak with all up. [s]

    None where work piles up without end.
    """

    one_down_s: float | None
    doubled_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """All that is known of one model's decision; options that may be chosen first, best first."""

    demand: Demand
    case: Case
    options: tuple[Option, ...]
    unfit: tuple[Unfit, ...]
    recommendation: Recommendation
    confidence: Confidence | None
    swings: tuple[Swing, ...]
    load_switches: tuple[LoadSwitch, ...]
    switching_price_factor: float | None
    stress: Mapping[str, Stress]
    doubt: Doubt


def decide(
    candidates: Sequence[Candidate],
    *,
    demand: Demand,
    rents: Sequence[Price],
    purchases: Sequence[PurchasePrice],
    firm: frozenset[str],
) -> Answer:
    """Size every candidate, cost every option, choose, and say how sure that is.

    `firm` holds the GPUs whose memory certainly suffices.
    """
    sized = size_fleets(candidates, demand.load)
    sizings = tuple(each for each in sized if isinstance(each, Sizing))
    case = _with_cheapest_rents(
        Case(load=demand.load, money=demand.money, sizings=sizings, rents=tuple(rents), purchases=_newest(purchases))
    )
    options = evaluate(case)
    chosen = recommend(case, options, firm=firm.__contains__)
    doubt = _doubt(demand, sizings)
    ranked = ranking(case, options, firm=firm.__contains__)
    rest = [option for option in options if option not in ranked]
    choice = chosen.choice
    return Answer(
        demand=demand,
        case=case,
        options=(*ranked, *rest),
        unfit=tuple(each for each in sized if isinstance(each, Unfit)),
        recommendation=chosen,
        confidence=confidence(case, chosen, ranked[:_CONTENDERS], doubt=doubt, draws=_DRAWS),
        swings=sensitivity(case, choice, doubt=doubt, firm=firm.__contains__) if choice else (),
        load_switches=_switches(case, choice, firm),
        switching_price_factor=switching_price_factor(choice, chosen.runner_up) if choice else None,
        stress={option.key: stress for option in options if (stress := _stress(case, option))},
        doubt=doubt,
    )


def _switches(case: Case, choice: Option | None, firm: frozenset[str]) -> tuple[LoadSwitch, ...]:
    if choice is None or isinstance(case.load, OneGpu):
        return ()
    return load_switches(case, choice, firm=firm.__contains__, factors=_LOAD_FACTORS)


def _with_cheapest_rents(case: Case) -> Case:
    """Keep, of every GPU and term, the price whose fleet costs least: instance sizes matter, not only the rate."""
    best: dict[str, Option] = {}
    for option in evaluate(replace(case, purchases=())):
        held = best.get(option.key)
        if option.rent and (held is None or (option.cost_per_year or 0) < (held.cost_per_year or 0)):
            best[option.key] = option
    return replace(case, rents=tuple(option.rent for option in best.values() if option.rent))


def _newest(purchases: Sequence[PurchasePrice]) -> tuple[PurchasePrice, ...]:
    newest: dict[str, PurchasePrice] = {}
    for price in sorted(purchases, key=lambda each: each.date):
        newest[price.gpu] = price
    return tuple(newest.values())


def _doubt(demand: Demand, sizings: Sequence[Sizing]) -> Doubt:
    bounds = {
        sizing.gpu: (
            sizing.batch_latency_s.low / sizing.batch_latency_s.expected,
            sizing.batch_latency_s.high / sizing.batch_latency_s.expected,
        )
        for sizing in sizings
    }
    return Doubt(assumptions=demand.assumptions, latency=bounds)


def _stress(case: Case, option: Option) -> Stress | None:
    if not isinstance(case.load, Service):
        return None
    left, peak_per_s = option.fleet.gpus_after_failures, case.load.peak_per_s
    return Stress(
        one_down_s=option.sizing.percentile_s(peak_per_s / left) if left else None,
        doubled_s=option.sizing.percentile_s(2 * peak_per_s / option.fleet.gpus),
    )
