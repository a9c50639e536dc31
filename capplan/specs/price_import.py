"""Turn price quotes (CSV, XLSX or YAML) into price files: one per provider and day."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

import yaml

from capplan.core.gpus.names import GpuNames
from capplan.core.gpus.prices import (
    CURRENCY,
    NO_TERMS,
    OPTIONAL_QUOTE_COLUMNS,
    QUOTE_COLUMNS,
    DateKind,
    PriceKind,
    PriceTier,
    QuoteTerms,
    Term,
)
from capplan.core.gpus.spec import GpuSpec
from capplan.errors import CapplanError, UsageError, nearest_names
from capplan.specs.exports.read import read_export
from capplan.specs.exports.rows import Export, LeftOut
from capplan.specs.foreign_numbers import read_number, split_currency
from capplan.specs.prices import MAX_AMOUNT, MOST_GPUS
from capplan.specs.providers import load_providers
from capplan.specs.strict_yaml import read_yaml
from capplan.tables import UnreadableRowError, is_parted_by_semicolons, read_cells

_TERM_NUMBERS = ("lead_time_days", "warranty_years")
MAX_ROWS = 100_000
_LONGEST_PROVIDER = 100
_LEAST_AMOUNT = 1e-9

Member = TypeVar("Member", PriceTier, DateKind)
_SYNONYMS = {
    "what": "term", "value_instance": "price", "per_hour": "price", "price_date": "date", "pricing": "term",
    "vendor": "provider", "seller": "provider", "part number": "sku", "part_number": "sku",
    "valid until": "valid_until",
    "gpu_count": "gpus", "lead time": "lead_time_days", "lead_time": "lead_time_days", "warranty": "warranty_years",
}  # fmt: skip
_TERMS = {
    "rent on-demand": Term.ON_DEMAND, "rent spot": Term.SPOT, "rent committed 3mo": Term.RESERVED_3MO,
    "rent committed 6mo": Term.RESERVED_6MO, "rent committed 1y": Term.RESERVED_1Y,
    "rent committed 3y": Term.RESERVED_3Y, "capacity block": Term.CAPACITY_BLOCK, "rent flex-start": Term.FLEX_START,
    "rent community host": Term.COMMUNITY, "purchase card": Term.BUY, "purchase server": Term.BUY,
    **{term.value: term for term in Term},
}  # fmt: skip
_POINT_CURRENCIES = (CURRENCY, "GBP")
"""Currencies whose countries write a point before decimals, never before thousands."""
_QUARTER_MONTH = {"Q1": 1, "Q2": 4, "Q3": 7, "Q4": 10}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """One row of a table of quotes, checked. `price` is of the whole instance or server. [USD]"""

    gpu: str
    term: Term
    provider: str
    price: float
    gpus: int
    day: date
    date_is: DateKind
    tier: PriceTier
    source: str
    region: str | None
    instance: str | None
    includes_server: bool
    note: str | None
    terms: QuoteTerms = NO_TERMS
    kind: PriceKind = PriceKind.QUOTE
    zones: tuple[float, ...] = ()
    country: str | None = None
    upfront: float | None = None
    sold_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedQuote:
    """Rows that are not taken for one reason: the first of them, None in an export, and their number."""

    row: int | None
    reason: str
    rows: int = 1

    def __str__(self) -> str:
        if self.rows == 1:
            return f"{'1 row' if self.row is None else f'row {self.row}'}: {self.reason}"
        return f"{self.rows:,} rows: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedPrices:
    """What became of a table of quotes: price files by name, and the rows left out."""

    files: Mapping[str, str]
    quotes: tuple[Quote, ...]
    left_out: tuple[SkippedQuote, ...]


def import_quotes(
    path: Path, gpus: Mapping[str, GpuSpec], *, read_on: date, currency: str | None = None
) -> ImportedPrices:
    """Read a table of quotes, or an export of prices, and write it as price files.

    Args:
        path: An export that `read_export` knows; a .csv or .xlsx file whose first row names the columns:
            `QUOTE_COLUMNS`, and any of `OPTIONAL_QUOTE_COLUMNS`; or a .yaml file with `quotes`, a list of rows with
            these keys, and beside it what all of them share. `price` is in USD unless `currency` or a sign says
            otherwise, per hour for rents, of the whole instance or server; `gpus` says how many GPUs it holds.
        gpus: The database, by id.
        read_on: The day of the import, which the sources carry as the day of reading.
        currency: A currency with its price in US dollars, EUR=1.16, for rows in it; else the reference rate is taken.

    Raises:
        UsageError: The file is not one of these, or lacks a column.
    """
    names = GpuNames(gpus.values())
    export = read_export(path, load_providers(), names, read_on=read_on)
    if export is None:
        table = _Rows(names=names, exchange=ConversionRates(currency), source=path.name)
        for number, row in _rows(path, table):
            table.take(number, row)
    else:
        table = read_rows_of(export, names, source=path.name, currency=currency)
    quotes = tuple(table.quotes)
    return ImportedPrices(files=price_files(quotes, read_on=read_on), quotes=quotes, left_out=table.left_out)


def read_rows_of(export: Export, names: GpuNames, *, source: str, currency: str | None = None) -> "_Rows":
    """Return the quotes of an export, and by reason how many of its rows are left out."""
    table = _Rows(names=names, exchange=ConversionRates(currency), source=source, kind=export.kind)
    for found in export.rows:
        if isinstance(found, LeftOut):
            table.leave_out(None, found.reason, found.rows)
        else:
            table.take(None, found)
    return table


@dataclass(frozen=True, slots=True)
class ConversionRates:
    """Rates of exchange: the user's own of one currency, else the reference rates.

    `own` is a currency with its price in US dollars, such as EUR=1.16.
    """

    own: str | None = None

    def rate(self, currency: str) -> tuple[float, str]:
        """Return what a unit of a currency costs [USD], and in words whose rate that is.

        Raises:
            ValueError: no rate is known.
        """
        asked = self.own if self.own and self.own.upper().partition("=")[0] == currency else currency
        try:
            local = load_providers().local_currency(asked)
        except CapplanError as error:
            raise ValueError(
                f"the price is in {currency}, of which no rate is known; state one as ⟨currency⟩ {currency}=1.16"
            ) from error
        if local is None:
            return 1.0, CURRENCY
        whose = "your rate" if local.rate_day is None else f"the reference rate of {local.rate_day}"
        return local.usd_per_unit, f"{local.usd_per_unit:g} USD per {currency}, {whose}"


@dataclass(slots=True, kw_only=True)
class _Rows:
    """The rows of a table that are read so far: quotes, and what is left out."""

    names: GpuNames
    exchange: ConversionRates
    source: str
    kind: PriceKind | None = None
    decimal_comma: bool = False
    quotes: list[Quote] = field(default_factory=list)
    skipped: dict[str, SkippedQuote] = field(default_factory=dict)

    @property
    def left_out(self) -> tuple[SkippedQuote, ...]:
        """Return what is left out, by reason."""
        return tuple(self.skipped.values())

    def leave_out(self, number: int | None, reason: str, rows: int = 1) -> None:
        """Count rows that are not taken."""
        known = self.skipped.get(reason)
        self.skipped[reason] = (
            SkippedQuote(row=number, reason=reason, rows=rows)
            if known is None
            else replace(known, rows=known.rows + rows)
        )

    def take(self, number: int | None, row: Mapping[str, str]) -> None:
        """Read a row, or leave it out with all that is wrong with it."""
        try:
            quote = _quote(row, self)
        except UnreadableRowError as error:
            self.leave_out(number, str(error))
        else:
            self.quotes.append(quote if self.kind is None else replace(quote, kind=self.kind))


def _rows(path: Path, table: _Rows) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a table of quotes; of a table parted by semicolons, a comma stands before decimals."""
    if path.suffix in (".yaml", ".yml"):
        yield from _yaml_rows(path)
        return
    if path.suffix not in (".csv", ".xlsx"):
        raise UsageError(f"{path}: quotes stand in a .csv, .xlsx or .yaml file.")
    table.decimal_comma = path.suffix == ".csv" and is_parted_by_semicolons(path)
    cells_of = _xlsx_rows(path) if path.suffix == ".xlsx" else read_cells(path, ";" if table.decimal_comma else ",")
    head = next(cells_of, [])
    names = [_SYNONYMS.get(name.strip().lower(), name.strip().lower()) for name in head]
    missing = [name for name in QUOTE_COLUMNS if name not in names]
    if missing:
        raise UsageError(
            f"{path}: lacks the columns {', '.join(missing)}; a table of quotes has {', '.join(QUOTE_COLUMNS)}."
        )
    for number, cells in enumerate(cells_of, start=2):
        if number > MAX_ROWS:
            raise UsageError(f"{path}: holds more than {MAX_ROWS:,} rows.")
        if any(cells):
            padded = (*cells, *[""] * len(names))
            yield number, {name: cell.strip() for name, cell in zip(names, padded, strict=False)}


