"""The report as one object: every rendering formats these values and computes none of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Final, NamedTuple

from capplan.core.economics.constraints import Assumption, ReportLoad
from capplan.core.economics.fleet import InventoryRow
from capplan.core.economics.uncertainty import TornadoRow
from capplan.core.gpus.machines import LocalCurrency
from capplan.core.scaling.answer import ServingWays
from capplan.report.sections import KeyFigure
from capplan.shapes.types import (
    FleetOptionRow,
    LeftOutOffer,
    Measured,
    OptionRow,
    PaybackRow,
    PickRow,
    PlanDocument,
    Roof,
    SpecSource,
)  # fmt: skip

REPORT_SCHEMA_VERSION: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class InfeasibleGpu:
    """A GPU that cannot serve, and why; `batch` is None where no batch would do."""

    gpu: str
    gpu_name: str
    batch: int | None
    constraint: str
    reason: str


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
class WaitRow:
    """What waiting comes to at one price of the new hardware. [USD]

    `saves_if_sold_by` is the last day on which the hardware may come for waiting to save, None if it never does;
    `paid_back_on` the day on which waiting has saved what it lost, where the hardware comes on the last day of its
    period; None where that is after the years counted.
    """

    price_usd_per_hour: float
    price_end: str
    gpus: int
    cost_usd_per_year: float
    saved_if_soonest_usd: float
    saved_if_latest_usd: float
    saves_if_sold_by: date | None
    paid_back_on: date | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitOrBuy:
    """What the load costs on hardware that comes later, against what is taken now; no rows where that is unknown.

    `now` and `bridge` are keys of options: what is recommended, and what is rented by the hour until the hardware is
    there. `lost_usd` is what that costs more than `now` until the last day of the period. `status_is`, `day_is`,
    `price_is` and `speed_is` say what the figures rest on.
    """

    gpu: str
    gpu_name: str
    sentence: str
    expected_first: date
    expected_last: date
    day_is: str
    status_is: str | None = None
    price_is: str | None = None
    speed_is: str | None = None
    now: str | None = None
    now_usd_per_year: float | None = None
    bridge: str | None = None
    bridge_usd_per_year: float | None = None
    lost_usd: float | None = None
    break_even_usd_per_hour: float | None = None
    years: float = 0.0
    machine_gpus: int | None = None
    rows: tuple[WaitRow, ...] = ()


class AskedModel(NamedTuple):
    """What a load asks for: a model, what one answer is, and the bytes of its input that cross the bus."""

    model: str
    item: str
    input_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReport:
    """One model's part of the report; a language model that is served has `notes` and more key
    `figures` in the place of a plan of batches.
    """

    made: AskedModel
    planned: PlanDocument | None = None
    notes: tuple[str, ...] = ()
    figures: tuple[KeyFigure, ...] = ()
    verdict: Verdict
    refuses_all: bool = False
    options: tuple[OptionRow, ...]
    refusals: tuple[InfeasibleGpu, ...]
    tornado: tuple[TornadoRow, ...]
    picks: tuple[PickRow, ...] = ()
    roofs: tuple[Roof, ...] = ()
    measured: tuple[Measured, ...] = ()
    payback: PaybackRow | None = None
    left_out: tuple[LeftOutOffer, ...] = ()
    service: str | None = None
    demand: ReportLoad | None = None
    wait: WaitOrBuy | None = None
    ways: ServingWays | None = None

    @property
    def name(self) -> str:
        """Return the model's name, after that of its service where several share a fleet."""
        return f"{self.service}: {self.made.model}" if self.service else self.made.model

    @property
    def plan(self) -> PlanDocument:
        """Return the plan of a model that runs in batches."""
        assert self.planned is not None, "a served language model has no plan of batches"
        return self.planned

    @property
    def items(self) -> str:
        """Return what is made, in the plural: samples, or what a pipeline makes."""
        return f"{self.made.item}s"

    def option(self, key: str | None) -> OptionRow | None:
        """Return an option by its key."""
        return next((option for option in self.options if option.key == key), None)


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
class Report:
    """The whole report; `timestamp` is when it was made, in seconds since 1970 (UTC), `local` a currency beside USD.

    `is_whole` is False for the leading options alone.
    """

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
    is_whole: bool = True

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
