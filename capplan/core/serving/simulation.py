"""Discrete-event simulation of replicas that serve batches: latency percentiles under load.

All stations are simulated in step, one batch of each at a time, so that hundreds of GPUs and rates cost little more
than one. Stations of one stream meet the same random arrivals, so that a percentile rises with the load; those of
different streams meet independent ones, so that no chance is common to all GPUs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from capplan.core.numbers import FloatArray, IntArray, Interval

BatchTimes: TypeAlias = Sequence[float] | FloatArray


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


def stationary(step: Callable[[int], tuple[int, float]], *, at_least: int) -> FloatArray:
    """Return the stationary law of the chain n' = kept(n) + Poisson(mean(n)), where step(n) = (kept, mean).

    The states are cut where less than 1e-13 of the probability lies beyond; the cut mass is put on the last state.
    """
    size = max(128, at_least)
    while True:
        law = _stationary_of(_transitions(step, size))
        if law[-max(1, size // 16) :].sum() < 1e-13 or size >= 8192:
            return law
        size *= 2


def _transitions(step: Callable[[int], tuple[int, float]], size: int) -> FloatArray:
    matrix = np.zeros((size, size))
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, size)))])
    counts = np.arange(size)
    for n in range(size):
        kept, mean = step(n)
        law = np.exp(counts * math.log(mean) - mean - log_factorial)
        matrix[n, kept:] = law[: size - kept]
        matrix[n, -1] += max(0.0, 1 - matrix[n].sum())
    return matrix


def _stationary_of(matrix: FloatArray) -> FloatArray:
    size = len(matrix)
    system = matrix.T - np.eye(size)
    system[-1] = 1
    right = np.zeros(size)
    right[-1] = 1
    return np.asarray(np.linalg.solve(system, right), dtype=np.float64)


_CHUNK_SAMPLES = 4_000_000
"""Responses held at once: 32 MB."""

_CHUNK_STATIONS = 2**15 - 1
"""Lanes are sorted as 16-bit integers, which is fastest."""

_GROUPS = 20
"""Stretches of a run from whose means or percentiles a confidence interval follows."""
_T_95 = 2.093
"""Student's t with 19 degrees of freedom that leaves 2.5 % on either side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """Replicas that share a queue, and the Poisson stream that arrives there.

    A free replica takes what waits, at most `len(batch_times_s)` samples, once the batch is full or its oldest
    sample has waited `window_s` (0: at once); a batch of b takes `batch_times_s[b - 1]`, scattered by a gamma law of
    squared coefficient of variation `service_scv` where that is not 0. Stations of one `stream` meet the same arrivals.
    """

    rate_per_s: float
    batch_times_s: BatchTimes
    replicas: int = 1
    window_s: float = 0.0
    service_scv: float = 0.0
    stream: int = 0

    @property
    def load_fraction(self) -> float:
        """Arrivals over what full batches could complete; 1 and more is unstable."""
        return self.rate_per_s * self.batch_times_s[-1] / (len(self.batch_times_s) * self.replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class Randomness:
    """What makes a simulation repeatable: number and seed of arrivals; `gap_scv` is 1 for Poisson, more in bursts."""

    arrivals: int = 20_000
    seed: int = 20_26_11
    gap_scv: float = 1.0
    warm_up_fraction: float = 0.1


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What a simulated station did after its warm-up: the response of every arrival, in order of arrival. [s]

    `busy_fraction` is the share of replica time in service, `batch` the mean batch.
    """

    responses_s: FloatArray
    batch: float
    busy_fraction: float

    @cached_property
    def mean_s(self) -> Interval:
        """Mean response with its 95 % confidence interval by batch means. [s]"""
        groups = _groups(self.responses_s)
        return _confidence(float(self.responses_s.mean()), groups.mean(axis=1))

    def percentile_s(self, percentile: float) -> Interval:
        """Return a percentile of the response with its 95 % confidence interval, from 20 stretches of the run. [s]"""
        groups = _groups(self.responses_s)
        return _confidence(self.quantile_s(percentile), _quantiles(groups, percentile))

    def quantile_s(self, percentile: float) -> float:
        """Return a percentile of the response, without its interval. [s]"""
        return float(_quantiles(self.responses_s, percentile))


def _quantiles(values: FloatArray, percentile: float) -> FloatArray:
    """Return the smallest value that a share of the last axis does not exceed."""
    size = values.shape[-1]
    rank = min(size - 1, max(0, math.ceil(percentile / 100 * size) - 1))
    return np.asarray(np.partition(values, rank, axis=-1)[..., rank])


def _groups(responses_s: FloatArray) -> FloatArray:
    size = len(responses_s) // _GROUPS
    return responses_s[: size * _GROUPS].reshape(_GROUPS, size)


def _confidence(value: float, per_group: FloatArray) -> Interval:
    half = _T_95 * float(per_group.std(ddof=1)) / _GROUPS**0.5
    return Interval(low=max(0.0, value - half), expected=value, high=value + half)


