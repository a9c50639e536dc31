"""Draw requests that come to a replica: at a rate or along a day, evenly or in bursts, with lengths that vary."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capplan.core.numbers import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """Requests in order of arrival: when each comes [s], tokens of its prompt and of its answer.

    `cached` tokens of each prompt are found in the prefix cache; None for none.
    """

    at_s: FloatArray
    prompts: FloatArray
    answers: IntArray
    cached: FloatArray | None = None

    @property
    def rate_per_s(self) -> float:
        """Return the mean rate of arrivals. [1/s]"""
        return float(len(self.at_s) / self.at_s[-1]) if self.at_s[-1] > 0 else float("inf")

    @property
    def has_times(self) -> bool:
        """Return True if the requests come at different times."""
        return bool(self.at_s[-1] > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Mean lengths [tokens] and how requests vary around them.

    Requests draw lengths evenly from ± `spread` around the means. A coefficient of variation above 0 makes them
    log-normal instead, which has the long tail of chat traffic. `prefix_fraction` of each prompt is in the cache.
    """

    input_len: float
    output_len: float
    spread: float = 0.0
    input_cv: float = 0.0
    output_cv: float = 0.0
    prefix_fraction: float = 0.0


def random_arrivals(
    *, rate_per_s: float, count: int, lengths: Lengths, gap_scv: float = 1.0, seed: int = 7
) -> Arrivals:
    """Draw arrivals whose gaps are Gamma distributed with a squared coefficient of variation.

    Args:
        rate_per_s: Mean requests per second, above 0; infinite for requests that all come at once.
        count: Number of requests.
        lengths: Lengths of prompts and answers.
        gap_scv: Variance of gaps over their squared mean: 1 is Poisson, more is burstier.
        seed: Seed of the random numbers; the same seed gives the same arrivals.
    """
    source = np.random.default_rng(seed)
    gaps = source.gamma(1.0 / gap_scv, gap_scv, count) / rate_per_s
    return _with_lengths(np.cumsum(gaps), lengths, source)


def _with_lengths(at_s: FloatArray, lengths: Lengths, source: np.random.Generator) -> Arrivals:
    even = source.uniform(1.0 - lengths.spread, 1.0 + lengths.spread, (2, at_s.size))
    factors = [_log_normal(cv, source, at_s.size) for cv in (lengths.input_cv, lengths.output_cv)]
    prompts = np.maximum(1.0, np.round(lengths.input_len * (even[0] if factors[0] is None else factors[0])))
    answers = np.maximum(1, np.round(lengths.output_len * (even[1] if factors[1] is None else factors[1])))
    cached = np.floor(lengths.prefix_fraction * prompts) if lengths.prefix_fraction else None
    return Arrivals(at_s=at_s, prompts=prompts, answers=answers.astype(np.int64), cached=cached)


def _log_normal(cv: float, source: np.random.Generator, count: int) -> FloatArray | None:
    """Draw factors of mean 1 with a coefficient of variation: σ² = ln(1 + cv²), μ = −σ²/2; None for none."""
    if not cv:
        return None
    variance = np.log1p(cv * cv)
    return np.asarray(source.lognormal(-variance / 2.0, np.sqrt(variance), count))


def all_at_once(count: int, lengths: Lengths, *, seed: int = 7) -> Arrivals:
    """Draw requests that are all there from the start, as in an offline run or as the clients of a closed loop.

    Args:
        count: Number of requests.
        lengths: Lengths of prompts and answers.
        seed: Seed of the random numbers.
    """
    return _with_lengths(np.zeros(count), lengths, np.random.default_rng(seed))


def hourly_rates(mean_rate_per_s: float, shape: Sequence[float]) -> tuple[float, ...]:
    """Return the rate of each part of a day whose shape is given in any unit. [1/s]

    Args:
        mean_rate_per_s: Mean of the day.
        shape: How many requests come in each part, relative to the others.
    """
    mean = sum(shape) / len(shape)
    return tuple(mean_rate_per_s * part / mean for part in shape)
