"""`capplan validate`: how wrong the predictions are on anyone's measurements."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli import options
from capplan.cli.groups import with_groups
from capplan.cli.output import Format, check_plots, laid_out, to_json, warn, write_plot
from capplan.errors import UsageError
from capplan.units import format_seconds

if TYPE_CHECKING:
    from capplan.core.calibrate.validation import Validation

Measured = Annotated[
    list[Path],
    typer.Argument(
        metavar="MEASURED...", help="Measurements: CSV, .csv.gz, Parquet or .jsonl of measure.", show_default=False
    ),
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


@with_groups
def validate(
    *,
    measured: Measured,
    by: Annotated[str, typer.Option(help="Columns that make a cell.")] = "gpu,framework,torch,precision,layout,task",
    calibration: Annotated[
        Path | None, typer.Option(help="A calibration of your own; the shipped one by default.", show_default=False)
    ] = None,
    specs: options.SpecFolders = None,
    traces: TracesOption = None,
    allow_code: AllowCode = False,
    host_copy: Annotated[
        bool, typer.Option("--host-copy", help="The timers held the copy of the inputs from the host, too.")
    ] = False,
    worst: Annotated[int, typer.Option(min=0, help="How many of the worst rows to show.")] = 15,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg|png|pdf|html", help="Plot predicted against measured.", show_default=False),
    ] = None,
    answer: options.AnswerOptions,
) -> None:
    """Compare predictions with measurements: error, bias, coverage and ranks per cell, and the worst rows.

    Columns: model, gpu, framework, torch, precision, layout, task, batch (of one GPU), input_size or seq_len,
    latency_ms or samples_per_s (of all GPUs); optionally optimizer (momentum unless named), gpus (of one machine, each
    with a batch of its own), power_w (the mean draw, below the card's limit), reparam and fast_norm (timm's switches),
    peak_allocated_bytes, arg (KEY=VALUE for constructor or config, such as attn_implementation=eager) and host_copy (1
    where the timer held the copy of the inputs). Files of `capplan measure` (.jsonl) are read, too.

    Examples:

      capplan validate measured.csv

      capplan validate measured.csv.gz --by gpu,layout --format json -o errors.json
    """
    from capplan.app.calibration.validate import ValidateRequest
    from capplan.app.calibration.validate import validate as judge
    from capplan.report.text.validation import validation_chart

    chosen = answer.format()
    check_plots(plot)
    keys = [key.strip() for key in by.split(",") if key.strip()]
    made = judge(
        ValidateRequest(
            measured=tuple(measured),
            keys=tuple(keys),
            calibration=calibration,
            overlays=tuple(specs or ()),
            traces=traces,
            allows_code=allow_code,
            with_copies=host_copy,
        )
    )
    if plot is not None and made.judged:
        write_plot(validation_chart(list(made.judged)), plot)
    for file, columns in made.unread_columns.items():
        warn(f"{file}: columns that no prediction reads: {', '.join(columns)}")
    answer.emit(_render(made.validation, chosen, answer.output, by=keys, worst=worst))
    _warn_of_implausible(made.validation)
    if not made.judged:
        raise UsageError("no row could be predicted; see the skipped rows.")


def _render(found: "Validation", chosen: Format, output: Path | None, *, by: list[str], worst: int) -> str:
    from capplan.report.documents.validation import validation_document
    from capplan.report.text.validation import validation_sections

    if chosen is Format.JSON:
        return to_json(validation_document(found))
    return laid_out(validation_sections(found, by=by, worst=worst), chosen, output=output)


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
