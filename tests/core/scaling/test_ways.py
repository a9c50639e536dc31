"""Ways to serve a load: crossings and prices by hand, and what the shipped offers must state."""

from datetime import date

import numpy as np
import pytest

from capplan.core.gpus.by_use import ServerlessOffer, ServerlessOffers, ServerlessProvider, TokenPrice
from capplan.core.numbers import Interval
from capplan.core.scaling.answer import Way, unknown_way
from capplan.core.scaling.charge import Charge
from capplan.core.scaling.fleet import WEEKS_PER_MONTH
from capplan.core.scaling.load import WeekLoad
from capplan.core.scaling.replica_curve import ReplicaCurve
from capplan.core.scaling.ways import ReplicaOnGpu, compare_ways, crossings_of, curves_of
from capplan.llm.read.catalogue import load_catalogue
from capplan.specs.scalers import load_presets
from capplan.specs.shipped import load_serverless, load_token_prices


def test_an_api_costs_more_than_a_standing_fleet_from_the_load_at_which_they_are_equal() -> None:
    # 300 USD stand at any load, an API asks 100 USD at 1,000 requests a day: equal at 3,000
    costs = {Way.STANDING: lambda _factor: 300.0, Way.API: lambda factor: 100.0 * factor}
    (crossing,) = crossings_of(curves_of(costs, 1000.0))
    assert crossing.requests_per_day == pytest.approx(3000.0, rel=1e-6)
    assert (crossing.below, crossing.above) == (Way.API, Way.STANDING)


def test_ways_that_never_cross_state_no_load() -> None:
    costs = {Way.STANDING: lambda factor: 300.0 * factor, Way.API: lambda factor: 100.0 * factor}
    assert crossings_of(curves_of(costs, 1000.0)) == ()


def test_rare_requests_pay_a_start_their_service_and_the_idle_time_each() -> None:
    # One request in three hours of working days, 5 days of 8 h: 13.3 a week. Each wakes a worker: 40 s of start, 2 s of
    # service and 5 s of idling at 0.001 USD/s. A start of 40 s breaks a limit of 10 s, whatever is tried.
    week = WeekLoad(hourly_per_s=((0.0,) * 8 + (1 / 10_800,) * 8 + (0.0,) * 8) * 5 + (0.0,) * 48)
    curve = ReplicaCurve(
        full_per_s=5.0, in_flight=np.linspace(0.0, 20.0, 256), ttft_s=np.full(256, 0.5), e2e_s=np.full(256, 2.0),
        inside_fraction=np.ones(256), slack_s=np.full(256, 10.0),
    )  # fmt: skip
    free = Charge(usd_per_machine_hour=0.0)
    replica = ReplicaOnGpu(
        gpu="g", gpus=1, most_per_s=5.0, curve_of=lambda: curve, start_s=Interval.exact(40.0), rent=None, charge=free,
        standing_charge=free, slowness=Interval.exact(1.0),
    )  # fmt: skip
    provider = ServerlessProvider(idle_s=5.0, smallest_s=1.0, source="here", read=date(2026, 1, 1))
    offers = ServerlessOffers(
        providers={"p": provider}, offers=(ServerlessOffer(provider="p", gpu="g", usd_per_s=0.001),)
    )  # fmt: skip
    asked = load_presets()["keda"].elasticity()
    found = compare_ways([replica], week, asked=asked, serverless=offers, api=unknown_way(Way.API, "none"))
    serverless = next(row for row in found.costs if row.way is Way.SERVERLESS)
    each = serverless.usd_per_month.expected / WEEKS_PER_MONTH / 0.001 / 47.0
    assert 13.3 - 2 * 13.3**0.5 <= each <= 13.3 + 2 * 13.3**0.5  # arrivals are random
    assert serverless.keeps is False
    assert next(row for row in found.costs if row.way is Way.STANDING).inside == 1.0


def test_a_request_costs_its_prompt_its_cached_part_and_its_answer() -> None:
    price = TokenPrice(
        model="m", provider="p", input=1.0, cached=0.25, output=4.0, checked=date(2026, 1, 1)
    )  # fmt: skip
    # 1,000 tokens: 600 at 1 USD and 400 at 0.25 USD a million; 500 at 4 USD
    usd = price.usd_per_request(input_len=1000, output_len=500, cached_fraction=0.4)
    assert usd == pytest.approx((600 + 100 + 2000) / 1e6)


def test_cached_tokens_cost_what_others_do_where_no_price_is_stated() -> None:
    price = TokenPrice(model="m", provider="p", input=1.0, output=4.0, checked=date(2026, 1, 1))
    assert price.usd_per_request(input_len=1000, output_len=0, cached_fraction=0.9) == pytest.approx(1e-3)


def test_offers_by_the_second_name_known_providers_and_their_sources() -> None:
    found = load_serverless()
    assert len(found.offers) >= 30
    assert {offer.provider for offer in found.offers} == set(found.providers)
    assert all(provider.source for provider in found.providers.values())
    assert len({(offer.provider, offer.gpu) for offer in found.offers}) == len(found.offers)


def test_prices_by_the_token_are_of_models_of_the_catalogue() -> None:
    prices, known = load_token_prices(), load_catalogue()
    assert len(prices.prices) >= 250
    assert sum(price.cached is not None for price in prices.prices) >= 90
    assert len({(price.model, price.provider) for price in prices.prices}) == len(prices.prices)
    assert {price.model for price in prices.prices} <= set(known)
    assert all(price.cached is None or price.cached <= price.input for price in prices.prices)


def test_rules_of_autoscalers_have_sources() -> None:
    presets = load_presets()
    assert set(presets) >= {"hpa", "keda", "knative", "ray-serve", "sagemaker", "llm-d"}
    assert all(preset.source for preset in presets.values())
