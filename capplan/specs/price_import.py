"""Turn price quotes (CSV, XLSX or YAML) into price files: one per provider and day."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

import yaml

from capplan.core.gpus.prices import CURRENCY, NO_TERMS, DateKind, PriceKind, PriceTier, QuoteTerms, Term
from capplan.core.gpus.spec import GpuSpec
from capplan.errors import UsageError, nearest_names
from capplan.specs.foreign_numbers import read_number
from capplan.specs.price_exports import read_export
from capplan.specs.prices import MAX_AMOUNT, MOST_GPUS
from capplan.specs.providers import load_providers
from capplan.specs.strict_yaml import read_yaml
from capplan.tables import UnreadableRowError, read_cells

COLUMNS = ("gpu", "term", "provider", "price", "date")
"""Columns that a table of quotes must have; see `OPTIONAL_COLUMNS` for the others."""
OPTIONAL_COLUMNS = (
    "region", "instance", "gpus", "currency", "date_is", "tier", "source", "note", "includes_server",
    "sku", "valid_until", "lead_time_days", "warranty_years",
)  # fmt: skip

_TERM_NUMBERS = ("lead_time_days", "warranty_years")
MAX_ROWS = 100_000
_LONGEST_PROVIDER = 100
_LEAST_AMOUNT = 1e-9

Member = TypeVar("Member", PriceTier, DateKind)
_SYNONYMS = {
    "what": "term", "value_instance": "price", "per_hour": "price", "price_date": "date", "pricing": "term",
    "vendor": "provider", "seller": "provider", "part number": "sku", "part_number": "sku",
    "valid until": "valid_until",
    "lead time": "lead_time_days", "lead_time": "lead_time_days", "warranty": "warranty_years",
}  # fmt: skip
_TERMS = {
    "rent on-demand": Term.ON_DEMAND, "rent spot": Term.SPOT, "rent committed 3mo": Term.RESERVED_3MO,
    "rent committed 6mo": Term.RESERVED_6MO, "rent committed 1y": Term.RESERVED_1Y,
    "rent committed 3y": Term.RESERVED_3Y, "capacity block": Term.CAPACITY_BLOCK, "rent flex-start": Term.FLEX_START,
    "rent community host": Term.COMMUNITY, "purchase card": Term.BUY, "purchase server": Term.BUY,
    **{term.value: term for term in Term},
}  # fmt: skip
_PROVIDERS = {"google cloud": "gcp", "amazon web services": "aws", "microsoft azure": "azure"}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedQuote:
    """A row that is not taken, and why."""

    row: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedPrices:
    """What became of a table of quotes: price files by name, and the rows left out."""

    files: Mapping[str, str]
    quotes: tuple[Quote, ...]
    left_out: tuple[SkippedQuote, ...]


def import_quotes(path: Path, gpus: Mapping[str, GpuSpec], *, read_on: date) -> ImportedPrices:
    """Read a table of quotes, or an export of prices, and write it as price files.

    Args:
        path: An export that `read_export` knows; a .csv or .xlsx file whose first row names the columns: `COLUMNS`, and
            any of `OPTIONAL_COLUMNS`; or a .yaml file with `quotes`, a list of rows with these keys, and beside it what
            all of them share. `price` is in USD, per hour for rents, of the whole instance or server;
            `gpus` says how many GPUs it holds.
        gpus: The database, by id.
        read_on: The day of the import, which the sources carry as the day of reading.

    Raises:
        UsageError: The file is not one of these, or lacks a column.
    """
    export = read_export(path, load_providers(), read_on=read_on)
    rows = _rows(path) if export is None else enumerate(export.rows, start=1)
    quotes: list[Quote] = []
    left_out: list[SkippedQuote] = []
    for number, row in rows:
        try:
            zones = "" if export is None else row.get("zones", "")
            quote = _quote(row, gpus, default_source=path.name, zones=zones)
            quotes.append(quote if export is None else replace(quote, kind=export.kind))
        except UnreadableRowError as error:
            left_out.append(SkippedQuote(row=number, reason=str(error)))
    return ImportedPrices(files=price_files(quotes, read_on=read_on), quotes=tuple(quotes), left_out=tuple(left_out))


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    if path.suffix in (".yaml", ".yml"):
        yield from _yaml_rows(path)
        return
    if path.suffix not in (".csv", ".xlsx"):
        raise UsageError(f"{path}: quotes stand in a .csv, .xlsx or .yaml file.")
    table = _xlsx_rows(path) if path.suffix == ".xlsx" else read_cells(path)
    head = next(table, [])
    names = [_SYNONYMS.get(name.strip().lower(), name.strip().lower()) for name in head]
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise UsageError(f"{path}: lacks the columns {', '.join(missing)}; a table of quotes has {', '.join(COLUMNS)}.")
    for number, cells in enumerate(table, start=2):
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
        raise UsageError(f"{path}: must hold quotes, a list of rows with {', '.join(COLUMNS)}.")
    shared = {key: value for key, value in tree.items() if key != "quotes"}
    known = {*COLUMNS, *OPTIONAL_COLUMNS, "value_per_gpu"}
    for number, quote in enumerate(quotes[:MAX_ROWS], start=1):
        row = {_SYNONYMS.get(str(key), str(key)): _scalar_words(value) for key, value in {**shared, **quote}.items()}
        for key in row.keys() - known:
            near = nearest_names(key, sorted(known))
            raise UsageError(f"{path}: quotes[{number - 1}].{key} is not known; near {', '.join(near) or 'nothing'}.")
        yield number, {name: row.get(name, "") for name in (*COLUMNS, *row)}


def _scalar_words(value: object) -> str:
    """Write a value as a cell of a table holds it."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value).strip()


