"""Decide which options may be recommended, by how far their speed and their price can be trusted."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

from capplan.core.economics.concerns import AGE_CONCERNS, Concern, concerns_of_age
from capplan.core.economics.constraints import Constraints
from capplan.core.economics.options import ProcurementOption
from capplan.core.gpus.prices import Price, PriceTier, PurchasePrice, Term
from capplan.core.numbers import NORMAL_90
from capplan.core.serving.response import SpeedTier


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceDrift:
    """The spread of a price's logarithm after a year, of rents and of purchases; it grows with the square root of age.

    Learnt from offers whose price is known of two days, from the tail of |ln(later ÷ earlier)| ÷ √years over 1.645,
    because most prices stand still and few jump.
    """

    rent_sigma: float
    purchase_sigma: float

    def sigma(self, price: Price | PurchasePrice, today: date) -> float:
        """Return the spread of a price's logarithm at its age."""
        years = max(0, (today - price.date).days) / 365.25
        yearly = self.rent_sigma if isinstance(price, Price) else self.purchase_sigma
        return yearly * math.sqrt(years)

    def high_factor(self, price: Price | PurchasePrice, today: date) -> float:
        """Return the factor that a price at its age exceeds in one case of twenty."""
        return math.exp(NORMAL_90 * self.sigma(price, today))


NO_DRIFT = PriceDrift(rent_sigma=0.0, purchase_sigma=0.0)
"""Prices that do not move."""


LITTLE_USD_PER_YEAR = 500.0
"""What a plainer fleet may cost more than the cheapest: a few hours of whoever has to care for it. [USD/year]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a fleet takes of a budget and of a site: capex and the highest later year [USD], power [W], rack units.

    `power_w` is the nameplate, which a cap holds for; `predicted_w` is what the busiest hour draws, None if unknown.
    """

    capex_usd: float
    highest_year_usd: float
    is_bought: bool
    power_w: float | None
    rack_units: float | None
    predicted_w: float | None = None


