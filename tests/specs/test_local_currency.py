"""Amounts in another currency: the reference rates with their day, the user's own rate, and the tax of the place."""

from datetime import date

import pytest

from capplan.errors import UnknownNameError, UsageError
from capplan.specs.providers import Providers, load_providers


@pytest.fixture(scope="module")
def known() -> Providers:
    return load_providers()


def test_a_cost_stands_in_euros_with_the_tax_of_the_country(known: Providers) -> None:
    # ECB, 21 August 2026: 1 EUR = 1.1699 USD; the standard rate of France is 20 %.
    local = known.local_currency("EUR")
    assert local is not None
    amount = local.amount(36.0, country="fr")
    assert amount.amount == pytest.approx(36.0 / 1.1699)
    assert amount.vat_fraction == pytest.approx(0.20)
    assert amount.with_vat == pytest.approx(1.2 * 36.0 / 1.1699)
    assert amount.rate_day == date(2026, 8, 21)


def test_other_currencies_are_crossed_through_the_euro(known: Providers) -> None:
    # 13 March 2026: 1 EUR = 1.1476 USD = 0.86503 GBP, so that a pound is 1.3267 USD
    local = known.local_currency("gbp")
    assert local is not None
    assert local.usd_per_unit == pytest.approx(1.3267, abs=1e-4)


def test_ones_own_rate_has_no_day(known: Providers) -> None:
    local = known.local_currency("EUR=1.25")
    assert local is not None
    assert (local.amount(10.0, country=None).amount, local.rate_day) == (8.0, None)
    assert local.amount(10.0, country=None).with_vat is None


def test_the_currency_follows_the_region(known: Providers) -> None:
    codes = {place: known.local_currency(None, regions=[place]) for place in ("fr", "eu", "germany", "gb", "us")}
    assert {place: local.code if local else "USD" for place, local in codes.items()} == {
        "fr": "EUR", "eu": "EUR", "germany": "EUR", "gb": "GBP", "us": "USD",
    }  # fmt: skip
    assert known.local_currency(None, regions=["us-east-1"]) is None


@pytest.mark.parametrize("words", ["EUR=0", "EUR=-1", "EUR=x", "EURO=1", "EUR="])
def test_a_rate_that_is_none_is_refused(known: Providers, words: str) -> None:
    with pytest.raises((UsageError, UnknownNameError)):
        known.local_currency(words)


def test_an_unknown_currency_is_refused_with_what_would_do(known: Providers) -> None:
    with pytest.raises(UnknownNameError, match=r"XAU=1\.08"):
        known.local_currency("XAU")
