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
    from capplan.core.calibration import Calibration
    from capplan.core.estimates import LatencyEstimate
    from capplan.core.measured import MeasuredStep, SkippedRow
    from capplan.core.trace import Trace
    from capplan.core.validation import JudgedStep, Validation
    from capplan.probe.measured_traces import ModelRun
    from capplan.specs.gpus import Gpus

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
        Path | None, typer.Option(metavar="FILE.svg", help="Plot predicted against measured.", show_default=False)
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
    from capplan.core.validation import CELL_KEYS
    from capplan.core.validation import validate as judge
    from capplan.specs import load_gpus
    from capplan.specs.calibration import load_calibration
    from capplan.specs.measured import read_measured

    spelling = resolve_format(format_, json_flag=json_, output=output)
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
    if plot is not None:
        emit(_plot(judged), output=plot)
    emit(to_json(_document(found)) if spelling is Format.JSON else _table(found, keys, worst), output=output)
    for row in found.implausible()[:5]:
        warn(
            f"line {row.step.line}: {format_seconds(row.step.latency_s)} implies more than the peak of {row.step.gpu}; "
            "are the units mixed up?"
        )
    if not judged:
        raise UsageError("no row could be predicted; see the skipped rows.")


def _plot(judged: "Sequence[JudgedStep]") -> str:
    from capplan.report.log_chart import Series, chart_svg

    by_gpu: dict[str, list[tuple[float, float]]] = {}
    for row in judged:
        by_gpu.setdefault(row.step.gpu, []).append((1e3 * row.step.latency_s, 1e3 * row.estimate.latency_s.expected))
    series = [Series(label=gpu, points=points, is_line=False) for gpu, points in sorted(by_gpu.items())]
    return chart_svg(
        series, title="Predicted against measured", x_title="measured [ms]", y_title="predicted [ms]", diagonal=True
    )


def predict_steps(
    steps: "Sequence[MeasuredStep]", *, gpus: "Gpus", calibration: "Calibration", folder: Path | None
) -> "tuple[list[JudgedStep], list[SkippedRow]]":
    """Predict every measured step, tracing each distinct graph once; what cannot be predicted is told."""
    from capplan.cli.measured_models import group_runs, trace_folder
    from capplan.core.measured import SkippedRow
    from capplan.core.validation import JudgedStep
    from capplan.errors import CapplanError

    judged: list[JudgedStep] = []
    skipped: list[SkippedRow] = []
    store = trace_folder(folder)
    for run, members in group_runs(steps).items():
        try:
            trace = store.obtain(run)
        except CapplanError as error:
            skipped += [SkippedRow(line=step.line, reason=str(error)) for step in members]
            continue
        for step in members:
            answer = _predict(step, run, trace, gpus, calibration)
            if isinstance(answer, SkippedRow):
                skipped.append(answer)
            else:
                judged.append(JudgedStep(step=step, estimate=answer))
    return judged, skipped


def _predict(
    step: "MeasuredStep", run: "ModelRun", trace: "Trace", gpus: "Gpus", calibration: "Calibration"
) -> "LatencyEstimate | SkippedRow":
    from capplan.cli.measured_models import recording_for
    from capplan.core.latency import estimate_latencies
    from capplan.core.latency_device import Unsupported
    from capplan.core.measured import SkippedRow
    from capplan.errors import CapplanError

    gpu = gpus.find_or_none(step.gpu)
    if gpu is None:
        return SkippedRow(line=step.line, reason=f"unknown GPU {step.gpu!r}")
    try:
        recording = recording_for(trace, run, step)
    except CapplanError as error:
        return SkippedRow(line=step.line, reason=str(error))
    (answer,) = estimate_latencies(recording, step.workload, gpus=[gpu], batches=[step.batch], calibration=calibration)
    return SkippedRow(line=step.line, reason=answer.reason) if isinstance(answer, Unsupported) else answer[0]


def _document(found: "Validation") -> dict[str, Any]:
    return {
        "cells": [{**cell.keys, **_statistics(cell.statistics)} for cell in found.cells],
        "overall": _statistics(found.overall) if found.overall else None,
        "worst": [
            {
                "row": row.step.line,
                "model": row.step.model,
                "gpu": row.step.gpu,
                "batch": row.step.batch,
                "measured_s": row.step.latency_s,
                "predicted_s": row.estimate.latency_s.expected,
            }
            for row in found.worst(20)
        ],
        "skipped": [{"row": row.line, "reason": row.reason} for row in found.skipped],
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


_HEADINGS = ("rows", "median", "mean", "p90", "bias", "≤10 %", "≤25 %", "coverage", "±width", "tau")


def _table(found: "Validation", keys: Sequence[str], worst: int) -> str:
    rows = [[*cell.keys.values(), *_cells(cell.statistics)] for cell in found.cells]
    if found.overall is not None:
        rows.append(["all", *[""] * (len(keys) - 1), *_cells(found.overall)])
    text = _aligned([[*keys, *_HEADINGS], *rows])
    if worst and found.judged:
        lines = [
            [str(row.step.line), row.step.model, row.step.gpu, str(row.step.batch), format_seconds(row.step.latency_s),
             format_seconds(row.estimate.latency_s.expected), f"×{_ratio(row):.2f}"]
            for row in found.worst(worst)
        ]  # fmt: skip
        text += "\nworst rows\n" + _aligned(
            [["row", "model", "gpu", "batch", "measured", "predicted", "ratio"], *lines]
        )
    if found.skipped:
        text += f"\n{len(found.skipped)} rows skipped\n" + _aligned(_reasons(found))
    return text


def _ratio(row: "JudgedStep") -> float:
    return row.estimate.latency_s.expected / row.step.latency_s


def _reasons(found: "Validation") -> list[list[str]]:
    lines: dict[str, list[int]] = {}
    for row in found.skipped:
        lines.setdefault(row.reason, []).append(row.line)
    return [[f"{len(rows)}×", f"(row {rows[0]})", reason] for reason, rows in lines.items()]


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