def simulate(stations: Sequence[Station], *, randomness: Randomness | None = None) -> tuple[Observed, ...]:
    """Run every station over the arrivals of its stream; results align with `stations`."""
    drawn = randomness or Randomness()
    arrivals, scatter = _draw(stations, drawn)
    streams = _streams(stations)
    size = min(_CHUNK_STATIONS, max(1, _CHUNK_SAMPLES // drawn.arrivals))
    observed: list[Observed] = []
    for first in range(0, len(stations), size):
        chunk = stations[first : first + size]
        rows = [streams.index(station.stream) for station in chunk]
        observed += _Lanes(chunk, arrivals, rows, scatter).run(drawn.warm_up_fraction)
    return tuple(observed)


def _draw(stations: Sequence[Station], drawn: Randomness) -> tuple[FloatArray, dict[float, FloatArray]]:
    """Draw arrival times at unit rate for each stream, and a unit-mean scatter of batch times for each SCV in use.

    The streams follow one another in one array of rising times, so that one search finds the arrivals of all lanes.
    """
    shape = 1 / drawn.gap_scv
    sources = (
        np.random.default_rng((drawn.seed, 2, stream) if stream else drawn.seed) for stream in _streams(stations)
    )
    gaps = [source.gamma(shape, drawn.gap_scv, drawn.arrivals) for source in sources]
    arrivals = np.cumsum(np.concatenate(gaps)).reshape(-1, drawn.arrivals)
    scatter: dict[float, FloatArray] = {}
    for scv in sorted({station.service_scv for station in stations}):
        generator = np.random.default_rng((drawn.seed, 1))
        scatter[scv] = generator.gamma(1 / scv, scv, drawn.arrivals) if scv else np.ones(drawn.arrivals)
    return arrivals, scatter


def _streams(stations: Sequence[Station]) -> list[int]:
    return sorted({station.stream for station in stations})


class _Lanes:
    """The stations' states, one lane each. Time runs in mean gaps between arrivals, so that lanes share them.

    `arrivals` [stream, arrival] rise from stream to stream; `rows` are the stations' streams among them.
    """

    def __init__(
        self, stations: Sequence[Station], arrivals: FloatArray, rows: list[int], scatter: dict[float, FloatArray]
    ) -> None:
        self.arrivals, self.count = arrivals.ravel(), arrivals.shape[1]
        self.first = np.array(rows, dtype=np.int64) * self.count
        self.padded = np.append(self.arrivals, np.inf)
        self.rates = np.array([station.rate_per_s for station in stations])
        self.largest = np.array([len(station.batch_times_s) for station in stations])
        self.windows = np.array([station.window_s for station in stations]) * self.rates
        self.replicas = np.array([station.replicas for station in stations])
        times = [np.asarray(station.batch_times_s) * station.rate_per_s for station in stations]
        self.times = np.concatenate(times)
        self.time_offsets = np.concatenate([[0], np.cumsum(self.largest)[:-1]]) - 1
        scvs = sorted(scatter)
        self.scatter = np.array([scatter[scv] for scv in scvs])
        self.scatter_rows = np.array([scvs.index(station.service_scv) for station in stations])
        self.is_scattered = any(scvs)

    def run(self, warm_up_fraction: float) -> list[Observed]:
        lanes, sizes, finishes, services = self._serve()
        order = np.argsort(lanes.astype(np.int16), kind="stable")
        lanes, sizes, finishes, services = lanes[order], sizes[order], finishes[order], services[order]
        count = self.count
        responses = np.repeat(finishes, sizes).reshape(len(self.rates), count)
        responses -= self.arrivals.reshape(-1, count)[self.first // count]
        responses /= self.rates[:, None]
        batches = np.bincount(lanes, minlength=len(self.rates))
        busy = np.bincount(lanes, weights=services, minlength=len(self.rates))
        last = np.maximum.reduceat(finishes, np.concatenate([[0], np.cumsum(batches)[:-1]]))
        busy_fractions = busy / (last - self.arrivals[self.first]) / self.replicas
        first = int(count * warm_up_fraction)
        return [
            Observed(responses_s=row[first:], batch=count / int(number), busy_fraction=float(share))
            for row, number, share in zip(responses, batches, busy_fractions, strict=True)
        ]

    def _serve(self) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
        lane = np.arange(len(self.rates))
        head, end = self.first.copy(), self.first + self.count
        free = np.where(np.arange(self.replicas.max()) < self.replicas[:, None], 0.0, np.inf)
        done: list[tuple[IntArray, IntArray, FloatArray, FloatArray]] = []
        step = 0
        while len(lane):
            server = free.argmin(axis=1) if free.shape[1] > 1 else np.zeros(len(lane), dtype=np.int64)
            rows = np.arange(len(lane))
            oldest = self.arrivals[head]
            largest = self.largest[lane]
            filled = head + largest - 1
            full = np.where(filled < end, self.padded[np.minimum(filled, len(self.arrivals))], np.inf)
            start = np.maximum(free[rows, server], np.minimum(oldest + self.windows[lane], full))
            waiting = np.minimum(self.arrivals.searchsorted(start, side="right"), end) - head
            size = np.minimum(np.maximum(waiting, 1), largest)
            service = self.times[self.time_offsets[lane] + size]
            if self.is_scattered:
                service = service * self.scatter[self.scatter_rows[lane], step]
            finish = start + service
            free[rows, server] = finish
            done.append((lane, size, finish, service))
            head = head + size
            step += 1
            active = head < end
            if not active.all():
                lane, head, end, free = lane[active], head[active], end[active], free[active]
        columns = [np.concatenate(column) for column in zip(*done, strict=True)]
        return columns[0], columns[1], columns[2], columns[3]
