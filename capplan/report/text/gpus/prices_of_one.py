"""Known prices of one GPU, each with its day and source."""

from collections.abc import Sequence
from typing import Any

from capplan.core.gpus.prices import DateKind, Price, PurchasePrice
from capplan.report.table import render_text, table


def render_prices(hourly: Sequence[Price], purchase: Sequence[PurchasePrice]) -> str:
    """Prices for people, cheapest first; empty where none is known."""
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


def price_documents(hourly: Sequence[Price], purchase: Sequence[PurchasePrice]) -> list[dict[str, Any]]:
    """Prices for programs. [USD of one GPU]"""
    rented = [
        {
            "term": price.term.value,
            "usd_per_hour": price.usd_per_hour,
            "provider": price.provider,
            "region": price.region,
            "instance": price.instance,
            "instance_gpus": price.instance_gpus,
            "date": price.date.isoformat(),
            "date_is": price.date_is.value,
            "tier": price.tier.value,
            "source": price.source,
        }
        for price in hourly
    ]
    bought = [
        {
            "term": "buy",
            "usd": price.usd,
            "seller": price.seller,
            "date": price.date.isoformat(),
            "date_is": price.date_is.value,
            "tier": price.tier.value,
            "source": price.source,
        }
        for price in purchase
    ]
    return rented + bought


def _instance(price: Price) -> str:
    return f"{price.instance} (of {price.instance_gpus})" if price.instance_gpus > 1 else price.instance or ""


def _read(price: Price | PurchasePrice) -> tuple[str, str, str]:
    return day_text(price), price.tier.value, price.source


def day_text(price: Price | PurchasePrice) -> str:
    """Write a price's day with what it means: "from" and "until" for bounds, "read" for a day of reading."""
    return _DAYS[price.date_is] + price.date.isoformat()


_DAYS = {DateKind.STATED: "", DateKind.NOT_BEFORE: "from ", DateKind.NOT_AFTER: "until ", DateKind.READ: "read "}
