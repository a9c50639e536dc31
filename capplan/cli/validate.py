"""`capplan validate`: how wrong the predictions are on anyone's measurements."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capplan.cli import options
from capplan.cli.output import Format, FormatOption, JsonOption, OutputOption, emit, resolve_format, to_json, warn
from capplan.errors import UnknownNameError, UsageError
from capplan.units import format_fraction, format_seconds

if TYPE_CHECKING:
    from capplan.core.accuracy import ErrorStatistics
    from capplan.core.measured import MeasuredStep, SkippedRow
    from capplan.core.validation import JudgedStep, Validation

Measured = Annotated[
    list[Path], typer.Argument(metavar="MEASURED...", help="Measurements: CSV, .csv.gz or Parquet.", show_default=False)
]
TracesOption = Annotated[
    Path | None,
    typer.Option(
        "--traces", metavar="DIR", help="Keep traces here; by default in the user's cache.", show_default=False
    ),
]


def validate(
    measured: Measured,
    by: Annotated[str, typer.Option(help="Columns that make a cell.")] = "gpu,framework,torch,precision,layout,task",
    calibration: Annotated[
        Path | None, typer.Option(help="A calibration of your own; the shipped one by default.", show_default=False)
    ] = None,
    specs: options.SpecFolders = None,
    traces: TracesOption = None,
    worst: Annotated[int, typer.Option(min=0, help="How many of the worst rows to show.")] = 15,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg|png|html", help="Plot predicted against measured.", show_default=False),
    ] = None,
    format_: FormatOption = None,
    json_: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Compare predictions with measurements: error, bias, coverage and ranks per cell, and the worst rows.

    Columns: model, gpu, framework, torch, precision, layout, task, batch, input_size, latency_ms or samples_per_s;
    optionally reparam and fast_norm (timm's switches) and peak_allocated_bytes.

    Examples:

      capplan validate measured.csv

      capplan validate measured.csv.gz --by gpu,layout --format json -o errors.json
    """
    from capplan.cli.plots import check_plots, write_plot
    from capplan.cli.predicted_steps import predict_steps
    from capplan.core.validation import CELL_KEYS
    from capplan.core.validation import validate as judge
    from capplan.specs import load_gpus
    from capplan.specs.calibration import load_calibration
    from capplan.specs.measured import read_measured

    spelling = resolve_format(format_, json_flag=json_, output=output)
    check_plots(plot)
    keys = [key.strip() for key in by.split(",") if key.strip()]
    for key in keys:
        if key not in (*CELL_KEYS, "model", "batch"):
            raise UnknownNameError("column", key, (*CELL_KEYS, "model", "batch"))
    files = [read_measured(path) for path in measured]
    steps = [step for file in files for step in file.steps]
    skipped = [row for file in files for row in file.skipped]
    judged, refused = predict_steps(
        steps, gpus=load_gpus(overlays=specs or ()), calibration=load_calibration(calibration), folder=traces
    )
    found = judge(judged, [*skipped, *refused], by=keys)
    if plot is not None and judged:
        write_plot(_plot(judged), plot, title="capplan validate")
    emit(to_json(_document(found)) if spelling is Format.JSON else _table(found, keys, worst), output=output)
    _warn_of_implausible(found)
    if not judged:
        raise UsageError("no row could be predicted; see the skipped rows.")


