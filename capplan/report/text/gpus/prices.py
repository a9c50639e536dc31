"""The price lists as a table and as documents: rents and purchases of many GPUs side by side."""

from collections.abc import Sequence

from capplan.core.gpus.prices import Price, PurchasePrice
from capplan.report.table import Table, table
from capplan.report.text.gpus.prices_of_one import day_text


def price_table(hourly: Sequence[Price], purchase: Sequence[PurchasePrice]) -> Table:
    """Lay prices out by GPU, cheapest first; rents before purchases."""
    rents = [
        (
            price.gpu, f"{price.usd_per_hour:.4f}", "USD/GPU-h", price.term.value, price.provider, price.region,
            price.instance or "", str(price.instance_gpus), day_text(price), price.comparison or price.known_by,
        )
        for price in sorted(hourly, key=lambda each: (each.gpu, each.usd_per_hour))
    ]  # fmt: skip
    bought = [
        (
            price.gpu, f"{price.usd:,.0f}", "USD/GPU", "buy", price.seller, "",
            "with server" if price.includes_server else "", "", day_text(price), price.known_by,
        )
        for price in sorted(purchase, key=lambda each: (each.gpu, each.usd))
    ]  # fmt: skip
    return table("gpu|price>|unit|term|provider|region|instance|GPUs>|day|trust", [*rents, *bought])
