"""The overview at the end of a sweep, for people."""

from collections.abc import Callable, Sequence

from capplan.core.sweep.overview import FailureGroup, RateRange, Standing, SweepOverview, SweepPreview
from capplan.printable import printable_line
from capplan.report.sections import Align, Column, Section, Table
from capplan.units import format_bytes, format_seconds

_MOST_GROUPS = 12
_LONGEST_REASON = 300


def render_overview(overview: SweepOverview) -> str:
    """Return what a sweep did, what failed and why, and how to go on."""
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


def render_preview(preview: SweepPreview) -> str:
    """Return what a sweep would take, and what the estimate is made of."""
    rates = preview.rates
    parts = [
        (preview.missing_traces, "traces", rates.trace_s),
        (preview.pairs, "models and workloads to plan", rates.pair_s),
        (preview.to_plan, "cells to plan", rates.planned_cell_s),
        (preview.to_serve, "cells of served language models", rates.served_cell_s),
    ]
    lines = [
        "Nothing was computed or written.",
        f"{preview.folder}: {preview.cells:,} cells of {preview.models:,} models × {preview.gpus:,} GPUs × "
        f"{preview.batches:,} batches of {preview.workloads:,} workloads; {preview.kept_cells:,} are in the folder",
        f"traced already: {preview.traced_models:,} of {preview.models_to_trace:,} models "
        f"({preview.kept_traces:,} of {preview.traces:,} traces are in the cache)",
        f"processor time, an estimate: {_span(preview.cpu_s, _processor_time)} over all cores:",
        *(f"  {count:,} {what} at {format_seconds(rate)} each" for count, what, rate in parts if count),
        f"  starting: {format_seconds(rates.start_s)}",
        f"  of all this {rates.low_factor:.2f} to {rates.high_factor:.2f} times: the range of {rates.origin.rows} "
        f"sweeps of {rates.origin.made:%Y-%m-%d} that were predicted from the others",
        f"space, an estimate: {_span(preview.result_bytes, format_bytes)} of results, "
        f"{_span(preview.trace_bytes, format_bytes)} of new traces in the cache",
    ]
    if preview.unknown:
        lines.append(f"names that stand for no model, whose rows will be failures: {len(preview.unknown):,}")
        lines += [f"  {printable_line(reason)[:_LONGEST_REASON]}" for reason in preview.unknown[:_MOST_GROUPS]]
    return "\n".join([*lines, *preview.notes]) + "\n"


def _processor_time(time_s: float) -> str:
    """Return CPU hours; seconds where they are few."""
    return f"{time_s / 3600:,.3g} CPU hours" if time_s >= 360 else f"{time_s:.0f} CPU seconds"


def _span(span: RateRange, written: Callable[[float], str]) -> str:
    low, high = written(span.low), written(span.high)
    return low if low == high else f"{low} to {high}"


def query_sections(names: Sequence[str], rows: Sequence[Sequence[object]]) -> list[Section]:
    """Return a query's answer: numbers in full in CSV, shortened elsewhere."""

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