def caps_exceeded(caps: Constraints, taken: Taken) -> tuple[str, ...]:
    """Return the caps that a fleet exceeds, each as a phrase with both figures; empty where it keeps all.

    Power and rack units are capped for bought servers only: rented ones stand elsewhere.
    """
    found = [
        _over("capex", taken.capex_usd, caps.max_capex_usd, "USD"),
        _over("cost in a year", taken.highest_year_usd, caps.max_usd_per_year, "USD"),
    ]
    if taken.is_bought:
        power = _over("power", _kilo(taken.power_w), _kilo(caps.max_power_w), "kW")
        if power and taken.predicted_w is not None:
            power += f" (nameplate; {taken.predicted_w / 1000:.3g} kW predicted at the busiest hour)"
        found.append(power)
        found.append(_over("rack units", taken.rack_units, caps.max_rack_units, "U"))
    return tuple(phrase for phrase in found if phrase)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standards:
    """What an option must meet to be recommended.

    Attributes:
        certain_fits: GPUs whose memory suffices for the whole interval of the estimate.
        today: The day from which the age of prices is counted.
        constraints: What the buyer admits, and the age above which prices count as old.
        drift: How far prices move with their age.
        uncertain: GPUs of which no number carries the share of the scenarios that is asked.
        outdone: Keys of options that a plainer one outdoes at little cost.
        little_usd_per_year: What a plainer fleet may always cost more. [USD/year]
    """

    certain_fits: frozenset[str]
    today: date
    constraints: Constraints = field(default_factory=Constraints)
    drift: PriceDrift = NO_DRIFT
    uncertain: frozenset[str] = frozenset()
    outdone: frozenset[str] = frozenset()
    little_usd_per_year: float = LITTLE_USD_PER_YEAR

    def admits(self, option: ProcurementOption) -> bool:
        """Return True if an option keeps every cap."""
        return not self.violations(option)

    def fits_certainly(self, option: ProcurementOption) -> bool:
        """Return True if the GPU's memory certainly suffices."""
        return option.gpu in self.certain_fits

    def concerns(self, option: ProcurementOption) -> tuple[Concern, ...]:
        """Return what speaks against recommending an option; empty for full evidence."""
        found = []
        candidate = option.sizing.capacity.candidate
        if candidate.speed is SpeedTier.SPEC_SHEET:
            found.append(Concern.SPEED_FROM_SPEC_SHEET)
        if candidate.is_untried:
            found.append(Concern.UNTRIED)
        if candidate.licence is not None:
            found.append(Concern.DRIVER_LICENCE)
        if candidate.porting is not None and not (candidate.path_was_timed or self.constraints.any_vendor):
            found.append(Concern.OTHER_VENDOR)
        price = option.rent or option.purchase
        found += self.concerns_of_price(price) if price is not None else ()
        if candidate.is_end_of_sale:
            found.append(Concern.END_OF_SALE)
        if option.gpu in self.uncertain:
            found.append(Concern.FEW_SCENARIOS)
        if option.key in self.outdone:
            found.append(Concern.PLAINER_NEARBY)
        return tuple(found)

    def weaknesses(self, option: ProcurementOption) -> tuple[Concern, ...]:
        """Return what ranks an option behind all without such a concern; an old price only makes it dearer."""
        return tuple(concern for concern in self.concerns(option) if concern not in AGE_CONCERNS)

    def aged_factor(self, option: ProcurementOption) -> float:
        """Return the factor by which an option's price may have risen since its validity ended; 1 without a price."""
        price = option.rent or option.purchase
        return 1.0 if price is None else self.high_price_factor(price)

    def high_price_factor(self, price: Price | PurchasePrice) -> float:
        """Return the factor by which an old price may have risen: the high end of its interval of 90 %.

        A current price counts as it is. One whose validity has ended is ranked by what it may have risen to since then,
        so that its rank falls from day to day, and the oldest of old prices does not win by its age.
        """
        if not price.evidence.is_old(self.today, max_age_days=self.constraints.max_price_age_days):
            return 1.0
        known = price.evidence
        last = known.valid_until or known.day + timedelta(days=self.constraints.max_price_age_days)
        if known.age_days(self.today) is None:
            last = price.date
        return self.drift.high_factor(price, self.today) / self.drift.high_factor(price, last)

    def concerns_of_price(self, price: Price | PurchasePrice) -> tuple[Concern, ...]:
        """Return what speaks against relying on a price: its tier, its age, a marketplace that is not admitted."""
        found = []
        if price.tier is PriceTier.HEARSAY:
            found.append(Concern.HEARSAY_PRICE)
        found += concerns_of_age(price.evidence, on=self.today, max_age_days=self.constraints.max_price_age_days)
        if isinstance(price, Price) and price.is_marketplace and not self.constraints.marketplaces:
            found.append(Concern.MARKETPLACE)
        return tuple(found)

    def violations(self, option: ProcurementOption) -> tuple[str, ...]:
        """Return the caps that an option exceeds, each as a phrase with both figures; empty where it keeps all."""
        if option.cost is None:
            return ()
        taken = Taken(
            capex_usd=option.cost.yearly[0],
            highest_year_usd=option.cost.highest_year_usd,
            is_bought=option.term is Term.BUY,
            power_w=option.energy.nameplate_w if option.energy else None,
            rack_units=option.rack_units,
            predicted_w=option.energy.peak_w if option.energy else None,
        )
        return caps_exceeded(self.constraints, taken)

    def of_full_evidence(self, options: Sequence[ProcurementOption]) -> list[ProcurementOption]:
        """Return the options against which nothing speaks but the age of their price, in their order."""
        return [option for option in options if not self.weaknesses(option)]


def _kilo(power_w: float | None) -> float | None:
    return None if power_w is None else power_w / 1000


def _over(what: str, value: float | None, cap: float | None, unit: str) -> str | None:
    if cap is None:
        return None
    if value is None:
        return f"{what} unknown, cap {cap:,.6g} {unit}"
    return f"{what} {value:,.6g} {unit} over the cap of {cap:,.6g} {unit}" if value > cap * (1 + 1e-9) else None
