"""Work out every way to meet a load: GPU by GPU, bought or rented, with its fleet, energy and cost."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from capplan.core import formulas
from capplan.core.economics.constraints import CostAssumptions
from capplan.core.economics.cost import (
    CardDraw,
    Energy,
    OwnedCost,
    RentedCost,
    Usage,
    cost_of_owning,
    cost_of_renting,
    fleet_energy,
)
from capplan.core.formulas import HOURS_PER_YEAR, SECONDS_PER_HOUR
from capplan.core.gpus.prices import COMMITMENT_YEARS, Price, PurchasePrice, Term
from capplan.core.numbers import ceil_guarded
from capplan.core.serving.load import Load, OneGpu, Service
from capplan.core.serving.servers import Fleet, Reliability, make_fleet, replicas_for_rate
from capplan.core.serving.sizing import OperatingPoint, Sizing

_FULL_BOARDS = ("SXM", "OAM")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that a decision rests on: the load, the money, the GPUs that can carry it, their prices.

    `rents` holds the cheapest price of every GPU and term, `purchases` what a GPU costs to buy. `reserve` returns the
    factor on the load that fleets are sized for, of a GPU in servers of so many slots that come only full or not; None
    sizes them for the load as stated.
    """

    load: Load
    money: CostAssumptions
    sizings: tuple[Sizing, ...]
    rents: tuple[Price, ...]
    purchases: tuple[PurchasePrice, ...]
    reserve: "Reserve | None" = None

    def reserve_of(self, gpu: str, *, server_slots: int = 1, full_servers: bool = True) -> float:
        """Return the factor on the load that a fleet is sized for; 1 is the load as stated."""
        return 1.0 if self.reserve is None else self.reserve(gpu, server_slots, full_servers)


Reserve = Callable[[str, int, bool], float]
"""Returns the factor on the load by GPU, slots of a server, and whether servers come only full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is varied around a case: factors on what was given, 1 where it holds.

    `latency` scales a GPU's batch times, `own_price` the price of single options by key; `largest_batch` fixes how all
    GPUs are run.
    `start_up_s` and `cpu_s_per_sample` stand in for the load's and the host's. [s]
    """

    load: float = 1.0
    limit: float = 1.0
    latency: Mapping[str, float] = field(default_factory=dict)
    own_price: Mapping[str, float] = field(default_factory=dict)
    rent_price: float = 1.0
    purchase_price: float = 1.0
    largest_batch: int | None = None
    money: CostAssumptions | None = None
    start_up_s: float | None = None
    cpu_s_per_sample: float | None = None


BASE = Scenario()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcurementOption:
    """One way to meet the load. `cost` is None where no price is known; `energy` where the draw is unknown.

    `finish_s` is how long the first year's fleet takes for one run of a job or a training, spares aside; None for a
    service. [s] `follows_hours` is True where machines are rented only in a service's hours of use. `fleets` are those
    of each year; a bought fleet is the last year's from the first day. They are sized for `reserve` times the peaks of
    each year, `peaks_per_s`.
    """

    gpu: str
    term: Term | None
    sizing: Sizing
    operating_point: OperatingPoint
    fleets: tuple[Fleet, ...]
    gpu_hours_by_year: tuple[float, ...]
    samples_by_year: tuple[float, ...]
    peaks_per_s: tuple[float, ...]
    reserve: float = 1.0
    rent: Price | None = None
    purchase: PurchasePrice | None = None
    energy: Energy | None = None
    cost: OwnedCost | RentedCost | None = None
    rack_units: int | None = None
    finish_s: float | None = None
    follows_hours: bool = False

    @property
    def key(self) -> str:
        """Return the option's name among all: GPU and term, and whether a marketplace offers it."""
        if self.rent is not None:
            return rent_key(self.rent)
        return f"{self.gpu}/{self.term.value if self.term else 'no price'}"

    @property
    def fleet(self) -> Fleet:
        return self.fleets[0]

    @property
    def cost_per_year(self) -> float | None:
        """Equivalent annual cost. [USD/year]"""
        return self.cost.per_year if self.cost else None

    @property
    def cost_per_million(self) -> float | None:
        """Cost of a million samples at what is served in the mean over the years. [USD]"""
        if self.cost is None:
            return None
        return formulas.usd_per_million(self.cost.per_year, len(self.samples_by_year), sum(self.samples_by_year))

    @property
    def headroom_fraction(self) -> float:
        """Return how far the fleet's capacity exceeds the first year's peak rate, redundancy not counted."""
        return self._carried_factor(0) - 1

    @property
    def carried_factor(self) -> float:
        """Return how many times the last year's peak its fleet carries, redundancy not counted."""
        return self._carried_factor(-1)

    def _carried_factor(self, year: int) -> float:
        fleet = self.fleets[year]
        candidate = self.sizing.capacity.candidate
        usable = fleet.gpus - fleet.spares * fleet.gpus_per_server - candidate.spare_replicas * candidate.replica_gpus
        return usable * self.operating_point.rate_per_s / self.peaks_per_s[year]


