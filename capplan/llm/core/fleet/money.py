"""Compute what a fleet costs over the years: rent, commitments and purchase, energy per token, and an API beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

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
from capplan.core.economics.options import bought_slots, server_of, server_slots
from capplan.core.formulas import HOURS_PER_YEAR, SECONDS_PER_HOUR, hours_at_level
from capplan.core.gpus.by_use import ApiPrice
from capplan.core.gpus.machines import LocalAmount, LocalCurrency
from capplan.core.gpus.prices import COMMITMENT_YEARS, Price, PriceTier, PurchasePrice, Term
from capplan.core.numbers import ceil_guarded
from capplan.core.scaling.answer import ServingWays
from capplan.core.serving.load import Level
from capplan.llm.core.fleet.deployment_plan import DeploymentFit, DeploymentPlan
from capplan.llm.core.fleet.launch import Launch
from capplan.llm.core.fleet.rented import machines_for
from capplan.llm.core.fleet.replan import Replan
from capplan.llm.core.serving.energy import ServingEnergy
from capplan.llm.core.simulation.load_answer import Simulation

_SECONDS_PER_YEAR = HOURS_PER_YEAR * SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetYear:
    """The fleet that the load of a year's end needs. `year` counts from 1; year 0 is today."""

    year: int
    rate_per_s: float
    needed: int
    replicas: int
    gpus: int


def fleets_by_year(fit: DeploymentFit, *, growth_fraction: float, years: int) -> tuple[FleetYear, ...]:
    """Return the fleet of today and of the end of each year, as the load grows."""
    redundancy = fit.replicas - fit.needed

    def fleet(year: int) -> FleetYear:
        rate = fit.rate_per_s * (1.0 + growth_fraction) ** year
        needed = fit.needed if year == 0 else max(1, ceil_guarded(rate / _rate_per_replica(fit)))
        replicas = needed + redundancy
        return FleetYear(
            year=year, rate_per_s=rate, needed=needed, replicas=replicas, gpus=replicas * fit.sharding.gpus
        )

    return tuple(fleet(year) for year in range(years + 1))


