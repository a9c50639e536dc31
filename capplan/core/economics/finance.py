"""Compute costs over time: annuities, present values, break-even.

Amounts are before tax, real or nominal as the rates given, due at year ends.
Source of the formulas: Brealey, Myers, Allen, Principles of Corporate Finance (ch. 2, 6: equivalent annual cost).
"""

from collections.abc import Sequence

HOURS_PER_YEAR = 8760
SECONDS_PER_HOUR = 3600


def annuity_factor(*, rate_fraction: float, years: float) -> float:
    """Return the present value of 1 a year for n years: (1 - (1 + r)^-n) / r, and n if r is 0."""
    if rate_fraction == 0:
        return float(years)
    return (1 - discount_factor(rate_fraction=rate_fraction, years=years)) / rate_fraction


def discount_factor(*, rate_fraction: float, years: float) -> float:
    """Return the present value of 1 in n years: (1 + r)^-n."""
    return float((1 + rate_fraction) ** -years)


def present_value(yearly: Sequence[float], *, rate_fraction: float) -> float:
    """Return the present value of amounts due at the ends of years 1, 2, ..."""
    return sum(
        amount * discount_factor(rate_fraction=rate_fraction, years=year) for year, amount in enumerate(yearly, start=1)
    )


def equivalent_annual(present: float, *, rate_fraction: float, years: float) -> float:
    """Return the level yearly amount that is worth a present value: NPV / annuity factor."""
    return present / annuity_factor(rate_fraction=rate_fraction, years=years)


def break_even_hours(*, owned_per_year: float, rent_per_hour: float, energy_per_used_hour: float = 0.0) -> float | None:
    """Return the used hours a year above which owning beats renting by the hour; None if it never does. [h]

    `owned_per_year` excludes energy that is only drawn in use, which `energy_per_used_hour` holds. A result above 8760
    cannot be reached by one year's use.
    """
    saved = rent_per_hour - energy_per_used_hour
    return owned_per_year / saved if saved > 0 else None


def cost_per_million(*, cost_per_hour: float, samples_per_s: float) -> float:
    """Return the cost of a million samples at the rate that is served."""
    return cost_per_hour / (samples_per_s * SECONDS_PER_HOUR) * 1e6


def best_reserve(*, demand: Sequence[int], on_demand_per_hour: float, reserved_per_hour: float) -> int:
    """Return how many units to reserve for an hourly demand, the rest on demand, at the least cost."""

    def cost(reserved: int) -> float:
        spilled = sum(max(0, need - reserved) for need in demand)
        return reserved * reserved_per_hour * len(demand) + spilled * on_demand_per_hour

    return min(range(max(demand) + 1), key=cost)