def _yaml_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the quotes of a YAML file, each with what the file states for all."""
    tree = read_yaml(path)
    if "hourly" in tree or "purchase" in tree:
        raise UsageError(f"{path}: is a price file already; put it into the folder prices/ of your spec folder.")
    quotes = tree.get("quotes")
    if not isinstance(quotes, list) or not quotes or not all(isinstance(quote, dict) for quote in quotes):
        raise UsageError(f"{path}: must hold quotes, a list of rows with {', '.join(QUOTE_COLUMNS)}.")
    shared = {key: value for key, value in tree.items() if key != "quotes"}
    known = {*QUOTE_COLUMNS, *OPTIONAL_QUOTE_COLUMNS, "value_per_gpu"}
    for number, quote in enumerate(quotes[:MAX_ROWS], start=1):
        row = {_SYNONYMS.get(str(key), str(key)): _scalar_words(value) for key, value in {**shared, **quote}.items()}
        for key in row.keys() - known:
            near = nearest_names(key, sorted(known))
            raise UsageError(f"{path}: quotes[{number - 1}].{key} is not known; near {', '.join(near) or 'nothing'}.")
        yield number, {name: row.get(name, "") for name in (*QUOTE_COLUMNS, *row)}


def _scalar_words(value: object) -> str:
    """Write a value as a cell of a table holds it."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value).strip()


