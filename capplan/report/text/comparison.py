"""A comparison for people and sheets: rows side by side in a narrow table, Markdown, CSV."""

from collections.abc import Callable, Sequence

from capplan.core.latency.types import Evidence
from capplan.core.memory.types import FitStatus
from capplan.core.plan.comparison import Comparison, ComparisonRow
from capplan.core.plan.types import Fit
from capplan.core.workload import Precision
from capplan.report.table import Align, render_csv, render_markdown, table
from capplan.report.text.answer import EVIDENCE_WORDS, WIDTH, evidence_legend, largest_batch
from capplan.report.text.styled import Line, Span, Style, StyledColumn, cut_line, line, plain_text, styled_table
from capplan.units import format_bytes, format_count, format_flops, format_rate, format_seconds

_MOST_REASONS = 6
_UNSURE = (Evidence.SPEC_SHEET, Evidence.TRANSFERRED, Evidence.SEGMENT)

CSV_TITLES = (
    "model|precision|framework|layout|gpu|batch|status|reason|params|flops_per_sample|peak_allocated_bytes|"
    "peak_reserved_bytes|total_bytes|total_low_bytes|total_high_bytes|max_batch|latency_bound_s|latency_low_s|latency_s|"
    "latency_high_s|throughput_per_s|gain|bound_by|usd_per_hour|usd_per_million_samples|evidence"
)


def comparison_lines(comparison: Comparison, *, width: int = WIDTH) -> list[Line]:
    """Lay a comparison out in lines of at most `width` characters."""
    rows = comparison.rows
    lines = [_head(comparison), *_model_lines(comparison), line("")]
    lines += styled_table(_columns(comparison), width=width)
    lines += [*_best_lines(comparison), *_reason_lines(rows)]
    if used := _evidence(comparison):
        lines.append(line(Span(text=evidence_legend(used, width), style=Style.ASIDE)))
    lines += [line(Span(text=note, style=Style.UNSURE)) for note in comparison.notes]
    return [cut_line(each, width) for each in lines]


def render_comparison(comparison: Comparison, *, width: int = WIDTH) -> str:
    """Write a comparison as plain text."""
    return plain_text(comparison_lines(comparison, width=width))


def render_comparison_markdown(comparison: Comparison) -> str:
    """Write a comparison as a Markdown table with all columns."""
    columns = _columns(comparison)
    titles = "|".join(f"{each.title}{'>' if each.align is Align.RIGHT else ''}" for each in columns)
    rows = [[column.cells[place].text for column in columns] for place in range(len(comparison.rows))]
    head = "".join(span.text for span in _head(comparison))
    beside = [
        f"- {''.join(span.text for span in each)}"
        for each in (*_best_lines(comparison), *_reason_lines(comparison.rows))
    ]
    notes = [f"- {each}" for each in comparison.notes]
    return "\n".join([f"**{head}**", "", render_markdown(table(titles, rows)), *beside, *notes]).rstrip() + "\n"


def render_comparison_csv(comparison: Comparison) -> str:
    """Write a row for each row compared in base units; what is unknown is empty."""
    columns = comparison_columns(comparison)
    rows = [tuple(map(_csv_value, row)) for row in zip(*columns.values(), strict=True)]
    return render_csv(table(CSV_TITLES, rows))


def comparison_columns(comparison: Comparison) -> dict[str, list[object]]:
    """Return a column of values in base units for each title of the CSV; None is unknown."""
    facts = {each.label: each.facts for each in comparison.models}
    rows = []
    for row in comparison.rows:
        way = row.workload
        counts = (facts[row.model].parameter_count, facts[row.model].flops_per_sample)
        head = (row.model, way.precision.value, way.framework.value, way.layout.value, row.gpu.id, row.batch)
        status = row.fit.status.value if row.fit else FitStatus.DOES_NOT_FIT.value if row.rejection else "failed"
        rows.append((*head, status, row.reason, *counts, *_figures(row)))
    return {title: [row[place] for row in rows] for place, title in enumerate(CSV_TITLES.split("|"))}


