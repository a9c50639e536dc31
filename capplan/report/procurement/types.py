"""The report as one object: every rendering formats these values and computes none of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Final

from capplan.core.economics.assumptions import Assumption, Demand
from capplan.core.economics.cost import Breakdown
from capplan.core.numbers import Interval
from capplan.report.documents.plan import PlanDocument

REPORT_SCHEMA_VERSION: Final = 3
CURRENCY = "USD"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionRow:
    """One way to meet the load: a GPU, bought or rented. Amounts in USD before tax; None where unknown.

    `latency_s` is the percentile at today's peak with only the needed GPUs up (for jobs the time of a full batch),
    its ends those of the simulation; `latency_if_fast_s` and `latency_if_slow_s` are what it were at the ends of the
    estimate's interval. A latency that is None means that work piles up without end.
    """

    key: str
    rank: int | None
    gpu: str
    gpu_name: str
    term: str
    provider: str | None
    region: str | None
    instance: str | None
    price_usd: float | None
    price_unit: str | None
    price_date: date | None
    price_source: str | None
    price_tier: str | None
    price_date_is: str | None
    speed_tier: str
    speed_evidence: str
    concerns: tuple[str, ...]
    includes_server: bool
    firm_fit: bool
    batch: int
    rate_per_gpu_per_s: float
    gpus_needed: int
    gpus: int
    servers: int
    needs_by_year: tuple[int, ...]
    gpus_by_year: tuple[int, ...]
    servers_by_year: tuple[int, ...]
    server_slots: int
    full_servers: bool
    gpu_hours_by_year: tuple[float, ...]
    samples_by_year: tuple[float, ...]
    latency_s: Interval
    latency_if_fast_s: float
    latency_if_slow_s: float | None
    batch_latency_s: Interval
    load_fraction: float | None
    busy_fraction: float | None
    mean_batch: float | None
    in_flight: float | None
    headroom_fraction: float
    availability_fraction: float
    months_until_full: float | None
    all_up_latency_s: float | None
    all_up_load_fraction: float | None
    one_down_latency_s: float | None
    one_down_load_fraction: float | None
    doubled_latency_s: float | None
    memory_bytes: Interval
    usable_bytes: float | None
    tdp_w: float | None
    nameplate_w: float | None
    energy_kwh_per_year: float | None
    carbon_kg_per_year: float | None
    embodied_kg: float | None
    yearly_usd: tuple[float, ...]
    initial_usd: float | None
    running_usd_per_year: float | None
    cost_usd_per_year: float | None
    present_usd: float | None
    total_usd: float | None
    usd_per_million: float | None
    break_even_hours_per_year: float | None
    break_even_against: str | None
    on_front: bool
    is_marketplace: bool = False
    is_leading: bool = True
    violations: tuple[str, ...] = ()
    licence: str | None = None
    segment: str | None = None
    rack_units: int | None = None
    breakdown_usd: Breakdown | None = None
    payback_years: float | None = None
    payback_against: str | None = None

    @property
    def capex_usd(self) -> float | None:
        """Return what is paid on the first day; None without a price. [USD]"""
        return self.yearly_usd[0] if self.yearly_usd else None

    @property
    def gpus_last_year(self) -> int:
        """GPUs of the last year's fleet, which is what is bought."""
        return self.gpus_by_year[-1]

    @property
    def residual_usd(self) -> float | None:
        """Return what a bought fleet is worth in the end; None for rent and without price."""
        if self.term != "buy" or self.total_usd is None:
            return None
        return (self.running_usd_per_year or 0.0) - self.yearly_usd[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A GPU that cannot serve, and why; `batch` is None where no batch would do."""

    gpu: str
    gpu_name: str
    batch: int | None
    constraint: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PickRow:
    """What one GPU carries with one largest batch: for the page's choice of batch and load."""

    gpu: str
    batch: int
    rate_per_gpu_per_s: float
    capacity_per_s: float
    loads: tuple[float, ...]
    percentiles_s: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A time that was measured on a real GPU, for comparison with the estimate."""

    model: str
    gpu: str
    batch: int
    latency_s: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """A GPU's printed limits for the number format asked about: what the roofline is drawn from."""

    gpu: str
    gpu_name: str
    peak_flops_per_s: float
    bandwidth_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SwingRow:
    """What one input alone does to the choice's cost; None where the load cannot be met at that end."""

    label: str
    unit: str
    low: float
    value: float
    high: float
    cost_low_usd: float | None
    cost_high_usd: float | None
    winner_low: str | None
    winner_high: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssuredRow:
    """The choice with a fleet that carries `share_fraction` of the scenarios; None where no number of GPUs does.

    `extra_usd_per_year` is what it costs beside the fleet for the load as stated.
    """

    share_fraction: float
    gpus: int | None
    gpus_last_year: int | None
    cost_usd_per_year: float | None
    extra_usd_per_year: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision in words and numbers; `sentence` stands at the head of the page."""

    sentence: str
    reasons: tuple[str, ...]
    changes_if: tuple[str, ...]
    choice: str | None
    runner_up: str | None
    holds_fraction: float | None
    keeps_fraction: float | None
    expected_excess_usd_per_year: float | None
    cost_p10_usd: float | None
    cost_p90_usd: float | None
    wins: Mapping[str, float]
    scenarios: int
    warning: str | None
    cheaper: str | None
    assured: AssuredRow | None
    varies: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaybackRow:
    """The best purchase against the best rent; `years` is None where it does not pay off within the years counted."""

    bought: str
    rented: str
    years: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutOffer:
    """An offer that no option rests on, and why. `price_usd` is of one GPU, by the hour for rents. [USD]

    `is_sound` is True if nothing speaks against the price itself: its tier, its age, a marketplace.
    """

    gpu: str
    term: str
    provider: str
    region: str | None
    instance: str | None
    price_usd: float
    price_date: date
    reason: str
    instance_gpus: int = 1
    is_sound: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReport:
    """One model's part of the report."""

    plan: PlanDocument
    verdict: Verdict
    options: tuple[OptionRow, ...]
    refusals: tuple[Refusal, ...]
    swings: tuple[SwingRow, ...]
    picks: tuple[PickRow, ...]
    roofs: tuple[Roof, ...]
    measured: tuple[Measured, ...]
    payback: PaybackRow | None = None
    left_out: tuple[LeftOutOffer, ...] = ()
    service: str | None = None
    demand: Demand | None = None

    def option(self, key: str | None) -> OptionRow | None:
        """Return an option by its key."""
        return next((option for option in self.options if option.key == key), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRow:
    """A service's part of a shared GPU; latencies are the percentile with the others there and alone. [s, bytes]"""

    service: str
    rate_per_s: float
    utilization_fraction: float
    memory_bytes: float
    latency_s: float | None
    alone_s: float | None
    profile: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptionRow:
    """All services on GPUs of one kind, under one term.

    `needed` GPUs carry the first year's peaks, `whole` of them for one service each, `shared` with several. `owned` are
    used first, `added_by_year` are bought or rented. Amounts are for what is added. [USD] `power_w` and `rack_units`
    are those of bought servers; `violations` are the caps that the fleet exceeds.
    """

    key: str
    gpu: str
    gpu_name: str
    term: str
    provider: str | None
    sharing: str
    needed: int
    whole: Mapping[str, int]
    shared: tuple[tuple[ShareRow, ...], ...]
    gpus_by_year: tuple[int, ...]
    owned: int
    added_by_year: tuple[int, ...]
    yearly_usd: tuple[float, ...]
    cost_usd_per_year: float | None
    total_usd: float | None
    power_w: float | None = None
    rack_units: int | None = None
    violations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryRow:
    """What owned GPUs carry: services, GPUs needed, the factor on all their loads that still fits, and for how long.

    `months_until_full` is None where growth does not fill them within ten years.
    """

    gpu: str
    count: int
    services: tuple[str, ...]
    needed: int
    load_factor: float
    months_until_full: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRow:
    """One fleet for all services beside a fleet for each; `choice` is the key of the recommended option."""

    sentence: str
    services: tuple[str, ...]
    choice: str | None
    separate_usd_per_year: float | None
    options: tuple[FleetOptionRow, ...]
    inventory: tuple[InventoryRow, ...]

    def option(self, key: str | None) -> FleetOptionRow | None:
        """Return an option by its key."""
        return next((option for option in self.options if option.key == key), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecSource:
    """Where a GPU's figures were read."""

    gpu: str
    field: str
    figure: str
    source: str
    retrieved: date | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole report; `timestamp` is when it was made, in seconds since 1970 (UTC)."""

    title: str
    created: date
    timestamp: int
    version: str
    command: str
    currency: str
    demand: Demand
    models: tuple[ModelReport, ...]
    spec_sources: tuple[SpecSource, ...]
    offers_dropped: int
    load_file: str | None
    fleet: FleetRow | None = None

    def of(self, model: ModelReport) -> "Report":
        """Return this report as one model's tables need it: with that model's own load."""
        return self if model.demand is None else replace(self, demand=model.demand)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """Return every assumption with its range and source."""
        return self.demand.assumptions
