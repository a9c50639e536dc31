"""The nearest alternative, the certainty that is asked for, and prices that age: worked out by hand."""

from dataclasses import replace
from datetime import date

import pytest

from capplan.core.economics.concerns import Concern
from capplan.core.economics.constraints import Constraints, NameLists
from capplan.core.economics.evidence import PriceDrift
from capplan.core.economics.options import Case, evaluate
from capplan.core.gpus.prices import PurchasePrice, Term
from capplan.core.serving.load import Service
from tests.core.economics.test_cost import NODE
from tests.core.economics.test_decision import (
    FAST,
    JOB,
    SLOW,
    answer,
    assumption,
    candidate,
    near,
    rent,
    standards,
)


def test_the_nearest_alternative_may_be_the_same_gpu_under_another_term():
    # 100 hours a year of two GPUs at 2 USD: 200 USD. Commitments are paid all year: 8,760 h at 0.03 and 0.04 USD.
    found = answer(
        rent("fast", 2.0), rent("fast", 0.03, term=Term.RESERVED_1Y), rent("slow", 9.0),
    ).recommendation  # fmt: skip
    assert found.choice.key == "fast/on-demand"
    assert found.runner_up.key == "fast/reserved-1y"  # 262.80 USD; slow costs 1,800
    assert answer(rent("fast", 2.0), rent("fast", 0.03, term=Term.RESERVED_1Y)).switching_price_factor == near(
        8760 * 0.03 / 200
    )


def test_the_nearest_alternative_is_never_cheaper_than_the_choice():
    # Slow costs 200 USD on a price of over two years ago, fast 300 on a current one: slow is cheaper on weaker
    # evidence, and no alternative.
    old = replace(rent("slow", 1.0), date=date(2024, 1, 1))
    found = answer(rent("fast", 3.0), old).recommendation
    assert (found.choice.gpu, found.cheaper.gpu) == ("fast", "slow")
    assert found.runner_up is None


def test_weaker_evidence_takes_part_in_the_scenarios():
    # The cheaper option of weaker evidence wins nearly all of them; the choice no longer wins by being alone.
    old = replace(rent("slow", 0.1), date=date(2024, 1, 1))
    found = answer(rent("fast", 3.0), old)
    assert found.recommendation.choice.gpu == "fast"
    assert found.confidence.cheapest == 0.0


def test_where_more_gpus_are_the_cheapest_certainty_the_option_stays():
    # The job needs 800/s. Two GPUs of 400/s are just enough: half of the scenarios are slower. The other GPU costs ten
    # times as much: a third GPU is the cheaper certainty.
    tight, roomy = candidate("tight", 0.020, spread=0.1), candidate("roomy", 0.005)
    found = answer(rent("tight", 1.0), rent("roomy", 40.0), candidates=(tight, roomy))
    choice = found.recommendation.choice
    assert (choice.gpu, found.recommendation.concerns) == ("tight", ())
    assert (found.stated[choice.key].fleet.gpus, choice.fleet.gpus) == (2, 3)


def test_at_little_more_the_plainer_fleet_is_taken():
    # Eight GPUs on spot work 8 × 12.5 h a year, at 1 USD 100 USD; one GPU of twice the speed on demand 50 h, at 9 USD
    # 450 USD: 350 USD more, once a year. At 15 USD it is 750 USD, 650 USD more.
    job = replace(JOB, samples=800 * 3600.0, deadline_s=2 * 3600.0, allow_spot=True)
    machines = (candidate("slow", 0.010), candidate("fast", 0.005))

    def chosen(usd: float, **asked: float):
        rents = (rent("slow", 1.0, term=Term.SPOT, gpus=8), rent("fast", usd))
        made = standards("slow", "fast", **({"little_usd_per_year": 500.0} | asked))
        return answer(*rents, load=job, candidates=machines, standard=made).recommendation

    near_one = chosen(9.0)
    assert (near_one.choice.key, near_one.choice.cost_per_year) == ("fast/on-demand", near(450))
    assert (near_one.cheaper.key, near_one.cheaper.cost_per_year) == ("slow/spot", near(100))
    assert near_one.cheaper_concerns == (Concern.PLAINER_NEARBY,)
    assert chosen(15.0).choice.key == "slow/spot"
    assert chosen(9.0, little_usd_per_year=0.0).choice.key == "slow/spot"
    assert chosen(2.09, little_usd_per_year=0.0).choice.key == "fast/on-demand"  # 104.50 USD, 4.5 % more
    assert chosen(2.11, little_usd_per_year=0.0).choice.key == "slow/spot"  # 105.50 USD


