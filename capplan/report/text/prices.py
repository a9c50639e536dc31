"""Prices as sections: the list, the cheapest side by side, and those of one GPU with their days and sources."""

from collections.abc import Sequence
from datetime import date
from enum import StrEnum

from capplan.core.gpus.places import LocalAmount
from capplan.core.gpus.prices import DateKind, Price, PurchasePrice, Term
from capplan.report.sections import Column, Lines, Section, Table, figure, plain_columns, words

AnyPrice = Price | PurchasePrice


def price_sections(hourly: Sequence[Price], purchase: Sequence[PurchasePrice]) -> list[Section]:
    """Return prices by GPU, the cheapest first; rents before purchases."""
    rents = sorted(hourly, key=lambda price: (price.gpu, price.usd_per_hour))
    purchases = sorted(purchase, key=lambda price: (price.gpu, price.usd))
    return [Section([Table(_PRICES, [*rents, *purchases])])]


def _instance(price: AnyPrice) -> str:
    if isinstance(price, PurchasePrice):
        return "with server" if price.includes_server else ""
    return price.instance or ""


def _amount(price: AnyPrice) -> str:
    return f"{price.usd_per_hour:.4f}" if isinstance(price, Price) else f"{price.usd:,.0f}"


def _day(price: AnyPrice) -> str:
    """Return a price's day with what it means: "from" and "until" for bounds, "read" for a day of reading."""
    return _DAYS[price.date_is] + price.date.isoformat()


_DAYS = {DateKind.STATED: "", DateKind.NOT_BEFORE: "from ", DateKind.NOT_AFTER: "until ", DateKind.READ: "read "}


def _trust(price: AnyPrice) -> str:
    comparison = price.comparison if isinstance(price, Price) else None
    return comparison or price.known_by


_PRICES: tuple[Column[AnyPrice], ...] = (
    words("gpu", lambda price: price.gpu, name="gpu"),
    figure("price", _amount, name="price"),
    words("unit", lambda price: "USD/GPU-h" if isinstance(price, Price) else "USD/GPU", name="unit"),
    words("term", lambda price: _term(price).value, name="term"),
    words("provider", lambda price: price.provider if isinstance(price, Price) else price.seller, name="provider"),
    words("region", lambda price: price.region if isinstance(price, Price) else "", name="region"),
    words("instance", _instance, name="instance"),
    figure("GPUs", lambda price: price.instance_gpus if isinstance(price, Price) else None, name="GPUs"),
    words("day", _day, name="day"),
    words("trust", _trust, name="trust"),
)


def gpu_price_sections(hourly: Sequence[Price], purchase: Sequence[PurchasePrice]) -> list[Section]:
    """Return the known prices of one GPU, the cheapest first, each with its day and source; none if none is known."""
    prices: list[AnyPrice] = [*sorted(hourly, key=lambda price: price.usd_per_hour), *purchase]
    if not prices:
        return []
    title = Lines(["prices of one GPU, examples of their day:"])
    return [Section([title, Table(_PRICES_OF_ONE, prices, is_attached=True)])]


def _amount_of_one(price: AnyPrice) -> str:
    return f"{price.usd_per_hour:.4g} USD/h" if isinstance(price, Price) else f"{price.usd:,.0f} USD"


def _part_of(price: AnyPrice) -> str:
    if isinstance(price, PurchasePrice):
        return ""
    return f"{price.instance} (of {price.instance_gpus})" if price.instance_gpus > 1 else price.instance or ""


_PRICES_OF_ONE: tuple[Column[AnyPrice], ...] = (
    figure("price", _amount_of_one),
    words("term", lambda price: _term(price).value),
    words("provider", lambda price: price.provider if isinstance(price, Price) else price.seller),
    words("region", lambda price: price.region if isinstance(price, Price) else ""),
    words("instance", _part_of),
    words("day", _day),
    words("trust", lambda price: price.known_by),
    words("source", lambda price: price.source),
)