def _xlsx_rows(path: Path) -> Iterator[list[str]]:
    try:
        from openpyxl import load_workbook  # noqa: PLC0415 - needed for workbooks alone
    except ImportError as error:
        raise UsageError(
            f"{path}: reading .xlsx needs openpyxl (pip install 'capplan[report]'); .csv needs nothing."
        ) from error
    try:
        sheet = load_workbook(path, read_only=True, data_only=True).worksheets[0]
        for row in sheet.iter_rows(values_only=True):
            days = (value.date() if isinstance(value, datetime) else value for value in row)
            yield ["" if value is None else str(value) for value in days]
    except (OSError, LookupError, ValueError, BadZipFile, SyntaxError) as error:  # XML that is damaged is a SyntaxError
        raise UsageError(f"{path}: is not a workbook that can be read ({error}).") from error


def _quote(row: Mapping[str, str], table: _Rows) -> Quote:
    """Read a row, each cell once; all that is wrong with it is named, so that a user mends a table in one pass."""
    problems: list[str] = []

    def read(reader: Callable[..., Any], *words: Any) -> Any:
        try:
            return reader(*words)
        except ValueError as error:
            problems.append(str(error))
            return None

    gpu = read(_gpu, row["gpu"], table.names)
    term = read(_term, row["term"])
    read(_check_provider, row["provider"])
    count = read(_whole, row.get("gpus") or "1", "gpus")
    paid = read(_paid, row, count or 1, table)
    dated = read(_day, row["date"], row.get("date_is", ""))
    tier = read(_member, row.get("tier") or PriceTier.QUOTED.value, PriceTier)
    numbers = {name: read(_amount, given, name) for name in _TERM_NUMBERS if (given := row.get(name))}
    valid_until = read(_last_day, row.get("valid_until", ""))
    zones = "" if table.kind is None else row.get("zones", "")
    ends = tuple(read(_amount, end, "price") for end in zones.split())
    upfront = read(_share, row.get("upfront", ""))
    if problems:
        raise UnreadableRowError("; ".join(problems))
    day, date_is = dated
    notes = (row.get("note"), paid.note)
    return Quote(
        gpu=gpu,
        term=term,
        provider=load_providers().canonical(row["provider"]),
        price=paid.usd,
        gpus=count,
        day=day,
        date_is=date_is,
        tier=tier,
        source=row.get("source") or table.source,
        region=row.get("region") or None,
        instance=row.get("instance") or None,
        includes_server=row["term"].lower() == "purchase server" or row.get("includes_server", "").lower() == "true",
        note="; ".join(note for note in notes if note) or None,
        terms=QuoteTerms(sku=row.get("sku") or None, valid_until=valid_until, **numbers),
        zones=tuple(paid.rate * end for end in ends),
        country=row.get("country", "").lower() or None,
        upfront=upfront,
        sold_by=row.get("sold_by") or None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Paid:
    """A price in US dollars, the rate at which it was converted, and words on it where it was."""

    usd: float
    rate: float = 1.0
    note: str = ""


def _paid(row: Mapping[str, str], count: int, table: _Rows) -> _Paid:
    """Read the price of a row in any currency of which a rate is known."""
    whole = bool(row["price"])
    text, sign = split_currency(row["price"] if whole else row.get("value_per_gpu", ""))
    currency = (row.get("currency") or sign or CURRENCY).upper()
    unsure = currency not in _POINT_CURRENCIES and _TERMS.get(row["term"].lower()) is Term.BUY
    value = _amount(
        text, "price", count=1 if whole else count, decimal_comma=table.decimal_comma or (None if unsure else False)
    )
    if currency == CURRENCY:
        return _Paid(usd=value)
    rate, words = table.exchange.rate(currency)
    return _Paid(usd=value * rate, rate=rate, note=f"{value:,.10g} {currency} at {words}")


def _share(text: str) -> float | None:
    if not text:
        return None
    share = read_number(text)
    if share > 100:
        raise ValueError(f"upfront must be per cent of the commitment from 0 to 100, not {text!r}")
    return share


def _term(given: str) -> Term:
    term = _TERMS.get(given.lower())
    if term is None:
        raise ValueError(f"term {given!r} is not known; use {', '.join(Term)}")
    return term


def _check_provider(named: str) -> None:
    if not named:
        raise ValueError("no provider is named")
    if len(named) > _LONGEST_PROVIDER:
        raise ValueError(f"the provider's name has more than {_LONGEST_PROVIDER} characters")


def _last_day(text: str) -> date | None:
    if not text:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"valid_until must be YYYY-MM-DD, not {text!r}") from None


