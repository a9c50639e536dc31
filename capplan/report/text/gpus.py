"""GPUs and prices as sections: lists, one GPU with its sources and prices, several side by side."""

from collections.abc import Sequence
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from capplan.core.gpus.attributes import ATTRIBUTES, Absence, Attribute, ratios_to_first
from capplan.core.gpus.machines import LocalAmount
from capplan.core.gpus.names import Match, differences
from capplan.core.gpus.prices import DateKind, Price, PurchasePrice, Term
from capplan.core.gpus.spec import Figure, GpuSpec, PeakKind, Source
from capplan.report.sections import (
    Align,
    Block,
    Column,
    Format,
    LineRole,
    Lines,
    Section,
    Table,
    data,
    figure,
    plain_columns,
    words,
)
from capplan.units import format_bytes

if TYPE_CHECKING:
    from capplan.core.gpus.sheet import GpuSheet

LEGEND = "- unsupported, ? unknown; peaks are dense, per device, with fp32 accumulation"
_COMPARED = (
    "arch", "capability", "form", "released", "memory", "usable", "memory-type", "bandwidth", "l2", "units", "clock",
    *(kind.value for kind in PeakKind), "ridge", "tdp", "nvlink", "pcie",
)  # fmt: skip


class PriceSourceRow(NamedTuple):
    """A source of current prices: when it was asked last, what it gave, and what it needs besides."""

    id: str
    title: str
    age_days: int | None
    prices: int | None
    needs: str
    licence: str
    documentation: str


class PriceGroup(StrEnum):
    """What the rows of a comparison of prices stand for, beside the GPU."""

    GPU = "gpu"
    PROVIDER = "provider"
    REGION = "region"
    AGE = "age"


def gpu_list_sections(specs: Sequence[GpuSpec], shown: Sequence[Attribute], *, count: str) -> list[Section]:
    """Return one row per GPU; a CSV has base units, unknown cells empty and unsupported ones marked."""
    blocks: list[Block] = [
        Table(list(map(_attribute_column, shown)), specs),
        Lines([f"{count}; {LEGEND}"], only=Format.TABLE),
        Lines([LEGEND], only=Format.MD),
    ]
    return [Section(blocks)]


def _attribute_column(attribute: Attribute) -> Column[GpuSpec]:
    return Column(
        title=attribute.name,
        name=attribute.base_name,
        cell=attribute.cell,
        value=lambda spec: _base_cell(attribute, spec),
        align=Align.RIGHT if attribute.is_number else Align.LEFT,
    )


def _base_cell(column: Attribute, spec: GpuSpec) -> str:
    value = column.value(spec)
    if value is Absence.UNKNOWN:
        return ""
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def gpu_sheet_sections(sheet: "GpuSheet") -> list[Section]:
    """Return every value of one GPU as it is written, where it was read and when, and its known prices."""
    spec = sheet.gpu
    figures = list(sheet.all_figures.items())
    named = dict.fromkeys(source for _, figure in figures for source in figure.sources)
    sources = {source: number for number, source in enumerate(named, start=1)}
    columns: list[Column[tuple[str, Figure]]] = [
        words("key", lambda row: row[0], name="key"),
        words("value", _value, name="value"),
        words("printed", lambda row: row[1].printed, name="printed"),
        data("sources", lambda row: "; ".join(map(_spell_source, row[1].sources))),
        words("source", lambda row: " ".join(f"[{sources[source]}]" for source in row[1].sources)),
    ]
    if any(_origin(figure) for _, figure in figures):
        columns.append(words("origin", lambda row: _origin(row[1])))
    blocks: list[Block] = [
        Lines([f"{spec.name} ({spec.id})", *_headline(spec)]),
        Table(columns, figures),
        Lines([f"[{number}] {_spell_source(source)}" for source, number in sources.items()]),
        Lines(spec.notes, role=LineRole.NOTE),
    ]
    return [Section(blocks), *_gpu_price_sections(sheet.hourly, sheet.purchase)]


def _value(row: tuple[str, Figure]) -> str:
    figure = row[1]
    return f"{figure.text} ({figure.quality}, {figure.regime})" if figure.quality else figure.text


