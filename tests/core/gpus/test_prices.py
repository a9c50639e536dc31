"""Which prices count: the newest of each provider, hearsay only where nothing better is known."""

from dataclasses import replace
from datetime import date

from capplan.core.gpus.prices import (
    DateKind,
    Price,
    PriceEvidence,
    PriceKind,
    PriceTier,
    Term,
    cheapest_offer,
    cheapest_on_demand,
    current_prices,
    offers_to_plan_with,
)

TODAY = date(2026, 11, 22)


def price(usd: float, day: date, *, provider: str = "acme", tier: PriceTier = PriceTier.QUOTED) -> Price:
    return Price(
        gpu="l4",
        provider=provider,
        region="any",
        term=Term.ON_DEMAND,
        usd_per_hour=usd,
        date=day,
        source="s",
        tier=tier,
    )


def test_a_newer_day_of_the_same_provider_replaces_an_older_one() -> None:
    old, new = price(1.0, date(2026, 5, 1)), price(1.5, date(2026, 8, 1))
    other = price(2.0, date(2026, 1, 1), provider="other")
    assert current_prices([old, new, other]) == (new, other)


def test_hearsay_never_beats_a_published_price() -> None:
    rumour = price(0.1, date(2026, 8, 1), provider="blog", tier=PriceTier.HEARSAY)
    page = price(0.7, date(2026, 8, 1))
    assert cheapest_on_demand([rumour, page]) == {"l4": page}
    assert cheapest_on_demand([rumour]) == {"l4": rumour}


def test_a_price_read_without_its_day_is_always_old() -> None:
    read = PriceEvidence(tier=PriceTier.PUBLISHED, day=TODAY, date_is=DateKind.READ)
    assert read.age_days(TODAY) is None
    assert read.is_old(TODAY, max_age_days=10_000)


def test_age_counts_from_the_day_on_which_the_price_held() -> None:
    held = PriceEvidence(tier=PriceTier.QUOTED, day=date(2026, 8, 22))
    assert held.age_days(TODAY) == 92  # nine days of August, 30 + 31 + 22
    assert held.is_old(TODAY, max_age_days=91)
    assert not held.is_old(TODAY, max_age_days=92)


def test_a_quote_counts_until_its_last_day_whatever_its_age() -> None:
    quote = PriceEvidence(
        tier=PriceTier.QUOTED, day=date(2025, 1, 1), date_is=DateKind.READ, valid_until=date(2026, 11, 22)
    )
    assert not quote.is_old(TODAY, max_age_days=1)
    assert quote.is_old(date(2026, 11, 23), max_age_days=10_000)


def test_a_newer_price_of_another_region_or_machine_replaces_nothing() -> None:
    # AWS of 2026-08-22 was read for Mumbai alone; us-east-1 of 2026-07-20 still holds.
    virginia = replace(price(1.006, date(2026, 7, 20), provider="aws"), region="us-east-1", instance="g5.xlarge")
    mumbai = replace(virginia, region="ap-south-1", usd_per_hour=1.208, date=date(2026, 8, 22))
    larger = replace(virginia, instance="g5.12xlarge", instance_gpus=4, date=date(2026, 8, 22), usd_per_hour=1.418)
    assert set(current_prices([virginia, mumbai, larger])) == {virginia, mumbai, larger}
    assert cheapest_on_demand([virginia, mumbai, larger]) == {"l4": virginia}


def test_a_figure_that_nobody_can_order_at_is_never_the_cheapest() -> None:
    median = replace(price(0.1, date(2026, 8, 22)), comparison="median of several offers")
    offer = price(0.7, date(2026, 8, 1), provider="other")
    assert cheapest_on_demand([median, offer]) == {"l4": offer}
    assert cheapest_on_demand([median]) == {}


def test_only_a_price_of_ones_own_is_called_a_quote() -> None:
    copied = price(0.7, date(2026, 8, 1))
    assert copied.known_by == "third-party copy"
    assert replace(copied, kind=PriceKind.QUOTE).known_by == "your quote"
    assert replace(copied, tier=PriceTier.HEARSAY).known_by == "hearsay"


def test_machines_are_rented_whole_and_the_cheapest_total_wins() -> None:
    one = price(3.5, date(2026, 8, 1))
    eight = replace(price(3.0, date(2026, 8, 1), provider="whole"), instance_gpus=8)
    # one GPU: 3.50 USD an hour alone, 24 as a machine of eight; seven: 24.50 against 24
    assert cheapest_offer([one, eight], gpus=1) is one
    assert cheapest_offer([one, eight], gpus=6) is one
    assert cheapest_offer([one, eight], gpus=7) is eight
    # nine: 31.50 against two machines of eight at 48
    assert cheapest_offer([one, eight], gpus=9) is one
    assert cheapest_offer([one, eight], gpus=4, together=4) is eight
    assert cheapest_offer([one, eight], gpus=16, together=16) is None


def test_a_price_that_is_over_a_year_older_than_the_newest_counts_no_more() -> None:
    # 2024-08-26 is 726 days before 2026-08-22, 2025-08-22 is 365
    ancient = replace(price(0.2, date(2024, 8, 26)), region="elsewhere")
    older = replace(price(0.5, date(2025, 8, 22)), region="here")
    newest = price(0.7, date(2026, 8, 22))
    assert offers_to_plan_with([ancient, older, newest]) == {"l4": (older, newest)}
    assert offers_to_plan_with([ancient]) == {"l4": (ancient,)}


def test_groups_of_gpus_that_work_together_share_no_two_machines() -> None:
    eight = replace(price(3.0, date(2026, 8, 1)), instance_gpus=8)
    # two groups of three in a machine of eight; five groups need three machines
    assert eight.machines_for(15, together=3) == 3
    assert eight.machines_for(9) == 2
    assert eight.machines_for(16, together=16) is None