def _plot(judged: "Sequence[JudgedStep]") -> str:
    from capplan.report.log_chart import Series, chart_svg

    by_gpu: dict[str, list[tuple[float, float]]] = {}
    for row in judged:
        by_gpu.setdefault(row.step.gpu, []).append((1e3 * row.step.latency_s, 1e3 * row.estimate.latency_s.expected))
    series = []
    for gpu, points in sorted(by_gpu.items()):
        every = -(-len(points) // _MOST_DOTS)
        told = f" (every {every}th)" if every > 1 else ""
        series.append(Series(label=f"{gpu}: {len(points)} rows{told}", points=points[::every], is_line=False))
    return chart_svg(
        series, title="Predicted against measured", x_title="measured [ms]", y_title="predicted [ms]", diagonal=True
    )


_MOST_DOTS = 2000


def _warn_of_implausible(found: "Validation") -> None:
    """Name the first rows that are faster than the GPU's peaks, and count the others."""
    rows = found.implausible()
    for row in rows[:5]:
        warn(
            f"{row.step.file}, row {row.step.line}: {format_seconds(row.step.latency_s)} implies more than the peak of "
            f"{row.step.gpu} (bound {format_seconds(row.estimate.bound_s)}); are the units mixed up?"
        )
    if len(rows) > 5:
        warn(f"{len(rows) - 5} more rows imply more than the peak; all are judged like the others.")


def _document(found: "Validation") -> dict[str, Any]:
    return {
        "cells": [{**cell.keys, **_statistics(cell.statistics)} for cell in found.cells],
        "overall": _statistics(found.overall) if found.overall else None,
        "worst": [
            {
                "row": row.step.line,
                "file": row.step.file,
                "model": row.step.model,
                "gpu": row.step.gpu,
                "batch": row.step.batch,
                "measured_s": row.step.latency_s,
                "predicted_s": row.estimate.latency_s.expected,
            }
            for row in found.worst(20)
        ],
        "implausible": [
            {
                "row": row.step.line,
                "file": row.step.file,
                "measured_s": row.step.latency_s,
                "bound_s": row.estimate.bound_s,
            }
            for row in found.implausible()
        ],
        "skipped": [{"row": row.line, "file": row.file, "reason": row.reason} for row in found.skipped],
    }


def _statistics(found: "ErrorStatistics") -> dict[str, Any]:
    return {
        "n": found.count,
        "mdape": found.median,
        "mape": found.mean,
        "p90": found.p90,
        "bias": found.bias,
        "within_10": found.within_10,
        "within_25": found.within_25,
        "coverage": found.coverage,
        "width": found.width,
        "kendall_tau": found.kendall_models,
        "kendall_tau_gpus": found.kendall_gpus,
        "faster_named_right": found.faster_named_right,
    }


_MOST_REASONS = 40
_HEADINGS = ("rows", "median", "mean", "p90", "bias", "≤10 %", "≤25 %", "coverage", "±width", "tau")


def _table(found: "Validation", keys: Sequence[str], worst: int) -> str:
    rows = [[*cell.keys.values(), *_cells(cell.statistics)] for cell in found.cells]
    if found.overall is not None:
        rows.append(["all", *[""] * (len(keys) - 1), *_cells(found.overall)])
    text = _aligned([[*keys, *_HEADINGS], *rows])
    if worst and found.judged:
        lines = [
            [_place(row.step, found), row.step.model, row.step.gpu, str(row.step.batch),
             format_seconds(row.step.latency_s), format_seconds(row.estimate.latency_s.expected), f"×{_ratio(row):.2f}"]
            for row in found.worst(worst)
        ]  # fmt: skip
        text += "\nworst rows\n" + _aligned(
            [["row", "model", "gpu", "batch", "measured", "predicted", "ratio"], *lines]
        )
    if found.skipped:
        text += f"\n{len(found.skipped)} rows skipped\n" + _aligned(_reasons(found))
    return text


def _place(step: "MeasuredStep", found: "Validation") -> str:
    """A row's number, with its file's name where there are several."""
    several = any(row.step.file != step.file for row in found.judged)
    return f"{step.file} {step.line}" if several else str(step.line)


def _ratio(row: "JudgedStep") -> float:
    return row.estimate.latency_s.expected / row.step.latency_s


def _reasons(found: "Validation") -> list[list[str]]:
    """Count the skipped rows by reason, the most frequent first, with the first row of each."""
    rows: dict[str, list[SkippedRow]] = {}
    for row in found.skipped:
        rows.setdefault(row.reason, []).append(row)
    ordered = sorted(rows.items(), key=lambda item: -len(item[1]))
    told = [
        [f"{len(same)}×", f"({same[0].file}, row {same[0].line})", reason] for reason, same in ordered[:_MOST_REASONS]
    ]
    if more := ordered[_MOST_REASONS:]:
        told.append(
            [f"{sum(len(same) for _, same in more)}×", "", f"{len(more)} other reasons: --format json has them"]
        )
    return told


def _cells(found: "ErrorStatistics") -> list[str]:
    def share(value: float | None) -> str:
        return "–" if value is None else format_fraction(value)

    tau = "–" if found.kendall_models is None else f"{found.kendall_models:.3f}"
    return [
        str(found.count), share(found.median), share(found.mean), share(found.p90), f"{found.bias:.3f}",
        share(found.within_10), share(found.within_25), share(found.coverage), share(found.width), tau,
    ]  # fmt: skip


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "".join(
        "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip() + "\n" for row in rows
    )
