"""One fleet for several services: GPU by GPU packed, bought or rented, after the GPUs that are owned already."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

from capplan.core.economics.concerns import Concern
from capplan.core.economics.cost import (
    NOTHING_KEPT,
    CardDraw,
    Energy,
    OwnedCost,
    RentedCost,
    SiteCost,
    Usage,
    cost_of_keeping,
    cost_of_owning,
    cost_of_renting,
    fleet_energy,
)
from capplan.core.economics.decide import Answer
from capplan.core.economics.evidence import Standards, Taken, caps_exceeded
from capplan.core.economics.options import ProcurementOption, server_of, server_slots, slots_of, spare_servers
from capplan.core.economics.packing import Packing, Tenant, pack
from capplan.core.economics.recommend import may_be_chosen
from capplan.core.formulas import HOURS_PER_YEAR
from capplan.core.gpus.mig import MigProfile
from capplan.core.gpus.prices import COMMITMENT_YEARS, PurchasePrice, Term
from capplan.core.serving.load import DAYS_PER_WEEK, HOURS_PER_DAY, Job, OneGpu, Service
from capplan.core.serving.servers import Fleet, make_fleet

_MONTHS = 120
_HOURS_PER_WEEK = HOURS_PER_DAY * DAYS_PER_WEEK
_MOST_FACTOR = 64.0
_STEPS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """GPUs of one kind that are owned already; they are used first, and cost energy, space and staff.

    `servers` is how many they stand in. None where it is not stated: then they are paid for as parts of servers, and a
    failure takes one GPU.
    """

    gpu: str
    count: int
    servers: int | None = None

    @property
    def per_server(self) -> int:
        """Return the GPUs that the failure of one server takes."""
        return 1 if self.servers is None else -(-self.count // self.servers)

    def added_servers(self, need: int, *, spares: int, slots: int) -> int:
        """Return the servers to add so that enough GPUs are left when the largest servers fail."""
        full, rest = divmod(self.count, self.per_server)
        held, added = [*[self.per_server] * full, rest], 0
        while sum(sorted([*held, *[slots] * added], reverse=True)[spares:]) < need:
            added += 1
        return added


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAnswer:
    """One service of a fleet: its name, the decision for it alone, and what an option must meet."""

    name: str
    answer: Answer
    standards: Standards


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """What packing must know of a kind of GPU: memory that may be filled [bytes] and MIG slices."""

    budget_bytes: float
    profiles: tuple[MigProfile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOption:
    """All services on GPUs of one kind, under one term.

    `cost` is None where no price is known; `energy` is that of all GPUs of the last year, owned ones included, None
    where the GPU's power limit is unknown; `power_w` [W] and `rack_units` are those of the servers that are bought,
    None for rented ones. `added_by_year` are the GPUs that each year needs beyond those `owned`, in whole machines,
    `used_by_year` those owned that it uses; `kept` is what these cost a year.
    """

    gpu: str
    term: Term | None
    packing: Packing
    fleets: tuple[Fleet, ...]
    owned: int
    option: ProcurementOption
    cost: OwnedCost | RentedCost | None
    energy: Energy | None = None
    power_w: float | None = None
    rack_units: int | None = None
    added_by_year: tuple[int, ...] = ()
    used_by_year: tuple[int, ...] = ()
    kept: SiteCost = NOTHING_KEPT
    kept_servers: float = 0.0

    @property
    def key(self) -> str:
        """Return the GPU and term."""
        return self.option.key

    @property
    def gpus_by_year(self) -> tuple[int, ...]:
        """Return the GPUs of each year, owned ones and redundancy included."""
        return tuple(map(sum, zip(self.used_by_year, self.added_by_year, strict=True)))


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
class FleetDecision:
    """The fleets that carry all services, best first, beside the sum of the decisions for each service alone.

    `separate_usd_per_year` is None where a service alone has no priced option. `keeping` is the cheapest fleet of owned
    GPUs alone where another is chosen, and `staff_usd` the cost of staff per server and year below which it is cheaper;
    None where no staff would be cheap enough.
    """

    options: tuple[FleetOption, ...]
    choice: FleetOption | None
    separate_usd_per_year: float | None
    inventory: tuple[InventoryRow, ...]
    services: tuple[ServiceAnswer, ...]
    keeping: FleetOption | None = None
    staff_usd: float | None = None


def decide_fleet(
    services: Sequence[ServiceAnswer], *, facts: Mapping[str, GpuFacts], inventory: Sequence[Owned] = ()
) -> FleetDecision:
    """Pack all services on every kind of GPU that carries each, and choose the cheapest fleet."""
    owned = {gpus.gpu: gpus for gpus in inventory}
    sized = [{sizing.gpu for sizing in service.answer.case.sizings} for service in services]
    shared = [sizing.gpu for sizing in services[0].answer.case.sizings if all(sizing.gpu in names for names in sized)]
    options = [option for gpu in shared for option in _options(gpu, services, facts[gpu], owned.get(gpu))]
    # The fleets but for those that add nothing, as a better one of the same GPU does: they are one fleet.
    found: list[FleetOption] = []
    for option in sorted(options, key=lambda option: _rank(option, services)):
        repeats = not any(option.added_by_year) and any(
            other.gpu == option.gpu and not any(other.added_by_year) for other in found
        )
        if not repeats:
            found.append(option)
    ranked = found
    priced = [option for option in ranked if option.cost is not None and _may_be_chosen(option, services)]
    choice = priced[0] if priced else None
    keeping = next((option for option in priced if option.owned and not any(option.added_by_year)), None)
    staff_usd = None
    if keeping is choice:
        keeping = None
    if keeping and keeping.cost and keeping.kept_servers and choice and choice.cost:
        dearer = (keeping.cost.per_year - choice.cost.per_year) / keeping.kept_servers
        staff_usd = services[0].answer.case.money.staff_usd_per_server_year - dearer
    return FleetDecision(
        options=tuple(ranked),
        choice=choice,
        keeping=keeping,
        staff_usd=staff_usd if staff_usd is not None and staff_usd >= 0 else None,
        separate_usd_per_year=_separate(services),
        inventory=tuple(_use(gpus, services, facts[gpus.gpu]) for gpus in inventory if gpus.gpu in facts),
        services=tuple(services),
    )


def _separate(services: Sequence[ServiceAnswer]) -> float | None:
    total = 0.0
    for service in services:
        choice = service.answer.recommendation.choice
        if choice is None or choice.cost_per_year is None:
            return None
        total += choice.cost_per_year
    return total


def _may_be_chosen(option: FleetOption, services: Sequence[ServiceAnswer]) -> bool:
    """Return True if every service alone may choose the same GPU and term, and the fleet keeps every cap.

    The caps are those of the whole fleet: one service alone would buy what the fleet shares, or what is owned already.
    """
    if option.term is None or violations_of(option, services):
        return False
    return all(_carries(service, option.key) for service in services)


def _carries(service: ServiceAnswer, key: str) -> bool:
    """Return True if a service may choose an option, caps aside; memory suffices certainly where it does for any."""
    allowed = [option for option in service.answer.options if may_be_chosen(service.answer.case, option)]
    certain = [option for option in allowed if service.standards.fits_certainly(option)]
    return any(option.key == key for option in certain or allowed)


def _rank(option: FleetOption, services: Sequence[ServiceAnswer]) -> tuple[int, float, str]:
    """Order options: those that may be chosen first, of them those of full evidence, then by cost."""
    standards = services[0].standards
    weak = 2 * int(not _may_be_chosen(option, services)) + int(bool(standards.weaknesses(option.option)))
    aged = standards.aged_factor(option.option)
    return weak, option.cost.per_year * aged if option.cost else float("inf"), option.key


def concerns_of(option: FleetOption, services: Sequence[ServiceAnswer]) -> tuple[Concern, ...]:
    """Return what speaks against relying on a fleet's speed or price."""
    return services[0].standards.concerns(option.option)


