"""What a validation found, as sections: errors by cell, the worst rows, and what was skipped and why."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from capplan.core.calibrate.measured import CPU_AT_HAND, SkippedRow
from capplan.core.calibrate.validation import ErrorStatistics, JudgedStep, Validation
from capplan.report.charts.look import Drawing
from capplan.report.charts.series import Axes, Series, series_chart
from capplan.report.sections import Block, Column, Lines, Section, Table, data, figure, plain_columns, words
from capplan.shapes.validation import CELL_NAMES, ERRORS
from capplan.units import format_fraction, format_seconds

_MOST_REASONS = 40
_MOST_DOTS = 2000
_FIGURES = ("rows", "median", "mean", "p90", "bias", "≤10 %", "≤25 %", "coverage", "±width", "tau")


_CALIBRATE_FIRST = (
    "note: rows were timed on this CPU; small steps wait for what calls into PyTorch cost here: measure that first "
    "with `capplan calibrate host -o mine.yaml`, then add ⟨calibration⟩ mine.yaml"
)


def validation_sections(
    validation: Validation, *, by: Sequence[str], worst: int, calibration: Path | None
) -> list[Section]:
    """Return the errors of predictions; a CSV has a row per cell, errors as fractions."""
    blocks: list[Block] = []
    if validation.overall is not None:
        rows = [(*cell.keys.values(), *_cells(cell.statistics)) for cell in validation.cells]
        rows.append(("all", *[""] * (len(by) - 1), *_cells(validation.overall)))
        blocks.append(Table(plain_columns(*by, *_FIGURES, numbers=_FIGURES, is_data=False), rows))
    if energy := validation.energy():
        powered = [(metric, gpu, *_cells(errors)) for metric, gpus in energy.items() for gpu, errors in gpus.items()]
        title = "power of one GPU at the measured time, and energy of a sample at the estimated one"
        numbers = plain_columns("metric", "gpu", *_FIGURES, numbers=_FIGURES, is_data=False)
        blocks += [Lines([title]), Table(numbers, powered)]
    if worst and validation.judged:
        blocks += [Lines(["worst rows"]), Table(_worst_columns(validation), validation.worst(worst))]
    if validation.skipped:
        columns = plain_columns("rows", "first", "why", numbers=["rows"], is_data=False)
        blocks += [Lines([f"{len(validation.skipped)} rows skipped"]), Table(columns, _reasons(validation.skipped))]
    heads = [one.name for one in ERRORS.figures if one.name not in CELL_NAMES] if validation.overall else []
    cells = [ERRORS.flat(cell) for cell in validation.cells]
    columns_of_cells = [data(name, _error_value(name)) for name in (*by, *heads)]
    sections = [Section(blocks), Section([Table(columns_of_cells, cells)])]
    if calibration is None and any(row.step.gpu == CPU_AT_HAND for row in validation.judged):
        sections.append(Section([Lines([_CALIBRATE_FIRST])]))
    return sections


def _error_value(name: str) -> Callable[[Mapping[str, str | float | None]], object]:
    def value(cell: Mapping[str, str | float | None]) -> object:
        found = cell[name]
        return found if found is None or isinstance(found, str) else f"{found:.6g}"

    return value


def validation_chart(validation: Validation) -> Drawing | None:
    """Draw predictions over measurements, a colour per GPU; of very many rows, evenly chosen ones."""
    judged = validation.judged
    if not judged:
        return None
    by_gpu: dict[str, list[tuple[float, float]]] = {}
    for row in judged:
        by_gpu.setdefault(row.step.gpu, []).append((1e3 * row.step.latency_s, 1e3 * row.estimate.latency_s.expected))
    series = []
    for gpu, points in sorted(by_gpu.items()):
        every = -(-len(points) // _MOST_DOTS)
        thinned = f" (one in {every})" if every > 1 else ""
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


def _worst_columns(validation: Validation) -> list[Column[JudgedStep]]:
    has_several = len({row.step.file for row in validation.judged}) > 1
    return [
        figure("row", lambda row: f"{row.step.file} {row.step.line}" if has_several else str(row.step.line)),
        words("model", lambda row: row.step.model),
        words("gpu", lambda row: row.step.gpu),
        figure("batch", lambda row: row.step.batch),
        figure("measured", lambda row: row.step.latency_s, format_seconds),
        figure("predicted", lambda row: row.estimate.latency_s.expected, format_seconds),
        figure("ratio", lambda row: row.estimate.latency_s.expected / row.step.latency_s, "×{:.2f}".format),
    ]


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


def _cells(errors: ErrorStatistics) -> tuple[str, ...]:
    def share(value: float | None) -> str:
        return "–" if value is None else format_fraction(value)

    tau = "–" if errors.kendall_models is None else f"{errors.kendall_models:.3f}"
    return (
        str(errors.count), share(errors.median), share(errors.mean), share(errors.p90), f"{errors.bias:.3f}",
        share(errors.within_10), share(errors.within_25), share(errors.coverage), share(errors.width), tau,
    )  # fmt: skip
