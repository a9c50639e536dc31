"""`capplan sweep`: many models on many GPUs, kept as a table of Parquet files that goes on where it stopped."""

from pathlib import Path
from typing import Annotated

import typer

from capplan.cli import options
from capplan.cli.commands.sweeps.groups import MeasuringOptions, WorkOptions
from capplan.cli.commands.sweeps.progress import ProgressChoice, make_watcher
from capplan.cli.groups import with_groups
from capplan.cli.output import emit, to_json
from capplan.errors import MeasurementError, TraceError


@with_groups
def sweep(
    *,
    file: Annotated[Path, typer.Argument(metavar="SWEEP.yaml", help="Models, GPUs and workloads; see docs/sweeps.md.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="Folder of the results, made or gone on with.")
    ],
    specs: options.SpecFolders = None,
    work: WorkOptions,
    measuring: MeasuringOptions,
    allow_code: Annotated[
        bool, typer.Option("--allow-code", help="Import models that the file names as Python code.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Compute models again that failed before.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print cells, processor time and space; compute and write nothing.")
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

      capplan sweep sweep.yaml -o results/ --dry-run

      capplan sweep sweep.yaml -o results/ --ray auto

      capplan sweep sweep.yaml -o results/ --time-limit 2min --memory-limit 4GiB --progress json
    """
    from capplan.app.sweep.request import SweepRequest
    from capplan.app.sweep.run import preview_sweep
    from capplan.app.sweep.run import sweep as run
    from capplan.report.documents.sweep import preview_document, sweep_document
    from capplan.report.text.sweep import render_overview, render_preview
    from capplan.verbs.sweep_file import read_sweep_file

    request = SweepRequest(
        definition=read_sweep_file(file),
        output=output,
        file=file,
        overlays=tuple(specs or ()),
        workers=work.workers,
        ray=work.ray,
        limits=work.limits(),
        measures=measuring.measure,
        measuring=measuring.rules(),
        allows_code=allow_code,
        force=force,
        retries_failed=retry_failed,
        command=" ".join(["capplan sweep", str(file), "-o", str(output)]),
    )
    if dry_run:
        preview = preview_sweep(request)
        emit(to_json(preview_document(preview)) if as_json else render_preview(preview), output=None)
        return
    watcher = make_watcher(progress)
    answer = run(request, watcher=watcher)
    emit(to_json(sweep_document(answer)) if as_json else render_overview(answer), output=None)
    if measuring.measure and not answer.measured:
        raise MeasurementError("nothing was measured; the estimates are kept.")
    if answer.failures and (strict or not answer.answered):
        raise TraceError(f"{answer.failed} of the models and workloads failed; {output} holds the reasons.")
