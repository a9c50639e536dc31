"""The report as CSV: one tidy row per option, figures as they are in the report object."""

import csv
import io
from typing import Any

from capplan.report.documents.codec import flat_fields, to_plain
from capplan.report.procurement.types import OptionRow, Report

_LISTS_OF_WORDS = frozenset({"concerns", "violations"})
_DANGEROUS = ("=", "+", "-", "@", "\t", "\r", "\n")


def render_report_csv(report: Report) -> str:
    """Write every option of every model as a row; intervals take three columns.

    Text that a spreadsheet would run as a formula is led by an apostrophe (OWASP, CSV injection); numbers never are.
    """
    import pandas as pd  # noqa: PLC0415

    rows = [
        {"model": model.plan.model.name, "recommended": option.key == model.verdict.choice, **_flat(option)}
        for model in report.models
        for option in model.options
    ]
    frame = pd.DataFrame([{name: _safe(value) for name, value in row.items()} for row in rows])
    stream = io.StringIO()
    frame.to_csv(stream, index=False, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    return stream.getvalue()


def _flat(option: OptionRow) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in to_plain(flat_fields(option)).items():
        if name in _LISTS_OF_WORDS:
            flat[name] = "; ".join(value)
        elif isinstance(value, list):
            flat |= {f"{name}_{place}": each for place, each in enumerate(value, start=_first(name))}
        elif isinstance(value, dict):
            stem, _, unit = name.rpartition("_")
            if "expected" in value:
                flat |= {f"{stem}_{end}_{unit}": value[end] for end in ("low", "expected", "high")}
            else:
                flat |= {f"{stem}_{part}": each for part, each in value.items()}
        else:
            flat[name] = value
    return flat


def _first(name: str) -> int:
    """Return the first year that a figure counts from: 0 for outlays, 1 for everything else."""
    return 0 if name == "yearly_usd" else 1


def _safe(value: object) -> object:
    if isinstance(value, str) and value.startswith(_DANGEROUS):
        return f"'{value}"
    return value
