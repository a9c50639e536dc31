"""Columns of power and of the energy of an output token, which several answers about serving have."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from capplan.llm.core.serving.energy import ServingEnergy
from capplan.report.sections import Column, data

Row = TypeVar("Row")


def energy_data(energy: Callable[[Row], ServingEnergy | None], rows: Sequence[Row]) -> list[Column[Row]]:
    """Return the columns for programs of power [W] and of the energy of an output token [J], each with both ends.

    There are none where no row has any.

    Args:
        energy: What a row has of it, None where it has none.
        rows: The rows.
    """
    if not any(energy(row) for row in rows):
        return []

    def column(name: str, value: Callable[[ServingEnergy], float | str]) -> Column[Row]:
        return data(name, lambda row: value(found) if (found := energy(row)) else None)

    return [
        column("power_w_low", lambda found: found.power_w.low),
        column("power_w_expected", lambda found: found.power_w.expected),
        column("power_w_high", lambda found: found.power_w.high),
        column("joules_per_output_token_low", lambda found: found.joules_per_output_token.low),
        column("joules_per_output_token_expected", lambda found: found.joules_per_output_token.expected),
        column("joules_per_output_token_high", lambda found: found.joules_per_output_token.high),
        column("power_evidence", lambda found: found.evidence),
    ]
