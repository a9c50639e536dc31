"""Report the built-in prices that are over half a year old or of unknown age, by provider; never fails a build.

A checkout grows older without being wrong: whoever plans with it is told by the report, whoever keeps it by this list.
"""

from collections.abc import Sequence
from datetime import date

from capplan.core.economics.constraints import DEFAULT_MAX_PRICE_AGE_DAYS
from capplan.core.gpus.prices import Price, PurchasePrice
from capplan.verbs.prices import PricesQuestion, answer_prices
from capplan.verbs.statement.local import LocalContext


def stale_lines(prices: Sequence[Price | PurchasePrice]) -> list[str]:
    """Return one line for each provider or seller: how many of its prices are stale, and their oldest day."""
    found: dict[str, list[date]] = {}
    for price in prices:
        found.setdefault(price.provider if isinstance(price, Price) else price.seller, []).append(price.date)
    return [f"  {name}: {len(days)}, the oldest of {min(days)}" for name, days in sorted(found.items())]


def main() -> None:
    """Print the stale prices of today."""
    age, here = int(DEFAULT_MAX_PRICE_AGE_DAYS), LocalContext()
    stale = answer_prices(PricesQuestion(max_age_days=age, old=True), here)
    every = answer_prices(PricesQuestion(), here)
    prices, count = [*stale.hourly, *stale.purchase], len(every.hourly) + len(every.purchase)
    print(f"{len(prices)} of {count} prices are older than {age} days or of unknown age (docs/prices.md):")
    print("\n".join(stale_lines(prices)))


if __name__ == "__main__":
    main()
