"""Closed forms of queues whose server takes several samples at once, as a GPU with dynamic batching does.

A batch of b samples takes s(b); `batch_times_s[b - 1]` holds it, and its length is the largest batch.
Source of the greedy chain: renewal reward over service completions (Gross et al., ch. 3.2, bulk service);
of the bound: Inoue, Queueing analysis of GPU-based inference servers with dynamic batching (arXiv:1912.06322).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from capplan.core.serving.queueing import Floats, UnstableError, stationary

BatchTimes: TypeAlias = Sequence[float] | Floats


def capacity_per_s(batch_times_s: BatchTimes) -> float:
    """The rate that a server with full batches completes: B / s(B). [1/s]"""
    return float(len(batch_times_s) / batch_times_s[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class GreedyBatching:
    """What a server that always takes all that waits, up to its largest batch, does in the mean.

    `busy_fraction` is the share of time in service, what tools show as GPU utilisation. It is not the
    load: a server at three quarters of its capacity may be busy all the time with small batches.
    """

    response_s: float
    batch: float
    busy_fraction: float


def greedy_batching(*, rate_per_s: float, batch_times_s: BatchTimes) -> GreedyBatching:
    """Mean response, batch and busy share of greedy batching, exact for Poisson arrivals.

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


def inoue_response_bound_s(*, rate_per_s: float, per_sample_s: float, fixed_s: float) -> float:
    """Upper bound of the mean response for s(b) = t0 + a·b; no bound once a largest batch binds. [s]"""
    rate, a, t0 = rate_per_s, per_sample_s, fixed_s
    if rate * a >= 1:
        raise UnstableError(f"{rate:g}/s reaches the capacity of {1 / a:g}/s")
    first = (a + t0) / (2 * (1 - rate * a)) * (1 + 2 * rate * t0 + (1 - rate * t0) / (1 + rate * a))
    second = 1.5 * t0 / (1 - rate * a) + a / 2 * (rate * a + 2) / (1 - (rate * a) ** 2)
    return min(first, second)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormingWindow:
    """What a batching window yields where a server is always free: mean batch, mean wait for it to close. [s]"""

    batch: float
    wait_s: float


def forming_window(*, rate_per_s: float, window_s: float, largest: int) -> FormingWindow:
    """Mean batch and wait of a window that opens on an arrival and closes after its time or when full.

    With N ~ Poisson(λT): E[size] = 1 + Σ_{j=1}^{B-1} P(N ≥ j); the k-th later arrival comes before the close with
    P(N ≥ k), and everybody present waits a mean gap 1/λ until it.
    """
    at_least = _poisson_tails(rate_per_s * window_s, largest)
    batch = 1 + sum(at_least[1:largest])
    waited = sum((k + 1) / rate_per_s * at_least[k + 1] for k in range(largest - 1))
    return FormingWindow(batch=batch, wait_s=waited / batch)


def _poisson_tails(mean: float, count: int) -> list[float]:
    tails, below, term = [1.0], 0.0, math.exp(-mean)
    for k in range(count):
        below += term
        term *= mean / (k + 1)
        tails.append(max(0.0, 1 - below))
    return tails


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinableBulk:
    """M/M[1..K]/1: batches with exponential times that arrivals may join until they are full."""

    rate_per_s: float
    batches_per_s: float
    largest: int

    @property
    def ratio(self) -> float:
        """The root in (0, 1) of μ·r^(K+1) - (λ + μ)·r + λ = 0; the number present is geometric in it."""
        if self.rate_per_s >= self.largest * self.batches_per_s:
            raise UnstableError(f"{self.rate_per_s:g}/s reaches {self.largest * self.batches_per_s:g}/s")
        low, high = 0.0, 1 - 1e-12
        for _ in range(200):
            middle = (low + high) / 2
            value = self.batches_per_s * middle ** (self.largest + 1) - (self.rate_per_s + self.batches_per_s) * middle
            low, high = (middle, high) if value + self.rate_per_s > 0 else (low, middle)
        return low

    @property
    def response_s(self) -> float:
        """Mean response L/λ with L = r / (1 - r). [s]"""
        return self.ratio / (1 - self.ratio) / self.rate_per_s
