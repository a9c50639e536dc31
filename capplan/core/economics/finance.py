"""Compute costs that take more than one expression: series of payments, break-even, reservations."""

from collections.abc import Sequence

from capplan.core.formulas import present_usd


def present_value(yearly: Sequence[float], *, rate_fraction: float) -> float:
    """Return the present value of amounts due at the ends of years 1, 2, ..."""
    return sum(present_usd(amount, rate_fraction, year) for year, amount in enumerate(yearly, start=1))


def break_even_hours(*, owned_per_year: float, rent_per_hour: float, energy_per_used_hour: float = 0.0) -> float | None:
    """Return the used hours a year above which owning beats renting by the hour; None if it never does. [h]

    `owned_per_year` excludes energy that is only drawn in use, which `energy_per_used_hour` holds. A result above 8760
    cannot be reached by one year's use.
    """
    saved = rent_per_hour - energy_per_used_hour
    return owned_per_year / saved if saved > 0 else None


def best_reserve(*, demand: Sequence[int], on_demand_per_hour: float, reserved_per_hour: float) -> int:
    """Return how many units to reserve for an hourly demand, the rest on demand, at the least cost."""

    def cost(reserved: int) -> float:
        spilled = sum(max(0, need - reserved) for need in demand)
        return reserved * reserved_per_hour * len(demand) + spilled * on_demand_per_hour

    return min(range(max(demand) + 1), key=cost)