def violations_of(option: FleetOption, services: Sequence[ServiceAnswer]) -> tuple[str, ...]:
    """Return the caps that what a fleet adds exceeds, each as a phrase; empty where it keeps all."""
    if option.cost is None:
        return ()
    taken = Taken(
        capex_usd=option.cost.yearly[0],
        highest_year_usd=option.cost.highest_year_usd - option.kept.total_usd,
        is_bought=option.term is Term.BUY,
        power_w=option.power_w,
        rack_units=option.rack_units,
    )
    return caps_exceeded(services[0].standards.constraints, taken)


def tenants_on(
    gpu: str,
    services: Sequence[ServiceAnswer],
    *,
    factor: float = 1.0,
    years: float = 0.0,
    shares: Sequence[float] | None = None,
) -> list[Tenant]:
    """Return the services as tenants of one kind of GPU, each with the reserve of its own decision."""
    made = []
    for service, share in zip(services, shares or (1.0,) * len(services), strict=True):
        load = service.answer.demand.load
        sizing = next(sizing for sizing in service.answer.case.sizings if sizing.gpu == gpu)
        grown = (1 + load.growth_per_year_fraction) ** years * factor * service.answer.case.reserve_of(gpu)
        points = sizing.capacity.candidate.points
        made.append(
            Tenant(
                name=service.name,
                sizing=sizing,
                load=load if isinstance(load, Service) else None,
                peak_per_s=share * grown * _peak_per_s(service),
                memory_bytes=next(
                    point.memory_bytes.high for point in points if point.batch == sizing.operating_point.largest_batch
                ),
            )
        )
    return made