def _gpu(given: str, names: GpuNames) -> str:
    found = names.sold_as(given)
    if len(found) == 1:
        return found[0].id
    if found:
        raise ValueError(f"{given!r} may be {', '.join(gpu.id for gpu in found)}; name one of these")
    nearest = names.nearest(given)
    raise ValueError(f"{given!r} is not a GPU of the database" + (f"; near {', '.join(nearest)}" if nearest else ""))


def _amount(text: str, name: str, *, count: int = 1, decimal_comma: bool | None = False) -> float:
    """Read an amount for each of `count`, and return that of all; the price files' reader takes what is returned."""
    try:
        value = read_number(text, in_dollars=name == "price", decimal_comma=decimal_comma) * count
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None
    if value == 0:
        raise ValueError(f"{name} must be a number above 0, not {text!r}")
    if not _LEAST_AMOUNT <= value <= MAX_AMOUNT:
        raise ValueError(f"{name} must lie between {_LEAST_AMOUNT:g} and {MAX_AMOUNT:g}, not {text!r}")
    return value


def _whole(text: str, name: str) -> int:
    value = _amount(text, name)
    if not value.is_integer():
        raise ValueError(f"{name} must be a whole number, not {text!r}")
    if value > MOST_GPUS:
        raise ValueError(f"{name} must be at most {MOST_GPUS}, not {text!r}")
    return int(value)


