"""Types of loads: services, batch jobs, training purchases, or none."""

from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal, TypeAlias

HOURS_PER_DAY = 24
DAYS_PER_WEEK = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The hours of a year in which a service needs machines for some share of its peak.

    `hours_per_year` counts each hour at its own rate. Machines start before the hour that needs them: with a start-up
    of s hours, a level is paid for `hours_per_year` + s × `starts_per_year`. The starts of a level are the hours that
    it is the next hour's higher rate, less the hours in which a higher level takes its place.
    """

    peak_fraction: float
    hours_per_year: float
    starts_per_year: float


def days_in_use(hours: frozenset[int], days: int) -> tuple[float, ...]:
    """Return for each hour of a week whether it is in use, as 1 or 0."""
    day = tuple(float(hour in hours) for hour in range(HOURS_PER_DAY))
    return day * days + (0.0,) * (HOURS_PER_DAY * (DAYS_PER_WEEK - days))


@cache
def levels_of(weekly_per_s: tuple[float, ...], peak_per_s: float) -> tuple[Level, ...]:
    """Return the levels of a week's hourly rates, highest first; hours without a load have none.

    Machines that start in hour h for hour h + 1 are paid for the start-up: Σ max(0, m(h + 1) - m(h)) of them start,
    which is Σ m(max(r(h), r(h + 1))) - Σ m(r(h)), since the machines m grow with the rate r.
    """
    weeks = 365 / DAYS_PER_WEEK
    hours = Counter(weekly_per_s)
    starts = Counter(max(rates) for rates in pairwise((*weekly_per_s, weekly_per_s[0])))
    return tuple(
        Level(
            peak_fraction=rate / peak_per_s,
            hours_per_year=weeks * hours[rate],
            starts_per_year=weeks * (starts[rate] - hours[rate]),
        )
        for rate in sorted(hours, reverse=True)
        if rate > 0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A stream of samples that must be answered within a latency at a percentile.

    `peak_per_s` is the highest rate to be served within the limit, `mean_per_s` the average over a year. Gaps are
    Poisson where `gap_scv` is 1, burstier above. `spares` are failure domains (servers) beyond need. The load factor
    at peak stays below `utilization_ceiling_fraction` of what full batches could do. With `availability_fraction`, as
    many servers are spare as keep enough of them up for that share of the time, `spares` at least; they stand in
    `zones` of a provider or site, which fail as a whole.

    `daily_per_s` holds the rate that each hour of a day in use must be carried at, `days_per_week` how many days are;
    where they are stated, machines that are rented by the hour follow them if `scales_by_hour`, and start `start_up_s`
    before they are needed. [s] `words` describe what is asked where that is more than one latency.
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
    days_per_week: int = DAYS_PER_WEEK
    scales_by_hour: bool = False
    start_up_s: float = 0.0
    words: str = ""

    @property
    def weekly_per_s(self) -> tuple[float, ...]:
        """Return the rate of each hour of a week, or of a day where all days are alike; empty without a profile."""
        idle_days = DAYS_PER_WEEK - self.days_per_week
        if not idle_days:
            return self.daily_per_s
        return self.daily_per_s * self.days_per_week + (0.0,) * (HOURS_PER_DAY * idle_days)

    @property
    def hourly_shares(self) -> tuple[float, ...]:
        """Return each hour's share of the peak that rented machines follow; a single 1 if they do not."""
        rates = self.weekly_per_s if self.scales_by_hour else ()
        return tuple(rate / self.peak_per_s for rate in rates) or (1.0,)

    @property
    def in_use_fraction(self) -> float:
        """Return the share of all hours in which there is a load."""
        rates = self.weekly_per_s
        return sum(rate > 0 for rate in rates) / len(rates) if rates else 1.0

    @property
    def mean_in_use_per_s(self) -> float:
        """Return the mean rate over the hours of use. [1/s]"""
        return self.mean_per_s / self.in_use_fraction

    @property
    def levels(self) -> tuple[Level, ...]:
        """Return the levels that machines rented by the hour follow; empty where they are rented all the time."""
        if not self.scales_by_hour:
            return ()
        weekly = self.weekly_per_s if self.days_per_week < DAYS_PER_WEEK else self.daily_per_s * DAYS_PER_WEEK
        return levels_of(weekly, self.peak_per_s)

    @property
    def daily_shares(self) -> tuple[float, ...]:
        """Return the rate of each hour of a day or week over their mean; a single 1 where no profile is stated."""
        rates = self.weekly_per_s
        mean = sum(rates) / max(1, len(rates))
        return tuple(rate / mean for rate in rates) if mean else (1.0,)


def fitting_runs(run_s: float) -> float:
    """Return the runs of a job a year where none are stated: every night, or one after another, at least one."""
    return max(1.0, min(365.0, 366 * 86400 // run_s))


def runs_refusal(runs_per_year: float, run_s: float) -> str | None:
    """Return why runs do not fit into a year; None where they do."""
    if runs_per_year * run_s <= 366 * 86400:
        return None
    return f"{runs_per_year:g} runs of {run_s / 3600:g} h do not fit into a year"


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
