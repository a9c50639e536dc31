"""Assumptions about money and demand, each with its source."""

from dataclasses import dataclass, field, replace
from typing import Any

from capplan.core.economics.constraints import Constraints
from capplan.core.serving.load import Load

_WHOLE = ("years", "gpus_per_server_sxm", "gpus_per_server_pcie", "rack_units_sxm", "rack_units_pcie")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """One input of the decision: its value with the range it may take, and where it comes from.

    `basis` says how far to trust it: "yours", or of a default "published", "secondary", "derived", "judgement",
    "unverified" (from memory, not read again at its source).
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
class CostAssumptions:
    """The assumptions as numbers, ready for the formulas; fractions are of 1, amounts USD."""

    years: int
    discount_fraction: float
    residual_fraction: float
    chassis_usd_sxm: float
    chassis_usd_pcie: float
    network_fraction: float
    support_fraction: float
    space_usd_per_kw_month: float
    staff_usd_per_server_year: float
    licence_usd_per_gpu_year: float
    gpus_per_server_sxm: int
    gpus_per_server_pcie: int
    rack_units_sxm: int
    rack_units_pcie: int
    host_w_sxm: float
    host_w_pcie: float
    card_power_factor: float
    power_fraction: float
    idle_power_fraction: float
    pue: float
    usd_per_kwh: float
    grid_g_per_kwh: float
    embodied_kg_per_gpu: float
    embodied_kg_per_server: float
    failures_per_gpu_year: float
    repair_days: float
    zone_down_fraction: float = 0.0

    def with_value(self, key: str, value: float) -> "CostAssumptions":
        """Return the same assumptions with one changed."""
        changed: dict[str, Any] = {key: round(value) if key in _WHOLE else value}
        return replace(self, **changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLoad:
    """What a report answers: the load, the money, and every assumption behind both with range and source."""

    load: Load
    money: CostAssumptions
    assumptions: tuple[Assumption, ...]
    constraints: Constraints = field(default_factory=Constraints)
