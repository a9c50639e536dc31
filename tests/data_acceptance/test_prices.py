"""The shipped prices: of known GPUs, dated, and in the range in which anything is rented or sold."""

from datetime import date

import pytest

from capplan.core.gpus.prices import Term, current_offers
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


def test_machines_of_the_european_union_can_be_ordered_on_demand() -> None:
    known = current_offers(load_prices(load_gpus()).hourly)
    offers = [price for price in known if price.term is Term.ON_DEMAND and not price.is_marketplace]
    union = [price for price in offers if price.is_in("eea")]
    assert len(union) >= 60
    assert len({price.provider for price in union}) >= 5
    assert len([price for price in offers if price.is_in("de")]) >= 20
    # One GPU of each of these can be had alone: a fleet need not grow by machines of eight.
    alone = {price.gpu for price in union if price.instance_gpus == 1}
    assert {"l4", "l40s", "a100-pcie-80gb", "h100-sxm5-80gb", "h200-sxm-141gb", "b200-sxm-180gb"} <= alone


def test_no_on_demand_offer_is_of_a_machine_that_is_not_sold_on_demand() -> None:
    """Google's A3 High below eight GPUs, A3 Ultra and A4 are spot, flex-start or reserved alone."""
    known = current_offers(load_prices(load_gpus()).hourly)
    named = {price.instance for price in known if price.term is Term.ON_DEMAND and price.provider == "gcp"}
    assert "a3-highgpu-8g" in named
    assert not named & {"a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g", "a3-ultragpu-8g", "a4-highgpu-8g"}