def test_one_gpu_less_of_many_is_not_plainer():
    # Ten GPUs at 1.00 cost 1,000 USD, nine of a faster kind at 1.14 a per cent more: no one changes for that.
    job = replace(JOB, samples=4000 * 3600.0)
    many, fewer = candidate("many", 0.020), candidate("fewer", 0.018)
    rents = (rent("many", 1.0), rent("fewer", 1.13))
    made = standards("many", "fewer", little_usd_per_year=500.0)
    found = answer(*rents, load=job, candidates=(many, fewer), standard=made)
    assert {option.key: option.fleet.gpus for option in found.options} == {"many/on-demand": 10, "fewer/on-demand": 9}
    assert found.recommendation.choice.key == "many/on-demand"


def test_an_aged_price_is_ranked_by_what_it_may_have_become():
    # The rents differ by 10 %, the older is the cheaper. Prices are current for 180 days, or 0.4928 years. Since then
    # one of two and a half years at 0.2 a year may have risen by exp(1.645 · 0.2 · (√2.5 - √0.4928)) = 1.335, one of
    # 0.898 years by exp(1.645 · 0.2 · (√0.898 - √0.4928)) = 1.084.
    drift = PriceDrift(rent_sigma=0.2, purchase_sigma=0.3)
    old, newer = replace(rent("slow", 0.9), date=date(2024, 6, 26)), replace(rent("fast", 2.0), date=date(2026, 2, 1))
    made = replace(standards("fast", "slow"), drift=drift, today=date(2026, 12, 26))
    assert made.high_price_factor(old) == pytest.approx(1.335, rel=1e-3)
    assert made.high_price_factor(newer) == pytest.approx(1.084, rel=1e-3)
    assert made.high_price_factor(replace(old, date=date(2026, 12, 1))) == 1.0
    found = answer(old, newer, standard=made).recommendation
    assert found.choice.gpu == "fast"  # 200 against 180 USD, both old: ranked by 217 and 240 USD


def test_the_decision_does_not_change_while_its_price_is_current():
    # 200 USD on a price of June against 210 on a current one, of a GPU as fast. The former ends on 12 December, and
    # counts as 5 % more when exp(1.645 · 0.2 · (√age - √0.4928)) is 1.05: at 0.7232 years, 264 days, on 6 March.
    offers = (replace(rent("fast", 2.0), date=date(2026, 6, 15)), replace(rent("like", 2.1), date=date(2026, 12, 1)))
    constraints = Constraints(max_price_age_days=180)
    drift = PriceDrift(rent_sigma=0.2, purchase_sigma=0.3)

    def choice(today: date) -> str:
        made = replace(standards("fast", "like"), today=today, constraints=constraints, drift=drift)
        return answer(*offers, candidates=(FAST, candidate("like", 0.010)), standard=made).recommendation.choice.gpu

    assert {choice(date(2026, 12, 2)), choice(date(2026, 12, 13)), choice(date(2027, 3, 4))} == {"fast"}
    assert choice(date(2027, 3, 8)) == "like"


def test_an_old_price_alone_is_chosen_with_a_word_of_its_age_and_never_after_two_years():
    old = replace(rent("slow", 1.0), date=date(2025, 11, 1))  # 200 USD against 300
    found = answer(rent("fast", 3.0), old).recommendation
    assert (found.choice.gpu, found.concerns) == ("slow", (Concern.OLD_PRICE,))
    older = replace(old, date=date(2024, 11, 1))
    assert answer(rent("fast", 3.0), older).recommendation.choice.gpu == "fast"


def test_spot_varies_over_the_zones_of_its_provider():
    # The price is the least of all zones; the dearest asks eight times as much.
    spot = replace(rent("fast", 1.0, term=Term.SPOT), zones_usd=(1.0, 8.0))
    job = replace(JOB, allow_spot=True)
    steady = answer(replace(spot, zones_usd=None), rent("slow", 1.5), load=job).confidence
    varied = answer(spot, rent("slow", 1.5), load=job).confidence
    assert steady.cheapest == 1.0
    assert varied.cheapest < 0.9
    assert varied.cost_p90_usd > 3 * varied.cost_p10_usd


