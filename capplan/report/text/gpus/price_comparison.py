"""Prices compared: the cheapest of every GPU under each term, by GPU, provider, region or age."""

from collections.abc import Sequence
from datetime import date
from enum import StrEnum

from capplan.core.gpus.prices import Price, PurchasePrice, Term
from capplan.report.table import Align, Heading, Table


class PriceGroup(StrEnum):
    """What the rows of a comparison of prices stand for, beside the GPU."""

    GPU = "gpu"
    PROVIDER = "provider"
    REGION = "region"
    AGE = "age"


_AGES = ((90, "up to 90 days"), (180, "up to 180 days"), (365, "up to a year"), (10**6, "over a year"))
_UNKNOWN_AGE = "unknown"


def comparison_table(
    hourly: Sequence[Price], purchase: Sequence[PurchasePrice], *, group: PriceGroup, today: date
) -> Table:
    """Lay the cheapest prices side by side: a row for each GPU and group, a column for each term.

    Args:
        hourly: Rents, of which figures that nobody can order at are left out; amounts are per GPU and hour. [USD]
        purchase: Purchases; amounts are per GPU. [USD]
        group: What rows of one GPU are parted by.
        today: The day from which ages are counted.
    """
    cheapest: dict[tuple[str, str], dict[Term, Price | PurchasePrice]] = {}
    prices: list[Price | PurchasePrice] = [*(price for price in hourly if price.is_orderable), *purchase]
    for price in sorted(prices, key=_usd):
        row = (price.gpu, _group_of(price, group, today))
        cheapest.setdefault(row, {}).setdefault(_term(price), price)
    terms = [term for term in Term if any(term in found for found in cheapest.values())]
    order = {name: place for place, (_, name) in enumerate(_AGES)}
    rows = sorted(cheapest, key=lambda row: (row[0], order.get(row[1], len(order)), row[1]))
    shown = [] if group is PriceGroup.GPU else [Heading(title=group.value)]
    return Table(
        columns=(
            Heading(title="gpu"),
            *shown,
            *(
                Heading(title=f"{term.value}, USD/GPU{'' if term is Term.BUY else '-h'}", align=Align.RIGHT)
                for term in terms
            ),
        ),
        rows=tuple(
            (
                row[0],
                *([row[1]] if shown else []),
                *(_cell(cheapest[row].get(term), names_seller=group is not PriceGroup.PROVIDER) for term in terms),
            )
            for row in rows
        ),
    )


def _heading(term: Term) -> str:
    return f"{term.value}, USD/GPU{'' if term is Term.BUY else '-h'}"


def _usd(price: Price | PurchasePrice) -> float:
    return price.usd_per_hour if isinstance(price, Price) else price.usd


def _term(price: Price | PurchasePrice) -> Term:
    return price.term if isinstance(price, Price) else Term.BUY


def _seller(price: Price | PurchasePrice) -> str:
    return price.provider if isinstance(price, Price) else price.seller or "seller not named"


def _group_of(price: Price | PurchasePrice, group: PriceGroup, today: date) -> str:
    if group is PriceGroup.PROVIDER:
        return _seller(price)
    if group is PriceGroup.REGION:
        return price.region if isinstance(price, Price) else "any"
    if group is PriceGroup.AGE:
        age = price.evidence.age_days(today)
        return _UNKNOWN_AGE if age is None else next(name for most, name in _AGES if age <= most)
    return ""


def _cell(price: Price | PurchasePrice | None, *, names_seller: bool) -> str:
    if price is None:
        return ""
    amount = f"{price.usd_per_hour:.3f}" if isinstance(price, Price) else f"{price.usd:,.0f}"
    return f"{amount} ({_seller(price)})" if names_seller else amount