def _peak_per_s(service: ServiceAnswer) -> float:
    load = service.answer.demand.load
    if isinstance(load, Service):
        return load.peak_per_s
    return 0.0 if isinstance(load, OneGpu) else load.rate_per_s


_Packed = Callable[[float, tuple[float, ...]], Packing]
"""Packs all services on one kind of GPU, after some years of growth and at a share of each one's peak."""


def _options(gpu: str, services: Sequence[ServiceAnswer], facts: GpuFacts, owned: Owned | None) -> list[FleetOption]:
    @cache
    def packed(years: float, shares: tuple[float, ...]) -> Packing:
        tenants = tenants_on(gpu, services, years=years, shares=shares)
        return pack(tenants, budget_bytes=facts.budget_bytes, profiles=facts.profiles)

    offers = [option for option in services[0].answer.options if option.gpu == gpu]
    return [_option(option, services, packed, owned) for option in offers]


def _option(
    option: ProcurementOption, services: Sequence[ServiceAnswer], packed: _Packed, owned: Owned | None
) -> FleetOption:
    money = services[0].answer.case.money
    packings = [packed(year, (1.0,) * len(services)) for year in range(1, money.years + 1)]
    candidate = option.sizing.capacity.candidate
    slots, full = slots_of(option, money)
    most = max(packing.gpus for packing in packings)
    spares = max(
        spare_servers(service.answer.demand.load, money, need=most, server_slots=slots, full_servers=full)
        for service in services
    )
    grown = [
        make_fleet(need=packing.gpus, spares=spares, server_slots=slots, full_servers=full) for packing in packings
    ]
    span = money.years if option.purchase else COMMITMENT_YEARS.get(option.term or Term.ON_DEMAND, 1)
    fleets = tuple(grown[min(money.years - 1, year // span * span + span - 1)] for year in range(money.years))
    made = FleetOption(
        gpu=option.gpu,
        term=option.term,
        packing=packings[0],
        fleets=fleets,
        owned=owned.count if owned else 0,
        option=option,
        cost=None,
        added_by_year=tuple(_added(fleet, fleet.need, owned) for fleet in fleets),
        used_by_year=tuple(
            min(owned.count, fleet.need + fleet.spares * owned.per_server) if owned else 0 for fleet in fleets
        ),
    )
    made = _keeping(made, services, owned)
    gpus = made.gpus_by_year[-1]
    around = gpus / server_slots(candidate.form_factor, money)[0]
    if option.rent is None:
        made = replace(made, energy=_energy(made, services, gpus=gpus, servers=around))
        return _bought(made, option.purchase, services) if option.purchase is not None else made
    hours = _rented_hours(made, services, packed, owned)
    up = hours[-1] / HOURS_PER_YEAR / made.added_by_year[-1] if made.added_by_year[-1] else 1.0
    energy = _energy(made, services, gpus=gpus, servers=around, up=up if not made.owned else 1.0)
    cost = cost_of_renting(gpu_hours_by_year=hours, price=option.rent, money=money)
    return replace(made, energy=energy, cost=replace(cost, kept=made.kept))


def _added(fleet: Fleet, need: int, owned: Owned | None) -> int:
    """Return the GPUs of the whole servers that a need takes beyond what is owned, redundancy included."""
    if not need:
        return 0
    slots = fleet.gpus_per_server
    held = owned or Owned(gpu="", count=0)
    return slots * held.added_servers(need, spares=fleet.spares, slots=slots)


def _keeping(option: FleetOption, services: Sequence[ServiceAnswer], owned: Owned | None) -> FleetOption:
    """Return a fleet with what the owned servers cost that it uses; unchanged where their power is unknown."""
    money, candidate = services[0].answer.case.money, option.option.sizing.capacity.candidate
    if owned is None:
        return option
    used = option.used_by_year[-1]
    if owned.servers is None:
        servers = used / server_slots(candidate.form_factor, money)[0]
    else:
        servers = float(-(-used // owned.per_server))
    energy = _energy(option, services, gpus=used, servers=servers)
    if energy is None:
        return option
    kept = cost_of_keeping(gpus=used, servers=servers, energy=energy, money=money)
    return replace(option, kept=kept, kept_servers=servers)


def _rented_hours(
    option: FleetOption, services: Sequence[ServiceAnswer], packed: _Packed, owned: Owned | None
) -> tuple[float, ...]:
    """Return the GPU-hours of each year that are rented.

    A commitment is paid for all hours. What is rented by the hour is paid for the machines that the services in use and
    the jobs that run take together, hour by hour of a week; jobs run for their deadline, at any time of the day. The
    start of machines is paid where services start them; a job's is part of its deadline.
    """
    if option.term in COMMITMENT_YEARS:
        return tuple(float(added * HOURS_PER_YEAR) for added in option.added_by_year)
    loads = [service.answer.demand.load for service in services]
    jobs = [load for load in loads if isinstance(load, Job)]
    running = min(1.0, sum(job.deadline_s / 3600 * job.runs_per_year for job in jobs) / HOURS_PER_YEAR)
    profiles = [load.hourly_shares if isinstance(load, Service) else (1.0,) for load in loads]
    week = [tuple(shares[hour % len(shares)] for shares in profiles) for hour in range(_HOURS_PER_WEEK)]
    start_h = max((load.start_up_s for load in loads if isinstance(load, Service)), default=0.0) / 3600

    def added(year: int, shares: tuple[float, ...]) -> float:
        idle = tuple(0.0 if isinstance(load, Job) else share for load, share in zip(loads, shares, strict=True))
        most, least = (_added(option.fleets[year], packed(year + 1, used).gpus, owned) for used in (shares, idle))
        return running * most + (1 - running) * least if jobs else most

    found = []
    for year in range(len(option.fleets)):
        hourly = [added(year, shares) for shares in week]
        started = sum(max(0.0, after - before) for before, after in pairwise((*hourly, hourly[0])))
        found.append(HOURS_PER_YEAR / _HOURS_PER_WEEK * (sum(hourly) + start_h * started))
    return tuple(found)


def _bought(option: FleetOption, purchase: PurchasePrice, services: Sequence[ServiceAnswer]) -> FleetOption:
    """Return a fleet with the cost, power and rack units of what is bought; unchanged where its power is unknown."""
    money, candidate = services[0].answer.case.money, option.option.sizing.capacity.candidate
    added, last, kept = option.added_by_year[-1], option.fleets[-1], option.kept
    servers = -(-added // last.gpus_per_server)
    energy = _energy(option, services, gpus=added, servers=servers)
    if energy is None:
        return option
    server = server_of(candidate.form_factor, money)
    cost = cost_of_owning(
        gpus=added, servers=servers, price=purchase, chassis_usd=server.chassis_usd, energy=energy, money=money
    )
    cost = replace(cost, site=cost.site + kept)
    return replace(option, cost=cost, power_w=energy.nameplate_w, rack_units=servers * server.rack_units)


def _energy(
    option: FleetOption, services: Sequence[ServiceAnswer], *, gpus: float, servers: float, up: float = 1.0
) -> Energy | None:
    """Return what some GPUs of the last year's fleet draw at the mean load; None where their power limit is unknown.

    A GPU idles but for the share of time that each service's batches take; while they run it draws what a full batch of
    that service does. They are given back but for the share of the hours that they are `up`.
    """
    years, money = len(option.fleets), services[0].answer.case.money
    busy = above_idle_w = idle_w = limit_w = 0.0
    for service, tenant in zip(services, tenants_on(option.gpu, services, years=years), strict=True):
        point, candidate = tenant.sizing.operating_point, tenant.sizing.capacity.candidate
        curve = candidate.power_curve(point.largest_batch)
        if curve is None:
            return None
        load = service.answer.demand.load
        mean = 0.0 if isinstance(load, OneGpu) else load.mean_per_s * (1 + load.growth_per_year_fraction) ** years
        share = mean * tenant.sizing.batch_latency_s.expected / point.largest_batch / option.gpus_by_year[-1] / up
        idle_w, limit_w, busy = curve.idle_w, curve.limit_w, busy + share
        above_idle_w += share * (curve.watts[-1] - curve.idle_w)
    most = max(1.0, busy)
    return fleet_energy(
        gpus=gpus,
        servers=servers,
        card=CardDraw(limit_w=limit_w, used_w=idle_w + above_idle_w / most, idle_w=idle_w),
        host_w=server_of(option.option.sizing.capacity.candidate.form_factor, money).host_w,
        usage=Usage(in_use_fraction=up, load_fraction=min(1.0, busy), stays_on=up == 1.0),
        money=money,
    )


def _use(owned: Owned, services: Sequence[ServiceAnswer], facts: GpuFacts) -> InventoryRow:
    """Fill owned GPUs with services, largest need first, and see how far their loads may grow."""
    sized = [service for service in services if any(sizing.gpu == owned.gpu for sizing in service.answer.case.sizings)]
    held: list[ServiceAnswer] = []
    for service in sorted(sized, key=lambda service: -_need(owned, [service], facts)):
        if _need(owned, [*held, service], facts) <= owned.count:
            held.append(service)
    if not held:
        return InventoryRow(
            gpu=owned.gpu, count=owned.count, services=(), needed=0, load_factor=0.0, months_until_full=None
        )
    low, high = 1.0, _MOST_FACTOR
    for _ in range(_STEPS):
        middle = (low + high) / 2
        fits = _need(owned, held, facts, factor=middle) <= owned.count
        low, high = (middle, high) if fits else (low, middle)
    return InventoryRow(
        gpu=owned.gpu,
        count=owned.count,
        services=tuple(service.name for service in held),
        needed=_need(owned, held, facts),
        load_factor=low,
        months_until_full=_months(owned, held, facts),
    )


def _need(
    owned: Owned, services: Sequence[ServiceAnswer], facts: GpuFacts, *, factor: float = 1.0, years: float = 0.0
) -> int:
    """Return the owned GPUs that services need, with as many spare servers as the service that asks for most."""
    tenants = tenants_on(owned.gpu, services, factor=factor, years=years)
    spares = max(service.answer.demand.load.spares for service in services)
    return pack(tenants, budget_bytes=facts.budget_bytes, profiles=facts.profiles).gpus + spares * owned.per_server


def _months(owned: Owned, services: Sequence[ServiceAnswer], facts: GpuFacts) -> int | None:
    """Return the whole months until growth needs more GPUs than are owned; None where it does not in ten years."""
    if all(service.answer.demand.load.growth_per_year_fraction <= 0 for service in services):
        return None
    for month in range(1, _MONTHS + 1):
        if _need(owned, services, facts, years=month / 12) > owned.count:
            return month - 1
    return None