def rent_key(price: Price) -> str:
    beside = "/weak" * price.is_beside_sound + "/quote" * price.is_own_beside
    return f"{price.gpu}/{price.term.value}{'/marketplace' * price.is_marketplace}{beside}"


def slots_of(option: ProcurementOption, money: CostAssumptions) -> tuple[int, bool]:
    """Return the GPUs of one of an option's servers or instances, and whether these come only full."""
    if option.rent is not None:
        return option.rent.instance_gpus, True
    return bought_slots(option.purchase, option.sizing.capacity.candidate.form_factor, money)


def bought_slots(purchase: PurchasePrice | None, form_factor: str | None, money: CostAssumptions) -> tuple[int, bool]:
    """Return the GPUs of one bought server, and whether it comes only full, as one does that is quoted whole."""
    if purchase is not None and purchase.server_gpus is not None:
        return purchase.server_gpus, True
    return server_slots(form_factor, money)


def evaluate(case: Case, scenario: Scenario = BASE) -> tuple[ProcurementOption, ...]:
    """Work out every option; a GPU without any price yields one option without cost."""
    purchases = {price.gpu: price for price in case.purchases}
    rents: dict[str, list[Price]] = {}
    for price in case.rents:
        rents.setdefault(price.gpu, []).append(price)
    options: list[ProcurementOption] = []
    for sizing in case.sizings:
        limit_s = case.load.latency_limit_s * scenario.limit if isinstance(case.load, Service) else None
        operating_point = sizing.capacity.fed_by(scenario.cpu_s_per_sample).operate(
            limit_s=limit_s,
            latency_factor=scenario.latency.get(sizing.gpu, 1.0),
            largest_batch=scenario.largest_batch,
        )
        if operating_point is None:
            continue
        question = _Options(case=case, scenario=scenario, sizing=sizing, operating_point=operating_point)
        mine = [question.rented(price) for price in rents.get(sizing.gpu, ())]
        if purchase := purchases.get(sizing.gpu):
            mine.append(question.bought(purchase))
        options += mine or [question.unpriced()]
    return tuple(options)


def comes_on_boards(form_factor: str | None) -> bool:
    """Return True if a GPU is a module of a board, which is bought full, and not a card."""
    return (form_factor or "").upper().startswith(_FULL_BOARDS)


def server_slots(form_factor: str | None, money: CostAssumptions) -> tuple[int, bool]:
    """Return the GPUs of one bought server, and whether it is sold only full, as boards of modules are."""
    if comes_on_boards(form_factor):
        return money.gpus_per_server_sxm, True
    return money.gpus_per_server_pcie, False


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A bought server without its GPUs: its price [USD], its height [U] and its draw at full load [W]."""

    chassis_usd: float
    rack_units: int
    host_w: float


def server_of(form_factor: str | None, money: CostAssumptions) -> Server:
    """Return the server that holds GPUs of a form factor."""
    if server_slots(form_factor, money)[1]:
        return Server(chassis_usd=money.chassis_usd_sxm, rack_units=money.rack_units_sxm, host_w=money.host_w_sxm)
    return Server(chassis_usd=money.chassis_usd_pcie, rack_units=money.rack_units_pcie, host_w=money.host_w_pcie)


def reliability(load: Load, money: CostAssumptions) -> Reliability:
    """Return how often servers and zones of a load's fleet fail."""
    return Reliability(
        failures_per_gpu_year=money.failures_per_gpu_year,
        repair_days=money.repair_days,
        zones=load.zones if isinstance(load, Service) else 1,
        zone_down_fraction=money.zone_down_fraction,
    )


def spare_servers(load: Load, money: CostAssumptions, *, need: int, server_slots: int, full_servers: bool) -> int:
    """Return the spare servers that a load asks for: as stated, or as many as its availability takes."""
    if not isinstance(load, Service) or load.availability_fraction is None:
        return load.spares
    return reliability(load, money).spares_for(
        load.availability_fraction, need=need, server_slots=server_slots, full_servers=full_servers, least=load.spares
    )