def _headline(spec: GpuSpec) -> list[str]:
    words = [f"{spec.vendor} {spec.architecture} ({spec.architecture_id})"]
    words += [f"compute capability {'.'.join(map(str, spec.compute_capability))}"] if spec.compute_capability else []
    words += [spec.gfx_target] if spec.gfx_target else []
    words += [spec.form_factor] if spec.form_factor else []
    lines = [", ".join(words)]
    if spec.aliases:
        lines.append("also called " + ", ".join(spec.aliases))
    usable = f"{format_bytes(spec.expected_usable_bytes)} can be allocated at most"
    lines.append(usable + ("" if spec.usable_bytes else " (expected of this kind of memory, not reported)"))
    if ridge := spec.ridge_flop_per_byte:
        lines.append(f"ridge point {ridge:.0f} FLOP/byte")
    if spec.nominal_tdp_w is not None and spec.tdp_w is not None:
        lines.append(f"{spec.tdp_w:g} W edition of a {spec.nominal_tdp_w:g} W card")
    if spec.devices_per_board > 1:
        lines.append(f"one of {spec.devices_per_board} devices on a board; all values are those of one")
    return lines


def _origin(figure: Figure) -> str:
    return "" if figure.origin == "built-in" else figure.origin


def _spell_source(source: Source) -> str:
    parts = [f"{source.kind.value}: {source.title}"]
    parts += [source.publisher] if source.publisher else []
    parts += [f"read {source.retrieved.isoformat()}"] if source.retrieved else []
    parts += [source.url] if source.url else []
    return ", ".join(parts)


def gpu_comparison_sections(specs: Sequence[GpuSpec]) -> list[Section]:
    """Return GPUs side by side, each number with its multiple of the first GPU's."""
    rows = []
    for name in _COMPARED:
        attribute = ATTRIBUTES[name]
        values = [attribute.value(spec) for spec in specs]
        if all(isinstance(value, Absence) for value in values):
            continue
        ratios = ratios_to_first(values) if attribute.is_number else [None] * len(specs)
        cells = [attribute.cell(spec) for spec in specs]
        cells[1:] = [
            f"{cell} (×{ratio:.2f})" if ratio is not None else cell
            for cell, ratio in zip(cells[1:], ratios[1:], strict=True)
        ]
        rows.append([name, *cells])
    names = [spec.id for spec in specs]
    return [Section([Table(plain_columns("", *names, numbers=names), rows)])]


def installed_sections(matches: Sequence[Match]) -> list[Section]:
    """Return one paragraph per GPU of this machine: its name, its spec, and what differs."""
    lines = []
    for device, spec in matches:
        pci = f", PCI {device.pci_id}" if device.pci_id else ""
        lines.append(f"{device.index}: {device.name} ({device.told_by}{pci})")
        if spec is None:
            lines.append("   is not in the database; `capplan gpus new` writes a template")
            continue
        lines.append(f"   {spec.id}")
        lines += [
            f"   {difference.key}: {difference.found}, specified {difference.specified}"
            for difference in differences(device, spec)
        ]
    return [Section([Lines(lines)])]


AnyPrice = Price | PurchasePrice


def price_sections(
    hourly: Sequence[Price],
    purchase: Sequence[PurchasePrice],
    *,
    group: PriceGroup | None,
    regions: Sequence[str] = (),
) -> list[Section]:
    """Return prices by GPU, the cheapest first; rents before purchases. Grouped, they stand side by side.

    Of the regions asked for, an offer that may be there says so.
    """
    if group is not None:
        return price_comparison_sections(hourly, purchase, group=group, today=date.today())
    rents = sorted(hourly, key=lambda price: (price.gpu, price.usd_per_hour))
    purchases = sorted(purchase, key=lambda price: (price.gpu, price.usd))
    columns = [_region_column(regions) if column.name == "region" else column for column in _PRICES]
    return [Section([Table(columns, [*rents, *purchases])])]