def _xlsx_rows(path: Path) -> Iterator[list[str]]:
    try:
        from openpyxl import load_workbook  # noqa: PLC0415 - needed for workbooks alone
    except ImportError as error:
        raise UsageError(f"{path}: reading .xlsx needs openpyxl (pip install openpyxl); .csv needs nothing.") from error
    try:
        sheet = load_workbook(path, read_only=True, data_only=True).worksheets[0]
        for row in sheet.iter_rows(values_only=True):
            days = (value.date() if isinstance(value, datetime) else value for value in row)
            yield ["" if value is None else str(value) for value in days]
    except (OSError, LookupError, ValueError, BadZipFile, SyntaxError) as error:  # XML that is damaged is a SyntaxError
        raise UsageError(f"{path}: is not a workbook that can be read ({error}).") from error


def _quote(row: Mapping[str, str], gpus: Mapping[str, GpuSpec], *, default_source: str, zones: str) -> Quote:
    """Read a row, each cell once; all that is wrong with it is named, so that a user mends a table in one pass."""
    problems: list[str] = []

    def read(reader: Callable[..., Any], *words: Any) -> Any:
        try:
            return reader(*words)
        except ValueError as error:
            problems.append(str(error))
            return None

    gpu = read(_gpu, row["gpu"], gpus)
    term = read(_term, row["term"])
    read(_check_provider_and_currency, row)
    count = read(_whole, row.get("gpus") or "1", "gpus")
    price = read(_price, row, count or 1)
    dated = read(_day, row["date"], row.get("date_is", ""))
    tier = read(_member, row.get("tier") or PriceTier.QUOTED.value, PriceTier)
    numbers = {name: read(_amount, given, name) for name in _TERM_NUMBERS if (given := row.get(name))}
    valid_until = read(_last_day, row.get("valid_until", ""))
    ends = tuple(read(_amount, end, "price") for end in zones.split())
    if problems:
        raise UnreadableRowError("; ".join(problems))
    day, date_is = dated
    return Quote(
        gpu=gpu,
        term=term,
        provider=_PROVIDERS.get(row["provider"].lower(), row["provider"]),
        price=price,
        gpus=count,
        day=day,
        date_is=date_is,
        tier=tier,
        source=row.get("source") or default_source,
        region=row.get("region") or None,
        instance=row.get("instance") or None,
        includes_server=row["term"].lower() == "purchase server" or row.get("includes_server", "").lower() == "true",
        note=row.get("note") or None,
        terms=QuoteTerms(sku=row.get("sku") or None, valid_until=valid_until, **numbers),
        zones=ends,
    )


