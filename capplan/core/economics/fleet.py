"""One fleet for several services: GPU by GPU packed, bought or rented, after the GPUs that are owned already."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
from capplan.core.economics.decide import Answer
from capplan.core.economics.evidence import Concern, Standards, Taken, caps_exceeded
from capplan.core.economics.options import Option, server_of, server_slots, spare_servers
from capplan.core.economics.packing import Packing, Tenant, pack
from capplan.core.economics.recommend import may_be_chosen
from capplan.core.formulas import HOURS_PER_YEAR
from capplan.core.gpus.mig import MigProfile
from capplan.core.gpus.prices import COMMITMENT_YEARS, Price, PurchasePrice, Term
from capplan.core.serving.load import Job, OneGpu, Service
from capplan.core.serving.servers import Fleet, make_fleet
from capplan.core.serving.sizing import Sizing

_MONTHS = 120
_MOST_FACTOR = 64.0
_STEPS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """GPUs of one kind that are owned already; they are used first and cost nothing anew."""

    gpu: str
    count: int


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
    None for rented ones.
    """

    gpu: str
    term: Term | None
    packing: Packing
    fleets: tuple[Fleet, ...]
    owned: int
    option: Option
    cost: OwnedCost | RentedCost | None
    energy: Energy | None = None
    power_w: float | None = None
    rack_units: int | None = None

    @property
    def key(self) -> str:
        """Return the GPU and term."""
        return self.option.key

    @property
    def added_by_year(self) -> tuple[int, ...]:
        """Return the GPUs that each year needs beyond those owned."""
        return tuple(max(0, fleet.gpus - self.owned) for fleet in self.fleets)


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryUse:
    """What owned GPUs carry: the services that run on them, the factor on all their loads that still fits, and when
    growth fills them.

    `months` is None where growth does not fill them within ten years.
    """

    owned: Owned
    services: tuple[str, ...]
    needed: int
    load_factor: float
    months: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetAnswer:
    """The fleets that carry all services, best first, beside the sum of the decisions for each service alone.

    `separate_usd_per_year` is None where a service alone has no priced option.
    """

    options: tuple[FleetOption, ...]
    choice: FleetOption | None
    separate_usd_per_year: float | None
    inventory: tuple[InventoryUse, ...]
    services: tuple[ServiceAnswer, ...]


def decide_fleet(
    services: Sequence[ServiceAnswer], *, facts: Mapping[str, GpuFacts], inventory: Sequence[Owned] = ()
) -> FleetAnswer:
    """Pack all services on every kind of GPU that carries each, and choose the cheapest fleet.

    Args:
        services: The services with the decision for each alone.
        facts: Memory and slices by GPU id.
        inventory: GPUs that are owned already.
    """
    owned = {each.gpu: each.count for each in inventory}
    shared = _shared_gpus(services)
    options = [made for gpu in shared for made in _options(gpu, services, facts[gpu], owned.get(gpu, 0))]
    ranked = sorted(options, key=lambda each: _rank(each, services))
    priced = [each for each in ranked if each.cost is not None and _may_be_chosen(each, services)]
    return FleetAnswer(
        options=tuple(ranked),
        choice=priced[0] if priced else None,
        separate_usd_per_year=_separate(services),
        inventory=tuple(_use(each, services, facts[each.gpu]) for each in inventory if each.gpu in facts),
        services=tuple(services),
    )


def _shared_gpus(services: Sequence[ServiceAnswer]) -> list[str]:
    """Return the GPUs that carry every service, in the order of the first."""
    sized = [{sizing.gpu for sizing in each.answer.case.sizings} for each in services]
    return [sizing.gpu for sizing in services[0].answer.case.sizings if all(sizing.gpu in names for names in sized)]


def _separate(services: Sequence[ServiceAnswer]) -> float | None:
    total = 0.0
    for each in services:
        choice = each.answer.recommendation.choice
        if choice is None or choice.cost_per_year is None:
            return None
        total += choice.cost_per_year
    return total


def _may_be_chosen(made: FleetOption, services: Sequence[ServiceAnswer]) -> bool:
    """Return True if every service alone may choose the same GPU and term, and the fleet keeps every cap.

    The caps are those of the whole fleet: one service alone would buy what the fleet shares, or what is owned already.
    """
    if made.term is None or violations_of(made, services):
        return False
    return all(_carries(each, made.key) for each in services)


def _carries(service: ServiceAnswer, key: str) -> bool:
    """Return True if a service may choose an option, caps aside; memory suffices certainly where it does for any."""
    allowed = [each for each in service.answer.options if may_be_chosen(service.answer.case, each)]
    certain = [each for each in allowed if service.standards.fits_certainly(each)]
    return any(each.key == key for each in certain or allowed)


