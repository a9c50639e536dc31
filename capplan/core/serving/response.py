"""Simulate how a replica's latency percentile rises with its load, and find the highest rate within a limit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from zlib import crc32

import numpy as np

from capplan.core.numbers import FloatArray, Interval
from capplan.core.serving.servers import Exchange
from capplan.core.serving.simulation import Randomness, Station, capacity_per_s, simulate

SEARCH = Randomness(arrivals=1_500)
"""For the shape of the curve; the answer itself is simulated with more arrivals."""

_STEPS_TO_CEILING = (0.05, 0.4, 0.75, 1.0)
_LOADS_BEYOND = (0.85, 0.95)
_OVERLOAD = 0.98
_USEFUL_LIMITS = 1.5


class SpeedTier(StrEnum):
    """How a GPU's speed is known: steps were timed on it, follow from relatives, or from its spec sheet alone."""

    MEASURED = "measured"
    TRANSFERRED = "transferred"
    SPEC_SHEET = "spec-sheet"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPoint:
    """What the estimate says of one batch on one GPU: latency, memory, and power without the host, None if unknown."""

    batch: int
    latency_s: Interval
    memory_bytes: Interval
    power_w: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLimit:
    """What the host can feed to one GPU: samples per second by one of its parts, such as PCIe. [1/s]"""

    name: str
    rate_per_s: float


PCIE = "PCIe"
"""The host's limit by the inputs that cross its bus."""

