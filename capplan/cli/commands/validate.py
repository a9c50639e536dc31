"""`capplan validate`: how wrong the predictions are on anyone's measurements."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli import options
from capplan.cli.output import Format, FormatOption, JsonOption, OutputOption, emit, resolve_format, to_json, warn
from capplan.errors import UnknownNameError, UsageError
from capplan.units import format_seconds

if TYPE_CHECKING:
    from capplan.core.calibrate.validation import Validation

Measured = Annotated[
    list[Path], typer.Argument(metavar="MEASURED...", help="Measurements: CSV, .csv.gz or Parquet.", show_default=False)
]
TracesOption = Annotated[
    Path | None,
    typer.Option(
        "--traces", metavar="DIR", help="Keep traces here; by default in the user's cache.", show_default=False
    ),
]
AllowCode = Annotated[
    bool,
    typer.Option("--allow-code", help="Import the Python files and packages that rows name; else these are skipped."),
]


def validate(
    measured: Measured,
    by: Annotated[str, typer.Option(help="Columns that make a cell.")] = "gpu,framework,torch,precision,layout,task",
    calibration: Annotated[
        Path | None, typer.Option(help="A calibration of your own; the shipped one by default.", show_default=False)
    ] = None,
    specs: options.SpecFolders = None,
    traces: TracesOption = None,
    allow_code: AllowCode = False,
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
    from capplan.cli.output import check_plots, write_plot
    from capplan.cli.predicted_steps import predict_steps
    from capplan.core.calibrate.validation import CELL_KEYS
    from capplan.core.calibrate.validation import validate as judge
    from capplan.report.text.validation import validation_svg
    from capplan.specs import load_gpus
    from capplan.specs.calibration import load_calibration
    from capplan.specs.measured.steps import read_measured

    spelling = resolve_format(format_, json_flag=json_, output=output)
    check_plots(plot)
    keys = [key.strip() for key in by.split(",") if key.strip()]
    for key in keys:
        if key not in (*CELL_KEYS, "model", "batch"):
            raise UnknownNameError("column", key, (*CELL_KEYS, "model", "batch"))
    files = [read_measured(path, allow_code=allow_code) for path in measured]
    steps = [step for file in files for step in file.steps]
    skipped = [row for file in files for row in file.skipped]
    judged, refused = predict_steps(
        steps, gpus=load_gpus(overlays=specs or ()), calibration=load_calibration(calibration), folder=traces
    )
    found = judge(judged, [*skipped, *refused], by=keys)
    if plot is not None and judged:
        write_plot(validation_svg(judged), plot, title="capplan validate")
    emit(_spell(found, spelling, by=keys, worst=worst), output=output)
    _warn_of_implausible(found)
    if not judged:
        raise UsageError("no row could be predicted; see the skipped rows.")


def _spell(found: "Validation", spelling: Format, *, by: list[str], worst: int) -> str:
    from capplan.report.text.validation import (
        render_validation_csv,
        render_validation_markdown,
        render_validation_text,
        validation_to_json,
    )

    if spelling is Format.JSON:
        return to_json(validation_to_json(found))
    if spelling is Format.CSV:
        return render_validation_csv(found, by=by)
    render = render_validation_markdown if spelling is Format.MD else render_validation_text
    return render(found, by=by, worst=worst)


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
