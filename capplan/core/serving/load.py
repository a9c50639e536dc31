"""Types of loads: services, batch jobs, training purchases, or none."""

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A stream of samples that must be answered within a latency at a percentile.

    `peak_per_s` is the highest rate to be served within the limit, `mean_per_s` the average over a year. Gaps are
    Poisson where `gap_scv` is 1, burstier above. `spares` are failure domains (servers) beyond need. The load factor
    at peak stays below `utilization_ceiling_fraction` of what full batches could do. With `availability_fraction`, as
    many servers are spare as keep enough of them up for that share of the time, `spares` at least; they stand in
    `zones` of a provider or site, which fail as a whole.
    """

    kind: Literal["service"] = "service"
    peak_per_s: float
    mean_per_s: float
    latency_limit_s: float
    percentile: float
    growth_per_year_fraction: float
    spares: int
    utilization_ceiling_fraction: float
    window_s: float
    gap_scv: float
    daily_per_s: tuple[float, ...] = ()
    allow_spot: bool = False
    availability_fraction: float | None = None
    zones: int = 1

    @property
    def daily_shares(self) -> tuple[float, ...]:
        """Return the rate of each hour of the day over their mean; a single 1 where no profile is stated."""
        mean = sum(self.daily_per_s) / max(1, len(self.daily_per_s))
        return tuple(rate / mean for rate in self.daily_per_s) if mean else (1.0,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A batch job: some samples by a deadline, some times a year, without a latency limit.

    `start_up_s` is the time from the order of a run's machines until they work: boot, image, weights. It is part of the
    deadline, and is charged where machines are rented by the hour. [s]
    """

    kind: Literal["job"] = "job"
    samples: float
    deadline_s: float
    runs_per_year: float
    growth_per_year_fraction: float
    spares: int
    utilization_ceiling_fraction: float
    allow_spot: bool = False
    start_up_s: float = 0.0

    @property
    def rate_per_s(self) -> float:
        """Samples per second that keep the deadline once the machines work. [1/s]"""
        return self.samples / (self.deadline_s - self.start_up_s)

    @property
    def mean_per_s(self) -> float:
        """Samples per second in the mean over the year. [1/s]"""
        return self.samples * self.runs_per_year / (365 * 86400)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPurchase:
    """Training runs by a deadline: samples × epochs, on GPUs working side by side.

    `scaling_fraction` is the share of one GPU's rate that each of several keeps, `start_up_s` as for a job. [s]
    """

    kind: Literal["training"] = "training"
    samples: float
    epochs: float
    deadline_s: float
    runs_per_year: float
    scaling_fraction: float
    spares: int
    utilization_ceiling_fraction: float
    allow_spot: bool = False
    growth_per_year_fraction: float = 0.0
    start_up_s: float = 0.0

    @property
    def rate_per_s(self) -> float:
        """Samples per second that keep the deadline once the machines work. [1/s]"""
        return self.samples * self.epochs / (self.deadline_s - self.start_up_s)

    @property
    def mean_per_s(self) -> float:
        """Samples per second in the mean over the year. [1/s]"""
        return self.samples * self.epochs * self.runs_per_year / (365 * 86400)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneGpu:
    """No load stated: one GPU of each kind, kept as busy as the ceiling says; options compare per sample."""

    kind: Literal["one-gpu"] = "one-gpu"
    utilization_ceiling_fraction: float
    spares: int = 0
    growth_per_year_fraction: float = 0.0
    allow_spot: bool = False


Load: TypeAlias = Service | Job | TrainingPurchase | OneGpu