class PriceGroup(StrEnum):
    """What the rows of a comparison of prices stand for, beside the GPU."""

    GPU = "gpu"
    PROVIDER = "provider"
    REGION = "region"
    AGE = "age"


_AGES = ((90, "up to 90 days"), (180, "up to 180 days"), (365, "up to a year"), (10**6, "over a year"))
_UNKNOWN_AGE = "unknown"


def price_comparison_sections(
    hourly: Sequence[Price], purchase: Sequence[PurchasePrice], *, group: PriceGroup, today: date
) -> list[Section]:
    """Return the cheapest prices side by side: a row for each GPU and group, a column for each term.

    Args:
        hourly: Rents, of which figures that nobody can order at are left out; amounts are per GPU and hour. [USD]
        purchase: Purchases; amounts are per GPU. [USD]
        group: What rows of one GPU are parted by.
        today: The day from which ages are counted.
    """
    cheapest: dict[tuple[str, str], dict[Term, AnyPrice]] = {}
    prices: list[AnyPrice] = [*(price for price in hourly if price.is_orderable), *purchase]
    for price in sorted(prices, key=_usd):
        row = (price.gpu, _group_of(price, group, today))
        cheapest.setdefault(row, {}).setdefault(_term(price), price)
    terms = [term for term in Term if any(term in found for found in cheapest.values())]
    order = {name: place for place, (_, name) in enumerate(_AGES)}
    rows = sorted(cheapest, key=lambda row: (row[0], order.get(row[1], len(order)), row[1]))
    shows_group = group is not PriceGroup.GPU
    cells = [
        (
            *(row if shows_group else row[:1]),
            *(_cheapest(cheapest[row].get(term), names_seller=group is not PriceGroup.PROVIDER) for term in terms),
        )
        for row in rows
    ]
    amounts = [f"{term.value}, USD/GPU{'' if term is Term.BUY else '-h'}" for term in terms]
    columns = plain_columns("gpu", *([group.value] if shows_group else []), *amounts, numbers=amounts)
    return [Section([Table(columns, cells)])]


def _usd(price: AnyPrice) -> float:
    return price.usd_per_hour if isinstance(price, Price) else price.usd


def _term(price: AnyPrice) -> Term:
    return price.term if isinstance(price, Price) else Term.BUY


def _seller(price: AnyPrice) -> str:
    return price.provider if isinstance(price, Price) else price.seller or "seller not named"


def _group_of(price: AnyPrice, group: PriceGroup, today: date) -> str:
    if group is PriceGroup.PROVIDER:
        return _seller(price)
    if group is PriceGroup.REGION:
        return price.region if isinstance(price, Price) else "any"
    if group is PriceGroup.AGE:
        age = price.evidence.age_days(today)
        return _UNKNOWN_AGE if age is None else next(name for most, name in _AGES if age <= most)
    return ""


def _cheapest(price: AnyPrice | None, *, names_seller: bool) -> str:
    if price is None:
        return ""
    amount = f"{price.usd_per_hour:.3f}" if isinstance(price, Price) else f"{price.usd:,.0f}"
    return f"{amount} ({_seller(price)})" if names_seller else amount


def _figures(amount: float) -> str:
    """Write an amount of money with cents, and with three figures where it is less than one."""
    return f"{amount:,.2f}" if amount >= 1 else f"{amount:.3g}"


def local_words(local: LocalAmount, *, unit: str = "/h") -> str:
    """Write a cost in another currency, with the tax of the place and the rate of exchange.

    Args:
        local: The cost.
        unit: What it is for, an hour by default.
    """
    taxed = "VAT not known"
    if local.vat_fraction is not None and local.with_vat is not None:
        taxed = (
            f"{_figures(local.with_vat)} with {100 * local.vat_fraction:.3g} % VAT of {(local.country or '').upper()}"
        )
    day = "your rate" if local.rate_day is None else f"reference rate of {local.rate_day}, not read again"
    rate = f"1 {local.currency} = {local.usd_per_unit:.4f} USD, {day}"
    return f"{_figures(local.amount)} {local.currency}{unit}, {taxed} ({rate})"
