"""Errors of estimates of pipelines as sections: by cell, and the worst rows."""

from capplan.core.pipelines.measured import JudgedPipeline, PipelineCell, PipelineValidation
from capplan.report.sections import Block, Column, Lines, Section, Table, data, figure, words
from capplan.units import format_fraction, format_seconds


def pipeline_validation_sections(found: PipelineValidation, *, worst: int) -> list[Section]:
    """Return the errors of estimates of pipelines by cell, and the worst rows.

    Args:
        found: the validation.
        worst: how many of the worst rows are shown.
    """
    cells = found.cells()
    blocks: list[Block] = [Table(_CELLS, cells)]
    if worst and found.rows:
        ranked = sorted(found.rows, key=lambda row: -abs(row.log_error))[:worst]
        blocks += [Lines(["worst rows"]), Table(_WORST, ranked)]
    if found.skipped:
        blocks.append(Lines([f"{count} rows skipped: {reason}" for reason, count in found.skipped.items()]))
    return [Section(blocks), Section([Table(_CELL_DATA, cells)])]


_CELLS: tuple[Column[PipelineCell], ...] = (
    words("pipeline", lambda cell: cell.name[0]),
    words("gpu", lambda cell: cell.name[1]),
    words("on", lambda cell: cell.name[2]),
    words("metric", lambda cell: cell.metric.value),
    figure("rows", lambda cell: cell.errors.count),
    figure("median", lambda cell: cell.errors.median, format_fraction),
    figure("p90", lambda cell: cell.errors.p90, format_fraction),
    figure("bias", lambda cell: cell.errors.bias, "{:.3f}".format),
    figure("coverage", lambda cell: cell.coverage, format_fraction),
)
_CELL_DATA: tuple[Column[PipelineCell], ...] = (
    data("pipeline", lambda cell: cell.name[0]),
    data("gpu", lambda cell: cell.name[1]),
    data("on", lambda cell: cell.name[2]),
    data("metric", lambda cell: cell.metric.value),
    data("rows", lambda cell: cell.errors.count),
    data("median_error_fraction", lambda cell: cell.errors.median),
    data("p90_error_fraction", lambda cell: cell.errors.p90),
    data("bias", lambda cell: cell.errors.bias),
    data("coverage_fraction", lambda cell: cell.coverage),
)
_WORST: tuple[Column[JudgedPipeline], ...] = (
    figure("row", lambda row: row.measured.line),
    words("pipeline", lambda row: row.measured.pipeline),
    words("gpu", lambda row: row.measured.gpu),
    figure("ulysses", lambda row: row.measured.degrees.ulysses),
    figure("ring", lambda row: row.measured.degrees.ring),
    figure("batch", lambda row: row.measured.batch),
    figure("measured", lambda row: row.measured.latency_s, format_seconds),
    figure("estimated", lambda row: row.latency_s.expected, format_seconds),
)