def _region_column(asked: Sequence[str]) -> Column[AnyPrice]:
    """Return the column of regions, which marks offers that may stand where it was asked for."""

    def region(price: AnyPrice) -> str:
        if not isinstance(price, Price):
            return ""
        is_certain = not asked or any(price.is_in(name) for name in asked)
        return price.region if is_certain else f"{price.region} (may be there, ask)"

    return words("region", region, name="region")


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


def _provider(price: AnyPrice) -> str:
    return price.provider if isinstance(price, Price) else price.seller


def _trust(price: AnyPrice) -> str:
    comparison = price.comparison if isinstance(price, Price) else None
    return comparison or price.known_by


_PRICES: tuple[Column[AnyPrice], ...] = (
    words("gpu", lambda price: price.gpu, name="gpu"),
    figure("price", _amount, name="price"),
    words("unit", lambda price: "USD/GPU-h" if isinstance(price, Price) else "USD/GPU", name="unit"),
    words("term", lambda price: price.term.value, name="term"),
    words("provider", _provider, name="provider"),
    words("region", lambda price: price.region if isinstance(price, Price) else "", name="region"),
    words("instance", _instance, name="instance"),
    figure("GPUs", lambda price: price.instance_gpus if isinstance(price, Price) else None, name="GPUs"),
    words("day", _day, name="day"),
    words("trust", _trust, name="trust"),
)


def _gpu_price_sections(hourly: Sequence[Price], purchase: Sequence[PurchasePrice]) -> list[Section]:
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
    words("term", lambda price: price.term.value),
    words("provider", _provider),
    words("region", lambda price: price.region if isinstance(price, Price) else ""),
    words("instance", _part_of),
    words("day", _day),
    words("trust", lambda price: price.known_by),
    words("source", lambda price: price.source),
)


_AGES = ((90, "up to 90 days"), (180, "up to 180 days"), (365, "up to a year"), (10**6, "over a year"))
_UNKNOWN_AGE = "unknown"


def price_comparison_sections(
    hourly: Sequence[Price], purchase: Sequence[PurchasePrice], *, group: PriceGroup, today: date
) -> list[Section]:
    """Return the cheapest prices side by side: a row for each GPU and group, a column for each term.

    Args:
        hourly: Rents, of which figures that nobody can order at are left out; amounts are per GPU and hour. [USD]
        purchase: Purchases; amounts are per GPU. [USD]
    """
    cheapest: dict[tuple[str, str], dict[Term, AnyPrice]] = {}
    prices: list[AnyPrice] = [*(price for price in hourly if price.is_orderable), *purchase]
    for price in sorted(prices, key=lambda price: price.usd_per_hour if isinstance(price, Price) else price.usd):
        row = (price.gpu, _group_of(price, group, today))
        cheapest.setdefault(row, {}).setdefault(price.term, price)
    terms = [term for term in Term if any(term in dated for dated in cheapest.values())]
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


def _seller(price: AnyPrice) -> str:
    return _provider(price) or "seller not named"


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
    """Write a cost in another currency, with the tax that is owed and the rate of exchange."""
    taxed = local.tax_words(_figures)
    day = "your rate" if local.rate_day is None else f"reference rate of {local.rate_day}"
    rate = f"1 {local.currency} = {local.usd_per_unit:.4f} USD, {day}"
    return f"{_figures(local.amount)} {local.currency}{unit}, {taxed} ({rate})"


def price_source_sections(sources: Sequence[PriceSourceRow]) -> list[Section]:
    """Return one row for each source of current prices."""
    columns: list[Column[PriceSourceRow]] = [
        words("source", lambda row: row.id, name="source"),
        words("asked", _asked, name=None),
        data("age_days", lambda row: row.age_days),
        figure("prices", lambda row: row.prices, str, name="prices", unknown=""),
        words("needs", lambda row: row.needs, name="needs"),
        words("what", lambda row: row.title, name="title"),
        words("licence", lambda row: row.licence, name="licence", rank=1),
        words("documented at", lambda row: row.documentation, name="documentation", rank=2),
    ]
    return [Section([Table(columns, sources)])]


def _asked(row: PriceSourceRow) -> str:
    if row.age_days is None:
        return "never"
    return "today" if row.age_days <= 0 else f"{row.age_days} days ago"