def _figures(row: ComparisonRow) -> tuple[object, ...]:
    if row.fit is None:
        return (*[None] * 5, row.rejection.max_batch if row.rejection else None, *[None] * 10)
    memory, latency = row.fit.memory, row.fit.latency
    total = memory.total_bytes
    return (
        round(memory.peak_allocated_bytes.expected), round(memory.peak_reserved_bytes.expected),
        round(total.expected), round(total.low), round(total.high), row.fit.max_batch, latency.bound_s,
        latency.latency_s.low, latency.latency_s.expected, latency.latency_s.high, latency.throughput_per_s.expected,
        row.gain, latency.bound_by.value, row.fit.rent.usd_per_hour if row.fit.rent else None,
        row.fit.usd_per_million_samples, latency.evidence.value,
    )  # fmt: skip


def _csv_value(value: object) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)


def _head(comparison: Comparison) -> Line:
    """Write what all rows share."""
    rows = comparison.rows
    gpus, batches = {row.gpu.id for row in rows}, {row.batch for row in rows}
    shared = [_only(gpus, "{} GPUs"), f"batch {batches.pop()}" if len(batches) == 1 else f"{len(batches)} batches"]
    workload = rows[0].workload
    models = _only({each.label for each in comparison.models}, "{} models")
    words = [f"{models} compared", *shared, str(workload.configuration.mode)]
    return line(Span(text=" · ".join([*words, workload.software]), style=Style.HEADING))


def _only(values: set[str], several: str) -> str:
    return next(iter(values)) if len(values) == 1 else several.format(len(values))


def _model_lines(comparison: Comparison) -> list[Line]:
    longest = max(len(each.label) for each in comparison.models)
    return [
        line(
            Span(text=each.label.ljust(longest), style=Style.CHOSEN),
            f"  {format_count(each.facts.parameter_count)} parameters, "
            f"{format_flops(each.facts.flops_per_sample)} per sample",
        )
        for each in comparison.models
    ]


def _columns(comparison: Comparison) -> list[StyledColumn]:
    """Return the columns; what all rows share has none."""
    rows = comparison.rows
    dtypes = {each.label: each.facts.dtype for each in comparison.models}
    columns = [_words("model", [row.model for row in rows])]
    columns.append(_words("precision", [_precision(row, dtypes[row.model]) for row in rows]))
    columns.append(_words("framework", [row.workload.framework.value for row in rows]))
    optional: tuple[tuple[str, Callable[[ComparisonRow], str]], ...] = (
        ("layout", lambda row: row.workload.layout.value),
        ("GPU", lambda row: row.gpu.id),
        ("batch", lambda row: "" if row.batch is None else f"{row.batch:,}"),
    )
    columns += [_words(title, cells) for title, cell in optional if len(set(cells := [cell(row) for row in rows])) > 1]
    if any(row.fit is None or row.fit.status is FitStatus.BORDERLINE for row in rows):
        columns.append(_words("fits", [_status(row) for row in rows]))
    return [*columns, *_figure_columns(rows)]


def _figure_columns(rows: Sequence[ComparisonRow]) -> list[StyledColumn]:
    evidence = tuple(
        Span(text=EVIDENCE_WORDS[kind], style=Style.UNSURE if kind in _UNSURE else Style.PLAIN)
        if kind
        else Span(text="")
        for kind in (row.fit.latency.evidence if row.fit else None for row in rows)
    )
    return [
        _numbers("latency", rows, lambda fit: format_seconds(fit.latency.latency_s.expected), rank=0),
        _numbers("from … to", rows, _span, rank=6),
        _numbers("samples/s", rows, lambda fit: format_rate(fit.latency.throughput_per_s.expected), rank=1),
        StyledColumn(title="×", cells=tuple(Span(text=_gain(row)) for row in rows), rank=2),
        _numbers("memory", rows, lambda fit: format_bytes(fit.memory.total_bytes.expected), rank=3),
        _numbers("max batch", rows, largest_batch, rank=8),
        _numbers("USD/M", rows, _cost, rank=4),
        StyledColumn(title="evidence", cells=evidence, align=Align.LEFT, rank=5),
    ]


