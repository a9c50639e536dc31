"""Whether a GPU is sold, since when, and when an announced one is expected: dated facts of its sheet."""

import re
from calendar import monthrange
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from capplan.core.gpus.spec import GpuSpec, Status

EXPECTED = r"20\d{2}(-(Q[1-4]|H[12]|0[1-9]|1[0-2]))?"
"""How a sheet writes the period in which an announced GPU is expected: 2027, 2026-H2, 2026-Q4 or 2026-11."""
_PARTS = {"Q": ("quarter", 3), "H": ("half", 6)}
_ORDINALS = ("first", "second", "third", "fourth")


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A stretch of days, and its words in a sentence, such as "in the fourth quarter of 2026"."""

    first: date
    last: date
    words: str


def period_of(text: str) -> Period:
    """Return the period that a sheet writes as `EXPECTED` says."""
    if not re.fullmatch(EXPECTED, text):
        raise ValueError(f"{text!r} is no period such as 2027, 2026-H2, 2026-Q4 or 2026-11")
    year, _, part = text.partition("-")
    if not part:
        return _period(int(year), 1, 12, f"in {year}")
    if part[0] in _PARTS:
        name, months = _PARTS[part[0]]
        index = int(part[1]) - 1
        return _period(int(year), 1 + index * months, months, f"in the {_ORDINALS[index]} {name} of {year}")
    return _period(int(year), int(part), 1, f"in {text}")


def _period(year: int, month: int, months: int, words: str) -> Period:
    end = month + months - 1
    return Period(first=date(year, month, 1), last=date(year, end, monthrange(year, end)[1]), words=words)


def is_announced(gpu: GpuSpec) -> bool:
    """Return True for a GPU that its vendor has announced and nobody sells yet."""
    return gpu.status is Status.ANNOUNCED


def expected_period(gpu: GpuSpec) -> Period | None:
    """Return when an announced GPU is expected; None for all others."""
    return period_of(gpu.expected) if is_announced(gpu) and gpu.expected else None


def sold_since(gpu: GpuSpec) -> date | None:
    """Return the day from which a GPU is sold, else the day of its release; None for an announced one."""
    return None if is_announced(gpu) else gpu.sold_since or gpu.release_date


def is_new(gpu: GpuSpec, *, within_days: int, on: date) -> bool:
    """Return True for a GPU that is sold for so many days at most."""
    since = sold_since(gpu)
    return since is not None and timedelta() <= on - since <= timedelta(days=within_days)


def looked_up(gpu: GpuSpec, key: str) -> date | None:
    """Return the last day on which a source of a fact was read; None where no source states a day."""
    figure = gpu.figures.get(key)
    return max((source.retrieved for source in figure.sources if source.retrieved), default=None) if figure else None


def sale_note(gpu: GpuSpec) -> str | None:
    """Return that a GPU is announced and when it is expected; None for one that is sold."""
    period = expected_period(gpu)
    if period is None:
        return None
    read = looked_up(gpu, "expected")
    as_of = f", as of {read}" if read else ""
    return f"{gpu.id}: announced, not sold yet, expected {period.words}{as_of}; its figures are preliminary"


def sale_notes(gpus: Iterable[GpuSpec]) -> tuple[str, ...]:
    """Return a note on each of the GPUs that is announced."""
    return tuple(note for gpu in gpus if (note := sale_note(gpu)) is not None)
