"""`capplan sweep`: many models on many GPUs, kept as a table of Parquet files that goes on where it stopped."""

from pathlib import Path
from typing import Annotated

import typer

from capplan.cli import options
from capplan.cli.commands.sweeps.progress import ProgressChoice, make_watcher
from capplan.cli.output import emit, to_json
from capplan.errors import MeasurementError, TraceError
from capplan.units import BYTES, SECONDS, parse_quantity


def sweep(
    *,
    file: Annotated[Path, typer.Argument(metavar="SWEEP.yaml", help="Models, GPUs and workloads; see docs/sweeps.md.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="Folder of the results, made or gone on with.")
    ],
    specs: options.SpecFolders = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Processes on this machine; one a core by default.", show_default=False),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="auto|ADDRESS", help="Run on this Ray cluster instead of this machine alone.", show_default=False
        ),
    ] = None,
    time_limit: Annotated[
        str, typer.Option(metavar="TIME", help="Time that one model may take to trace, such as 90s.")
    ] = "10min",
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory of one process, such as 8GiB; by default an even share of the machine's.",
            show_default=False,
        ),
    ] = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure", help="Time every point that fits on the devices at hand (of the cluster), beside the theory."
        ),
    ] = False,
    budget: Annotated[str, typer.Option(metavar="TIME", help="Time of the repetitions of one measured point.")] = "10s",
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Compute models again that failed before.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 3 if any model failed.")] = False,
    progress: Annotated[
        ProgressChoice, typer.Option(help="Progress on stderr: a line for people, JSON lines for programs, or nothing.")
    ] = ProgressChoice.AUTO,
    as_json: Annotated[bool, typer.Option("--json", help="Write the overview at the end as JSON.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the results of another sweep.")] = False,
) -> None:
    """Plan many models on many GPUs, and keep the table.

    A second run computes only what changed, and an interrupted one goes on. A model that cannot be traced, hangs or
    takes too much memory costs its own rows. `capplan query FOLDER` asks the table.

    Examples:

      capplan sweep sweep.yaml -o results/

      capplan sweep sweep.yaml -o results/ --ray auto

      capplan sweep sweep.yaml -o results/ --time-limit 2min --memory-limit 4GiB --progress json
    """
    from capplan.app.sweep.request import Limits, MeasuringRules, SweepRequest
    from capplan.app.sweep.run import sweep as run
    from capplan.report.text.sweep import overview_to_json, render_overview
    from capplan.specs.sweep import read_sweep_file

    limits = Limits(
        time_s=parse_quantity(time_limit, SECONDS, what="--time-limit"),
        memory_bytes=int(parse_quantity(memory_limit, BYTES, what="--memory-limit")) if memory_limit else None,
    )
    request = SweepRequest(
        definition=read_sweep_file(file),
        output=output,
        file=file,
        overlays=tuple(specs or ()),
        workers=workers,
        ray=ray,
        limits=limits,
        measures=measure,
        measuring=MeasuringRules(budget_s=parse_quantity(budget, SECONDS, what="--budget")),
        force=force,
        retries_failed=retry_failed,
        command=" ".join(["capplan sweep", str(file), "-o", str(output)]),
    )
    watcher = make_watcher(progress)
    answer = run(request, watcher=watcher)
    emit(to_json(overview_to_json(answer)) if as_json else render_overview(answer), output=None)
    if measure and not answer.measured:
        raise MeasurementError("nothing was measured; the estimates are kept.")
    if answer.failures and (strict or not answer.answered):
        raise TraceError(f"{answer.failed} of the models and workloads failed; {output} holds the reasons.")
