"""Statistics of repeated timings: summaries, the median's confidence interval, the ratio of two runs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
_EXACT_UP_TO = 200
_NORMAL_QUANTILE = 1.959963984540054
"""The 97.5 % point of the standard normal distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceInterval:
    """A point estimate with its 95 % confidence interval."""

    low: float
    value: float
    high: float

    @property
    def width_fraction(self) -> float:
        """Return the interval's whole width over the value."""
        return (self.high - self.low) / self.value if self.value else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a set of timings says, in the unit of the samples. `std` is the sample standard deviation (n - 1)."""

    count: int
    mean: float
    std: float
    median: float
    p90: float
    p95: float
    p99: float
    minimum: float
    maximum: float


def summarise(samples: Sequence[float]) -> Summary:
    """Summarise timings; percentiles are interpolated linearly between order statistics."""
    if not len(samples):
        raise ValueError("no samples to summarise")
    values = np.asarray(samples, dtype=float)
    median, p90, p95, p99 = (float(quantile) for quantile in np.quantile(values, [0.5, 0.9, 0.95, 0.99]))
    return Summary(
        count=len(values),
        mean=float(values.mean()),
        std=float(values.std(ddof=1)) if len(values) > 1 else 0.0,
        median=median,
        p90=p90,
        p95=p95,
        p99=p99,
        minimum=float(values.min()),
        maximum=float(values.max()),
    )


def median_interval(samples: Sequence[float]) -> ConfidenceInterval | None:
    """Bound the median between two order statistics, with at least 95 % confidence; None below six samples.

    The number of samples below the true median is binomial(n, 1/2), whatever their distribution (Conover,
    Practical Nonparametric Statistics, ch. 3); above 200 samples by its normal approximation. Samples are taken
    as independent.
    """
    rank = _lower_rank(len(samples))
    if rank == 0:
        return None
    ordered = np.sort(np.asarray(samples, dtype=float))
    return ConfidenceInterval(low=float(ordered[rank - 1]), value=float(np.median(ordered)), high=float(ordered[-rank]))


def _lower_rank(count: int) -> int:
    """Return the largest rank l with P(binomial(count, 1/2) < l) <= 2.5 %; 0 where there is none."""
    tail = (1 - CONFIDENCE) / 2
    if count > _EXACT_UP_TO:
        return math.floor((count - _NORMAL_QUANTILE * math.sqrt(count)) / 2)
    rank, below = 0, 0.0
    while (below := below + math.comb(count, rank) / 2**count) <= tail:
        rank += 1
    return rank


_RESAMPLED_AT_ONCE = 2**20
"""Values that are drawn at a time: all resamples of 20,000 timings would take 1 GB."""


def median_ratio(
    numerator: Sequence[float], denominator: Sequence[float], *, resamples: int = 2000, seed: int = 0
) -> ConfidenceInterval:
    """Compare two runs: the ratio of their medians with a bootstrap interval.

    Each run is resampled in circular blocks of about n^(1/3) neighbours (Politis and Romano 1992), since
    timings that follow each other are alike. The same samples and seed give the same interval.
    """
    first, second = (np.asarray(samples, dtype=float) for samples in (numerator, denominator))
    if not len(first) or not len(second):
        raise ValueError("no samples to compare")
    if np.median(first) <= 0 or np.median(second) <= 0:
        raise ValueError("a median is not positive")
    generator = np.random.default_rng(seed)
    ratios = _resampled_medians(first, resamples, generator) / _resampled_medians(second, resamples, generator)
    low, high = np.quantile(ratios, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    value = float(np.median(first) / np.median(second))
    return ConfidenceInterval(low=min(float(low), value), value=value, high=max(float(high), value))


def _resampled_medians(
    samples: "np.ndarray[tuple[int], np.dtype[np.float64]]", resamples: int, generator: np.random.Generator
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    count = len(samples)
    block = max(1, round(count ** (1 / 3)))
    starts = generator.integers(count, size=(resamples, math.ceil(count / block), 1))
    medians = np.empty(resamples)
    at_once = max(1, _RESAMPLED_AT_ONCE // count)
    for first in range(0, resamples, at_once):
        some = starts[first : first + at_once]
        indices = (some + np.arange(block)) % count
        medians[first : first + at_once] = np.median(samples[indices.reshape(len(some), -1)[:, :count]], axis=1)
    return medians
