"""Format a report's figures with the same words in every rendering."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from capplan.core.gpus.prices import Term
from capplan.core.serving.load import Job, Load, TrainingPurchase
from capplan.shapes.types import OptionRow
from capplan.units import SECONDS, format_fraction, format_seconds

UNKNOWN = "unknown"


def money(amount: float | None) -> str:
    """Write an amount, its currency aside: thousands parted, cents below 100, three digits below 1."""
    if amount is None:
        return UNKNOWN
    if abs(amount) >= 100:
        return f"{amount:,.0f}"
    return f"{amount:,.2f}" if abs(amount) >= 1 or amount == 0 else f"{amount:.3g}"


def headline_money(amount: float | None) -> str:
    """Write an amount of a headline or a key figure with three significant digits, its currency aside.

    Its interval is far wider than the digits beyond: prices alone vary by a fifth. Tables, the workbook and documents
    hold the whole amount.
    """
    if amount is None or abs(amount) < 1000:
        return money(amount)
    step = 10 ** (math.floor(math.log10(abs(amount))) - 2)
    return f"{round(amount / step) * step:,.0f}"


def column_digits(amounts: Iterable[float | None], *, whole_from: float = 100.0) -> int:
    """Return the decimals that all amounts of a column are written with: more where the smallest is small.

    Args:
        amounts: The amounts of the column; unknown ones are passed over. [USD]
        whole_from: From which smallest amount on there are none. [USD]
    """
    smallest = min((abs(amount) for amount in amounts if amount), default=whole_from)
    return 0 if smallest >= whole_from else 2 if smallest >= 1 else 3 if smallest >= 0.1 else 4


AMOUNTS = {"cost_usd_per_year": 10.0, "total_usd": 10.0, "usd_per_million": 100.0}
"""The columns of amounts of an option, and from which smallest amount on each is written without decimals. [USD]"""


def amount_digits(rows: Sequence[OptionRow]) -> dict[str, int]:
    """Return the decimals of each column of `AMOUNTS` for the options that a table shows."""
    return {
        name: column_digits((getattr(row, name) for row in rows), whole_from=whole) for name, whole in AMOUNTS.items()
    }


def fixed(amount: float | None, digits: int) -> str:
    """Write an amount with thousands parted and the decimals of its column."""
    return UNKNOWN if amount is None else f"{amount:,.{digits}f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeScale:
    """The unit and the decimals that all times of a column are written with; `unit_s` is the unit in seconds."""

    unit: str
    unit_s: float
    digits: int

    def write(self, time_s: float | None) -> str:
        """Write a time; None is work that piles up without end."""
        return "overload" if time_s is None else f"{time_s / self.unit_s:,.{self.digits}f} {self.unit}"


_TIME_UNITS = (
    ("h", SECONDS["h"], 0.1), ("min", SECONDS["min"], 0.5), ("s", 1.0, 1.0), ("ms", 1e-3, 0.1), ("µs", 1e-6, 0.0),
)  # fmt: skip
"""Units with their seconds, and how much of one the shortest time of a column must be at least."""


def time_scale(times_s: Iterable[float | None]) -> TimeScale:
    """Return the unit of a column of times, by the shortest of them, with one decimal or with two below one unit."""
    least = min((time_s for time_s in times_s if time_s), default=1.0)
    unit, unit_s = next((unit, unit_s) for unit, unit_s, share in _TIME_UNITS if least >= share * unit_s)
    return TimeScale(unit=unit, unit_s=unit_s, digits=1 if least >= unit_s else 2)


def time_cell(rows: Sequence[OptionRow], time_s: Callable[[OptionRow], float | None]) -> Callable[[OptionRow], str]:
    """Return what writes one time of each of these options, all in one unit with the same decimals."""
    scale = time_scale(map(time_s, rows))
    return lambda row: scale.write(time_s(row))


def percent(value: float | None, digits: int) -> str:
    """Write a share as a percentage with the decimals of its column."""
    return UNKNOWN if value is None else f"{100 * value:,.{digits}f} %"


def headroom(row: OptionRow) -> str:
    """Write what an option's fleet carries beyond the load."""
    return percent(row.headroom_fraction, 0)


