"""Format a report's figures with the same words in every rendering."""

from collections.abc import Iterable

from capplan.core.numbers import Interval
from capplan.core.serving.load import Job, Load, TrainingPurchase
from capplan.report.procurement.types import OptionRow
from capplan.units import SECONDS, format_fraction, format_rate, format_seconds

UNKNOWN = "unknown"


def money(amount: float | None) -> str:
    """Write an amount, its currency aside: thousands parted, cents below 100, three digits below 1."""
    if amount is None:
        return UNKNOWN
    if abs(amount) >= 100:
        return f"{amount:,.0f}"
    return f"{amount:,.2f}" if abs(amount) >= 1 or amount == 0 else f"{amount:.3g}"


def column_digits(amounts: Iterable[float | None]) -> int:
    """Return the decimals that all amounts of a column are written with: none from 100 up, more where all are small."""
    known = [abs(amount) for amount in amounts if amount]
    smallest = min(known, default=100.0)
    return 0 if smallest >= 100 else 2 if smallest >= 1 else 3 if smallest >= 0.1 else 4


def fixed(amount: float | None, digits: int) -> str:
    """Write an amount with thousands parted and the decimals of its column."""
    return UNKNOWN if amount is None else f"{amount:,.{digits}f}"


def price(row: OptionRow) -> str:
    """Write an option's price with its unit and date."""
    if row.offer.price_usd is None:
        return "no price"
    unit = "USD/GPU-h" if row.offer.term != "buy" else "USD/GPU"
    return f"{row.offer.price_usd:,.3f} {unit}" if row.offer.term != "buy" else f"{row.offer.price_usd:,.0f} {unit}"


def seconds(time_s: float | None) -> str:
    """Write a time; None is work that piles up without end."""
    return "overload" if time_s is None else format_seconds(time_s)


def duration(time_s: float) -> str:
    """Write how long a run takes: hours with one decimal, minutes below one hour."""
    if time_s >= SECONDS["h"]:
        return f"{time_s / SECONDS['h']:,.1f} h"
    return f"{time_s / SECONDS['min']:.1f} min" if time_s >= SECONDS["min"] else format_seconds(time_s)


def pace(row: OptionRow) -> str:
    """Write how fast an option is: how long a run of a job or a training takes, else the latency."""
    return seconds(row.response.latency_s.expected) if row.speed.finish_s is None else duration(row.speed.finish_s)


def pace_head(load: Load) -> str:
    """Return the heading over `pace`."""
    return "finishes in" if isinstance(load, Job | TrainingPurchase) else "latency"


def seconds_range(interval: Interval) -> str:
    """Write a time with its interval."""
    if interval.low == interval.high:
        return format_seconds(interval.expected)
    return f"{format_seconds(interval.expected)} ({format_seconds(interval.low)} to {format_seconds(interval.high)})"


def evidence(row: OptionRow) -> str:
    """Write how an option's speed / price are known, with what speaks against relying on them."""
    known = row.evidence.speed_tier + (f" / {row.offer.price_tier}" if row.offer.price_tier else "")
    others = [concern for concern in row.evidence.concerns if not concern.startswith(("speed", "price is"))]
    return "; ".join([known, *others])


def option_name(row: OptionRow | None) -> str:
    """Name an option: its GPU and term."""
    return f"{row.gpu_name} {row.offer.term}" if row else "none"


def fraction(value: float | None) -> str:
    """Write a share as a percentage."""
    return UNKNOWN if value is None else format_fraction(value)


def rate(value: float) -> str:
    """Write samples per second."""
    return format_rate(value)


def whole(value: float | None) -> str:
    """Write a count with thousands parted."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def offer(row: OptionRow) -> str:
    """Name the provider, instance and region."""
    region = row.offer.region if row.offer.region not in ("any", "n/a") else None
    return ", ".join(word for word in (row.offer.provider, row.offer.instance, region) if word) or "no price known"


def short_money(amount: float) -> str:
    """Write an amount for an axis, such as 120k."""
    for scale, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(amount) >= scale:
            return f"{amount / scale:g}{suffix}"
    return f"{amount:g}"


def capitalised(words: str) -> str:
    """Begin a sentence: the first letter large, the others as they are."""
    return words[:1].upper() + words[1:]
