"""Compute what a fleet costs over the years: rent, commitments and purchase, energy per token, and an API beside it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from capplan.core.economics.constraints import CostAssumptions
from capplan.core.economics.cost import CardDraw, OwnedCost, RentedCost, Usage, fleet_energy
from capplan.core.economics.decide import Answer
from capplan.core.economics.options import Case, ProcurementOption, evaluate, server_of, server_slots
from capplan.core.formulas import HOURS_PER_YEAR, SECONDS_PER_HOUR, hours_at_level
from capplan.core.gpus.by_use import ApiPrice
from capplan.core.gpus.machines import LocalAmount, LocalCurrency
from capplan.core.gpus.prices import Price, PriceTier, PurchasePrice, Term
from capplan.core.numbers import ceil_guarded
from capplan.core.scaling.answer import ServingWays
from capplan.core.serving.load import Level
from capplan.llm.core.fleet.deployment_plan import DeploymentFit, DeploymentPlan
from capplan.llm.core.fleet.launch import Launch
from capplan.llm.core.fleet.replan import Replan
from capplan.llm.core.serving.energy import ServingEnergy
from capplan.llm.core.simulation.load_answer import Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetYear:
    """The fleet that the load of a year's end needs. `year` counts from 1; year 0 is today."""

    year: int
    rate_per_s: float
    needed: int
    replicas: int
    gpus: int


def fleets_by_year(fit: DeploymentFit, *, growth_fraction: float, years: int) -> tuple[FleetYear, ...]:
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


class PaymentOption(NamedTuple):
    """One way to pay for the fleet over the years, and the output tokens of a request. [tokens]"""

    option: ProcurementOption
    output_len: float

    @property
    def cost(self) -> OwnedCost | RentedCost:
        assert self.option.cost is not None, "a way to pay has a price"
        return self.option.cost

    @property
    def term(self) -> Term:
        return self.option.term or Term.BUY

    @property
    def _price(self) -> Price | PurchasePrice:
        offered = self.option.rent or self.option.purchase
        assert offered is not None, "a way to pay has an offer"
        return offered

    @property
    def usd_per_gpu(self) -> float:
        """Return the price of one GPU, of an hour for rents. [USD]"""
        return self._price.usd_per_hour if isinstance(self._price, Price) else self._price.usd

    @property
    def seller(self) -> str:
        return self._price.provider if isinstance(self._price, Price) else self._price.seller

    @property
    def day(self) -> str:
        return self._price.date.isoformat()

    @property
    def is_workstation(self) -> bool:
        """Return True if one computer under a desk is bought, without the staff and space of a data centre."""
        desks = self.option.sizing.capacity.candidate.is_for_desks
        return self.option.purchase is not None and desks and self.option.fleet.servers == 1

    @property
    def usd_per_year(self) -> float:
        return self.cost.per_year

    @property
    def usd_per_million_output_tokens(self) -> float:
        """Return the cost of a million output tokens in the mean over the years. [USD]"""
        return (self.option.cost_per_million or 0.0) / self.output_len


def payment_options(case: Case, *, output_len: float) -> tuple[PaymentOption, ...]:
    """Return the cheapest way to pay for a fleet under every term, the cheapest first.

    Vendors' offers go before those of third-party hosts, dated prices before hearsay.
    """

    def order(option: ProcurementOption) -> tuple[bool, bool, float]:
        rent = option.rent
        weak = (rent.tier is PriceTier.HEARSAY, rent.is_marketplace) if rent else (False, False)
        return *weak, option.cost_per_year or 0.0

    priced = sorted((option for option in evaluate(case) if option.cost), key=order)
    best = {option.term: option for option in reversed(priced)}
    paid = (PaymentOption(option, output_len) for option in best.values())
    return tuple(sorted(paid, key=lambda each: each.cost.per_year))


def joules_per_output_token(
    fit: DeploymentFit, card: CardDraw, money: CostAssumptions, *, form_factor: str | None
) -> float:
    """Return the energy of one output token from the grid, the prompts' share included. [J]"""
    full = max((point.rate_per_s for point in fit.curve), default=0.0) * fit.replicas
    usage = Usage(in_use_fraction=1.0, load_fraction=min(1.0, fit.rate_per_s / full) if full else 1.0, stays_on=True)
    servers, host_w = fit.gpus / server_slots(form_factor, money)[0], server_of(form_factor, money).host_w
    energy = fleet_energy(gpus=fit.gpus, servers=servers, card=card, host_w=host_w, usage=usage, money=money)
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
    the hours with load, before which machines start; None where there always is.
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
    use: Level | None = None
    start_up_s: float = 0.0

    @property
    def paid_hours(self) -> float:
        """Return the hours of a year for which machines rented by the hour are paid. [h]"""
        if self.use is None:
            return HOURS_PER_YEAR
        return hours_at_level(self.use.hours_per_year, self.use.starts_per_year, self.start_up_s)


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

    `created` is the day, `command` what makes the report again, `load_file` where the load was read. `decided` is the
    decision over all terms and GPUs, whose choice is the recommended deployment.
    """

    title: str
    fleet: PlannedFleet
    simulation: Simulation | None
    variations: tuple[Variation, ...]
    created: str
    command: str
    load_file: str
    decided: Answer
