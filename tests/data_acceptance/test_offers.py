"""The shipped offers: no region hides another, and what nobody can order at is no option."""

from capplan.core.gpus.prices import PriceKind, Term, cheapest_on_demand, current_offers
from capplan.specs import load_gpus
from capplan.specs.prices import Prices, load_prices
from capplan.specs.providers import load_providers
from tests.seen import at_least


def prices() -> Prices:
    return load_prices(load_gpus())


def test_a_price_of_mumbai_hides_none_of_virginia() -> None:
    # AWS us-east-1 of 2026-07-20 (karpenter-provider-aws), hidden once by rows of Mumbai of 2026-08-22.
    virginia = {
        (price.gpu, price.instance): price.usd_per_machine_hour
        for price in current_offers(prices().hourly)
        if (price.provider, price.region, price.term) == ("aws", "us-east-1", Term.ON_DEMAND)
    }
    assert round(virginia["a10g", "g5.xlarge"], 4) == 1.006
    assert round(virginia["l4", "g6.xlarge"], 4) == 0.8048
    assert round(virginia["l40s", "g6e.xlarge"], 4) == 1.861
    assert round(virginia["h100-sxm5-80gb", "p5.48xlarge"], 2) == 55.04


def test_medians_and_lowest_prices_of_the_world_are_figures_for_comparison() -> None:
    offers = current_offers(prices().hourly)
    assert not [price for price in offers if "median" in (price.instance or "") or "lowest" in price.region]
    assert [price for price in prices().hourly if not price.is_orderable]


def test_the_cheapest_offer_of_every_gpu_is_orderable_and_named() -> None:
    for price in at_least(40, cheapest_on_demand(prices().hourly).values()):
        assert price.is_orderable
        assert price.instance
        assert price.instance_gpus >= 1


def test_no_shipped_price_is_called_a_quote() -> None:
    assert {price.kind for price in prices().hourly} == {PriceKind.COPY}


def test_every_machine_of_a_big_provider_is_known() -> None:
    providers = load_providers()
    unknown = {
        (price.provider, price.instance)
        for price in current_offers(prices().hourly)
        if price.provider in ("aws", "azure", "gcp", "oci") and price.machine is None
    }
    assert unknown == set()
    assert providers.machine("aws", "p5.48xlarge") is not None
