"""A load that changes over a week: a rate for each hour, and bursts on top of it."""

from dataclasses import dataclass

import numpy as np

from capplan.core.numbers import FloatArray
from capplan.core.serving.load import DAYS_PER_WEEK, HOURS_PER_DAY

HOURS_PER_WEEK = DAYS_PER_WEEK * HOURS_PER_DAY
HOUR_S = 3600.0
WEEK_S = HOURS_PER_WEEK * HOUR_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """A time in which more requests come: from an hour of the week on, so long, so many times the rate. [h, s]"""

    hour: float
    lasts_s: float
    times: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WeekLoad:
    """The requests per second of each hour of a week, from Monday 0 h on, and bursts. [1/s]"""

    hourly_per_s: tuple[float, ...]
    bursts: tuple[Burst, ...] = ()

    def __post_init__(self) -> None:
        if len(self.hourly_per_s) != HOURS_PER_WEEK or not max(self.hourly_per_s) > 0:
            raise ValueError("a week has 168 rates, of which one must be above 0")

    def rates(self, tick_s: float) -> FloatArray:
        """Return the rate at each tick of the week. [1/s]"""
        at_s = (np.arange(round(WEEK_S / tick_s)) + 0.5) * tick_s
        rates = np.array(self.hourly_per_s)[(at_s // HOUR_S).astype(int)]
        for burst in self.bursts:
            start = burst.hour * HOUR_S
            rates = np.where((at_s >= start) & (at_s < start + burst.lasts_s), rates * burst.times, rates)
        return np.asarray(rates, dtype=float)

    @property
    def peak_per_s(self) -> float:
        """Return the highest rate, bursts included. [1/s]"""
        in_bursts = (burst.times * self.hourly_per_s[int(burst.hour) % HOURS_PER_WEEK] for burst in self.bursts)
        return max(*self.hourly_per_s, *in_bursts, 0.0)

    @property
    def requests(self) -> float:
        return float(self.rates(60.0).sum() * 60.0)


def week_of(day: tuple[float, ...], *, requests_per_day: float, days: int) -> tuple[float, ...]:
    """Return the hourly rates of a week from the shape of a day in use and its requests. [1/s]"""
    hours = np.repeat(np.array(day, dtype=float), HOURS_PER_DAY // len(day))
    rates = hours / hours.sum() * requests_per_day / HOUR_S
    used = (*rates.tolist(),) * days
    return (*used, *((0.0,) * (HOURS_PER_DAY * (DAYS_PER_WEEK - days))))