def _day(text: str, kind: str) -> tuple[date, DateKind]:
    """Read a day; of a month, quarter or year the first day, as "not before"."""
    date_is = _member(kind.replace(" ", "-") or DateKind.STATED.value, DateKind)
    try:
        return date.fromisoformat(text), date_is
    except ValueError:
        pass
    if german := re.fullmatch(r"(\d{1,2})\.(\d{1,2})\.(\d{4})", text):
        return date(int(german[3]), int(german[2]), int(german[1])), date_is
    match = re.fullmatch(r"(\d{4})(?:-(\d{2}|Q[1-4]))?", text)
    if match is None:
        raise ValueError(f"date must be YYYY-MM-DD, not {text!r}")
    part = match[2] or "01"
    month = _QUARTER_MONTH[part] if part in _QUARTER_MONTH else int(part)
    return date(int(match[1]), month, 1), DateKind.NOT_BEFORE


def _member(text: str, members: type[Member]) -> Member:
    try:
        return members(text.lower())
    except ValueError:
        raise ValueError(f"{text!r} is not known; use {', '.join(members)}") from None


def price_files(quotes: Iterable[Quote], *, read_on: date) -> dict[str, str]:
    """Write quotes as price files: rents by provider and day, purchases by provider.

    Returns:
        YAML by file name.
    """
    held_quotes = tuple(quotes)
    rents = _rents(held_quotes)
    purchases: dict[str, list[Quote]] = {}
    for quote in held_quotes:
        if quote.term is Term.BUY:
            purchases.setdefault(quote.provider, []).append(quote)
    files: dict[str, str] = {}
    for (provider, day, date_is), held in sorted(rents.items(), key=lambda item: (item[0][0], item[0][1], item[0][2])):
        suffix = "" if date_is is DateKind.STATED else f"-{date_is}"
        lines = [f"provider: {_scalar(provider)}", f"currency: {CURRENCY}", f"date: {day}", f"date_is: {date_is}"]
        keys = _source_keys(held)
        files[_free_name(f"{_slug(provider)}-{day}{suffix}", files)] = _document(
            lines, keys, "hourly", _rent_rows(held, keys), read_on
        )
    for provider, held in sorted(purchases.items()):
        files[_free_name(f"purchase-{_slug(provider)}", files)] = _purchase_file(held, read_on)
    return files


def _free_name(stem: str, taken: Collection[str]) -> str:
    """Return a name that no file has: names of providers may differ in what the name of a file leaves out."""
    numbered = (f"{stem}{f'-{number}' if number > 1 else ''}.yaml" for number in range(1, len(taken) + 2))
    return next(name for name in numbered if name not in taken)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _rent_rows(quotes: Sequence[Quote], keys: Mapping[str, str]) -> list[dict[str, object]]:
    return [
        {
            "gpu": quote.gpu, "instance": quote.instance or f"{quote.gpus}x {quote.gpu}", "gpus": quote.gpus,
            "pricing": quote.term.value, **({"region": quote.region} if quote.region else {}),
            **({"country": quote.country} if quote.country else {}), "per_hour": quote.price,
            **({"upfront": quote.upfront} if quote.upfront is not None else {}),
            **({"sold_by": quote.sold_by} if quote.sold_by else {}),
            **_shared(quote, keys),
        }
        for quote in _once(quotes)
    ]  # fmt: skip


