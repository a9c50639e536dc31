"""Work out the money of a recommended deployment: ways to pay, growth, energy, and an API's price beside it."""

from dataclasses import dataclass, replace

from capplan.core.economics.cost import CardDraw
from capplan.core.gpus.prices import LASTING_TERMS, PriceTier, current_offers
from capplan.core.gpus.spec import GpuSpec
from capplan.core.power import PowerLaw
from capplan.core.serving.load import levels_of
from capplan.errors import UsageError
from capplan.llm.core.fleet.deployment_plan import DeploymentFit
from capplan.llm.core.fleet.money import (
    ApiPrice,
    FleetMoney,
    HoursOfUse,
    Offers,
    compare_with_api,
    fleets_by_year,
    joules_per_output_token,
    payment_options,
)
from capplan.llm.core.serving.energy import ServingEnergy
from capplan.specs.load import demand_without_load, load_defaults
from capplan.specs.prices import Prices

MOST_YEARS = 10
"""Years that rent and purchase are compared over at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyQuestion:
    """How the money of a plan is counted: growth of the load per year, years, and an API to compare with.

    `week` holds 1 for each hour of a week in which there is load, else 0; empty where there always is.
    """

    growth_fraction: float = 0.0
    years: int = 3
    api: ApiPrice | None = None
    week: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not -0.9 <= self.growth_fraction <= 10:
            raise UsageError(f"--growth {self.growth_fraction:.0%}: write growth per year from -90% to 1000%.")
        if not 1 <= self.years <= MOST_YEARS:
            raise UsageError(f"--years {self.years}: count 1 to {MOST_YEARS} years.")


def fleet_money(
    fit: DeploymentFit,
    gpu: GpuSpec,
    prices: Prices,
    question: MoneyQuestion,
    *,
    energy: ServingEnergy | None,
    law: PowerLaw,
) -> FleetMoney:
    """Return what a deployment costs by every term, over the years.

    Args:
        fit: The deployment.
        gpu: Its GPU.
        prices: All known prices.
        question: How money is counted.
        energy: What its GPUs draw at the load; None where their power limit is not known.
        law: The law of power, which says what they draw while they wait.
    """
    money = replace(demand_without_load().money, years=question.years)
    offers = offers_of(gpu, prices)
    growth = question.growth_fraction
    card = None
    if energy is not None and gpu.tdp_w is not None:
        idle_w = law.of(gpu).base_fraction * gpu.tdp_w
        card = CardDraw(limit_w=gpu.tdp_w, used_w=energy.power_w.expected / fit.gpus, idle_w=idle_w)
    use = None
    if 0.0 in question.week:
        (level,) = levels_of(question.week, 1.0)
        use = HoursOfUse(level=level, start_up_s=load_defaults("service")["start_up"].value)
    return FleetMoney(
        years=fleets_by_year(fit, growth_fraction=growth, years=question.years),
        payments=payment_options(fit, offers, money, growth_fraction=growth, card=card, use=use),
        use=use,
        energy=energy,
        joules_per_output_token=(
            None if card is None else joules_per_output_token(fit, card, money, form_factor=gpu.form_factor)
        ),
        api=compare_with_api(fit, question.api) if question.api else None,
        growth_fraction=growth,
        counted_years=question.years,
        usd_per_kwh=money.usd_per_kwh,
        pue=money.pue,
    )


def offers_of(gpu: GpuSpec, prices: Prices) -> Offers:
    """Return the current offers of a GPU under lasting terms, and its cheapest purchase price, dated before hearsay.

    Args:
        gpu: The GPU.
        prices: All known prices.
    """
    current = current_offers(prices.hourly)
    rents = tuple(price for price in current if price.gpu == gpu.id and price.term in LASTING_TERMS)
    purchases = [price for price in prices.purchase if price.gpu == gpu.id]
    purchase = min(purchases, key=lambda price: (price.tier is PriceTier.HEARSAY, price.usd), default=None)
    return Offers(rents=rents, purchase=purchase, form_factor=gpu.form_factor)
