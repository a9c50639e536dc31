"""The money of a fleet, worked out by hand."""

from dataclasses import replace
from datetime import date

import pytest

from capplan.core.economics.constraints import CostAssumptions
from capplan.core.economics.cost import CardDraw, RentedCost
from capplan.core.economics.options import Case
from capplan.core.gpus.by_use import ApiPrice
from capplan.core.gpus.prices import Price, Term
from capplan.core.numbers import Interval
from capplan.core.serving.load import Service
from capplan.core.serving.response import BatchPoint, Candidate, ResponseCurve
from capplan.core.serving.sizing import Capacity, OperatingPoint, Sizing
from capplan.llm.core.fleet.money import (
    PaymentOption,
    compare_with_api,
    fleets_by_year,
    joules_per_output_token,
    payment_options,
)
from capplan.specs.load import demand_without_load
from tests.llm.core.fleet.fits import fit

MONEY = replace(
    demand_without_load().money,
    years=3,
    discount_fraction=0.0,
    host_w_sxm=4600.0,
    host_w_pcie=500.0,
    card_power_factor=1.0,
    power_fraction=0.60,
    idle_power_fraction=0.25,
    pue=1.35,
)


CARD = CardDraw(limit_w=700.0, used_w=400.0, idle_w=100.0)


def rent(term: Term, usd_per_hour: float) -> Price:
    return Price(
        gpu="some-gpu",
        provider="one",
        region="",
        term=term,
        usd_per_hour=usd_per_hour,
        date=date(2026, 1, 1),
        source="",
        instance_gpus=2,
        joined=2,
    )


def ways(
    money: CostAssumptions, *rents: Price, growth: float = 0.0, hours: tuple[float, ...] = ()
) -> tuple[PaymentOption, ...]:
    """Return the ways to pay for replicas of two GPUs that carry 4 requests/s each of 16, with 100 tokens out."""
    point = BatchPoint(batch=16, latency_s=Interval.exact(8.0), memory_bytes=Interval.exact(1.0))
    candidate = Candidate(
        gpu="some-gpu", name="some GPU", tdp_w=700.0, form_factor="SXM5", points=(point,), replica_gpus=2
    )
    curve = ResponseCurve(
        largest_batch=16, capacity_per_s=2.0, ceiling_fraction=1.0, loads=(0.5, 1.0), percentiles_s=(0.5, 1.0)
    )
    sizing = Sizing(
        capacity=Capacity(candidate=candidate, curves=(curve,)),
        operating_point=OperatingPoint(largest_batch=16, rate_per_s=2.0),
        need=8,
    )
    load = Service(
        peak_per_s=16.0,
        mean_per_s=16.0 * (sum(hours) * 5 / 168 if hours else 1.0),
        latency_limit_s=1.0,
        percentile=95.0,
        growth_per_year_fraction=growth,
        spares=0,
        utilization_ceiling_fraction=1.0,
        window_s=0.0,
        gap_scv=1.0,
        daily_per_s=tuple(16.0 * share for share in hours),
        days_per_week=5 if hours else 7,
        scales_by_hour=bool(hours),
        start_up_s=300.0,
    )
    case = Case(load=load, money=money, sizings=(sizing,), rents=rents, purchases=())
    return payment_options(case, output_len=100.0)


def test_the_price_of_a_million_tokens() -> None:
    found = fit()
    # 8 GPUs x 1.25 USD/h = 10 USD/h for 16 x 100 x 3600 = 5.76 million output tokens an hour.
    assert found.usd_per_hour == pytest.approx(10.0)
    assert found.usd_per_million_output_tokens == pytest.approx(10 / 5.76)
    # 63.36 million tokens of prompts and answers an hour.
    assert found.usd_per_million_tokens == pytest.approx(10 / 63.36)
    # A quarter of the time goes to 57.6 million input tokens, the rest to 3.6 million output tokens.
    assert found.split_usd_per_million == pytest.approx((2.5 / 57.6, 7.5 / 5.76))


def test_the_split_price_pays_for_the_whole_fleet() -> None:
    found = fit()
    assert found.split_usd_per_million is not None
    prompts, answers = found.split_usd_per_million
    assert prompts * 57.6 + answers * 5.76 == pytest.approx(found.usd_per_hour)


def test_the_fleet_grows_with_the_load() -> None:
    # 16, 24, 36 and 54 requests/s at 4 a replica: 4, 6, 9 and 14 replicas, and one spare.
    fleets = fleets_by_year(fit(replicas=5), growth_fraction=0.5, years=3)
    assert [fleet.rate_per_s for fleet in fleets] == pytest.approx([16, 24, 36, 54])
    assert [fleet.needed for fleet in fleets] == [4, 6, 9, 14]
    assert [fleet.gpus for fleet in fleets] == [10, 14, 20, 30]


