"""A comparison as sections: rows side by side, the best of them, and why others have no figures."""

from typing import TypeVar

from capplan.core.plan.comparison import Comparison, ComparisonRow
from capplan.core.plan.types import Fit
from capplan.core.workload import Host, precision_label
from capplan.report.sections import (
    Block,
    Format,
    Line,
    LineRole,
    Lines,
    Section,
    Span,
    Style,
    Table,
    line,
    shape_columns,
    shape_data,
)
from capplan.report.text.answer import WORDS_HINT
from capplan.report.text.gpus import local_words
from capplan.shapes.comparison import COMPARISON_ROW
from capplan.shapes.shape import View
from capplan.units import format_bytes, format_flops, format_joules, format_parameters, format_rate

Value = TypeVar("Value")
_MOST_REASONS = 6


def comparison_sections(comparison: Comparison) -> list[Section]:
    """Return a comparison, of which `styled_lines` makes the table for people."""
    shown = shape_columns(COMPARISON_ROW, comparison.rows, whole=comparison, view=View.COMPARED, order=_ORDER)
    columns = shape_data(COMPARISON_ROW, comparison.rows, whole=comparison, order=_MEMORY_FIRST)
    blocks: list[Block] = [
        Lines([_head(comparison)], role=LineRole.TITLE),
        Lines(_model_lines(comparison), is_attached=True, only=Format.TABLE),
        Table([*shown, *columns], comparison.rows),
    ]
    if beside := [*_best_lines(comparison), *_local_lines(comparison), *_reason_lines(comparison)]:
        blocks.append(Lines(beside, role=LineRole.ITEM, is_attached=True))
    if any(row.fit for row in comparison.rows):
        blocks.append(Lines([line(Span(text=WORDS_HINT, style=Style.ASIDE))], is_attached=True, only=Format.TABLE))
    if comparison.notes:
        notes = [line(Span(text=note, style=Style.UNSURE)) for note in comparison.notes]
        blocks.append(Lines(notes, role=LineRole.ITEM, is_attached=True))
    return [Section(blocks)]


_MEMORY_FIRST = (
    "peak_allocated_bytes", "peak_reserved_bytes", "total_bytes", "total_low_bytes", "total_high_bytes", "max_batch",
    "latency_bound_s",
)  # fmt: skip
"""Columns of a CSV that stand before those of the latency."""
_ORDER = ("gain", "power_w", "joules_per_sample", "total_bytes")
"""Columns for people that stand side by side."""


def _head(comparison: Comparison) -> Line:
    """Write what all rows share."""
    rows = comparison.rows
    gpus, batches = {row.gpu.id for row in rows}, {row.batch for row in rows}
    shared = [_only(gpus, "{} GPUs"), f"batch {batches.pop()}" if len(batches) == 1 else f"{len(batches)} batches"]
    workload = rows[0].workload
    models = _only({model.label for model in comparison.models}, "{} models")
    words = [f"{models} compared", *shared, str(workload.configuration.mode), (workload.host or Host.SERVER).words]
    return line(Span(text=" · ".join([*words, workload.software]), style=Style.HEADING))


def _only(values: set[str], several: str) -> str:
    return next(iter(values)) if len(values) == 1 else several.format(len(values))


def _model_lines(comparison: Comparison) -> list[Line]:
    longest = max(len(model.label) for model in comparison.models)
    return [
        line(
            Span(text=model.label.ljust(longest), style=Style.CHOSEN),
            f"  {model.facts.input}; {format_parameters(model.facts.parameter_count)} parameters, "
            f"{format_flops(model.facts.flops_per_sample)} per sample",
        )
        for model in comparison.models
    ]


def _best_lines(comparison: Comparison) -> list[Line]:
    """Name the rows of the highest throughput, the lowest cost and the least memory."""
    rows = comparison.fitting
    if len(rows) < 2:
        return []
    fastest = max(rows, key=lambda row: row.fit.latency.throughput_per_s.expected if row.fit else 0.0)
    least = min(rows, key=lambda row: row.fit.memory.total_bytes.expected if row.fit else float("inf"))
    found = [("Fastest", fastest), ("Smallest", least)]
    if metered := [row for row in rows if row.fit and row.fit.energy]:
        found.append(("Frugalest", min(metered, key=lambda row: _joules(row.fit))))
    if comparison.cheapest:
        found.insert(1, ("Cheapest", comparison.cheapest))
    dtypes = {model.label: model.facts.dtype for model in comparison.models}
    return [_best_line(label, row, dtypes[row.model]) for label, row in found]


def _joules(fit: Fit | None) -> float:
    return fit.energy.joules_per_sample.expected if fit and fit.energy else 0.0


def _local_lines(comparison: Comparison) -> list[Line]:
    """Write the lowest cost in the currency asked for."""
    local = comparison.local_cost
    if local is None:
        return []
    words = local_words(local, unit="/M samples")
    return [line(Span(text=f"In {local.currency}".ljust(10), style=Style.HEADING), words)]


def _best_line(label: str, row: ComparisonRow, dtype: str | None) -> Line:
    fit = row.fit
    assert fit is not None
    figures = {
        "Fastest": f"{format_rate(fit.latency.throughput_per_s.expected)} samples/s"
        + ("" if row.gain is None else f", ×{row.gain:.2f}"),
        "Cheapest": f"{fit.usd_per_million_samples or 0.0:.3g} USD per million samples",
        "Frugalest": f"{format_joules(_joules(fit))} per sample",
        "Smallest": f"{format_bytes(fit.memory.total_bytes.expected)} at its peak",
    }
    return line(Span(text=label.ljust(10), style=Style.HEADING), f"{_name(row, dtype)}: {figures[label]}")


def _name(row: ComparisonRow, dtype: str | None) -> str:
    way = row.workload
    return f"{row.model}, {precision_label(row.workload.precision, dtype)}, {way.framework.value} on {row.gpu.id}"


def _reason_lines(comparison: Comparison) -> list[Line]:
    """Explain why rows have no figures."""
    failed = [row for row in comparison.rows if row.fit is None]
    dtypes = {model.label: model.facts.dtype for model in comparison.models}
    lines = [
        line(Span(text="No".ljust(10), style=Style.FAILED), f"{_name(row, dtypes[row.model])}{_at(row)}: {row.reason}")
        for row in failed[:_MOST_REASONS]
    ]
    more = len(failed) - len(lines)
    return [*lines, line(f"{'':10}{more} more: --json")] if more > 0 else lines


def _at(row: ComparisonRow) -> str:
    return "" if row.batch is None else f" at batch {row.batch}"
