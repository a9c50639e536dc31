"""Known prices of one GPU, each with its day and source."""

from collections.abc import Sequence

from capplan.core.gpus.prices import DateKind, Price, PurchasePrice
from capplan.report.table import render_text, table


def render_prices(hourly: Sequence[Price], purchase: Sequence[PurchasePrice]) -> str:
    """List prices for people, cheapest first; empty if none is known."""
    rows = [
        (
            f"{price.usd_per_hour:.4g} USD/h",
            price.term.value,
            price.provider,
            price.region,
            _instance(price),
            *_read(price),
        )
        for price in sorted(hourly, key=lambda price: price.usd_per_hour)
    ]
    rows += [(f"{price.usd:,.0f} USD", "buy", price.seller, "", "", *_read(price)) for price in purchase]
    if not rows:
        return ""
    return "prices of one GPU, examples of their day:\n" + render_text(
        table("price>|term|provider|region|instance|day|trust|source", rows)
    )


def _instance(price: Price) -> str:
    return f"{price.instance} (of {price.instance_gpus})" if price.instance_gpus > 1 else price.instance or ""


def _read(price: Price | PurchasePrice) -> tuple[str, str, str]:
    return day_text(price), price.known_by, price.source


def day_text(price: Price | PurchasePrice) -> str:
    """Write a price's day with what it means: "from" and "until" for bounds, "read" for a day of reading."""
    return _DAYS[price.date_is] + price.date.isoformat()


_DAYS = {DateKind.STATED: "", DateKind.NOT_BEFORE: "from ", DateKind.NOT_AFTER: "until ", DateKind.READ: "read "}