def recosted(case: Case, option: ProcurementOption, scenario: Scenario) -> ProcurementOption:
    """Return an option with the fleet that it has, timed and priced as in a scenario.

    A service whose limit the scenario breaks keeps its fleet, too: what it costs does not change by that.
    """
    factor, point = scenario.latency.get(option.gpu, 1.0), option.operating_point
    limit_s = case.load.latency_limit_s * scenario.limit if isinstance(case.load, Service) else None
    capacity = option.sizing.capacity.fed_by(scenario.cpu_s_per_sample)
    held = capacity.operating_points(limit_s=limit_s, latency_factor=factor)
    slower = replace(point, rate_per_s=point.rate_per_s / factor)
    same = next((each for each in held if each.largest_batch == point.largest_batch), slower)
    question = _Options(
        case=case,
        scenario=scenario,
        sizing=option.sizing,
        operating_point=same.with_others(point.beside),
        reserve=option.reserve,
    )
    return question.option(
        option.fleets,
        term=option.term,
        rent=option.rent and question.varied_rent(option.rent),
        purchase=option.purchase and question.varied_purchase(option.purchase),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    case: Case
    scenario: Scenario
    sizing: Sizing
    operating_point: OperatingPoint
    reserve: float = 1.0

    @property
    def load(self) -> Load:
        """The load, with the scenario's start-up."""
        start_s, load = self.scenario.start_up_s, self.case.load
        if start_s is None or isinstance(load, OneGpu):
            return load
        return replace(load, start_up_s=start_s)

    @property
    def money(self) -> CostAssumptions:
        return self.scenario.money or self.case.money

    def growth(self) -> list[float]:
        """Return the peak at each year's end relative to today's."""
        yearly = 1 + self.case.load.growth_per_year_fraction
        return [yearly**year for year in range(1, self.money.years + 1)]

    def peaks_per_s(self) -> tuple[float, ...]:
        load = self.load
        if isinstance(load, OneGpu):
            return (self.operating_point.rate_per_s,) * self.money.years
        today = load.peak_per_s if isinstance(load, Service) else load.rate_per_s
        return tuple(today * self.scenario.load * grown for grown in self.growth())

    def samples_by_year(self) -> tuple[float, ...]:
        load = self.case.load
        if isinstance(load, OneGpu):
            return (self.operating_point.rate_per_s * HOURS_PER_YEAR * SECONDS_PER_HOUR,) * self.money.years
        mean_per_s, growth = load.mean_per_s * self.scenario.load, load.growth_per_year_fraction
        return tuple(formulas.samples_of_year(mean_per_s, growth, year) for year in range(self.money.years))

    def fleets(self, *, server_slots: int, full_servers: bool) -> tuple[Fleet, ...]:
        if isinstance(self.case.load, OneGpu):
            return (Fleet(need=1, servers=1, gpus_per_server=1, spares=0),) * self.money.years
        needs = [self.need(peak) for peak in self.peaks_per_s()]
        spares = spare_servers(
            self.case.load, self.money, need=max(needs), server_slots=server_slots, full_servers=full_servers
        )
        return tuple(
            make_fleet(need=need, spares=spares, server_slots=server_slots, full_servers=full_servers) for need in needs
        )

    def need(self, rate_per_s: float) -> int:
        """Return the GPUs that carry a rate with the reserve, redundancy aside."""
        candidate, each_per_s = self.sizing.capacity.candidate, self.operating_point.rate_per_s
        size = candidate.replica_gpus
        replicas = replicas_for_rate(rate_per_s=self.reserve * rate_per_s, per_replica_per_s=size * each_per_s)
        return (replicas + candidate.spare_replicas) * size

    def follows_hours(self, term: Term | None) -> bool:
        """Return True if what is rented under a term follows the hours of use of a service."""
        by_hour = term not in (None, Term.BUY, *COMMITMENT_YEARS)
        return by_hour and isinstance(self.load, Service) and bool(self.load.levels)

    def hours(self, fleets: Sequence[Fleet], rent: Price | None) -> tuple[float, ...]:
        """Return GPU-hours a year: a service and its redundancy run all day, a job only as long as it has work.

        What is rented by the hour follows a service's hours of use where it has any.
        """
        load = self.load
        if rent and isinstance(load, Service) and self.follows_hours(rent.term):
            return tuple(
                sum(
                    formulas.gpu_hours_at_level(
                        formulas.hours_at_level(level.hours_per_year, level.starts_per_year, load.start_up_s),
                        min(self.need(peak * level.peak_fraction), ceil_guarded(fleet.need * level.peak_fraction)),
                        rent.instance_gpus,
                        fleet.spares,
                    )
                    for level in load.levels
                )
                for peak, fleet in zip(self.peaks_per_s(), fleets, strict=True)
            )
        if isinstance(load, Service | OneGpu):
            return tuple(float(fleet.gpus * HOURS_PER_YEAR) for fleet in fleets)
        minimum_s = (rent.minimum_s or 0.0) if rent else 0.0
        return tuple(
            formulas.worked_hours(
                fleet.gpus, load.runs_per_year, self.run_hours(fleet, samples / load.runs_per_year), minimum_s
            )
            for samples, fleet in zip(self.samples_by_year(), fleets, strict=True)
        )

    def run_hours(self, fleet: Fleet, samples: float) -> float:
        """Return how long a fleet takes for one run of some samples, start-up included. [h]"""
        start_s = 0.0 if isinstance(self.load, Service | OneGpu) else self.load.start_up_s
        working = formulas.working_gpus(fleet.gpus, fleet.servers, fleet.spares)
        return formulas.run_hours(samples, self.operating_point.rate_per_s, working, start_s)

    def finish_s(self, fleet: Fleet) -> float | None:
        """Return how long a fleet takes for one run of a job or a training at the first year's end; else None. [s]"""
        load = self.load
        if isinstance(load, Service | OneGpu):
            return None
        samples = self.peaks_per_s()[0] * (load.deadline_s - load.start_up_s)
        return self.run_hours(fleet, samples) * SECONDS_PER_HOUR

    def in_servers(self, *, server_slots: int, full_servers: bool) -> "tuple[_Options, tuple[Fleet, ...]]":
        """Return the fleets of each year in servers of a size, and the question with the batch that GPUs there take.

        A larger batch hides more of the exchange of gradients, so that a slow link asks GPUs that train together for
        another batch.
        """
        reserve = self.case.reserve_of(self.sizing.gpu, server_slots=server_slots, full_servers=full_servers)
        placed = replace(self, reserve=reserve)
        if self.operating_point.parallel:
            placed = placed._training_in(server_slots, full_servers)
        return placed, placed.fleets(server_slots=server_slots, full_servers=full_servers)

    def _training_in(self, server_slots: int, full_servers: bool) -> "_Options":
        point = self.sizing.capacity.fed_by(self.scenario.cpu_s_per_sample).operate_in_servers(
            self.reserve * self.peaks_per_s()[0],
            server_slots=server_slots,
            full_servers=full_servers,
            latency_factor=self.scenario.latency.get(self.sizing.gpu, 1.0),
            largest_batch=self.scenario.largest_batch,
        )
        return replace(self, operating_point=point, sizing=replace(self.sizing, operating_point=point))

    def committed(self, fleets: tuple[Fleet, ...], term: Term) -> tuple[Fleet, ...]:
        """Set each commitment's fleet to what its last year needs: GPUs cannot be added for part of its term."""
        years = COMMITMENT_YEARS.get(term, 1)
        last = len(fleets) - 1
        return tuple(fleets[min(last, year // years * years + years - 1)] for year in range(len(fleets)))

    def option(
        self,
        fleets: tuple[Fleet, ...],
        *,
        term: Term | None = None,
        rent: Price | None = None,
        purchase: PurchasePrice | None = None,
    ) -> ProcurementOption:
        used = self.hours(fleets, rent)
        is_committed = term in COMMITMENT_YEARS
        hours = tuple(float(fleet.gpus * HOURS_PER_YEAR) for fleet in fleets) if is_committed else used
        year = -1 if purchase else 0
        usage = Usage(
            in_use_fraction=formulas.busy_share(used[year], fleets[year].gpus),
            load_fraction=self.load_fraction(used[year] / HOURS_PER_YEAR, self.samples_by_year()[year]),
            stays_on=purchase is not None or is_committed,
        )
        rates = self.hourly_rates_per_s(used[year] / HOURS_PER_YEAR, year, follows_hours=self.follows_hours(term))
        energy = self.energy(fleets[year], usage, rates, year, is_bought=purchase is not None)
        cost: OwnedCost | RentedCost | None = None
        if rent:
            cost = cost_of_renting(gpu_hours_by_year=hours, price=rent, money=self.money)
        elif purchase and energy:
            last, money = fleets[-1], self.money
            if self.sizing.capacity.candidate.is_for_desks and last.servers == 1:
                money = replace(
                    money, network_fraction=0.0, support_fraction=0.0, space_usd_per_kw_month=0.0,
                    staff_usd_per_server_year=0.0,
                )  # fmt: skip
            cost = cost_of_owning(
                gpus=last.gpus,
                servers=last.servers,
                price=purchase,
                chassis_usd=self.server.chassis_usd,
                energy=energy,
                money=money,
            )
        return ProcurementOption(
            gpu=self.sizing.gpu,
            term=term,
            sizing=self.sizing,
            operating_point=self.operating_point,
            fleets=fleets,
            gpu_hours_by_year=hours,
            samples_by_year=self.samples_by_year(),
            rent=rent,
            purchase=purchase,
            energy=energy,
            cost=cost,
            peaks_per_s=self.peaks_per_s(),
            reserve=self.reserve,
            finish_s=self.finish_s(fleets[0]),
            follows_hours=self.follows_hours(term),
            rack_units=fleets[-1].servers * self.server.rack_units if purchase else None,
        )

    @property
    def server(self) -> Server:
        """The server that a bought GPU needs."""
        return server_of(self.sizing.capacity.candidate.form_factor, self.money)

    def energy(
        self, fleet: Fleet, usage: Usage, rates_per_s: Sequence[float], year: int, *, is_bought: bool
    ) -> Energy | None:
        """Return what a year's fleet draws at the rates of a GPU in use; None where its power limit is not known."""
        candidate = self.sizing.capacity.candidate
        curve = candidate.power_curve(
            self.operating_point.largest_batch, latency_factor=self.scenario.latency.get(self.sizing.gpu, 1.0)
        )
        if curve is None:
            return None
        slots, _ = server_slots(candidate.form_factor, self.money)
        return fleet_energy(
            gpus=fleet.gpus,
            servers=fleet.servers if is_bought else fleet.gpus / slots,
            card=CardDraw(
                limit_w=curve.limit_w,
                used_w=curve.mean_w(rates_per_s),
                idle_w=curve.idle_w,
                peak_w=curve.mean_w([self.peak_of_one_per_s(fleet, year)]),
            ),
            host_w=self.server.host_w,
            usage=usage,
            money=self.money,
        )

    def hourly_rates_per_s(self, gpus_up: float, year: int, *, follows_hours: bool) -> list[float]:
        """Return what one GPU serves over the day while in use; jobs run at full load. [1/s]"""
        load = self.case.load
        if not isinstance(load, Service):
            return [self.operating_point.rate_per_s]
        mean_per_s = self.samples_by_year()[year] / (HOURS_PER_YEAR * SECONDS_PER_HOUR) / gpus_up
        return [mean_per_s] if follows_hours else [mean_per_s * share for share in load.daily_shares]

    def peak_of_one_per_s(self, fleet: Fleet, year: int) -> float:
        """Return what one GPU of a year's fleet serves at the busiest time. [1/s]"""
        if not isinstance(self.case.load, Service):
            return self.operating_point.rate_per_s
        return self.peaks_per_s()[year] / fleet.gpus

    def load_fraction(self, gpus_up: float, samples: float) -> float:
        """Return a year's mean load as a share of what GPUs up in the mean can do; jobs run at full load."""
        if not isinstance(self.case.load, Service):
            return 1.0
        ceiling = self.case.load.utilization_ceiling_fraction
        return formulas.load_share(samples, gpus_up, self.operating_point.rate_per_s, ceiling)

    def varied_rent(self, price: Price) -> Price:
        factor = self.scenario.rent_price * self.scenario.own_price.get(rent_key(price), 1.0)
        return replace(price, usd_per_hour=price.usd_per_hour * factor)

    def varied_purchase(self, price: PurchasePrice) -> PurchasePrice:
        factor = self.scenario.purchase_price * self.scenario.own_price.get(f"{price.gpu}/{Term.BUY.value}", 1.0)
        return replace(price, usd=price.usd * factor)

    def rented(self, price: Price) -> ProcurementOption:
        placed, grown = self.in_servers(server_slots=price.instance_gpus, full_servers=True)
        fleets = placed.committed(grown, price.term)
        return placed.option(fleets, term=price.term, rent=self.varied_rent(price))

    def bought(self, price: PurchasePrice) -> ProcurementOption:
        slots, full = bought_slots(price, self.sizing.capacity.candidate.form_factor, self.money)
        placed, grown = self.in_servers(server_slots=slots, full_servers=full)
        return placed.option((grown[-1],) * len(grown), term=Term.BUY, purchase=self.varied_purchase(price))

    def unpriced(self) -> ProcurementOption:
        slots, full = server_slots(self.sizing.capacity.candidate.form_factor, self.money)
        placed, grown = self.in_servers(server_slots=slots, full_servers=full)
        return placed.option(grown)
