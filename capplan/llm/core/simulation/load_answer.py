"""What the requests of a simulated load saw: percentiles, goodput, and whether the replica keeps up."""

from dataclasses import dataclass

import numpy as np

from capplan.core.numbers import FloatArray
from capplan.llm.core.serving.asked import Statistic
from capplan.llm.core.serving.energy import ServingEnergy
from capplan.llm.core.simulation.arrivals import Arrivals
from capplan.llm.core.simulation.continuous_batching import RequestTimes

WARM_UP_FRACTION = 0.1
"""Share of the first requests that is left out, because they find an empty replica."""
_PILE_UP = 1.5
"""The last third of the requests waits this many times longer than the second third where work piles up."""
_PERCENTS = [50, 90, 95, 99]


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Mean and percentiles of a time over requests. [s]"""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float

    @classmethod
    def of(cls, values: FloatArray) -> "Percentiles":
        p50, p90, p95, p99 = (float(value) for value in np.percentile(values, _PERCENTS))
        return cls(mean=float(values.mean()), p50=p50, p90=p90, p95=p95, p99=p99)

    @classmethod
    def weighted(cls, values: FloatArray, weights: FloatArray) -> "Percentiles | None":
        """Summarise times of which each was seen so many times; None if there are none.

        Args:
            values: Times. [s]
        """
        if not values.size or not weights.sum() > 0:
            return None
        order = np.argsort(values)
        places = np.cumsum(weights[order]) / weights.sum()
        chosen = np.minimum(np.searchsorted(places, np.array(_PERCENTS) / 100.0), values.size - 1)
        p50, p90, p95, p99 = (float(value) for value in values[order][chosen])
        return cls(mean=float(np.average(values, weights=weights)), p50=p50, p90=p90, p95=p95, p99=p99)

    def at(self, statistic: "Statistic") -> float:
        return float(getattr(self, statistic.value))


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyLimits:
    """Limits that the mean or a percentile of the requests should keep; None for no limit. [s]"""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    statistic: Statistic = Statistic.MEAN

    @property
    def are_set(self) -> bool:
        return any(limit is not None for limit in (self.ttft_s, self.tpot_s, self.e2e_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadAnswer:
    """One replica under a load. Rates are those of the replica. [1/s]

    `goodput_fraction` is the share of requests that keep every limit; None without limits. `keeps_up` is False where
    the wait grows with every request, so that percentiles say how long the simulation was, not what users see.
    `clients` is None for an open load. `itl_s` is the time between any two tokens, None for answers of one token.
    `inclusive_tpot_s` is the mean of end-to-end time ÷ output tokens, which some tools call TPOT. `label` names the
    part of a day. `energy` is the replica's, its idle time included; None where nobody asked for it, and where the
    GPU's power limit is not known.
    """

    rate_per_s: float
    requests: int
    ttft_s: Percentiles
    tpot_s: Percentiles
    itl_s: Percentiles | None
    e2e_s: Percentiles
    inclusive_tpot_s: float
    output_tokens_per_s: float
    input_tokens_per_s: float
    goodput_fraction: float | None
    keeps_up: bool
    preemptions: int = 0
    mean_running: float = 0.0
    busy_fraction: float = 0.0
    cached_fraction: float = 0.0
    clients: int | None = None
    label: str = ""
    energy: ServingEnergy | None = None

    @property
    def goodput_per_s(self) -> float | None:
        return None if self.goodput_fraction is None else self.goodput_fraction * self.rate_per_s

    @property
    def output_tokens_per_s_per_user(self) -> float | None:
        """Return what a user reads, 1 ÷ mean TPOT; None for answers of one token. [1/s]"""
        return 1.0 / self.tpot_s.mean if self.tpot_s.mean > 0 else None


def summarise(
    arrivals: Arrivals, times: RequestTimes, limits: LatencyLimits, *, clients: int | None = None, label: str = ""
) -> LoadAnswer:
    """Summarise a simulated load, the first tenth of the requests left out."""
    skipped = int(len(arrivals.at_s) * WARM_UP_FRACTION)
    ttft, tpot, e2e = times.ttft_s[skipped:], times.tpot_s[skipped:], times.e2e_s[skipped:]
    answers = arrivals.answers[skipped:]
    several = answers > 1
    span_s = times.span_s or 1.0
    cached = 0.0 if arrivals.cached is None else float(arrivals.cached.sum() / arrivals.prompts.sum())
    pairs = ((ttft, limits.ttft_s), (tpot, limits.tpot_s), (e2e, limits.e2e_s))
    kept = [values <= limit for values, limit in pairs if limit is not None]
    goodput = float(np.all(kept, axis=0).mean()) if kept else None
    return LoadAnswer(
        rate_per_s=len(arrivals.at_s) / span_s if clients is not None else arrivals.rate_per_s,
        requests=len(arrivals.at_s),
        ttft_s=Percentiles.of(ttft),
        tpot_s=Percentiles.of(tpot[several] if several.any() else tpot),
        itl_s=Percentiles.weighted(times.gaps_s, times.gap_weights),
        e2e_s=Percentiles.of(e2e),
        inclusive_tpot_s=float((e2e / answers).mean()),
        output_tokens_per_s=float(arrivals.answers.sum()) / span_s,
        input_tokens_per_s=float(arrivals.prompts.sum()) / span_s,
        goodput_fraction=goodput,
        keeps_up=clients is not None or _keeps_up(times.ttft_s),
        preemptions=times.preemptions,
        mean_running=times.mean_running,
        busy_fraction=times.busy_fraction,
        cached_fraction=cached,
        clients=clients,
        label=label,
    )


def _keeps_up(ttft_s: FloatArray) -> bool:
    third = len(ttft_s) // 3
    if third < 10:
        return True
    early, late = float(ttft_s[third : 2 * third].mean()), float(ttft_s[2 * third :].mean())
    return late <= _PILE_UP * early


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The answers of one replica of a deployment at each load.

    `saturation_rate_per_s` is the rate at which the replica is full: beyond it waits grow without end. [1/s]
    """

    model: str
    gpu: str
    gpus: int
    engine: str
    sequences_that_fit: float
    saturation_rate_per_s: float
    answers: tuple[LoadAnswer, ...]
    limits: LatencyLimits
    notes: tuple[str, ...] = ()

    def load_fraction(self, answer: LoadAnswer) -> float:
        return answer.rate_per_s / self.saturation_rate_per_s

    @property
    def saturated_from_per_s(self) -> float | None:
        """Return the lowest simulated rate that the replica does not keep up with; None if it keeps up with all."""
        return min((answer.rate_per_s for answer in self.answers if not answer.keeps_up), default=None)
