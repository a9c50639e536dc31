"""`capplan calibrate fit`: make a calibration from measurements."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli import options
from capplan.cli.commands.calibrate_device import device
from capplan.cli.commands.validate import AllowCode, Measured, TracesOption
from capplan.cli.output import emit, warn
from capplan.cli.progress import progress
from capplan.errors import CapplanError, UnknownNameError, UsageError
from capplan.units import format_fraction

if TYPE_CHECKING:
    from capplan.core.calibrate.dataset import TimedStep
    from capplan.core.calibrate.fit import FittedCalibration
    from capplan.core.calibrate.measured import MeasuredStep
    from capplan.specs.gpus.load import Gpus

app = typer.Typer(help="Fit efficiencies to measurements.", no_args_is_help=True, rich_markup_mode=None)
app.command("device")(device)


@app.command("fit")
def fit(
    measured: Measured,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the calibration goes.")],
    name: Annotated[str, typer.Option(help="What estimates will call it.")] = "own",
    made: Annotated[str | None, typer.Option(metavar="YYYY-MM-DD", help="Its date; today by default.")] = None,
    specs: options.SpecFolders = None,
    traces: TracesOption = None,
    allow_code: AllowCode = False,
    folds: Annotated[int, typer.Option(min=2, help="Folds of families held out in turn.")] = 5,
    serves: Annotated[str, typer.Option(help="What it is for: eager, compile or training.")] = "eager",
) -> None:
    """Fit the latency model to measurements, and learn its errors from GPUs and families held out.

    MEASURED are files as for `capplan validate`, and tables of single kernels (op-*.csv.gz). Only rows of
    what it is for are used: eager inference, compiled graphs, or training steps.

    Examples:

      capplan calibrate fit measured.csv -o mine.yaml
    """
    from datetime import date

    from capplan.core.calibrate.fit import fit_calibration
    from capplan.core.latency.lookup import KINDS
    from capplan.specs import load_gpus
    from capplan.specs.calibration import dump_calibration

    try:
        day = date.fromisoformat(made) if made else date.today()
    except ValueError as error:
        raise UsageError(f"--made {made!r} is no date such as 2026-11-21.") from error
    if serves not in KINDS:
        raise UnknownNameError("kind of steps", serves, KINDS)
    gpus = load_gpus(overlays=specs or ())
    steps = [step for path in measured for step in _steps(path, gpus, traces, serves, allow_code)]
    if len(steps) < 20:
        raise UsageError(f"{len(steps)} usable rows are too few to fit from; 20 are the least.")
    with progress(f"fitting {len(steps)} rows"):
        fitted = fit_calibration(
            steps,
            name=name,
            made=day,
            command=_command(measured, output, serves),
            sources=[path.name for path in measured],
            folds=folds,
            serves=serves,
        )
    emit(dump_calibration(fitted.calibration), output=output)
    warn(_told(fitted))


def _command(measured: list[Path], output: Path, serves: str) -> str:
    chosen = f" --serves {serves}" if serves != "eager" else ""
    return f"capplan calibrate fit {' '.join(path.name for path in measured)}{chosen} -o {output.name}"


def _steps(path: Path, gpus: "Gpus", traces: Path | None, serves: str, allow_code: bool) -> "Iterator[TimedStep]":
    from capplan.core.calibrate.kernel_rows import kernel_step
    from capplan.specs.measured.kernels import holds_kernels, read_kernels
    from capplan.specs.measured.steps import read_measured

    if holds_kernels(path):
        for kernel in read_kernels(path):
            step = kernel_step(kernel, gpus[kernel.gpu])
            if step is not None:
                yield step
        return
    found = read_measured(path, allow_code=allow_code)
    if found.skipped:
        warn(f"{path.name}: {len(found.skipped)} rows skipped, the first because {found.skipped[0].reason}")
    yield from (step for _, step in described_steps(found.steps, gpus, traces, serves=serves))


def described_steps(
    steps: "Sequence[MeasuredStep]", gpus: "Gpus", traces: Path | None, *, serves: str = "eager"
) -> "Iterator[tuple[MeasuredStep, TimedStep]]":
    """Trace the steps of one kind among some and describe each as the fit sees it."""
    from capplan.cli.measured_models import group_runs, recording_for, trace_folder
    from capplan.core.calibrate.dataset import held_out_together, timed_step
    from capplan.core.latency.lookup import MANY_ROWS, workload_kind
    from capplan.core.latency.op_table import kernel_table
    from capplan.core.latency.step import ExecutedStep

    wanted = [step for step in steps if workload_kind(step.workload) == serves]
    rows_by_gpu = Counter(step.gpu for step in wanted)
    store = trace_folder(traces)
    for run, members in group_runs(wanted).items():
        try:
            trace = store.obtain(run)
        except CapplanError as error:
            warn(f"left out: {error}")
            continue
        for step in members:
            gpu = gpus.find_or_none(step.gpu)
            if gpu is None:
                warn(f"left out: unknown GPU {step.gpu!r} in row {step.line}")
                continue
            executed = ExecutedStep.of(recording_for(trace, run, step), step.workload)
            found = timed_step(
                kernel_table(executed, batches=[step.batch]), executed.recording, step.workload, gpu=gpu, column=0,
                latency_s=step.latency_s,
                family=held_out_together(step, is_rich=rows_by_gpu[step.gpu] >= MANY_ROWS),
            )  # fmt: skip
            if found is not None:
                yield step, found


def _told(fitted: "FittedCalibration") -> str:
    lines = [f"{fitted.calibration.name}: median and 90th percentile of errors on rows held out"]
    for cell, found in fitted.statistics.items():
        lines.append(
            f"  {cell}: {format_fraction(found.median)}, {format_fraction(found.p90)} of {found.count} rows, "
            f"bias {found.bias:.3f}"
        )
    return "\n".join(lines)
