"""Offers of a region: those that stand there for certain, and a word on those that may."""

from datetime import date

import pytest

from capplan.app.gpu_choice import PriceFilters, offered
from capplan.core.gpus.prices import Price, Term
from capplan.errors import UsageError
from capplan.specs.prices import Prices
from capplan.specs.providers import load_providers


def offer(region: str) -> Price:
    (place,) = load_providers().places("acme", region)
    return Price(
        gpu="l4", provider="acme", region=region, term=Term.ON_DEMAND, usd_per_hour=0.5, date=date(2026, 11, 1),
        source="a test", place=place,
    )  # fmt: skip


def test_an_offer_that_may_be_there_is_counted_where_no_other_is_known() -> None:
    known = Prices(hourly=(offer("Canada"), offer("EU / US")))
    with pytest.raises(
        UsageError, match=r"no on-demand offer in de is known; there are some in ca; 1 may be there, for"
    ):
        offered(known, PriceFilters(regions=("de",)))
    with pytest.raises(
        UsageError, match=r"no on-demand offer in jp is known; there are some in ca\. `capplan prices up"
    ):
        offered(known, PriceFilters(regions=("jp",)))
    assert offered(known, PriceFilters(regions=("ca",))).hourly == (known.hourly[0],)
