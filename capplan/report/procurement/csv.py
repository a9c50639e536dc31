"""The report as CSV: one tidy row per option, figures as they are in the report object."""

import csv
import io
from typing import Any

from capplan.report.procurement.types import FleetRow, Report
from capplan.report.render import defused
from capplan.shapes.codec import to_plain
from capplan.shapes.types import FleetOptionRow, OptionRow

_LISTS_OF_WORDS = frozenset({"concerns", "violations"})
_CURVES = frozenset({"card_rates_per_s", "card_watts"})
"""Points of a curve, which the JSON holds."""


def render_report_csv(report: Report) -> str:
    """Write every option of every model as a row, after the fleets for all services; intervals take three columns.

    `fleet` marks a row that carries all the services that `service` lists. One row of a decision is `recommended`;
    where a fleet is decided, the best option of each service alone is `best_alone`. Text that a spreadsheet would run
    as a formula is defused; numbers never are.
    """
    import pandas as pd  # noqa: PLC0415

    fleet = report.fleet
    rows = [_fleet_row(fleet, option) for option in fleet.options] if fleet else []
    rows += [
        {
            "fleet": False, "service": model.service or "", "model": model.made.model,
            "recommended": option.key == model.verdict.choice and fleet is None,
            "best_alone": option.key == model.verdict.choice and fleet is not None, **_flat(option),
        }
        for model in report.models
        for option in model.options
    ]  # fmt: skip
    safe = [{name: defused(value) if isinstance(value, str) else value for name, value in row.items()} for row in rows]
    frame = pd.DataFrame(safe)
    stream = io.StringIO()
    frame.to_csv(stream, index=False, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    return stream.getvalue()


def _fleet_row(fleet: FleetRow, option: FleetOptionRow) -> dict[str, Any]:
    """Return a fleet's figures by the names that an option's have; who shares a GPU with whom is left out."""
    flat = _flat(option)
    flat |= {"gpus_needed": option.needed, "gpus": option.gpus_by_year[0]}
    left_out = ("needed", "whole", "shared", *(f"whole_{service}" for service in option.whole))
    return {
        "fleet": True, "service": ", ".join(fleet.services), "model": "", "recommended": option.key == fleet.choice,
        "best_alone": False,
        **{name: value for name, value in flat.items() if name not in left_out and not name.startswith("shared_")},
    }  # fmt: skip


def _flat(option: OptionRow | FleetOptionRow) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in to_plain(option).items():
        if name in _CURVES:
            continue
        if name in _LISTS_OF_WORDS:
            flat[name] = "; ".join(value)
        elif isinstance(value, list | tuple):
            flat |= {f"{name}_{place}": part_value for place, part_value in enumerate(value, start=_first(name))}
        elif isinstance(value, dict):
            stem, _, unit = name.rpartition("_")
            if "expected" in value:
                flat |= {f"{stem}_{end}_{unit}": value[end] for end in ("low", "expected", "high")}
            else:
                flat |= {f"{stem}_{part}": part_value for part, part_value in value.items()}
        else:
            flat[name] = value
    return flat


def _first(name: str) -> int:
    """Return the first year that a figure counts from: 0 for outlays, 1 for everything else."""
    return 0 if name == "yearly_usd" else 1