def _rank(made: FleetOption, services: Sequence[ServiceAnswer]) -> tuple[int, float, str]:
    """Order options: those that may be chosen first, of them those of full evidence, then by cost."""
    standards = services[0].standards
    weak = 2 * int(not _may_be_chosen(made, services)) + int(bool(standards.weaknesses(made.option)))
    aged = standards.aged_factor(made.option)
    return weak, made.cost.per_year * aged if made.cost else float("inf"), made.key


def concerns_of(made: FleetOption, services: Sequence[ServiceAnswer]) -> tuple[Concern, ...]:
    """Return what speaks against relying on a fleet's speed or price."""
    return services[0].standards.concerns(made.option)


def violations_of(made: FleetOption, services: Sequence[ServiceAnswer]) -> tuple[str, ...]:
    """Return the caps that what a fleet adds exceeds, each as a phrase; empty where it keeps all."""
    if made.cost is None:
        return ()
    taken = Taken(
        capex_usd=made.cost.yearly[0],
        highest_year_usd=made.cost.highest_year_usd,
        is_bought=made.term is Term.BUY,
        power_w=made.power_w,
        rack_units=made.rack_units,
    )
    return caps_exceeded(services[0].standards.constraints, taken)


def tenants_on(gpu: str, services: Sequence[ServiceAnswer], *, factor: float = 1.0, years: float = 0.0) -> list[Tenant]:
    """Return the services as tenants of one kind of GPU.

    Args:
        gpu: The GPU's id; every service must have been sized on it.
        services: The services.
        factor: A factor on every load.
        years: Years of growth at each service's own rate.
    """
    made = []
    for each in services:
        load = each.answer.demand.load
        sizing = next(sizing for sizing in each.answer.case.sizings if sizing.gpu == gpu)
        grown = (1 + load.growth_per_year_fraction) ** years * factor
        made.append(
            Tenant(
                name=each.name,
                sizing=sizing,
                load=load if isinstance(load, Service) else None,
                peak_per_s=grown * _peak_per_s(each),
                memory_bytes=_memory_bytes(sizing),
            )
        )
    return made


def _peak_per_s(service: ServiceAnswer) -> float:
    load = service.answer.demand.load
    if isinstance(load, Service):
        return load.peak_per_s
    return 0.0 if isinstance(load, OneGpu) else load.rate_per_s


def _memory_bytes(sizing: Sizing) -> float:
    points = sizing.capacity.candidate.points
    return next(point.memory_bytes.high for point in points if point.batch == sizing.operating_point.largest_batch)


def _options(gpu: str, services: Sequence[ServiceAnswer], facts: GpuFacts, owned: int) -> list[FleetOption]:
    first = services[0].answer
    offers = [option for option in first.options if option.gpu == gpu]
    return [_option(option, services, facts, owned) for option in offers]


