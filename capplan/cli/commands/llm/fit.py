"""`capplan llm fit`: learn the constants of step times from measured serving runs."""

from pathlib import Path
from typing import Annotated

import typer

from capplan.cli.options import SpecFolders
from capplan.cli.output import emit, warn
from capplan.cli.progress import progress
from capplan.errors import UsageError


def fit(
    measured: Annotated[
        list[Path],
        typer.Argument(metavar="SERVING.csv...", help="Measured runs: CSV, plain or .gz.", show_default=False),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the calibration here instead of to stdout.")
    ] = None,
    cross: Annotated[
        bool,
        typer.Option(
            "--cross", help="Also learn interval widths, leaving out each GPU and each model family (minutes)."
        ),
    ] = False,
    accuracy: Annotated[
        Path | None,
        typer.Option(metavar="FILE.md", help="With --cross: write the errors of held-out runs here."),
    ] = None,
    specs: SpecFolders = None,
) -> None:
    """Learn efficiencies of kernels, overheads of engines and links from many measured runs.

    Examples:  capplan llm fit runs.csv -o mine.yaml

    capplan llm fit serving.csv.gz --cross -o llm-time.yaml
    """
    from datetime import UTC, datetime

    from capplan.llm.answer.deployments import Deployments
    from capplan.llm.answer.fit_serving import fit_serving
    from capplan.llm.read.runs.serving_rows import read_serving
    from capplan.llm.read.time_calibration import dump_time_calibration, load_time_calibration
    from capplan.report.text.llm.accuracy import accuracy_markdown
    from capplan.specs import load_gpus

    if accuracy is not None and not cross:
        raise UsageError("--accuracy needs --cross, which holds runs out.")
    files = [read_serving(path) for path in measured]
    names = tuple(path.name for path in measured)
    words = ["capplan llm fit", *names, *(["--cross"] if cross else []), f"-o {output.name}" if output else ""]
    with progress("fitting"):
        found = fit_serving(
            [run for file in files for run in file.runs],
            deployments=Deployments(gpus=load_gpus(overlays=specs or ()), assumes_narrow_cache=True),
            made=datetime.now(tz=UTC).date(),
            command=" ".join(words).strip(),
            sources=names,
            widths_of=None if cross else load_time_calibration(),
        )
    if found.skipped:
        warn(f"{len(found.skipped)} rows were not used; the first: {found.skipped[0].reason}")
    emit(dump_time_calibration(found.calibration), output=output)
    if accuracy is not None:
        emit(accuracy_markdown(found.held_out), output=accuracy)