def _term(given: str) -> Term:
    term = _TERMS.get(given.lower())
    if term is None:
        raise ValueError(f"term {given!r} is not known; use {', '.join(Term)}")
    return term


def _check_provider_and_currency(row: Mapping[str, str]) -> None:
    problems = [] if row["provider"] else ["no provider is named"]
    if len(row["provider"]) > _LONGEST_PROVIDER:
        problems.append(f"the provider's name has more than {_LONGEST_PROVIDER} characters")
    if (currency := row.get("currency") or CURRENCY) != CURRENCY:
        problems.append(f"the price is in {currency}; convert it to {CURRENCY}")
    if problems:
        raise ValueError("; ".join(problems))


def _last_day(text: str) -> date | None:
    if not text:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"valid_until must be YYYY-MM-DD, not {text!r}") from None


def _gpu(given: str, gpus: Mapping[str, GpuSpec]) -> str:
    if given in gpus:
        return given
    by_alias = {alias.lower(): gpu.id for gpu in gpus.values() for alias in (gpu.name, *gpu.aliases)}
    if gpu_id := by_alias.get(given.lower()):
        return gpu_id
    nearest = nearest_names(given, list(gpus))
    raise ValueError(f"{given!r} is not a GPU of the database" + (f"; near {', '.join(nearest)}" if nearest else ""))


def _price(row: Mapping[str, str], count: int) -> float:
    if row["price"]:
        return _amount(row["price"], "price")
    return _amount(row.get("value_per_gpu", ""), "price", count=count)


def _amount(text: str, name: str, *, count: int = 1) -> float:
    """Read an amount for each of `count`, and return that of all; the price files' reader takes what is returned."""
    try:
        value = read_number(text, in_dollars=name == "price") * count
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
    rents: dict[tuple[str, date, DateKind], list[Quote]] = {}
    purchases: dict[str, list[Quote]] = {}
    for quote in quotes:
        if quote.term is Term.BUY:
            purchases.setdefault(quote.provider, []).append(quote)
        else:
            rents.setdefault((quote.provider, quote.day, quote.date_is), []).append(quote)
    files: dict[str, str] = {}
    for (provider, day, date_is), held in sorted(rents.items(), key=lambda item: (item[0][0], item[0][1], item[0][2])):
        suffix = "" if date_is is DateKind.STATED else f"-{date_is}"
        files[_free_name(f"{_slug(provider)}-{day}{suffix}", files)] = _rent_file(provider, day, date_is, held, read_on)
    for provider, held in sorted(purchases.items()):
        files[_free_name(f"purchase-{_slug(provider)}", files)] = _purchase_file(held, read_on)
    return files


def _free_name(stem: str, taken: Collection[str]) -> str:
    """Return a name that no file has: names of providers may differ in what the name of a file leaves out."""
    numbered = (f"{stem}{f'-{number}' if number > 1 else ''}.yaml" for number in range(1, len(taken) + 2))
    return next(name for name in numbered if name not in taken)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _rent_file(provider: str, day: date, date_is: DateKind, quotes: Sequence[Quote], read_on: date) -> str:
    lines = [f"provider: {_scalar(provider)}", f"currency: {CURRENCY}", f"date: {day}", f"date_is: {date_is}"]
    keys = _source_keys(quotes)
    rows = [
        {
            "gpu": quote.gpu, "instance": quote.instance or f"{quote.gpus}x {quote.gpu}", "gpus": quote.gpus,
            "pricing": quote.term.value, **({"region": quote.region} if quote.region else {}), "per_hour": quote.price,
            **_shared(quote, keys),
        }
        for quote in _once(quotes)
    ]  # fmt: skip
    return _document(lines, keys, "hourly", rows, read_on)


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
        key = (quote.gpu, quote.term, quote.region, quote.instance, quote.gpus, quote.price, quote.day)
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
    reserved = {"true", "false", "yes", "no", "on", "off", "null", "none"}
    return str(value) if plain and str(value).lower() not in reserved else text