def _option(option: Option, services: Sequence[ServiceAnswer], facts: GpuFacts, owned: int) -> FleetOption:
    money = services[0].answer.case.money
    packings = [
        pack(tenants_on(option.gpu, services, years=year), budget_bytes=facts.budget_bytes, profiles=facts.profiles)
        for year in range(1, money.years + 1)
    ]
    candidate = option.sizing.capacity.candidate
    slots, full = (option.rent.instance_gpus, True) if option.rent else server_slots(candidate.form_factor, money)
    most = max(each.gpus for each in packings)
    spares = max(
        spare_servers(each.answer.demand.load, money, need=most, server_slots=slots, full_servers=full)
        for each in services
    )
    grown = [make_fleet(need=each.gpus, spares=spares, server_slots=slots, full_servers=full) for each in packings]
    span = money.years if option.purchase else COMMITMENT_YEARS.get(option.term or Term.ON_DEMAND, 1)
    fleets = tuple(grown[min(money.years - 1, year // span * span + span - 1)] for year in range(money.years))
    made = FleetOption(
        gpu=option.gpu, term=option.term, packing=packings[0], fleets=fleets, owned=owned, option=option, cost=None
    )
    last = fleets[-1]
    around = last.gpus / server_slots(candidate.form_factor, money)[0]
    made = replace(made, energy=_energy(made, services, gpus=last.gpus, servers=around))
    if option.rent is not None:
        return replace(made, cost=_rented(made, option.rent, services))
    return _bought(made, option.purchase, services) if option.purchase is not None else made


def _rented(made: FleetOption, rent: Price, services: Sequence[ServiceAnswer]) -> RentedCost:
    money = services[0].answer.case.money
    always = any(not isinstance(each.answer.demand.load, Job) for each in services)
    busy = 1.0
    if not always and made.term not in COMMITMENT_YEARS:
        hours = [
            load.deadline_s / 3600 * load.runs_per_year
            for each in services
            if isinstance(load := each.answer.demand.load, Job)
        ]
        busy = min(1.0, sum(hours) / HOURS_PER_YEAR)
    return cost_of_renting(
        gpu_hours_by_year=[gpus * HOURS_PER_YEAR * busy for gpus in made.added_by_year], price=rent, money=money
    )


def _bought(made: FleetOption, purchase: PurchasePrice, services: Sequence[ServiceAnswer]) -> FleetOption:
    """Return a fleet with the cost, power and rack units of what is bought; unchanged where its power is unknown."""
    money, candidate = services[0].answer.case.money, made.option.sizing.capacity.candidate
    added, last = made.added_by_year[-1], made.fleets[-1]
    servers = -(-added // last.gpus_per_server)
    energy = _energy(made, services, gpus=added, servers=servers)
    if energy is None:
        return made
    server = server_of(candidate.form_factor, money)
    cost = cost_of_owning(
        gpus=added, servers=servers, price=purchase, chassis_usd=server.chassis_usd, energy=energy, money=money
    )
    return replace(made, cost=cost, power_w=energy.nameplate_w, rack_units=servers * server.rack_units)


def _energy(made: FleetOption, services: Sequence[ServiceAnswer], *, gpus: float, servers: float) -> Energy | None:
    """Return what some GPUs of the last year's fleet draw at the mean load; None where their power limit is unknown.

    A GPU idles but for the share of time that each service's batches take; while they run it draws what a full batch of
    that service does.
    """
    years, money = len(made.fleets), services[0].answer.case.money
    busy = above_idle_w = idle_w = limit_w = 0.0
    for each, tenant in zip(services, tenants_on(made.gpu, services, years=years), strict=True):
        point, candidate = tenant.sizing.operating_point, tenant.sizing.capacity.candidate
        curve = candidate.power_curve(point.largest_batch)
        if curve is None:
            return None
        load = each.answer.demand.load
        mean = 0.0 if isinstance(load, OneGpu) else load.mean_per_s * (1 + load.growth_per_year_fraction) ** years
        share = mean * tenant.sizing.batch_latency_s.expected / point.largest_batch / made.fleets[-1].gpus
        idle_w, limit_w, busy = curve.idle_w, curve.limit_w, busy + share
        above_idle_w += share * (curve.watts[-1] - curve.idle_w)
    most = max(1.0, busy)
    return fleet_energy(
        gpus=gpus,
        servers=servers,
        card=CardDraw(limit_w=limit_w, used_w=idle_w + above_idle_w / most, idle_w=idle_w),
        host_w=server_of(made.option.sizing.capacity.candidate.form_factor, money).host_w,
        usage=Usage(in_use_fraction=1.0, load_fraction=min(1.0, busy), stays_on=True),
        money=money,
    )


def _use(owned: Owned, services: Sequence[ServiceAnswer], facts: GpuFacts) -> InventoryUse:
    """Fill owned GPUs with services, largest need first, and see how far their loads may grow."""
    sized = [each for each in services if any(sizing.gpu == owned.gpu for sizing in each.answer.case.sizings)]
    held: list[ServiceAnswer] = []
    for each in sorted(sized, key=lambda one: -_need(owned.gpu, [one], facts)):
        if _need(owned.gpu, [*held, each], facts) <= owned.count:
            held.append(each)
    if not held:
        return InventoryUse(owned=owned, services=(), needed=0, load_factor=0.0, months=None)
    return InventoryUse(
        owned=owned,
        services=tuple(each.name for each in held),
        needed=_need(owned.gpu, held, facts),
        load_factor=_most_factor(owned, held, facts),
        months=_months(owned, held, facts),
    )


def _need(
    gpu: str, services: Sequence[ServiceAnswer], facts: GpuFacts, *, factor: float = 1.0, years: float = 0.0
) -> int:
    """Return the GPUs that services need, with as many spare GPUs as the service that asks for most."""
    tenants = tenants_on(gpu, services, factor=factor, years=years)
    spares = max(each.answer.demand.load.spares for each in services)
    return pack(tenants, budget_bytes=facts.budget_bytes, profiles=facts.profiles).gpus + spares


def _most_factor(owned: Owned, services: Sequence[ServiceAnswer], facts: GpuFacts) -> float:
    """Return the factor on all loads that the owned GPUs still carry, by bisection."""
    low, high = 1.0, _MOST_FACTOR
    for _ in range(_STEPS):
        middle = (low + high) / 2
        fits = _need(owned.gpu, services, facts, factor=middle) <= owned.count
        low, high = (middle, high) if fits else (low, middle)
    return low


def _months(owned: Owned, services: Sequence[ServiceAnswer], facts: GpuFacts) -> int | None:
    """Return the whole months until growth needs more GPUs than are owned; None where it does not in ten years."""
    if all(each.answer.demand.load.growth_per_year_fraction <= 0 for each in services):
        return None
    for month in range(1, _MONTHS + 1):
        if _need(owned.gpu, services, facts, years=month / 12) > owned.count:
            return month - 1
    return None
