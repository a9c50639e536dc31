"""A queue whose server takes several samples at once, as a GPU with dynamic batching does, solved exactly.

A batch of b samples takes s(b); `batch_times_s[b - 1]` holds it, and its length is the largest batch.
Source: renewal reward over service completions (Gross, Shortle, Thompson, Harris, Fundamentals of Queueing Theory,
4th ed., ch. 3.2, bulk service).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
BatchTimes: TypeAlias = Sequence[float] | Floats


class UnstableError(ValueError):
    """Work arrives at least as fast as the servers can do it: no waiting time exists."""


def capacity_per_s(batch_times_s: BatchTimes) -> float:
    """Return the rate that a server with full batches completes: B / s(B). [1/s]"""
    return float(len(batch_times_s) / batch_times_s[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class GreedyBatching:
    """Mean response, batch and busy share of a server that always takes all waiting samples, up to its largest batch.

    `busy_fraction` is the share of time in service, what tools show as GPU utilisation. It is not the
    load: a server at three quarters of its capacity may be busy all the time with small batches.
    """

    response_s: float
    batch: float
    busy_fraction: float


def greedy_batching(*, rate_per_s: float, batch_times_s: BatchTimes) -> GreedyBatching:
    """Compute mean response, batch and busy share of greedy batching, exact for Poisson arrivals.

    The number waiting at a completion is a chain n' = max(n - B, 0) + Poisson(λ·s(min(n, B))); from 0 the server
    idles 1/λ and then takes a batch of one. Response is L/λ, L by renewal reward over these cycles.

    Raises:
        UnstableError: the rate reaches the capacity.
    """
    largest = len(batch_times_s)
    if rate_per_s >= capacity_per_s(batch_times_s):
        raise UnstableError(f"{rate_per_s:g}/s reaches the capacity of {capacity_per_s(batch_times_s):g}/s")

    def step(waiting: int) -> tuple[int, float]:
        taken = min(max(waiting, 1), largest)
        return max(waiting - largest, 0), rate_per_s * batch_times_s[taken - 1]

    law = stationary(step, at_least=4 * largest)
    present = np.maximum(np.arange(len(law)), 1)
    taken = np.minimum(present, largest)
    times = np.asarray(batch_times_s)[taken - 1]
    idle_s = float(law[0]) / rate_per_s
    cycle_s = float(law @ times) + idle_s
    area = float(law @ (present * times + rate_per_s * times**2 / 2))
    return GreedyBatching(
        response_s=area / cycle_s / rate_per_s,
        batch=float(law @ taken),
        busy_fraction=1 - idle_s / cycle_s,
    )


def stationary(step: Callable[[int], tuple[int, float]], *, at_least: int) -> Floats:
    """Return the stationary law of the chain n' = kept(n) + Poisson(mean(n)), where step(n) = (kept, mean).

    The states are cut where less than 1e-13 of the probability lies beyond; the cut mass is put on the last state.
    """
    size = max(128, at_least)
    while True:
        law = _stationary_of(_transitions(step, size))
        if law[-max(1, size // 16) :].sum() < 1e-13 or size >= 8192:
            return law
        size *= 2


def _transitions(step: Callable[[int], tuple[int, float]], size: int) -> Floats:
    matrix = np.zeros((size, size))
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, size)))])
    counts = np.arange(size)
    for n in range(size):
        kept, mean = step(n)
        law = np.exp(counts * math.log(mean) - mean - log_factorial)
        matrix[n, kept:] = law[: size - kept]
        matrix[n, -1] += max(0.0, 1 - matrix[n].sum())
    return matrix


def _stationary_of(matrix: Floats) -> Floats:
    size = len(matrix)
    system = matrix.T - np.eye(size)
    system[-1] = 1
    right = np.zeros(size)
    right[-1] = 1
    return np.asarray(np.linalg.solve(system, right), dtype=np.float64)
