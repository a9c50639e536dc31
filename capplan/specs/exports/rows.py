"""What readers of exports give: offers in the columns of a table of quotes, and what they leave out."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, TypeAlias

from capplan.core.gpus.machines import MachineType
from capplan.core.gpus.names import GpuNames
from capplan.core.gpus.prices import PriceKind, Term
from capplan.errors import UsageError
from capplan.specs.foreign_numbers import read_number
from capplan.specs.providers import Providers

Row: TypeAlias = dict[str, str]
"""An offer, by the columns of a table of quotes."""

HOURS_OF_A_YEAR = 8760
YEARS_OF_TERM = {1: Term.RESERVED_1Y, 3: Term.RESERVED_3Y}

NO_GPU = "a machine without a GPU that is known"
WINDOWS = "with Windows or other software that is paid for"
OTHER_TENANCY = "on a dedicated host"
NO_PRICE = "without a price"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Rows of an export that are not taken, and why."""

    reason: str
    rows: int = 1


Found: TypeAlias = Row | LeftOut


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """The rows of an export, in its order, and from whom its prices are known.

    A row whose `gpu` names nothing is left out by whoever reads it, with that as the reason.
    """

    rows: Iterable[Found]
    kind: PriceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What an export is read with.

    Attributes:
        day: The day of the import, on which a price held at the latest where an export has no day.
        is_of_today: Whether the export was fetched from the provider on that day, so that its prices held on it.
        changed_on: The day of the file's last change, from which on its prices hold; empty where it is not known.
    """

    providers: Providers
    names: GpuNames
    day: date
    is_of_today: bool = False
    changed_on: str = ""
    _machines: dict[str, re.Pattern[str]] = field(default_factory=dict, repr=False)

    def dated(self, day: str | None = None, *, not_before: str | None = None) -> Row:
        """Return the columns of a price's day.

        Args:
            day: The day that the export states for its prices.
            not_before: The day from which on they hold, where it states that alone.
        """
        if day:
            return {"date": day[:10], "date_is": "stated"}
        if self.is_of_today:
            return {"date": f"{self.day}", "date_is": "stated"}
        start = self.changed_on or not_before
        if start and start[:10] <= f"{self.day}":
            return {"date": start[:10], "date_is": "not-before"}
        return {"date": f"{self.day}", "date_is": "not-after"}

    def offer(self, machine: MachineType, region: str, term: Term, price: float, dated: Row) -> Row:
        """Return the row of a machine whose type is known. `price` is of the whole machine [currency/h]."""
        return {
            "provider": machine.provider, "gpu": machine.gpu, "gpus": str(machine.gpus), "instance": machine.name,
            "region": region, "term": term.value, "price": f"{price:.10g}", **dated,
        }  # fmt: skip

    def gpu(self, name: str, *, beside: str = "", memory_gib: float | None = None) -> str:
        """Return the id of the GPU that an export names; the name where it may be several, or none."""
        stated = None if not memory_gib else memory_gib * 2**30
        found = self.names.sold_as(name, beside=beside, memory_bytes=stated)
        if len(found) == 1:
            return found[0].id
        size = f" of {memory_gib:.0f} GiB" if memory_gib and not found else ""
        return f"{name}{size}"

    def machine_in(self, provider: str, text: str) -> MachineType | None:
        """Return the machine of a provider that a text names as a word."""
        known = self.providers.providers.get(provider)
        if known is None or not known.machines:
            return None
        if provider not in self._machines:
            longest = sorted(known.machines, key=len, reverse=True)
            self._machines[provider] = re.compile(
                rf"(?<![\w.-])({'|'.join(map(re.escape, longest))})(?![\w-])", re.IGNORECASE
            )
        match = self._machines[provider].search(text)
        return None if match is None else known.machines[match[1].lower()]


Reader: TypeAlias = Callable[[Any, Reading], Iterator[Found]]
"""Reads a document's offers; what is not as the form promises raises LookupError, TypeError or ValueError."""


def amount(value: Any) -> float:
    """Return a price that JSON holds as a number or as a text.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(value, str):
        return read_number(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r:.60} is no price")
    return float(value)


def newest_start(days: Iterable[Any]) -> str | None:
    """Return the newest of the days from which prices hold: an answer that states it is not older than that."""
    stated = [day[:10] for day in days if isinstance(day, str) and re.match(r"\d{4}-\d{2}-\d{2}", day)]
    return max(stated, default=None)


def commitment(hourly: float, upfront: float, years: int) -> Row:
    """Return the columns of a commitment's price: its cost by the hour, and the share that is paid on the first day."""
    hours = years * HOURS_OF_A_YEAR
    price = hourly + upfront / hours
    share = {} if upfront <= 0 else {"upfront": f"{min(100.0, 100 * upfront / (hours * price)):.4g}"}
    return {"term": YEARS_OF_TERM[years].value, "price": f"{price:.10g}", **share}


def with_zones(rows: Iterable[Row]) -> Iterator[Row]:
    """Join rows of one machine in several zones of a region: the lowest price, of spot with the span of all zones."""
    offers: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        key = tuple(row.get(name, "") for name in ("provider", "gpu", "gpus", "instance", "region", "term", "upfront"))
        offers.setdefault(key, []).append(row)
    for zones in offers.values():
        lowest = min(zones, key=lambda row: float(row["price"]))
        highest = max(float(row["price"]) for row in zones)
        if lowest["term"] == Term.SPOT and len(zones) > 1:
            lowest = {**lowest, "zones": f"{lowest['price']} {highest:.10g}"}
        yield lowest


def of_texts(row: Mapping[str, Any]) -> Row:
    """Return a row whose values are texts, which JSON does not promise.

    Raises:
        ValueError: one is not, or holds half of a character.
    """
    for name, value in row.items():
        if not isinstance(value, str):
            raise ValueError(f"{name} is {value!r:.60}, which is no text")
        if any("\ud800" <= sign <= "\udfff" for sign in value):
            raise ValueError(f"{name} holds half of a character")
    return {name: value.strip() for name, value in row.items()}


_NOT_THE_FORM = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


def checked(path: Path, what: str, read: Callable[[], Iterator[Found]]) -> Iterator[Found]:
    """Yield rows whose values are texts; what is not in the form of its export is refused in a sentence.

    Raises:
        UsageError: it is not in that form.
    """
    try:
        for found in read():
            yield found if isinstance(found, LeftOut) else of_texts(found)
    except UsageError:
        raise
    except _NOT_THE_FORM as error:
        raise UsageError(f"{path}: has {what}, but not in its form ({error!s:.200}).") from error
