"""What a validation found, as tables for people and spreadsheets."""

from collections.abc import Callable, Sequence

from capplan.core.calibrate.accuracy import ErrorStatistics
from capplan.core.calibrate.measured import SkippedRow
from capplan.core.calibrate.validation import JudgedStep, Validation
from capplan.report.charts.look import Drawing
from capplan.report.charts.series import Axes, Series, series_chart
from capplan.report.documents.validation import error_columns
from capplan.report.table import Table, render_csv, render_markdown, render_text, table
from capplan.units import format_fraction, format_seconds

_MOST_REASONS = 40
_MOST_DOTS = 2000
_HEADINGS = "rows>|median>|mean>|p90>|bias>|≤10 %>|≤25 %>|coverage>|±width>|tau>"


def render_validation_text(found: Validation, *, by: Sequence[str], worst: int) -> str:
    """Lay a validation out for the terminal: cells, the worst rows, what was skipped and why."""
    return _laid_out(found, by, worst, render_text)


def render_validation_markdown(found: Validation, *, by: Sequence[str], worst: int) -> str:
    """Lay a validation out as Markdown."""
    return _laid_out(found, by, worst, render_markdown)


def render_validation_csv(found: Validation, *, by: Sequence[str]) -> str:
    """Write a row per cell, errors as fractions; unknown ones are empty."""
    rows = [
        (*cell.keys.values(), *("" if value is None else f"{value:.6g}" for value in error_columns(each).values()))
        for cell in found.cells
        for each in (cell.statistics,)
    ]
    heads = error_columns(found.overall) if found.overall else {}
    return render_csv(table("|".join((*by, *heads)), rows))


def validation_chart(judged: Sequence[JudgedStep]) -> Drawing:
    """Draw predictions over measurements, a colour per GPU; of very many rows, evenly chosen ones."""
    by_gpu: dict[str, list[tuple[float, float]]] = {}
    for row in judged:
        by_gpu.setdefault(row.step.gpu, []).append((1e3 * row.step.latency_s, 1e3 * row.estimate.latency_s.expected))
    series = []
    for gpu, points in sorted(by_gpu.items()):
        every = -(-len(points) // _MOST_DOTS)
        thinned = f" (every {every}th)" if every > 1 else ""
        series.append(Series(label=f"{gpu}: {len(points)} rows{thinned}", points=points[::every], is_line=False))
    errors = sorted(abs(row.estimate.latency_s.expected / row.step.latency_s - 1) for row in judged)
    typical = (
        f"median error {100 * errors[len(errors) // 2]:.1f} % of {len(errors)} rows; dashed: a quarter more and less"
    )
    return series_chart(
        series,
        title="Predicted against measured",
        subtitle=typical,
        axes=Axes(x_title="measured, ms", y_title="predicted, ms"),
        has_diagonal=True,
    )


def _laid_out(found: Validation, by: Sequence[str], worst: int, render: Callable[[Table], str]) -> str:
    pieces = []
    if found.overall is not None:
        rows = [(*cell.keys.values(), *_cells(cell.statistics)) for cell in found.cells]
        rows.append(("all", *[""] * (len(by) - 1), *_cells(found.overall)))
        pieces.append(render(table("|".join((*by, _HEADINGS)), rows)))
    if worst and found.judged:
        pieces.append("worst rows\n\n" + render(_worst_table(found, worst)))
    if found.skipped:
        rows = _reasons(found.skipped)
        pieces.append(f"{len(found.skipped)} rows skipped\n\n" + render(table("rows>|first|why", rows)))
    return "\n".join(pieces)


def _worst_table(found: Validation, count: int) -> Table:
    has_several = len({row.step.file for row in found.judged}) > 1
    rows = [
        (
            f"{row.step.file} {row.step.line}" if has_several else str(row.step.line),
            row.step.model,
            row.step.gpu,
            str(row.step.batch),
            format_seconds(row.step.latency_s),
            format_seconds(row.estimate.latency_s.expected),
            f"×{row.estimate.latency_s.expected / row.step.latency_s:.2f}",
        )
        for row in found.worst(count)
    ]
    return table("row>|model|gpu|batch>|measured>|predicted>|ratio>", rows)


def _reasons(skipped: Sequence[SkippedRow]) -> list[tuple[str, ...]]:
    """Count the skipped rows by reason, the most frequent first, with the first row of each."""
    rows: dict[str, list[SkippedRow]] = {}
    for row in skipped:
        rows.setdefault(row.reason, []).append(row)
    ordered = sorted(rows.items(), key=lambda item: -len(item[1]))
    reason_rows: list[tuple[str, ...]] = [
        (str(len(same)), f"{same[0].file}, row {same[0].line}", why) for why, same in ordered[:_MOST_REASONS]
    ]
    if more := ordered[_MOST_REASONS:]:
        count = sum(len(same) for _, same in more)
        reason_rows.append((str(count), "", f"{len(more)} other reasons: --format json has them"))
    return reason_rows


def _cells(found: ErrorStatistics) -> tuple[str, ...]:
    def share(value: float | None) -> str:
        return "–" if value is None else format_fraction(value)

    tau = "–" if found.kendall_models is None else f"{found.kendall_models:.3f}"
    return (
        str(found.count), share(found.median), share(found.mean), share(found.p90), f"{found.bias:.3f}",
        share(found.within_10), share(found.within_25), share(found.coverage), share(found.width), tau,
    )  # fmt: skip