def test_energy_follows_the_load() -> None:
    # Eight cards of 400 W in the mean take 3,200 W. Four replicas of 5 requests/s are loaded to 0.8, so that the host
    # takes 0.25 + 0.35 x 0.8 = 0.53 of 4,600 W, 2,438 W; with PUE 5,638 x 1.35 = 7,611.3 W, for 1,600 output tokens a
    # second.
    assert joules_per_output_token(fit(), CARD, MONEY, form_factor="SXM5") == pytest.approx(4.7570625)


def test_rents_by_the_hour_follow_the_hours_of_use() -> None:
    # 8 to 18 o'clock on five days: 50 h a week, 50 x 365 / 7 = 2,607.14 h a year. Machines start five times a week,
    # 5 x 365 / 7 = 260.71 times 300 s are 21.73 h more. Eight GPUs of 2 USD/h: 16 x 2,628.87 = 42,061.9 USD; a
    # commitment of 1 USD/h costs 8 x 8,760 = 70,080 USD.
    hours = tuple(float(8 <= hour < 18) for hour in range(24))
    found = ways(replace(MONEY, years=1), rent(Term.ON_DEMAND, 2.0), rent(Term.RESERVED_1Y, 1.0), hours=hours)
    costs = {option.term: option.cost.per_year for option in found}
    assert costs[Term.ON_DEMAND] == pytest.approx(42_061.9, abs=0.1)
    assert costs[Term.RESERVED_1Y] == pytest.approx(70_080)
    # 1,600 output tokens a second in the hours of use alone.
    assert found[0].usd_per_million_output_tokens == pytest.approx(42_061.9e6 / (1600 * 3600 * 2607.143), rel=1e-5)


def test_rent_follows_the_fleet_and_a_commitment_holds_the_last() -> None:
    rents = (rent(Term.ON_DEMAND, 1.0), rent(Term.RESERVED_3Y, 0.5))
    by_term = {each.term: each for each in ways(MONEY, *rents, growth=0.5)}
    on_demand, reserved = by_term[Term.ON_DEMAND].cost, by_term[Term.RESERVED_3Y].cost
    assert isinstance(on_demand, RentedCost)
    assert isinstance(reserved, RentedCost)
    # 6, 9 and 14 replicas of two GPUs for 8,760 h a year; the commitment pays for 28 GPUs in all three years.
    assert on_demand.yearly_rent == pytest.approx((12 * 8760, 18 * 8760, 28 * 8760))
    assert reserved.yearly_rent == pytest.approx((14 * 8760, 14 * 8760, 14 * 8760))


def test_the_price_of_a_token_over_the_years_counts_what_is_served() -> None:
    (only,) = ways(MONEY, rent(Term.ON_DEMAND, 1.25))
    assert only.usd_per_million_output_tokens == pytest.approx(10 / 5.76)


@pytest.mark.parametrize(
    ("redundancy", "break_even"),
    [
        # A replica costs 2.5 USD/h; the API asks 2e-4 USD a request, 0.72 USD/h for a request a second.
        (0, 2.5 / 0.72),
        # R needed replicas serve 4 R, for which the API asks 2.88 R; with a spare they cost 2.5 R + 2.5: R >= 6.6.
        # 7 needed and 1 spare cost 20 USD/h, which the API asks at 27.8/s.
        (1, 20 / 0.72),
    ],
)
def test_the_break_even_load_pays_for_the_replicas_that_it_needs(redundancy: int, break_even: float) -> None:
    price = ApiPrice(input=0.1, output=1.0)
    # 1,000 x 0.1 + 100 x 1.0 = 200 USD per million requests.
    found = compare_with_api(fit(replicas=4 + redundancy), price)
    assert found is not None
    assert found.usd_per_hour == pytest.approx(11.52)
    assert found.break_even_per_s == pytest.approx(break_even)


def test_an_api_sells_prefix_hits_at_its_price_of_cached_tokens() -> None:
    # Of 1,000 prompt tokens 700 are cached: 300 x 0.6 + 700 x 0.06 + 100 x 2.4 = 462 USD per million requests; where
    # no price of cached tokens is stated, 1,000 x 0.6 + 100 x 2.4 = 840.
    price = ApiPrice(input=0.6, cached=0.06, output=2.4)
    found = compare_with_api(fit(), price, cached_fraction=0.7)
    plain = compare_with_api(fit(), replace(price, cached=None), cached_fraction=0.7)
    assert found is not None
    assert plain is not None
    assert found.usd_per_hour / plain.usd_per_hour == pytest.approx(462 / 840)


def test_an_api_that_asks_less_than_a_full_replica_costs_is_never_beaten() -> None:
    # 4 requests a second at 1.1e-4 USD are 1.58 USD/h, less than 2.5.
    found = compare_with_api(fit(), ApiPrice(input=0.1, output=0.1))
    assert found is not None
    assert found.break_even_per_s is None


def test_a_fleet_without_a_price_has_no_money() -> None:
    bare = fit(rent=None)
    assert bare.usd_per_million_output_tokens is None
    assert bare.split_usd_per_million is None
    assert compare_with_api(bare, ApiPrice(input=1, output=1)) is None