CPU_CORES = "CPU cores"
"""The host's limit by the time that its cores need for a sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A GPU that holds the model, with its estimates over the batch, smallest first.

    `largest_batches` are those that it may be run with; all estimated ones where it is empty. `segment` is the market
    that its vendor sells it for, `not_sold` says when an announced one is expected, `licence` what its driver's licence
    forbids in a data centre; None where unknown or nothing. `porting` says what another vendor's GPU asks of software,
    `path_was_timed` whether whole steps were timed on this GPU or another of its architecture. `host_limits` say how
    fast the host feeds one GPU, `host_cores` how many of its cores there are for one, `exchange` how GPUs that train
    together exchange gradients; None where they do not. `idle_w` is what a GPU with an open process draws that launches
    little [W]; None where the power limit is unknown. `power_evidence` says what the power of a step rests on.
    A replica takes `replica_gpus`, `spare_replicas` run beside those needed; `is_untried` is True where no load of the
    kind was measured, `is_for_desks` where one server of it may be a computer under a desk.
    """

    gpu: str
    name: str
    tdp_w: float | None
    form_factor: str | None
    points: tuple[BatchPoint, ...]
    largest_batches: tuple[int, ...] = ()
    speed: SpeedTier = SpeedTier.MEASURED
    segment: str | None = None
    is_end_of_sale: bool = False
    not_sold: str | None = None
    licence: str | None = None
    porting: str | None = None
    path_was_timed: bool = True
    host_limits: tuple[HostLimit, ...] = ()
    host_cores: float | None = None
    exchange: Exchange | None = None
    idle_w: float | None = None
    replica_gpus: int = 1
    spare_replicas: int = 0
    is_untried: bool = False
    is_for_desks: bool = False
    power_evidence: str = "no law of power: drawn up to the limit while in use"

    def fed_by(self, cpu_s_per_sample: float) -> "Candidate":
        """Return the candidate with a host whose cores need some time for each sample; 0 limits nothing. [s]"""
        others = tuple(limit for limit in self.host_limits if limit.name != CPU_CORES)
        if not cpu_s_per_sample or self.host_cores is None:
            return replace(self, host_limits=others)
        cores = HostLimit(name=CPU_CORES, rate_per_s=self.host_cores / cpu_s_per_sample)
        return replace(self, host_limits=(*others, cores))

    @property
    def stream(self) -> int:
        """Return the stream of random arrivals that the GPU is simulated with: its own, whichever others there are."""
        return crc32(self.gpu.encode())

    @property
    def allowed(self) -> tuple[int, ...]:
        """Return the largest batches that it may be run with."""
        return self.largest_batches or self.batches

    @property
    def batches(self) -> tuple[int, ...]:
        """Return the batches that were estimated."""
        return tuple(point.batch for point in self.points)

    def power_curve(self, largest: int, *, latency_factor: float = 1.0) -> "PowerCurve | None":
        """Return what one GPU draws over its rate with batches up to a largest; None where its limit is not known.

        Batches are taken greedily: at a low rate the GPU works now and then on single samples; once it works all the
        time, batches grow with the rate. Both are straight lines between the rates of full batches, in the limit of
        many arrivals. Where the power of a step or of an idle GPU is not known, the limit stands for it: a bound.
        """
        if self.tdp_w is None:
            return None
        rates, watts = [0.0], [self.tdp_w if self.idle_w is None else self.idle_w]
        for point in self.points:
            rate = point.batch / (point.latency_s.expected * latency_factor)
            if point.batch <= largest and rate > rates[-1]:
                rates.append(rate)
                watts.append(point.power_w.expected if point.power_w else self.tdp_w)
        return PowerCurve(limit_w=self.tdp_w, rates_per_s=tuple(rates), watts=tuple(watts))

    def batch_times_s(self, largest: int) -> FloatArray:
        """Return the expected time of each batch 1..largest: linear between estimates, padded below them. [s]"""
        return np.interp(np.arange(1, largest + 1), self.batches, [point.latency_s.expected for point in self.points])


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCurve:
    """What one GPU draws over the rate that it serves, without its host: linear between points, the first one idle."""

    limit_w: float
    rates_per_s: tuple[float, ...]
    watts: tuple[float, ...]

    @property
    def idle_w(self) -> float:
        """Return the draw without work. [W]"""
        return self.watts[0]

    def mean_w(self, rates_per_s: Sequence[float]) -> float:
        """Return the mean draw over hours of different rates. [W]"""
        return float(np.mean(np.interp(rates_per_s, self.rates_per_s, self.watts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchingPolicy:
    """How requests reach a replica: its batching window, how bursty arrivals are, and the percentile looked at."""

    percentile: float
    window_s: float = 0.0
    gap_scv: float = 1.0
    ceiling_fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseCurve:
    """Latency percentile of one replica over its load factor; `ceiling_fraction` is the load that may be planned."""

    largest_batch: int
    capacity_per_s: float
    ceiling_fraction: float
    loads: tuple[float, ...]
    percentiles_s: tuple[float, ...]

    def highest_rate(self, limit_s: float) -> float:
        """Return the highest rate below the ceiling whose percentile keeps the limit; 0 where none does. [1/s]"""
        ceiling = self.loads.index(self.ceiling_fraction)
        last = next((index for index in range(ceiling, -1, -1) if self.percentiles_s[index] <= limit_s), None)
        if last is None:
            return 0.0
        if last == ceiling:
            return self.loads[last] * self.capacity_per_s
        below, above = self.percentiles_s[last], self.percentiles_s[last + 1]
        share = (limit_s - below) / (above - below)
        return (self.loads[last] + share * (self.loads[last + 1] - self.loads[last])) * self.capacity_per_s

    def percentile_s(self, rate_per_s: float, *, latency_factor: float = 1.0) -> float | None:
        """Return the percentile at a rate, were all batch times so many times longer; None where work piles up. [s]"""
        load = rate_per_s * latency_factor / self.capacity_per_s
        if load > self.loads[-1] * (1 + 1e-9):
            return None
        return latency_factor * float(np.interp(load, self.loads, self.percentiles_s))


def response_curves(
    candidates: Sequence[Candidate], *, policy: BatchingPolicy, limit_s: float
) -> tuple[tuple[ResponseCurve, ...], ...]:
    """Simulate every candidate with every largest batch over its load; the outer tuple aligns with `candidates`.

    Largest batches that alone take much longer than the limit are left out: taken greedily, batches break the limit
    long before they are that full.
    """
    lanes: list[tuple[int, int, FloatArray]] = []
    for index, candidate in enumerate(candidates):
        times = candidate.batch_times_s(candidate.batches[-1])
        useful = [cap for cap in candidate.allowed if times[cap - 1] <= _USEFUL_LIMITS * limit_s]
        lanes += [(index, cap, times[:cap]) for cap in useful or candidate.allowed[:1]]
    ceiling = policy.ceiling_fraction
    loads = (*(step * ceiling for step in _STEPS_TO_CEILING), *(load for load in _LOADS_BEYOND if load > ceiling))
    stations = [
        Station(
            rate_per_s=load * capacity_per_s(times),
            batch_times_s=times,
            window_s=policy.window_s,
            stream=candidates[index].stream,
        )
        for index, _, times in lanes
        for load in loads
    ]
    observed = simulate(stations, randomness=replace(SEARCH, gap_scv=policy.gap_scv)) if stations else ()
    values = [response.quantile_s(policy.percentile) for response in observed]
    curves: list[list[ResponseCurve]] = [[] for _ in candidates]
    for lane, (index, cap, times) in enumerate(lanes):
        mine = values[lane * len(loads) : (lane + 1) * len(loads)]
        curves[index].append(
            ResponseCurve(
                largest_batch=cap,
                capacity_per_s=capacity_per_s(times),
                ceiling_fraction=ceiling,
                loads=loads,
                percentiles_s=tuple(mine),
            )
        )
    return tuple(map(tuple, curves))


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What one replica does at a rate: its percentile and mean with confidence intervals, batch and busy share.

    `stable` is False where work arrives as fast as full batches can do it; then there is no latency.
    """

    rate_per_s: float
    load_fraction: float
    percentile_s: Interval | None
    mean_s: Interval | None
    batch: float | None
    busy_fraction: float | None

    @property
    def stable(self) -> bool:
        """Return True if there is a steady state."""
        return self.percentile_s is not None


def responses(
    questions: Sequence[tuple[Candidate, int, float]], *, policy: BatchingPolicy, arrivals: int = 20_000
) -> tuple[Response, ...]:
    """Simulate replicas at (candidate, largest batch, rate); aligned with `questions`."""
    stations = [
        Station(
            rate_per_s=rate,
            batch_times_s=candidate.batch_times_s(cap),
            window_s=policy.window_s,
            stream=candidate.stream,
        )
        for candidate, cap, rate in questions
    ]
    steady = [station for station in stations if station.load_fraction <= _OVERLOAD]
    ran = iter(simulate(steady, randomness=Randomness(arrivals=arrivals, gap_scv=policy.gap_scv)) if steady else ())
    answers = []
    for station in stations:
        observed = next(ran) if station.load_fraction <= _OVERLOAD else None
        answers.append(
            Response(
                rate_per_s=station.rate_per_s,
                load_fraction=station.load_fraction,
                percentile_s=observed.percentile_s(policy.percentile) if observed else None,
                mean_s=observed.mean_s if observed else None,
                batch=observed.batch if observed else None,
                busy_fraction=observed.busy_fraction if observed else None,
            )
        )
    return tuple(answers)