def price(row: OptionRow) -> str:
    """Write an option's price with its unit and date."""
    if row.price_usd is None:
        return "no price"
    unit = "USD/GPU-h" if row.term != "buy" else "USD/GPU"
    return f"{row.price_usd:,.3f} {unit}" if row.term != "buy" else f"{row.price_usd:,.0f} {unit}"


def seconds(time_s: float | None) -> str:
    """Write a time; None is work that piles up without end."""
    return "overload" if time_s is None else format_seconds(time_s)


def duration(time_s: float) -> str:
    """Write how long a run takes: hours with one decimal, minutes below one hour."""
    if time_s >= SECONDS["h"]:
        return f"{time_s / SECONDS['h']:,.1f} h"
    return f"{time_s / SECONDS['min']:.1f} min" if time_s >= SECONDS["min"] else format_seconds(time_s)


def pace_s(row: OptionRow) -> float:
    """Return how fast an option is: how long a run of a job or a training takes, else the latency. [s]"""
    return row.latency_s.expected if row.finish_s is None else row.finish_s


def pace_head(load: Load) -> str:
    """Return the heading over `pace`."""
    return "finishes in" if isinstance(load, Job | TrainingPurchase) else "latency"


def evidence(row: OptionRow) -> str:
    """Write how an option's speed / price are known, with what speaks against relying on them."""
    known = row.speed_tier + (f" / {row.price_known_by}" if row.price_known_by else "")
    others = [concern for concern in row.concerns if not concern.startswith(("speed", "price is"))]
    return "; ".join([known, *others])


def quote_terms(row: OptionRow) -> str:
    """Write what an option's quote states besides its price; empty where it states nothing."""
    lead, years = row.lead_time_days, row.warranty_years
    parts = (
        None if row.sku is None else f"part number {row.sku}",
        None if row.price_valid_until is None else f"valid until {row.price_valid_until}",
        None if lead is None else f"delivered {lead:g} day{'s' * (lead != 1)} after the order",
        None if years is None else f"{years:g} year{'s' * (years != 1)} of warranty",
    )
    return ", ".join(part for part in parts if part)


_TERM_WORDS = {
    Term.BUY: "bought", Term.RESERVED_3MO: "3-month commitment", Term.RESERVED_6MO: "6-month commitment",
    Term.RESERVED_1Y: "1-year commitment", Term.RESERVED_3Y: "3-year commitment",
}  # fmt: skip


def term_words(term: str) -> str:
    """Write a term of purchase or rent as a buyer says it."""
    return next((words for known, words in _TERM_WORDS.items() if known.value == term), term)


def short_name(gpu_name: str) -> str:
    """Return a GPU's name without the vendor that most share, short enough to stand in a chart."""
    return gpu_name.removeprefix("NVIDIA ")


def option_name(row: OptionRow | None) -> str:
    """Name an option: its GPU and term, and the provider where `option_term` names it."""
    return f"{row.gpu_name} {option_term(row)}" if row else "none"


def option_term(row: OptionRow) -> str:
    """Write an option's term, with the provider of a marketplace or of an offer that stands beside another."""
    words = term_words(row.term)
    stands_beside = row.is_beside_sound or row.is_own_beside
    return f"{words} ({row.provider})" if row.is_marketplace or stands_beside else words


def fraction(value: float | None) -> str:
    """Write a share as a percentage."""
    return UNKNOWN if value is None else format_fraction(value)


def whole(value: float | None) -> str:
    """Write a count with thousands parted."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def offer(row: OptionRow) -> str:
    """Name the provider, instance and region."""
    region = row.region if row.region not in ("any", "n/a") else None
    return ", ".join(word for word in (row.provider, row.instance, region) if word) or "no price known"


def capitalised(words: str) -> str:
    """Begin a sentence: the first letter large, the others as they are."""
    return words[:1].upper() + words[1:]
