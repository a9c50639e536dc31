"""The shipped prices: of known GPUs, dated, and in the range in which anything is rented or sold."""

from datetime import date

import pytest

from capplan.core.gpus.prices import Term
from capplan.specs import load_gpus
from capplan.specs.prices import load_prices
from tests.seen import at_least

pytestmark = pytest.mark.slow


def test_prices_name_known_gpus_and_carry_their_day_and_source() -> None:
    gpus = load_gpus()
    prices = load_prices(gpus)
    every = at_least(700, (*prices.hourly, *prices.purchase))
    assert {price.gpu for price in every} <= set(gpus)
    assert all(date(2016, 1, 1) <= price.date <= date.today() for price in every)
    assert all(price.source for price in every)


def test_prices_are_of_the_size_of_prices() -> None:
    # One GPU an hour: from old cards by the pod to the newest by the node. One GPU to buy: from a Jetson to a B200.
    prices = load_prices(load_gpus())
    assert all(0.05 < price.usd_per_hour < 100 for price in at_least(600, prices.hourly))
    assert all(50 < price.usd < 100_000 for price in at_least(20, prices.purchase))


def test_rents_come_on_demand_and_interruptible_from_several_providers() -> None:
    hourly = load_prices(load_gpus()).hourly
    assert {Term.ON_DEMAND, Term.SPOT} <= {price.term for price in hourly}
    assert len({price.provider for price in hourly}) >= 5
