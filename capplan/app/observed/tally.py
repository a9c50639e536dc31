"""Count requests in constant memory: by time, by length, by duration."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from capplan.core.serving.observed import HOUR_S, QUANTILES, Broken, ObservedArrivals, Spread

BIN_S = 10
_BINS = HOUR_S // BIN_S
MOST_HOURS = 24 * 366 * 3
"""Hours with requests that are counted at most: three years. More are times that cannot be."""
_RATIO = 1.01
_LEAST = 1e-6
_NUMBER = 3300
"""Bins of a histogram: from a microsecond on, each 1 % wider, up to 1e8."""
_LONGEST_SILENCE_HOURS = 24 * 14
"""Hours without any request that part a window from stray times."""


@dataclass(slots=True)
class SpreadTally:
    """Counts values in bins that widen by 1 %, so that quantiles are exact to 1 %."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    bins: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(_NUMBER, dtype=np.int64))

    def add(self, values: npt.NDArray[np.float64]) -> None:
        """Count values; those that are not numbers are not stated."""
        stated = values[np.isfinite(values)]
        if not stated.size:
            return
        self.count += stated.size
        self.total += float(stated.sum())
        self.squares += float((stated * stated).sum())
        places = np.log(np.maximum(stated, _LEAST) / _LEAST) / np.log(_RATIO)
        self.bins += np.bincount(np.minimum(places.astype(np.int64), _NUMBER - 1), minlength=_NUMBER)

    def spread(self) -> Spread | None:
        """Return what was counted; None for nothing."""
        if not self.count:
            return None
        mean = self.total / self.count
        variance = max(0.0, self.squares / self.count - mean * mean)
        reached = self.bins.cumsum()
        return Spread(
            count=self.count,
            mean=mean,
            cv=variance**0.5 / mean if mean else None,
            quantiles={share: self._value(int(np.searchsorted(reached, share * self.count))) for share in QUANTILES},
        )

    @staticmethod
    def _value(place: int) -> float:
        return float(_LEAST * _RATIO ** (place + 0.5))


Requests = list[tuple[float, float, float, float, float, float]]
"""Times and tokens of requests: when, prompt, answer, cached, TTFT, whole; what is not stated is not a number."""


@dataclass(slots=True)
class LoadTally:
    """Counts requests of a log: memory grows with hours alone, of which there are at most `MOST_HOURS`."""

    hours: dict[int, npt.NDArray[np.int32]] = field(default_factory=dict)
    ends: dict[int, tuple[float, float]] = field(default_factory=dict)
    spreads: defaultdict[str, SpreadTally] = field(default_factory=lambda: defaultdict(SpreadTally))
    cached: float = 0.0
    cached_of: float = 0.0
    failed: int = 0
    lines: int = 0
    broken: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, requests: Requests) -> None:
        if not requests:
            return
        at_s, prompt, answer, cached, ttft_s, e2e_s = np.array(requests).T
        self._count(at_s)
        with np.errstate(invalid="ignore"):
            tpot_s = (e2e_s - ttft_s) / np.where((answer > 1) & (e2e_s >= ttft_s), answer - 1, np.nan)
            held = np.isfinite(cached) & (cached <= prompt)
        seen = {"prompt": prompt, "answer": answer, "ttft_s": ttft_s, "tpot_s": tpot_s, "e2e_s": e2e_s}
        for name, values in seen.items():
            self.spreads[name].add(values)
        self.cached += float(cached[held].sum())
        self.cached_of += float(prompt[held].sum())

    def _count(self, at_s: npt.NDArray[np.float64]) -> None:
        bins = (at_s // BIN_S).astype(np.int64)
        for hour in np.unique(bins // _BINS).tolist():
            inside = bins // _BINS == hour
            if hour not in self.hours:
                if len(self.hours) >= MOST_HOURS:
                    self.add_broken("its hour is one more than can be counted", int(inside.sum()), 0)
                    continue
                self.hours[hour] = np.zeros(_BINS, dtype=np.int32)
            self.hours[hour] += np.bincount(bins[inside] - hour * _BINS, minlength=_BINS).astype(np.int32)
            first, last = self.ends.get(hour, (np.inf, -np.inf))
            times = at_s[inside]
            self.ends[hour] = (min(first, float(times.min())), max(last, float(times.max())))

    def add_broken(self, reason: str, lines: int, first: int) -> None:
        """Count lines that could not be read; `first` is the number of the first of them."""
        known, number = self.broken.get(reason, (0, first))
        self.broken[reason] = (known + lines, number)

    def _runs(self) -> Iterator[list[int]]:
        """Yield hours that belong together: no longer silence parts them."""
        run: list[int] = []
        for hour in sorted(self.hours):
            if run and hour - run[-1] > _LONGEST_SILENCE_HOURS:
                yield run
                run = []
            run.append(hour)
        if run:
            yield run

    def arrivals(self, *, has_dates: bool) -> ObservedArrivals | None:
        """Return the requests over time; None for none. Times far from most others are counted as broken."""
        runs = list(self._runs())
        if not runs:
            return None
        kept = max(runs, key=lambda run: sum(int(self.hours[hour].sum()) for hour in run))
        stray = sum(int(self.hours[hour].sum()) for run in runs if run is not kept for hour in run)
        if stray:
            self.add_broken("its time is two weeks or more from the times of most requests", stray, 0)
        counts = np.zeros((kept[-1] - kept[0] + 1, _BINS))
        for hour in kept:
            counts[hour - kept[0]] = self.hours[hour]
        return ObservedArrivals(
            begin_s=kept[0] * HOUR_S,
            first_s=min(self.ends[hour][0] for hour in kept),
            last_s=max(self.ends[hour][1] for hour in kept),
            bin_s=BIN_S,
            counts=counts.ravel(),
            has_dates=has_dates,
        )

    def broken_lines(self) -> tuple[Broken, ...]:
        """Return the lines that could not be read, by reason, most first."""
        found = (Broken(reason=why, lines=lines, first=first) for why, (lines, first) in self.broken.items())
        return tuple(sorted(found, key=lambda each: -each.lines))