def rent_trees(quotes: Iterable[Quote], *, read_on: date, url: str) -> tuple[dict[str, object], ...]:
    """Return rents as price files by provider and day, as trees that JSON can hold: days are texts."""
    trees: list[dict[str, object]] = []
    for (provider, day, date_is), held in _rents(quotes).items():
        keys = _source_keys(held)
        sources = {
            key: {"kind": "secondary", "title": title, "url": url, "retrieved": f"{read_on}"}
            for title, key in keys.items()
        }
        head = {"provider": provider, "currency": CURRENCY, "date": f"{day}", "date_is": date_is.value}
        trees.append({**head, "sources": sources, "hourly": _rent_rows(held, keys)})
    return tuple(trees)


def _rents(quotes: Iterable[Quote]) -> dict[tuple[str, date, DateKind], list[Quote]]:
    """Return the rents by provider and day."""
    rents: dict[tuple[str, date, DateKind], list[Quote]] = {}
    for quote in quotes:
        if quote.term is not Term.BUY:
            rents.setdefault((quote.provider, quote.day, quote.date_is), []).append(quote)
    return rents


def _purchase_file(quotes: Sequence[Quote], read_on: date) -> str:
    keys = _source_keys(quotes)
    rows = [
        {
            "gpu": quote.gpu, "date": quote.day, "date_is": quote.date_is.value,
            "offer": "quote" if quote.tier is PriceTier.QUOTED and quote.kind is PriceKind.QUOTE else "street",
            "seller": quote.provider, "price": quote.price, "gpus": quote.gpus,
            **({"includes_server": True} if quote.includes_server else {}), **_shared(quote, keys),
        }
        for quote in _once(quotes)
    ]  # fmt: skip
    return _document([f"currency: {CURRENCY}"], keys, "purchase", rows, read_on)


def _shared(quote: Quote, keys: Mapping[str, str]) -> dict[str, object]:
    note: dict[str, object] = {"note": quote.note} if quote.note else {}
    if quote.kind is not PriceKind.QUOTE:
        note["kind"] = quote.kind.value
    if quote.zones:
        note["zones"] = list(quote.zones)
    terms = {name: value for name, value in asdict(quote.terms).items() if value is not None}
    return {"source": keys[quote.source], "tier": quote.tier.value, **terms, **note}


def _once(quotes: Sequence[Quote]) -> list[Quote]:
    """Drop rows that repeat another in all but source and note; the better tier stays."""
    best: dict[tuple[object, ...], Quote] = {}
    tiers = list(PriceTier)
    for quote in quotes:
        key = (
            quote.gpu, quote.term, quote.region, quote.country, quote.instance, quote.gpus, quote.price, quote.day,
            quote.upfront,
        )  # fmt: skip
        if key not in best or tiers.index(quote.tier) < tiers.index(best[key].tier):
            best[key] = quote
    return sorted(best.values(), key=lambda kept: (kept.gpu, kept.term, kept.region or "", kept.gpus, kept.price))


def _source_keys(quotes: Sequence[Quote]) -> dict[str, str]:
    names = dict.fromkeys(quote.source for quote in _once(quotes))
    return {name: f"source-{number}" for number, name in enumerate(names, start=1)}


def _document(
    head: list[str], keys: Mapping[str, str], name: str, rows: Sequence[Mapping[str, object]], read_on: date
) -> str:
    sources = [
        f"  {key}: " + _flow({"kind": "secondary", "title": title, "retrieved": read_on}) for title, key in keys.items()
    ]
    return "\n".join([*head, "sources:", *sources, f"{name}:", *(f"  - {_flow(row)}" for row in rows)]) + "\n"


def _flow(values: Mapping[str, object]) -> str:
    return "{" + ", ".join(f"{key}: {_scalar(value)}" for key, value in values.items()) + "}"


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_scalar, value))}]"
    if isinstance(value, int | float | date):
        text = f"{value:.10g}" if isinstance(value, float) else str(value)
        return f"{value:.9e}" if "e" in text else text  # YAML's numbers have digits behind a point before an exponent
    text = str(yaml.safe_dump(str(value), default_style='"', width=10**6, allow_unicode=True)).strip()
    plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*", str(value))
    reserved = {"true", "false", "yes", "no", "y", "n", "on", "off", "null", "none"}
    return str(value) if plain and str(value).lower() not in reserved else text
