"""What a running service is asked for, as its logs or metrics show it: rates by hour, lengths, times, failures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, sqrt

import numpy as np
import numpy.typing as npt

HOUR_S = 3600
DAY_S = 24 * HOUR_S
_WEEK_S = 7 * DAY_S
_EPOCH_WEEKDAY = 3
"""1970-01-01 was a Thursday; Monday is 0."""
_LEAST_COVERED_S = 600
"""Seconds of an hour that must lie in the window for the hour to have a rate of its own."""
_LEAST_BIN_MEAN = 10.0
"""Requests of a bin on average from which on its variance ÷ mean shows how bursty arrivals are."""
_LEAST_BINS = 100
_LEAST_WEEKS = 4
_CERTAIN = 2.0
"""Standard errors from which on a trend is one."""
_WEEKS_PER_YEAR = 365.25 / 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How a quantity of requests is distributed: tokens, or seconds.

    `cv` is the standard deviation ÷ mean, `quantiles` are values by share, such as 0.99; both of a histogram's buckets
    where `is_binned`.
    """

    count: float
    mean: float
    cv: float | None
    quantiles: Mapping[float, float]
    is_binned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The trend of the weekly load, as a share per year, with its standard error in the logarithm per week."""

    per_year_fraction: float
    weeks: int
    low_fraction: float
    high_fraction: float


@dataclass(frozen=True, kw_only=True)
class ObservedArrivals:
    """Requests counted in bins of equal length over whole hours of UTC, from the first request to the last.

    `begin_s` is the begin of the first bin, in seconds since 1970; `bin_s` divides an hour. Without `has_dates` times
    count from an unknown begin, and no weekday is known.
    """

    begin_s: int
    first_s: float
    last_s: float
    bin_s: int
    counts: npt.NDArray[np.float64]
    has_dates: bool = True

    @property
    def total(self) -> float:
        return float(self.counts.sum())

    @property
    def window_s(self) -> float:
        """Return the length of the window. [s]"""
        return max(self.last_s - self.first_s, float(self.bin_s))

    @property
    def mean_per_s(self) -> float:
        """Return the mean rate over the window. [1/s]"""
        return self.total / self.window_s

    @cached_property
    def hourly(self) -> tuple[tuple[int, float], ...]:
        """Return begin [s] and mean rate [1/s] of every hour, as far as the window covers it.

        Hours at the ends that the window covers by less than ten minutes are left out, unless there is no other.
        """
        by_hour = self.counts.reshape(-1, HOUR_S // self.bin_s).sum(axis=1)
        begins = self.begin_s + HOUR_S * np.arange(len(by_hour))
        covered = np.minimum(begins + HOUR_S, self.last_s) - np.maximum(begins, self.first_s)
        kept = covered >= min(_LEAST_COVERED_S, float(covered.max()))
        rates = by_hour / np.maximum(covered, self.bin_s)
        return tuple((int(begin), float(rate)) for begin, rate, keep in zip(begins, rates, kept, strict=True) if keep)

    @property
    def busiest(self) -> tuple[int, float]:
        """Return begin and mean rate of the hour with the highest rate. [s], [1/s]"""
        return max(self.hourly, key=lambda hour: hour[1])

    def _means(self, places: npt.NDArray[np.int64], number: int) -> tuple[float, ...]:
        rates = np.array([rate for _, rate in self.hourly])
        seen = np.bincount(places, minlength=number)
        sums = np.bincount(places, weights=rates, minlength=number)
        return tuple(float(total / count) if count else 0.0 for total, count in zip(sums, seen, strict=True))

    @property
    def daily_mean_per_s(self) -> tuple[float, ...] | None:
        """Return the mean rate of each hour of a day; None for a window of less than a day. [1/s]"""
        hours = np.array([begin // HOUR_S % 24 for begin, _ in self.hourly], dtype=np.int64)
        return self._means(hours, 24) if len(set(hours.tolist())) == 24 else None

    @property
    def daily_peak_per_s(self) -> tuple[float, ...] | None:
        """Return the highest rate that each hour of a day had; None for a window of less than a day. [1/s]"""
        highest = [0.0] * 24
        for begin, rate in self.hourly:
            highest[begin // HOUR_S % 24] = max(highest[begin // HOUR_S % 24], rate)
        return tuple(highest) if self.daily_mean_per_s is not None else None

    @property
    def weekly_mean_per_s(self) -> tuple[float, ...] | None:
        """Return the mean rate of each hour of a week from Monday; None where the window lacks some. [1/s]"""
        if not self.has_dates:
            return None
        hours = [(begin // HOUR_S + 24 * _EPOCH_WEEKDAY) % 168 for begin, _ in self.hourly]
        return self._means(np.array(hours, dtype=np.int64), 168) if len(set(hours)) == 168 else None

    @property
    def burstiness(self) -> float | None:
        """Return variance ÷ mean of the requests in short bins within an hour; None where too few show it.

        Where gaps are independent it tends to their squared variation as bins grow: 1 for Poisson arrivals (Cox and
        Lewis, The Statistical Analysis of Series of Events, 1966, section 4.5). Bins are joined until they hold ten
        requests on average. Each hour is compared with its own mean, so that the course of a day is not burstiness.
        """
        by_hour = self.counts.reshape(-1, HOUR_S // self.bin_s)
        whole = by_hour[[i for i in range(len(by_hour)) if self._is_whole(i)]]
        if not whole.size or not whole.sum():
            return None
        for width in (1, 2, 3, 6, 12, 30):
            if whole.shape[1] % width or whole.shape[1] // width < 12:
                continue
            joined = whole.reshape(len(whole), -1, width).sum(axis=2)
            busy = joined[joined.mean(axis=1) >= _LEAST_BIN_MEAN]
            if busy.size >= _LEAST_BINS:
                return float(busy.var(axis=1, ddof=1).sum() / busy.mean(axis=1).sum())
        return None

    def _is_whole(self, hour: int) -> bool:
        begin = self.begin_s + hour * HOUR_S
        return self.first_s <= begin + self.bin_s and begin + HOUR_S - self.bin_s <= self.last_s

    @property
    def growth(self) -> Growth | None:
        """Return the trend of whole weeks; None for fewer than four, or where it is not clear of chance.

        The logarithm of weekly totals is fitted by a line; the slope counts from two standard errors on.
        """
        per_week = _WEEK_S // self.bin_s
        start = int((self.first_s - self.begin_s) // self.bin_s)
        weeks = int((self.last_s - self.first_s) // _WEEK_S)
        if weeks < _LEAST_WEEKS:
            return None
        totals = [float(self.counts[start + i * per_week : start + (i + 1) * per_week].sum()) for i in range(weeks)]
        if min(totals) <= 0:
            return None
        x, y = np.arange(weeks) - (weeks - 1) / 2, np.log(totals)
        slope = float((x * y).sum() / (x * x).sum())
        rest = y - y.mean() - slope * x
        error = sqrt(float((rest * rest).sum()) / (weeks - 2) / float((x * x).sum()))
        if abs(slope) <= _CERTAIN * error:
            return None
        ends = [slope - _CERTAIN * error, slope, slope + _CERTAIN * error]
        low, expected, high = (exp(min(end * _WEEKS_PER_YEAR, 20.0)) - 1 for end in ends)
        return Growth(per_year_fraction=expected, weeks=weeks, low_fraction=low, high_fraction=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """Lines of a log that could not be read: why, how many, and the first of them."""

    reason: str
    lines: int
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningGpus:
    """GPUs that a service has, as its exporter names them, and what they did on average."""

    name: str
    count: int
    utilisation_fraction: float | None = None
    power_w: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedLoad:
    """What a service was asked for in a window, and how it answered; None for what its source does not state.

    Requests that failed are not part of the arrivals unless the source counts them as such. `running` and `waiting` are
    the mean and the most, `metrics` the metric that each quantity was read from.
    """

    sources: tuple[str, ...]
    form: str
    arrivals: ObservedArrivals
    prompt: Spread | None = None
    answer: Spread | None = None
    prefix_fraction: float | None = None
    ttft_s: Spread | None = None
    tpot_s: Spread | None = None
    e2e_s: Spread | None = None
    running: tuple[float, float] | None = None
    waiting: tuple[float, float] | None = None
    failed: float | None = None
    broken: tuple[Broken, ...] = ()
    lines: int = 0
    gpus: tuple[RunningGpus, ...] = ()
    cautions: tuple[str, ...] = ()
    metrics: Mapping[str, str] | None = None

    @property
    def has_tokens(self) -> bool:
        """Return True if tokens of prompts and answers are known."""
        return self.prompt is not None and self.answer is not None


QUANTILES = (0.5, 0.9, 0.95, 0.99)


def spread_of_buckets(
    bounds: Sequence[float], counts: Sequence[float], *, total: float, sum_of_values: float
) -> Spread | None:
    """Return how a quantity is distributed from the buckets of a histogram; None where nothing was counted.

    `bounds` are the upper ones, ascending, without the infinite one; `counts` those of each bucket alone, the open one
    last. Values are taken as even within a bucket. Those of the open bucket are taken as its lower bound, so that tails
    above it are understated.
    """
    if total <= 0:
        return None
    lows = (0.0, *bounds)
    square = sum(
        count * (low * low + low * high + high * high) / 3
        for low, high, count in zip(lows, bounds, counts[:-1], strict=False)
    )
    square += counts[-1] * lows[-1] ** 2
    mean = sum_of_values / total
    middle = sum(count * (low + high) / 2 for low, high, count in zip(lows, bounds, counts[:-1], strict=False))
    middle = (middle + counts[-1] * lows[-1]) / total
    variance = max(0.0, square / total - middle * middle)
    return Spread(
        count=total,
        mean=mean,
        cv=sqrt(variance) / middle if middle else None,
        quantiles={share: _bucket_quantile(lows, counts, share * total) for share in QUANTILES},
        is_binned=True,
    )


def _bucket_quantile(lows: Sequence[float], counts: Sequence[float], rank: float) -> float:
    below = 0.0
    for place, count in enumerate(counts[:-1]):
        if count and below + count >= rank:
            return lows[place] + (lows[place + 1] - lows[place]) * (rank - below) / count
        below += count
    return lows[-1]