def _rate_per_replica(fit: DeploymentFit) -> float:
    return max(fit.max_rate_per_s, fit.rate_per_s / fit.needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentOption:
    """One way to pay for the fleet over the years. [USD]

    `usd_per_year` is the equivalent annual cost. `seller` and `day` say where the price is from. `is_workstation` says
    that one computer under a desk is bought, without the staff, space, support and network of a data centre.
    """

    term: Term
    usd_per_gpu: float
    seller: str
    day: str
    cost: OwnedCost | RentedCost
    tokens_per_year: float
    is_marketplace: bool = False
    is_workstation: bool = False

    @property
    def usd_per_year(self) -> float:
        """Return the equivalent annual cost. [USD/year]"""
        return self.cost.per_year

    @property
    def usd_per_million_output_tokens(self) -> float:
        """Return the cost of a million output tokens in the mean over the years. [USD]"""
        return self.cost.per_year / self.tokens_per_year * 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """The offers of one GPU under all terms, and what decides how it is bought.

    `form_factor` says whether servers are bought full, `is_for_desks` that the cards are sold for workstations and
    computers at home.
    """

    rents: tuple[Price, ...]
    purchase: PurchasePrice | None
    form_factor: str | None
    is_for_desks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HoursOfUse:
    """The hours of a year in which there is load, and how long before them machines start. [s]"""

    level: Level
    start_up_s: float

    @property
    def paid_hours(self) -> float:
        """Return the hours of a year for which a machine rented by the hour is paid. [h]"""
        return hours_at_level(self.level.hours_per_year, self.level.starts_per_year, self.start_up_s)

    @property
    def in_use_fraction(self) -> float:
        """Return the share of a year in which there is load."""
        return self.level.hours_per_year / HOURS_PER_YEAR


def payment_options(
    fit: DeploymentFit,
    offers: Offers,
    money: CostAssumptions,
    *,
    growth_fraction: float,
    card: CardDraw | None,
    use: HoursOfUse | None = None,
) -> tuple[PaymentOption, ...]:
    """Return the cheapest way to pay for a fleet under every term, in whole machines that hold it, the cheapest first.

    Vendors' offers go before those of third-party hosts, dated prices before hearsay.

    Rent follows the fleet from year to year. A commitment holds the fleet at what its last year needs, and a bought
    fleet is the last year's from the first day, as in the procurement report.
    """
    fleets = fleets_by_year(fit, growth_fraction=growth_fraction, years=money.years)[1:]
    # The mean output tokens of a year; the load of each year is that of its start.
    grown = sum((1.0 + growth_fraction) ** year for year in range(money.years)) / money.years
    tokens_per_year = fit.output_tokens_per_s * _SECONDS_PER_YEAR * grown
    tokens = tokens_per_year * (use.in_use_fraction if use else 1.0)
    cheapest: dict[Term, tuple[bool, bool, float]] = {}
    by_term: dict[Term, PaymentOption] = {}
    for rent in offers.rents:
        follows = use is not None and rent.term not in COMMITMENT_YEARS
        hours = _hours(fit, fleets, rent, paid_hours=use.paid_hours if use and follows else HOURS_PER_YEAR)
        if hours is None:
            continue
        cost = cost_of_renting(gpu_hours_by_year=hours, price=rent, money=money)
        order = (rent.tier is PriceTier.HEARSAY, rent.is_marketplace, cost.per_year)
        if rent.term in cheapest and cheapest[rent.term] <= order:
            continue
        cheapest[rent.term] = order
        by_term[rent.term] = PaymentOption(
            term=rent.term,
            usd_per_gpu=rent.usd_per_hour,
            seller=rent.provider,
            day=rent.date.isoformat(),
            cost=cost,
            tokens_per_year=tokens,
            is_marketplace=rent.is_marketplace,
        )
    options = list(by_term.values())
    if offers.purchase is not None and card is not None:
        options.append(_bought(fit, fleets, offers, money, card=card, tokens=tokens, use=use))
    return tuple(sorted(options, key=lambda option: option.usd_per_year))


def _hours(
    fit: DeploymentFit, fleets: Sequence[FleetYear], rent: Price, *, paid_hours: float
) -> tuple[float, ...] | None:
    """Return the GPU-hours of each year, all GPUs of whole machines counted; None where the offer cannot hold them."""
    length, last = COMMITMENT_YEARS.get(rent.term, 1), len(fleets) - 1
    held = [fleets[min(last, year // length * length + length - 1)] for year in range(len(fleets))]
    found = [machines_for(rent.server, fit.sharding, fleet.replicas, timed=fit.server) for fleet in held]
    machines = [count for count in found if count is not None]
    if len(machines) < len(found):
        return None
    return tuple(count * rent.instance_gpus * paid_hours for count in machines)


def _bought(
    fit: DeploymentFit,
    fleets: Sequence[FleetYear],
    offers: Offers,
    money: CostAssumptions,
    *,
    card: CardDraw,
    tokens: float,
    use: HoursOfUse | None,
) -> PaymentOption:
    purchase = offers.purchase
    assert purchase is not None  # the caller checked that there is one
    slots, only_full = bought_slots(purchase, offers.form_factor, money)
    servers = ceil(fleets[-1].gpus / slots)
    gpus = servers * slots if only_full else fleets[-1].gpus
    is_workstation = offers.is_for_desks and servers == 1
    if is_workstation:
        money = replace(
            money, network_fraction=0.0, support_fraction=0.0, space_usd_per_kw_month=0.0, staff_usd_per_server_year=0.0
        )
    return PaymentOption(
        term=Term.BUY,
        usd_per_gpu=purchase.usd,
        seller=purchase.seller,
        day=purchase.date.isoformat(),
        cost=cost_of_owning(
            gpus=gpus,
            servers=servers,
            price=purchase,
            chassis_usd=server_of(offers.form_factor, money).chassis_usd,
            energy=energy_of(
                fit,
                card,
                money,
                form_factor=offers.form_factor,
                gpus=gpus,
                servers=servers,
                in_use_fraction=use.in_use_fraction if use else 1.0,
            ),
            money=money,
        ),
        tokens_per_year=tokens,
        is_workstation=is_workstation,
    )


def energy_of(
    fit: DeploymentFit,
    card: CardDraw,
    money: CostAssumptions,
    *,
    form_factor: str | None,
    gpus: int | None = None,
    servers: float | None = None,
    in_use_fraction: float = 1.0,
) -> Energy:
    count = gpus or fit.gpus
    full = max((point.rate_per_s for point in fit.curve), default=0.0) * count / fit.sharding.gpus
    load = min(1.0, fit.rate_per_s / full) if full else 1.0
    usage = Usage(in_use_fraction=in_use_fraction, load_fraction=load, stays_on=True)
    around = servers if servers is not None else count / server_slots(form_factor, money)[0]
    host_w = server_of(form_factor, money).host_w
    waiting = max(0, count - fit.gpus) / count
    mean = replace(card, used_w=(1.0 - waiting) * card.used_w + waiting * card.idle_w)
    return fleet_energy(gpus=count, servers=around, card=mean, host_w=host_w, usage=usage, money=money)


def joules_per_output_token(
    fit: DeploymentFit, card: CardDraw, money: CostAssumptions, *, form_factor: str | None
) -> float:
    """Return the energy of one output token from the grid, the prompts' share included. [J]"""
    energy = energy_of(fit, card, money, form_factor=form_factor)
    return energy.average_w * energy.pue / fit.output_tokens_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiComparison:
    """An API's price beside a fleet of one's own.

    `usd_per_hour` is what the API asks at the load, `fleet_usd_per_hour` what the fleet costs. `break_even_per_s` is
    the least load from which the fleet is cheaper; None where it never is.
    """

    usd_per_hour: float
    fleet_usd_per_hour: float
    break_even_per_s: float | None


def compare_with_api(fit: DeploymentFit, price: ApiPrice, *, cached_fraction: float = 0.0) -> ApiComparison | None:
    """Compare an API's price with the rent of a deployment; None if no rent is known.

    `cached_fraction` is the share of the prompts' tokens that an earlier request held, which the API sells for less.

    With R replicas the fleet costs the same up to R times the rate of one; the break-even load is the first at which
    the API asks as much as the replicas that the load needs, redundancy included.
    """
    hourly = fit.usd_per_hour
    if hourly is None:
        return None
    each = SECONDS_PER_HOUR * price.usd_per_request(
        input_len=fit.input_len, output_len=fit.output_len, cached_fraction=cached_fraction
    )
    return ApiComparison(
        usd_per_hour=each * fit.rate_per_s,
        fleet_usd_per_hour=hourly,
        break_even_per_s=_break_even(
            usd_per_replica=hourly / fit.replicas,
            usd_per_rate=each,
            most_per_s=_rate_per_replica(fit),
            redundancy=fit.replicas - fit.needed,
        ),
    )


def _break_even(*, usd_per_replica: float, usd_per_rate: float, most_per_s: float, redundancy: int) -> float | None:
    """Return the least rate whose API price pays for the replicas that it needs. [1/s]

    R + k replicas cost (R + k)·u, and the API asks that at the rate (R + k)·u ÷ price, which R replicas must carry:
    R·m ≥ (R + k)·u ÷ price, so that R ≥ k·u ÷ (m·price − u).
    """
    if usd_per_rate <= 0 or most_per_s * usd_per_rate <= usd_per_replica:
        return None
    least = redundancy * usd_per_replica / (most_per_s * usd_per_rate - usd_per_replica)
    replicas = max(1, ceil_guarded(least))
    return (replicas + redundancy) * usd_per_replica / usd_per_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMoney:
    """The money of the recommended deployment: fleets by year, ways to pay, energy, and an API beside it.

    `energy` is what its GPUs draw at the load by the law of power; None where their power limit is not known. `use` are
    the hours with load; None where there always is.
    """

    years: tuple[FleetYear, ...]
    payments: tuple[PaymentOption, ...]
    energy: ServingEnergy | None
    joules_per_output_token: float | None
    api: ApiComparison | None
    growth_fraction: float
    counted_years: int
    usd_per_kwh: float
    pue: float
    use: HoursOfUse | None = None

    @property
    def paid_hours(self) -> float:
        """Return the hours of a year for which machines rented by the hour are paid. [h]"""
        return self.use.paid_hours if self.use else HOURS_PER_YEAR


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFleet:
    """A plan, the money of its recommended deployment and the command that launches it; None where nothing fits.

    `launch_files` are the files of platforms that start all replicas, by name.
    `local` is the currency that its cost also stands in. `ways` are other ways to serve the load of a week, None where
    nobody asked.
    """

    plan: DeploymentPlan
    money: FleetMoney | None = None
    launch: Launch | None = None
    launch_files: Mapping[str, str] = field(default_factory=dict)
    replan: Replan | None = None
    local: LocalCurrency | None = None
    ways: ServingWays | None = None

    @property
    def local_cost(self) -> LocalAmount | None:
        """Return what the recommended deployment costs an hour in the local currency; None where none is asked for."""
        best = self.plan.recommended
        if self.local is None or best is None or best.rent is None or best.usd_per_hour is None:
            return None
        return self.local.amount(best.usd_per_hour, country=best.rent.country)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """The recommended deployment under a changed assumption; `fit` is None where it does not carry the load then.

    `group` names what is varied, `label` how. `best` is the fleet that is cheapest then, where another one is.
    """

    group: str
    label: str
    fit: DeploymentFit | None
    best: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingReport:
    """A report on serving one language model; `simulation` is None where nothing fits.

    `created` is the day, `command` what makes the report again, `load_file` where the load was read.
    """

    title: str
    fleet: PlannedFleet
    simulation: Simulation | None
    variations: tuple[Variation, ...]
    created: str
    command: str
    load_file: str
