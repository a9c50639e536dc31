"""The overview at the end of a sweep, for people."""

from collections.abc import Sequence

from capplan.core.sweep.overview import FailureGroup, Standing, SweepOverview
from capplan.printable import printable_line
from capplan.report.sections import Align, Column, Section, Table
from capplan.units import format_seconds

_MOST_GROUPS = 12
_LONGEST_REASON = 300


def render_overview(overview: SweepOverview) -> str:
    """Return what a sweep did, what failed and why, and how to go on.

    Args:
        overview: the sweep's counts and failures.
    """
    standing = overview.standing
    lines = [
        f"{overview.folder}: {overview.rows:,} rows of {standing.models:,} models × {overview.gpus:,} GPUs × "
        f"{overview.workloads:,} workloads in {overview.files:,} files",
        _computed(standing),
        *([f"{overview.measured:,} rows were measured on a device"] if overview.measured else []),
        *overview.notes,
    ]
    if overview.failures:
        lines.append(f"{overview.failed:,} of the models and workloads failed; their rows have status 'failed':")
        lines += [_group_line(group) for group in overview.failures[:_MOST_GROUPS]]
        if (more := len(overview.failures) - _MOST_GROUPS) > 0:
            lines.append(f"  … and {more} more kinds of failure: capplan query {overview.folder} failures")
    lines.append(f"Ask it: capplan query {overview.folder} cheapest")
    return "\n".join(lines) + "\n"


def _computed(standing: Standing) -> str:
    new = standing.finished - standing.kept
    if not new:
        return f"nothing to compute: all {standing.kept:,} models are known"
    rate = f", {standing.rows_per_s:,.0f} rows/s" if standing.rows_per_s else ""
    kept = f"; {standing.kept:,} models were known" if standing.kept else ""
    return f"{new:,} models, {standing.rows:,} rows computed in {format_seconds(standing.elapsed_s)}{rate}{kept}"


def _group_line(group: FailureGroup) -> str:
    reason = printable_line(group.reason)
    shown = reason if len(reason) <= _LONGEST_REASON else reason[:_LONGEST_REASON] + " …"
    return f"  {group.count:5,} {group.kind}: {shown} ({', '.join(group.examples)}{' …' * (group.count > 3)})"


def query_sections(names: Sequence[str], rows: Sequence[Sequence[object]]) -> list[Section]:
    """Return a query's answer: numbers in full in CSV, shortened elsewhere.

    Args:
        names: The columns.
        rows: Their values; None is empty.
    """

    def column(index: int, name: str) -> Column[Sequence[object]]:
        is_number = all(isinstance(row[index], int | float | None) for row in rows)
        return Column(
            title=printable_line(name),
            name=printable_line(name),
            cell=lambda row: _short(row[index]),
            value=lambda row: _full(row[index]),
            align=Align.RIGHT if is_number else Align.LEFT,
        )

    return [Section([Table([column(index, name) for index, name in enumerate(names)], rows)])]


def _full(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else str(value)


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return _full(value)
