"""Size a fleet of each kind of GPU for a load: the highest rate of one, then the replicas, checked by simulation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from capplan.core.numbers import Interval
from capplan.core.serving.load import Job, Load, OneGpu, Service, TrainingPurchase
from capplan.core.serving.response import (
    BatchingPolicy,
    BatchPoint,
    Candidate,
    Response,
    ResponseCurve,
    response_curves,
    responses,
)
from capplan.core.serving.servers import Neighbours, ParallelRates, parallel_rates, replicas_for_rate
from capplan.core.serving.simulation import greedy_batching

_CHECK = 20_000
"""Arrivals that a fleet is simulated with: 180 of them lie beyond the 99th percentile, after the warm-up."""
_NEARLY = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """How a GPU is run: its largest batch, and the samples per second that one then carries. [1/s]

    For training, `parallel` holds the rates alone, with others of its server and across servers, of which `beside`
    names the one that counts.
    """

    largest_batch: int
    rate_per_s: float
    parallel: ParallelRates | None = None
    beside: Neighbours = Neighbours.WITHIN

    def in_servers(self, demand_per_s: float, *, server_slots: int, full_servers: bool) -> "OperatingPoint":
        """Return the point with the rate that GPUs keep when they train together in servers of a size."""
        if self.parallel is None:
            return self
        return self.with_others(
            self.parallel.beside(demand_per_s, server_slots=server_slots, full_servers=full_servers)
        )

    def with_others(self, beside: Neighbours) -> "OperatingPoint":
        """Return the point with the rate that a GPU keeps beside others of the same training."""
        if self.parallel is None:
            return self
        return replace(self, rate_per_s=self.parallel.of(beside), beside=beside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What one GPU of a kind can carry, as a function of the latency limit and of the estimate's error.

    `curves` hold a service's latency over load by largest batch. Without a service, a GPU is kept busy for
    `share_fraction` of the time, and GPUs that train together keep `scaling_fraction` of their rate at most.
    `correction` brings the interpolated rate to the one that the final simulation confirmed. `ceiling_fraction` is the
    share of what its host can feed that may be used.
    """

    candidate: Candidate
    curves: tuple[ResponseCurve, ...] = ()
    share_fraction: float = 1.0
    scaling_fraction: float | None = None
    correction: float = 1.0
    ceiling_fraction: float = 1.0

    @property
    def host_per_s(self) -> float:
        """Return the samples per second that the host feeds to one GPU at most; infinite where unknown. [1/s]"""
        fed = min((limit.rate_per_s for limit in self.candidate.host_limits), default=math.inf)
        return self.ceiling_fraction * fed

    def fed_by(self, cpu_s_per_sample: float | None) -> "Capacity":
        """Return the capacity with hosts that need another time for each sample; None changes nothing. [s]"""
        return self if cpu_s_per_sample is None else replace(self, candidate=self.candidate.fed_by(cpu_s_per_sample))

    def operating_points(self, *, limit_s: float | None, latency_factor: float = 1.0) -> tuple[OperatingPoint, ...]:
        """Return the operating point of every largest batch that serves within the limit, at scaled batch times.

        The percentile at a load factor scales with the batch times, so that limit / factor is looked up (exact
        without a batching window).
        """
        if limit_s is None:
            return tuple(
                self._steady(point, latency_factor)
                for point in self.candidate.points
                if point.batch in self.candidate.allowed
            )
        rates = ((curve, curve.highest_rate(limit_s / latency_factor)) for curve in self.curves)
        return tuple(
            OperatingPoint(
                largest_batch=curve.largest_batch,
                rate_per_s=min(rate * self.correction / latency_factor, self.host_per_s),
            )
            for curve, rate in rates
            if rate > 0
        )

    def _steady(self, point: BatchPoint, latency_factor: float) -> OperatingPoint:
        """Return how a GPU works through a job at a batch, in steps so many times longer."""
        step_s = point.latency_s.expected * latency_factor
        rate_per_s = min(self.share_fraction * point.batch / step_s, self.host_per_s)
        if self.scaling_fraction is None:
            return OperatingPoint(largest_batch=point.batch, rate_per_s=rate_per_s)
        rates = parallel_rates(
            alone_per_s=rate_per_s,
            step_s=step_s,
            scaling_fraction=self.scaling_fraction,
            exchange=self.candidate.exchange,
        )
        return OperatingPoint(largest_batch=point.batch, rate_per_s=rates.within_per_s, parallel=rates)

    def operate(
        self, *, limit_s: float | None, latency_factor: float = 1.0, largest_batch: int | None = None
    ) -> OperatingPoint | None:
        """Return the smallest batch that carries nearly the most within the limit, or the given one; None without."""
        held = self.operating_points(limit_s=limit_s, latency_factor=latency_factor)
        return _smallest_of_nearly_the_most([point for point in held if largest_batch in (None, point.largest_batch)])

    def operate_in_servers(
        self,
        demand_per_s: float,
        *,
        server_slots: int,
        full_servers: bool,
        latency_factor: float = 1.0,
        largest_batch: int | None = None,
    ) -> OperatingPoint:
        """Return how GPUs that train together are run in servers of a size: the smallest batch of nearly the most."""
        held = self.operating_points(limit_s=None, latency_factor=latency_factor)
        asked = [point for point in held if largest_batch in (None, point.largest_batch)]
        if not asked:
            raise ValueError(f"{self.candidate.gpu} has no batch {largest_batch}")
        return best_in_servers(asked, demand_per_s, server_slots=server_slots, full_servers=full_servers)


