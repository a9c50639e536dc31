"""What the requests of a simulated load saw: percentiles, goodput, and whether the replica keeps up."""

from dataclasses import dataclass

import numpy as np

from capplan.core.llm.serving.open_loop import Arrivals, RequestTimes
from capplan.core.numbers import FloatArray

WARM_UP_FRACTION = 0.1
"""Share of the first requests that is left out, because they find an empty replica."""
_PILE_UP = 1.5
"""The last third of the requests waits this many times longer than the first third where work piles up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Mean and percentiles of a time over requests. [s]"""

    mean: float
    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, values: FloatArray) -> "Percentiles":
        """Summarise the times of requests."""
        p50, p90, p99 = (float(each) for each in np.percentile(values, [50, 90, 99]))
        return cls(mean=float(values.mean()), p50=p50, p90=p90, p99=p99)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyLimits:
    """Limits that a request should keep; None for no limit. [s]"""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None

    @property
    def are_set(self) -> bool:
        """Return True if there is a limit."""
        return any(limit is not None for limit in (self.ttft_s, self.tpot_s, self.e2e_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadAnswer:
    """One replica under an open load. Rates are those of the replica. [1/s]

    `goodput_fraction` is the share of requests that keep every limit; None without limits. `keeps_up` is False where
    the wait grows with every request, so that percentiles say how long the simulation was, not what users see.
    """

    rate_per_s: float
    requests: int
    ttft_s: Percentiles
    tpot_s: Percentiles
    e2e_s: Percentiles
    output_tokens_per_s: float
    goodput_fraction: float | None
    keeps_up: bool


def summarise(arrivals: Arrivals, times: RequestTimes, limits: LatencyLimits) -> LoadAnswer:
    """Summarise a simulated load, the first tenth of the requests left out.

    Args:
        arrivals: The requests.
        times: What each of them saw.
        limits: Limits that count as good service.
    """
    skipped = int(len(arrivals.at_s) * WARM_UP_FRACTION)
    ttft, tpot, e2e = times.ttft_s[skipped:], times.tpot_s[skipped:], times.e2e_s[skipped:]
    several = arrivals.answers[skipped:] > 1
    return LoadAnswer(
        rate_per_s=arrivals.rate_per_s,
        requests=len(arrivals.at_s),
        ttft_s=Percentiles.of(ttft),
        tpot_s=Percentiles.of(tpot[several] if several.any() else tpot),
        e2e_s=Percentiles.of(e2e),
        output_tokens_per_s=float(arrivals.answers.sum()) / times.span_s if times.span_s > 0 else 0.0,
        goodput_fraction=_goodput(ttft, tpot, e2e, limits),
        keeps_up=_keeps_up(times.ttft_s),
    )


def _goodput(ttft: FloatArray, tpot: FloatArray, e2e: FloatArray, limits: LatencyLimits) -> float | None:
    if not limits.are_set:
        return None
    pairs = ((ttft, limits.ttft_s), (tpot, limits.tpot_s), (e2e, limits.e2e_s))
    kept = np.ones(len(ttft), dtype=bool)
    for values, limit in pairs:
        if limit is not None:
            kept &= values <= limit
    return float(kept.mean())


def _keeps_up(ttft_s: FloatArray) -> bool:
    third = len(ttft_s) // 3
    if third < 10:
        return True
    early, late = float(ttft_s[third : 2 * third].mean()), float(ttft_s[2 * third :].mean())
    return late <= _PILE_UP * early