def _precision(row: ComparisonRow, dtype: str | None) -> str:
    if row.workload.precision is Precision.FP32 and dtype not in ("float32", None):
        return f"own ({dtype})"
    return row.workload.precision.value


def _status(row: ComparisonRow) -> str:
    if row.fit is None:
        return "no"
    return "borderline" if row.fit.status is FitStatus.BORDERLINE else "yes"


def _gain(row: ComparisonRow) -> str:
    return "" if row.gain is None else f"{row.gain:.2f}"


def _span(fit: Fit) -> str:
    return f"{format_seconds(fit.latency.latency_s.low)} … {format_seconds(fit.latency.latency_s.high)}"


def _cost(fit: Fit) -> str:
    return "" if fit.usd_per_million_samples is None else f"{fit.usd_per_million_samples:.3g}"


def _words(title: str, cells: Sequence[str]) -> StyledColumn:
    return StyledColumn(title=title, cells=tuple(Span(text=cell) for cell in cells), align=Align.LEFT)


def _numbers(title: str, rows: Sequence[ComparisonRow], cell: Callable[[Fit], str], *, rank: int) -> StyledColumn:
    cells = tuple(Span(text=cell(row.fit) if row.fit else "") for row in rows)
    return StyledColumn(title=title, cells=cells, rank=rank)


def _best_lines(comparison: Comparison) -> list[Line]:
    """Name the rows of the highest throughput, the lowest cost and the least memory."""
    rows = comparison.fitting
    if len(rows) < 2:
        return []
    fastest = max(rows, key=lambda row: row.fit.latency.throughput_per_s.expected if row.fit else 0.0)
    least = min(rows, key=lambda row: row.fit.memory.total_bytes.expected if row.fit else float("inf"))
    priced = [row for row in rows if row.fit and row.fit.usd_per_million_samples is not None]
    found = [("Fastest", fastest), ("Smallest", least)]
    if priced:
        found.insert(1, ("Cheapest", min(priced, key=lambda row: (row.fit and row.fit.usd_per_million_samples) or 0.0)))
    return [_best_line(label, row) for label, row in found]


def _best_line(label: str, row: ComparisonRow) -> Line:
    fit = row.fit
    assert fit is not None
    figures = {
        "Fastest": f"{format_rate(fit.latency.throughput_per_s.expected)} samples/s"
        + ("" if row.gain is None else f", ×{row.gain:.2f}"),
        "Cheapest": f"{_cost(fit)} USD per million samples",
        "Smallest": f"{format_bytes(fit.memory.total_bytes.expected)} at its peak",
    }
    return line(Span(text=label.ljust(10), style=Style.HEADING), f"{_name(row)}: {figures[label]}")


def _name(row: ComparisonRow) -> str:
    way = row.workload
    return f"{row.model}, {way.precision.value}, {way.framework.value} on {row.gpu.id}"


def _reason_lines(rows: Sequence[ComparisonRow]) -> list[Line]:
    """Explain why rows have no figures."""
    failed = [row for row in rows if row.fit is None]
    lines = [
        line(Span(text="No".ljust(10), style=Style.FAILED), f"{_name(row)}{_at(row)}: {row.reason}")
        for row in failed[:_MOST_REASONS]
    ]
    more = len(failed) - len(lines)
    return [*lines, line(f"{'':10}{more} more: --json")] if more > 0 else lines


def _at(row: ComparisonRow) -> str:
    return "" if row.batch is None else f" at batch {row.batch}"


def _evidence(comparison: Comparison) -> list[Evidence]:
    return [kind for kind in Evidence if any(row.fit and row.fit.latency.evidence is kind for row in comparison.rows)]