def best_in_servers(
    held: Sequence[OperatingPoint], demand_per_s: float, *, server_slots: int, full_servers: bool
) -> OperatingPoint:
    """Return the smallest batch of nearly the most among points of GPUs that train together for a demand. [1/s]"""
    placed = [point.in_servers(demand_per_s, server_slots=server_slots, full_servers=full_servers) for point in held]
    found = _smallest_of_nearly_the_most(placed)
    assert found is not None, "a GPU has a batch"
    return found


def _smallest_of_nearly_the_most(points: Sequence[OperatingPoint]) -> OperatingPoint | None:
    """Return the point of the smallest batch that carries nearly the most; None where there is none."""
    most = max((point.rate_per_s for point in points), default=0.0)
    return next((point for point in points if point.rate_per_s >= _NEARLY * most), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible:
    """A GPU that holds the model but cannot carry the load, with the reason."""

    candidate: Candidate
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """One kind of GPU sized for a load: how it is run, how many are needed, and what they then do.

    `response` is that of one of `need` replicas at peak, where each gets a random share of the arrivals; None for jobs.
    """

    capacity: Capacity
    operating_point: OperatingPoint
    need: int
    response: Response | None = None

    @property
    def gpu(self) -> str:
        return self.capacity.candidate.gpu

    @property
    def batch_latency_s(self) -> Interval:
        """Time of one full batch. [s]"""
        points = self.capacity.candidate.points
        return next(point.latency_s for point in points if point.batch == self.operating_point.largest_batch)

    def percentile_s(self, rate_per_s: float, *, latency_factor: float = 1.0) -> float | None:
        """Return the latency percentile of a replica at another rate or slowness, anchored at what was simulated. [s]

        None where work piles up, and for jobs.
        """
        curve = next((c for c in self.capacity.curves if c.largest_batch == self.operating_point.largest_batch), None)
        if curve is None or self.response is None or self.response.percentile_s is None:
            return None
        here = curve.percentile_s(self.response.rate_per_s)
        there = curve.percentile_s(rate_per_s, latency_factor=latency_factor)
        if here is None or there is None:
            return None
        return there * self.response.percentile_s.expected / here


def size_fleets(candidates: Sequence[Candidate], load: Load) -> tuple[Sizing | Infeasible, ...]:
    """Size every candidate for a load; aligned with `candidates`, which have at least one point each."""
    if isinstance(load, Service):
        policy = batching_policy_of(load)
        capacities = [
            Capacity(candidate=candidate, curves=curves, ceiling_fraction=load.utilization_ceiling_fraction)
            for candidate, curves in zip(
                candidates, response_curves(candidates, policy=policy, limit_s=load.latency_limit_s), strict=True
            )
        ]
        operating_points = [capacity.operate(limit_s=load.latency_limit_s) for capacity in capacities]
        held = [
            (capacity, operating_point)
            for capacity, operating_point in zip(capacities, operating_points, strict=True)
            if operating_point is not None
        ]
        sized = iter(_confirm(held, load, policy))
        return tuple(
            _infeasible(capacity.candidate, load) if operating_point is None else next(sized)
            for capacity, operating_point in zip(capacities, operating_points, strict=True)
        )
    rate_per_s = 0.0 if isinstance(load, OneGpu) else load.rate_per_s
    return tuple(_size_job(candidate, load, rate_per_s) for candidate in candidates)


def batching_policy_of(service: Service) -> BatchingPolicy:
    """Return the simulated part of a service level."""
    return BatchingPolicy(
        percentile=service.percentile,
        window_s=service.window_s,
        gap_scv=service.gap_scv,
        ceiling_fraction=service.utilization_ceiling_fraction,
    )


def _size_job(candidate: Candidate, load: Job | TrainingPurchase | OneGpu, rate_per_s: float) -> Sizing:
    capacity = Capacity(
        candidate=candidate,
        share_fraction=load.utilization_ceiling_fraction,
        scaling_fraction=load.scaling_fraction if isinstance(load, TrainingPurchase) else None,
    )
    operating_point = capacity.operate(limit_s=None)
    if operating_point is None:
        raise ValueError(f"{candidate.gpu} has no batch")
    need = replicas_for_rate(rate_per_s=rate_per_s, per_replica_per_s=operating_point.rate_per_s)
    return Sizing(capacity=capacity, operating_point=operating_point, need=need)


def _infeasible(candidate: Candidate, service: Service) -> Infeasible:
    fastest = min(point.latency_s.expected for point in candidate.points)
    return Infeasible(
        candidate=candidate,
        reason=(
            f"its {service.percentile:g}th percentile exceeds {service.latency_limit_s * 1e3:g} ms even almost idle: "
            f"the fastest batch alone takes {fastest * 1e3:.3g} ms"
        ),
    )


def _confirm(held: Sequence[tuple[Capacity, OperatingPoint]], service: Service, policy: BatchingPolicy) -> list[Sizing]:
    """Simulate one replica fewer, as many, and one more than interpolated, and take the fewest that serve."""
    interpolated = [
        replicas_for_rate(rate_per_s=service.peak_per_s, per_replica_per_s=operating_point.rate_per_s)
        for _, operating_point in held
    ]
    counts = [
        _neighbours(
            count, least=replicas_for_rate(rate_per_s=service.peak_per_s, per_replica_per_s=capacity.host_per_s)
        )
        for (capacity, _), count in zip(held, interpolated, strict=True)
    ]
    questions = [
        (capacity.candidate, operating_point.largest_batch, service.peak_per_s / count)
        for (capacity, operating_point), mine in zip(held, counts, strict=True)
        for count in mine
    ]
    answers = iter(responses(questions, policy=policy, arrivals=_CHECK))
    sized: list[Sizing] = []
    for (capacity, operating_point), expected, mine in zip(held, interpolated, counts, strict=True):
        seen = [(count, next(answers)) for count in mine]
        need, response = next((tried for tried in seen if _serves(tried[1], service)), seen[-1])
        corrected = (
            capacity
            if need == expected
            else replace(capacity, correction=service.peak_per_s / need / operating_point.rate_per_s)
        )
        found = corrected.operate(limit_s=service.latency_limit_s, largest_batch=operating_point.largest_batch)
        sized.append(Sizing(capacity=corrected, operating_point=found or operating_point, need=need, response=response))
    return sized


def _neighbours(count: int, *, least: int) -> tuple[int, ...]:
    return tuple(near for near in (count - 1, count, count + 1) if near >= least)


def _serves(response: Response, service: Service) -> bool:
    return (
        response.percentile_s is not None
        and response.percentile_s.expected <= service.latency_limit_s
        and response.load_fraction <= service.utilization_ceiling_fraction * (1 + 1e-9)
    )


def exact_mean_s(service: Service, sizing: Sizing) -> float | None:
    """Return the exact mean response of one replica at peak: for Poisson arrivals without a window. [s]"""
    if service.window_s or service.gap_scv != 1 or sizing.response is None or not sizing.response.stable:
        return None
    times = sizing.capacity.candidate.batch_times_s(sizing.operating_point.largest_batch)
    return greedy_batching(rate_per_s=sizing.response.rate_per_s, batch_times_s=times).response_s
