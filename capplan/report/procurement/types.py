"""The report as one object: every rendering formats these values and computes none of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Final

from capplan.core.economics.constraints import Assumption, ReportLoad
from capplan.core.economics.cost import CostBreakdown
from capplan.core.gpus.machines import LocalCurrency
from capplan.core.gpus.prices import Term
from capplan.core.numbers import Interval
from capplan.shapes.codec import Beside
from capplan.shapes.plan import item_of
from capplan.shapes.types import PlanDocument

REPORT_SCHEMA_VERSION: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionOffer(Beside):
    """Who offers an option's GPU, at which price and on which day; None without a price. [USD]

    `is_beside_sound` marks a cheaper offer of weaker evidence that stands beside the sound one of its GPU and term,
    `is_own_beside` your own quote beside an offer that costs less. The next four are what a quote states besides its
    price: the part number, the last day on which the price holds, the days from order to delivery, and the years of
    warranty. `upfront_fraction` is the share of a commitment that is paid
    on the first day, `minimum_s` the shortest time that is charged [s], `country` where the machines
    stand; None where the price does not state it.
    """

    term: str
    provider: str | None
    region: str | None
    instance: str | None
    price_usd: float | None
    price_unit: str | None
    price_date: date | None
    price_source: str | None
    price_tier: str | None
    price_known_by: str | None
    price_date_is: str | None
    includes_server: bool
    is_marketplace: bool
    is_beside_sound: bool = False
    is_own_beside: bool = False
    sku: str | None = None
    price_valid_until: date | None = None
    lead_time_days: float | None = None
    warranty_years: float | None = None
    upfront_fraction: float | None = None
    minimum_s: float | None = None
    country: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionEvidence(Beside):
    """How far an option can be trusted, and what keeps it from being recommended.

    `aged_factor` is what its price may have risen by since it was current, by which it is ranked. `violations` are the
    caps that it exceeds, `is_leading` says that the main table shows it, `on_front` that none is
    cheaper and faster.
    """

    speed_tier: str
    speed_evidence: str
    concerns: tuple[str, ...]
    certain_fit: bool
    violations: tuple[str, ...]
    is_leading: bool
    on_front: bool
    aged_factor: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionSpeed(Beside):
    """How fast one GPU is, and what limits it.

    `finish_s` is how long the fleet takes for one run of a job or a training; None for a service. `host_per_s` is what
    the host's `host_limit` feeds to one GPU at most, `pcie_per_s` what PCIe alone would; None where unknown.
    `scaling_fraction` is the share of its rate that a GPU keeps beside the others of a training, over `link`; the three
    rates are those of one GPU alone, with others of its server, and across servers.
    """

    batch: int
    rate_per_gpu_per_s: float
    batch_latency_s: Interval
    finish_s: float | None
    host_limit: str | None
    host_per_s: float | None
    is_host_bound: bool
    pcie_per_s: float | None
    scaling_fraction: float | None
    link: str | None
    rate_alone_per_s: float | None
    rate_within_server_per_s: float | None
    rate_across_servers_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionResponse(Beside):
    """What requests see. Times are the percentile at today's peak; None means that work piles up without end. [s]

    `latency_s` holds with only the needed GPUs up (for jobs it is the time of a full batch), its ends are those of the
    simulation; `latency_if_fast_s` and `latency_if_slow_s` are what it were at the ends of the estimate's interval.
    """

    latency_s: Interval
    latency_if_fast_s: float
    latency_if_slow_s: float | None
    load_fraction: float | None
    busy_fraction: float | None
    mean_batch: float | None
    in_flight: float | None
    all_up_latency_s: float | None
    all_up_load_fraction: float | None
    one_down_latency_s: float | None
    one_down_load_fraction: float | None
    doubled_latency_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionCount(Beside):
    """How many GPUs and servers an option takes over the years, and how far they go.

    The fleet is sized for `reserve_factor` times the load, so that it carries the share of the scenarios that is asked
    for; it carries `carried_fraction` of them, None where no load is stated.
    """

    reserve_factor: float
    carried_fraction: float | None
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
    headroom_fraction: float
    spares: int
    availability_fraction: float
    months_until_full: float | None
    rack_units: int | None

    @property
    def gpus_last_year(self) -> int:
        """GPUs of the last year's fleet, which is what is bought."""
        return self.gpus_by_year[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionStated(Beside):
    """The option's fleet for the load as stated, which suffices where every estimate is right. [USD before tax]"""

    stated_gpus: int
    stated_gpus_last_year: int
    stated_cost_usd_per_year: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionMemory(Beside):
    """Memory of one process at the batch that is run, and what the GPU has. [bytes]"""

    memory_bytes: Interval
    usable_bytes: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionPower(Beside):
    """Power, energy and carbon of the fleet; None where the GPU's power limit is unknown.

    `nameplate_w` is every card at its limit and every host at full load, `predicted_peak_w` what the law of power says
    of the busiest hour, `average_w` the mean over the year with hours in which the fleet idles. `card_watts` are what
    one GPU draws at the rates `card_rates_per_s`, linear between them, `card_used_w` the mean while in use. `host_w` is
    one server without its GPUs at full load, `is_board` that its GPUs are modules. `power_evidence` says what the draw
    rests on.
    """

    tdp_w: float | None
    nameplate_w: float | None
    predicted_peak_w: float | None
    average_w: float | None
    card_used_w: float | None
    card_rates_per_s: tuple[float, ...]
    card_watts: tuple[float, ...]
    host_w: float
    is_board: bool
    power_evidence: str
    energy_kwh_per_year: float | None
    carbon_kg_per_year: float | None
    embodied_kg: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionMoney(Beside):
    """What an option costs; None without a price. [USD before tax]"""

    yearly_usd: tuple[float, ...]
    initial_usd: float | None
    running_usd_per_year: float | None
    cost_usd_per_year: float | None
    present_usd: float | None
    total_usd: float | None
    usd_per_million: float | None
    residual_usd: float | None
    break_even_hours_per_year: float | None
    break_even_against: str | None
    breakdown_usd: CostBreakdown | None
    payback_years: float | None
    payback_against: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionRow:
    """One way to meet the load: a GPU, bought or rented. Documents hold the fields of all parts side by side."""

    key: str
    rank: int | None
    gpu: str
    gpu_name: str
    segment: str | None
    licence: str | None
    porting: str | None
    offer: OptionOffer
    evidence: OptionEvidence
    speed: OptionSpeed
    response: OptionResponse
    count: OptionCount
    stated: OptionStated
    memory: OptionMemory
    power: OptionPower
    money: OptionMoney

    @property
    def is_bought(self) -> bool:
        """Return True if the GPUs are bought, not rented."""
        return self.offer.term == Term.BUY

    @property
    def has_reserve(self) -> bool:
        """Return True if the fleet is larger than the one for the load as stated."""
        return (self.count.gpus, self.count.gpus_last_year) != (
            self.stated.stated_gpus,
            self.stated.stated_gpus_last_year,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InfeasibleGpu:
    """A GPU that cannot serve, and why; `batch` is None where no batch would do."""

    gpu: str
    gpu_name: str
    batch: int | None
    constraint: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PickRow:
    """What one GPU carries with one largest batch: for the page's choice of batch and load.

    `parallel_rates_per_s` are those of a training alone, with others of its server, and across servers. [1/s]
    """

    gpu: str
    batch: int
    rate_per_gpu_per_s: float
    capacity_per_s: float
    loads: tuple[float, ...]
    percentiles_s: tuple[float, ...]
    parallel_rates_per_s: tuple[float, float, float] | None = None


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
class TornadoRow:
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
class Verdict:
    """The decision in words and numbers; `sentence` stands at the head of the page, `in_short` below it.

    `cost_p10_usd` and `cost_p90_usd` are percentiles of what the recommended fleet costs a year, its cost between them;
    `probability_carried` is the share of the scenarios that it carries, known to `probability_carried_error`.
    """

    sentence: str
    in_short: str
    reasons: tuple[str, ...]
    changes_if: tuple[str, ...]
    choice: str | None
    runner_up: str | None
    probability_cheapest: float | None
    probability_carried: float | None
    probability_carried_error: float | None
    expected_excess_usd_per_year: float | None
    cost_p10_usd: float | None
    cost_p90_usd: float | None
    wins: Mapping[str, float]
    scenarios: int
    warning: str | None
    cheaper: str | None
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
    price_tier: str | None = None
    price_date_is: str | None = None
    includes_server: bool = False
    is_marketplace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReport:
    """One model's part of the report."""

    plan: PlanDocument
    verdict: Verdict
    options: tuple[OptionRow, ...]
    refusals: tuple[InfeasibleGpu, ...]
    tornado: tuple[TornadoRow, ...]
    picks: tuple[PickRow, ...]
    roofs: tuple[Roof, ...]
    measured: tuple[Measured, ...]
    payback: PaybackRow | None = None
    left_out: tuple[LeftOutOffer, ...] = ()
    service: str | None = None
    demand: ReportLoad | None = None

    @property
    def name(self) -> str:
        """Return the model's name, after that of its service where several share a fleet."""
        return f"{self.service}: {self.plan.model.name}" if self.service else self.plan.model.name

    @property
    def items(self) -> str:
        """Return what is made, in the plural: samples, or what a pipeline makes."""
        return f"{item_of(self.plan)}s"

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
    used first, `added_by_year` are bought or rented. Amounts are for what is added, and for
    keeping what is owned. [USD] `power_w` and `rack_units`
    are those of bought servers; `violations` are the caps that the fleet exceeds, `concerns` what speaks
    against its speed or price.
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
    present_usd: float | None = None
    residual_usd: float | None = None
    upfront_fraction: float | None = None
    country: str | None = None
    average_w: float | None = None
    energy_kwh_per_year: float | None = None
    carbon_kg_per_year: float | None = None
    power_w: float | None = None
    rack_units: int | None = None
    violations: tuple[str, ...] = ()
    concerns: tuple[str, ...] = ()


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
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole report; `timestamp` is when it was made, in seconds since 1970 (UTC), `local` a currency beside USD."""

    title: str
    created: date
    timestamp: int
    version: str
    command: str
    currency: str
    demand: ReportLoad
    models: tuple[ModelReport, ...]
    spec_sources: tuple[SpecSource, ...]
    offers_dropped: int
    load_file: str | None
    fleet: FleetRow | None = None
    local: LocalCurrency | None = None

    def of(self, model: ModelReport) -> "Report":
        """Return this report as one model's tables need it: with that model's own load."""
        return self if model.demand is None else replace(self, demand=model.demand)

    @property
    def items(self) -> str:
        """Return what all models make, in the plural; samples where they make different things."""
        made = {model.items for model in self.models}
        return made.pop() if len(made) == 1 else "samples"

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """Return every assumption with its range and source."""
        return self.demand.assumptions