def test_a_card_that_needs_porting_and_was_never_timed_comes_second_unless_any_vendor_will_do():
    other = replace(FAST, porting="runs PyTorch on another stack", path_was_timed=False)
    rents = (rent("fast", 1.0), rent("slow", 1.0))  # two slow ones are needed for one fast one
    plain = answer(*rents, candidates=(other, SLOW))
    assert plain.recommendation.choice.gpu == "slow"
    assert (plain.recommendation.cheaper.gpu, plain.recommendation.cheaper_concerns) == (
        "fast",
        (Concern.OTHER_VENDOR,),
    )
    open_to_all = replace(standards("fast", "slow"), constraints=Constraints(any_vendor=True))
    assert answer(*rents, candidates=(other, SLOW), standard=open_to_all).recommendation.choice.gpu == "fast"
    timed = replace(other, path_was_timed=True)
    assert answer(*rents, candidates=(timed, SLOW)).recommendation.choice.gpu == "fast"


def test_a_constraint_has_the_price_of_what_would_be_chosen_without_it():
    # The job takes 100 hours of one fast GPU or 200 of slow ones: 300 and 200 USD; only p may offer.
    rents = (rent("fast", 3.0), replace(rent("slow", 1.0), provider="q"))
    only_p = replace(
        standards("fast", "slow"),
        constraints=Constraints(allow=NameLists(providers=frozenset({"p"})), max_usd_per_year=1e6),
    )
    found = answer(*rents, standard=only_p)
    assert found.recommendation.choice.key == "fast/on-demand"
    # The cap is not reached: without it nothing changes.
    assert [(name, option.key, option.cost_per_year) for name, option in found.limits.items()] == [
        ("providers", "slow/on-demand", near(200))
    ]
    assert answer(*rents).limits == {}


def test_staff_at_which_buying_and_renting_cost_the_same():
    card = PurchasePrice(gpu="slow", usd=1000, date=rent("slow", 1).date, source="s", seller="shop")
    service = Service(
        peak_per_s=100, mean_per_s=50, latency_limit_s=0.1, percentile=95, growth_per_year_fraction=0, spares=0,
        utilization_ceiling_fraction=0.7, window_s=0, gap_scv=1,
    )  # fmt: skip
    asked = {"load": service, "candidates": (SLOW,), "purchases": (card,)}
    pair = answer(rent("slow", 1.0), **asked).payback
    assert (
        pair.bought.cost_per_year > pair.rented.cost_per_year == near(8760)
    )  # one GPU, one server, 15,000 USD of staff
    even = replace(NODE, staff_usd_per_server_year=pair.staff_usd)
    (bought,) = (each for each in evaluate(pair_case(pair, even, service, card)) if each.purchase)
    assert bought.cost_per_year == near(8760)
    assert answer(rent("slow", 0.01), **asked).payback.staff_usd is None  # 88 USD a year: no staff is cheap enough


def pair_case(pair, money, load, card):
    return Case(load=load, money=money, sizings=(pair.bought.sizing,), rents=(), purchases=(card,))


def test_a_cap_that_nothing_exceeds_costs_nothing() -> None:
    # The cheaper option is passed over for a plainer one, with the cap as without it.
    tight, roomy = candidate("tight", 0.020, spread=0.1), candidate("roomy", 0.005)
    made = replace(standards("tight", "roomy"), constraints=Constraints(max_capex_usd=1e12))
    found = answer(rent("tight", 1.0, gpus=2), rent("roomy", 4.08), candidates=(tight, roomy), standard=made)
    assert found.recommendation.choice.gpu == "roomy"
    assert found.limits == {}


def test_a_discount_on_rents_is_one_on_the_prices_of_spot_zones_too() -> None:
    # At half of every price each amount is half of what it was, the ends of its range included.
    job = replace(JOB, allow_spot=True)
    spot = replace(rent("fast", 1.0, term=Term.SPOT), zones_usd=(0.5, 2.0))

    def ends_usd(factor: float) -> tuple[float, float]:
        discount = assumption("rent_price_factor", factor, factor, factor)
        sure = answer(spot, rent("slow", 1.0), load=job, assumptions=(discount,)).confidence
        return sure.cost_p10_usd, sure.cost_p90_usd

    assert ends_usd(0.5) == near(tuple(end / 2 for end in ends_usd(1.0)))
