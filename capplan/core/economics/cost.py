"""Compute what an option costs: prices with their date, buying and renting over the years, power and carbon.

All amounts are US dollars before tax. Formulas are those of `core.formulas`; the worked example of a bought
8-GPU node against renting one is in the tests.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace

from capplan.core import formulas
from capplan.core.economics.constraints import CostAssumptions
from capplan.core.formulas import present_usd
from capplan.core.gpus.prices import Price, PurchasePrice


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """What a fleet draws: its nameplate and predicted peak for provisioning, its average for the bill. [W, kWh, kg]

    `card_used_w` is the predicted mean of one card while in use. `peak_w` is the draw with every card as at the busiest
    hour and every host at full load; None where the draw at peak was not asked for.
    """

    nameplate_w: float
    average_w: float
    card_used_w: float
    peak_w: float | None = None
    pue: float
    grid_g_per_kwh: float
    embodied_kg: float

    @property
    def kwh_per_year(self) -> float:
        """Return the energy from the grid in a year: average power × PUE × 8760 h. [kWh]"""
        return formulas.kwh_per_year(self.average_w, self.pue)

    @property
    def use_kg_per_year(self) -> float:
        """Carbon of that energy. [kg CO2e]"""
        return self.kwh_per_year * self.grid_g_per_kwh / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """How a fleet is used over a year.

    Attributes:
        in_use_fraction: Share of the year in which the fleet is in use; 1 for a service that runs all day.
        load_fraction: Mean load while in use, as a share of what the fleet can do.
        stays_on: True if the fleet idles when it is not in use, as a bought one does; False if it is given back.
    """

    in_use_fraction: float
    load_fraction: float
    stays_on: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CardDraw:
    """What one GPU of a fleet draws without its host: at its limit, in use, idle, and at the busiest hour. [W]"""

    limit_w: float
    used_w: float
    idle_w: float
    peak_w: float | None = None


def fleet_energy(
    *, gpus: float, servers: float, card: CardDraw, host_w: float, usage: Usage, money: CostAssumptions
) -> Energy:
    """Compute the power of a fleet from the draw of its cards, the servers around them and the load.

    Out of use, a fleet that stays on idles, one that was given back draws nothing.
    """

    def drawn(watts: float) -> float:
        return formulas.card_w(watts, money.card_power_factor, card.limit_w)

    def host(load: float) -> float:
        return formulas.host_w(host_w, money.idle_power_fraction, money.power_fraction, load)

    return Energy(
        nameplate_w=formulas.drawn_w(gpus, card.limit_w, servers, host_w),
        average_w=formulas.average_w(
            usage.in_use_fraction,
            formulas.drawn_w(gpus, drawn(card.used_w), servers, host(usage.load_fraction)),
            formulas.drawn_w(gpus, drawn(card.idle_w), servers, host(0.0)),
            float(usage.stays_on),
        ),
        card_used_w=card.used_w,
        peak_w=None if card.peak_w is None else formulas.drawn_w(gpus, drawn(card.peak_w), servers, host(1.0)),
        pue=money.pue,
        grid_g_per_kwh=money.grid_g_per_kwh,
        embodied_kg=gpus * money.embodied_kg_per_gpu + servers * money.embodied_kg_per_server,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CostBreakdown:
    """Where an option's total cost goes, over all years counted and undiscounted; the parts add up to it. [USD]

    `residual_usd` is what a bought fleet is worth in the end, below 0. Rent includes servers, energy, space and repair.
    """

    gpus_usd: float = 0.0
    chassis_usd: float = 0.0
    network_usd: float = 0.0
    energy_usd: float = 0.0
    space_usd: float = 0.0
    support_usd: float = 0.0
    staff_usd: float = 0.0
    licences_usd: float = 0.0
    rent_usd: float = 0.0
    residual_usd: float = 0.0

    @property
    def total_usd(self) -> float:
        """Return the sum of the parts. [USD]"""
        return float(sum(getattr(self, field.name) for field in fields(self)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteCost:
    """What servers on an own site cost a year beside their hardware; support is known of bought ones alone. [USD]"""

    energy_usd: float = 0.0
    space_usd: float = 0.0
    support_usd: float = 0.0
    staff_usd: float = 0.0
    licences_usd: float = 0.0

    @property
    def total_usd(self) -> float:
        """Return what is paid at the end of every year. [USD]"""
        return formulas.running_usd(**asdict(self))

    def over(self, years: int, **others: float) -> CostBreakdown:
        """Return what some years cost, undiscounted, beside other parts."""
        return CostBreakdown(**{part: years * usd for part, usd in asdict(self).items()}, **others)

    def __add__(self, other: "SiteCost") -> "SiteCost":
        return SiteCost(**{part: usd + getattr(other, part) for part, usd in asdict(self).items()})


NOTHING_KEPT = SiteCost()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedCost:
    """Buying a fleet and running it for some years. [USD; per year where the name says so]"""

    gpus_usd: float
    chassis_usd: float
    network: float
    site: SiteCost
    residual: float
    years: int
    discount_fraction: float

    @property
    def hardware(self) -> float:
        """Price of the GPUs and of the servers around them."""
        return self.gpus_usd + self.chassis_usd

    @property
    def initial(self) -> float:
        """Return what is paid on the first day."""
        return self.hardware + self.network

    @property
    def running_per_year(self) -> float:
        """Return what is paid at the end of every year."""
        return self.site.total_usd

    @property
    def yearly(self) -> tuple[float, ...]:
        """Outlays by year; year 0 first, the residual value taken off the last."""
        running = [self.running_per_year] * self.years
        running[-1] -= self.residual
        return (self.initial, *running)

    @property
    def highest_year_usd(self) -> float:
        """Return the most that is paid in a year after the first day, residual value aside. [USD]"""
        return self.running_per_year

    @property
    def breakdown(self) -> "CostBreakdown":
        """Return where the total cost goes, over all years and undiscounted."""
        return self.site.over(
            self.years, gpus_usd=self.gpus_usd, chassis_usd=self.chassis_usd, network_usd=self.network,
            residual_usd=-self.residual,
        )  # fmt: skip

    @property
    def total(self) -> float:
        """Total cost of ownership: all outlays less the residual value, undiscounted."""
        return formulas.total_bought_usd(self.initial, self.running_per_year, self.residual, self.years)

    @property
    def present(self) -> float:
        """Net present cost: C0 + Σ opex/(1+r)^t - R/(1+r)^n."""
        return formulas.present_bought_usd(
            self.initial, self.running_per_year, self.residual, self.discount_fraction, self.years
        )

    @property
    def per_year(self) -> float:
        """Equivalent annual cost."""
        return formulas.equivalent_annual(self.present, self.discount_fraction, self.years)


def cost_of_owning(
    *, gpus: int, servers: int, price: PurchasePrice, chassis_usd: float, energy: Energy, money: CostAssumptions
) -> OwnedCost:
    gpus_usd = gpus * price.usd
    chassis = 0.0 if price.includes_server else servers * chassis_usd
    hardware = formulas.hardware_usd(gpus, price.usd, servers, 0.0 if price.includes_server else chassis_usd)
    return OwnedCost(
        gpus_usd=gpus_usd,
        chassis_usd=chassis,
        network=formulas.share_usd(hardware, money.network_fraction),
        site=replace(
            cost_of_keeping(gpus=gpus, servers=servers, energy=energy, money=money),
            support_usd=formulas.share_usd(hardware, money.support_fraction),
        ),
        residual=formulas.share_usd(hardware, money.residual_fraction),
        years=money.years,
        discount_fraction=money.discount_fraction,
    )


def cost_of_keeping(*, gpus: int, servers: float, energy: Energy, money: CostAssumptions) -> SiteCost:
    """Compute what GPUs that are owned already cost a year."""
    return SiteCost(
        energy_usd=formulas.each_usd(energy.kwh_per_year, money.usd_per_kwh),
        space_usd=formulas.space_usd(energy.nameplate_w, money.space_usd_per_kw_month),
        staff_usd=formulas.each_usd(servers, money.staff_usd_per_server_year),
        licences_usd=formulas.each_usd(gpus, money.licence_usd_per_gpu_year),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RentedCost:
    """Renting a fleet, year by year; energy, servers and staff on site are in the price. [USD]

    `kept` is what servers cost that are owned already and that the fleet uses besides.
    """

    yearly_rent: tuple[float, ...]
    discount_fraction: float
    kept: SiteCost = NOTHING_KEPT

    @property
    def yearly(self) -> tuple[float, ...]:
        """Outlays by year; nothing on the first day."""
        return (0.0, *(rent + self.kept.total_usd for rent in self.yearly_rent))

    @property
    def highest_year_usd(self) -> float:
        """Return the most that is paid in a year. [USD]"""
        return max(self.yearly)

    @property
    def breakdown(self) -> CostBreakdown:
        """Return where the total goes: rent, and what is kept. [USD]"""
        return self.kept.over(len(self.yearly_rent), rent_usd=sum(self.yearly_rent))

    @property
    def total(self) -> float:
        """Return all that is paid, undiscounted."""
        return sum(self.yearly)

    @property
    def present(self) -> float:
        """Net present cost of what is paid at year ends."""
        return present_value(self.yearly[1:], rate_fraction=self.discount_fraction)

    @property
    def per_year(self) -> float:
        """Equivalent annual cost; the rent itself where the fleet does not grow."""
        return formulas.equivalent_annual(self.present, self.discount_fraction, len(self.yearly_rent))


def cost_of_renting(*, gpu_hours_by_year: Sequence[float], price: Price, money: CostAssumptions) -> RentedCost:
    return RentedCost(
        yearly_rent=tuple(formulas.each_usd(hours, price.usd_per_hour) for hours in gpu_hours_by_year),
        discount_fraction=money.discount_fraction,
    )


def break_even(owned: OwnedCost, *, gpus: int, rent: Price) -> float:
    """Return the hours of use a year above which the bought fleet is cheaper than renting by the hour. [h]

    A result above 8760 cannot be reached by one year's use.
    """
    return owned.per_year / (gpus * rent.usd_per_hour)


def payback_years(bought: OwnedCost, rented: RentedCost) -> float | None:
    """Return after how many years all that was paid for a bought fleet is less than the rent paid by then. [years]

    Outlays are summed without discount and without the residual value; within a year they run evenly. None where the
    purchase does not pay off within the years counted.
    """
    ahead = -bought.initial
    for year, rent in enumerate(rented.yearly_rent):
        saved = rent - bought.running_per_year
        if saved > 0 and ahead + saved >= 0:
            return year - ahead / saved
        ahead += saved
    return None


def straight_line(initial: float, residual: float, years: int) -> float:
    """Return what a purchase loses of its value in each year, by equal amounts. [USD]"""
    return (initial - residual) / years


def internal_return(bought: OwnedCost, rented: RentedCost) -> float | None:
    """Return the yearly rate at which the rent that a purchase saves, and its residual value, are worth its price.

    None where they add up to less than was paid, or pay it back more than tenfold within a year.
    """
    saved = [rent - paid for rent, paid in zip(rented.yearly, bought.yearly, strict=True)]
    low, high = 0.0, 10.0

    def worth(rate: float) -> float:
        return saved[0] + present_value(saved[1:], rate_fraction=rate)

    if worth(low) <= 0 or worth(high) > 0:
        return None
    for _ in range(40):  # halvings: to a billionth of a per cent
        middle = (low + high) / 2
        low, high = (middle, high) if worth(middle) > 0 else (low, middle)
    return low


def present_value(yearly: Sequence[float], *, rate_fraction: float) -> float:
    """Return the present value of amounts due at the ends of years 1, 2, ..."""
    return sum(present_usd(amount, rate_fraction, year) for year, amount in enumerate(yearly, start=1))


def best_reserve(*, demand: Sequence[int], on_demand_per_hour: float, reserved_per_hour: float) -> int:
    """Return how many units to reserve for an hourly demand, the rest on demand, at the least cost."""

    def cost(reserved: int) -> float:
        spilled = sum(max(0, need - reserved) for need in demand)
        return reserved * reserved_per_hour * len(demand) + spilled * on_demand_per_hour

    return min(range(max(demand) + 1), key=cost)
