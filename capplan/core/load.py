"""What is asked of the GPUs and under which assumptions: services, batch jobs, training purchases, money."""

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

_WHOLE = ("years", "gpus_per_server_sxm", "gpus_per_server_pcie")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """One input of the decision: its value with the range it may take, and where it comes from.

    `basis` says how far to trust it: "yours", or of a default "published", "secondary", "derived", "judgement".
    """

    key: str
    label: str
    unit: str
    value: float
    low: float
    high: float
    basis: str
    source: str

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.key}: the range must hold the value: {self.low}, {self.value}, {self.high}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """The assumptions as numbers, ready for the formulas; fractions are of 1, amounts USD."""

    years: int
    discount_fraction: float
    residual_fraction: float
    server_price_factor: float
    network_fraction: float
    support_fraction: float
    staff_usd_per_server_year: float
    licence_usd_per_gpu_year: float
    gpus_per_server_sxm: int
    gpus_per_server_pcie: int
    server_power_factor: float
    power_fraction: float
    idle_power_fraction: float
    pue: float
    usd_per_kwh: float
    grid_g_per_kwh: float
    embodied_kg_per_gpu: float
    embodied_kg_per_server: float
    failures_per_gpu_year: float
    repair_days: float

    def with_value(self, key: str, value: float) -> "Money":
        """The same assumptions with one changed."""
        changed: dict[str, Any] = {key: round(value) if key in _WHOLE else value}
        return replace(self, **changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A stream of samples that must be answered within a latency at a percentile.

    `peak_per_s` is the highest rate to be served within the limit, `mean_per_s` the average over a year. Gaps are
    Poisson where `gap_scv` is 1, burstier above. `spares` are failure domains (servers) beyond need. The load factor
    at peak stays below `utilization_ceiling_fraction` of what full batches could do.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A batch job: some samples by a deadline, some times a year, without a latency limit."""

    kind: Literal["job"] = "job"
    samples: float
    deadline_s: float
    runs_per_year: float
    growth_per_year_fraction: float
    spares: int
    utilization_ceiling_fraction: float
    allow_spot: bool = True

    @property
    def rate_per_s(self) -> float:
        """Samples per second that keep the deadline. [1/s]"""
        return self.samples / self.deadline_s

    @property
    def mean_per_s(self) -> float:
        """Samples per second in the mean over the year. [1/s]"""
        return self.samples * self.runs_per_year / (365 * 86400)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPurchase:
    """Training runs by a deadline: samples × epochs, on GPUs working side by side.

    `scaling_fraction` is the share of one GPU's rate that each of several keeps.
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

    @property
    def rate_per_s(self) -> float:
        """Samples per second that keep the deadline. [1/s]"""
        return self.samples * self.epochs / self.deadline_s

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a report answers: the load, the money, and every assumption behind both with range and source."""

    load: Load
    money: Money
    assumptions: tuple[Assumption, ...]
