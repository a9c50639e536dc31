"""`capplan gpus`: the GPU database, listed, shown, compared, checked and extended."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from capplan.cli.asking import group_function
from capplan.cli.lazy import LazyGroup
from capplan.cli.output import OutputOption, SpecFolders, emit, to_json, warn
from capplan.errors import UsageError
from capplan.verbs.gpus import GPUS
from capplan.verbs.statement.registry import VERBS


class GpusGroup(LazyGroup):
    """The group of commands about the GPU database."""

    lazy_commands: ClassVar[Mapping[str, str]] = {
        path.removeprefix("gpus "): place for path, place in VERBS.items() if path.startswith("gpus ")
    }


app = typer.Typer(
    cls=GpusGroup,
    help="List the GPUs that capplan knows, with filters; show, compare and check them; add your own.",
    invoke_without_command=True,
    no_args_is_help=False,
    rich_markup_mode=None,
)

app.callback()(group_function(GPUS))


@app.command()
def validate(
    path: Annotated[
        Path | None,
        typer.Argument(help="A file or folder of own specs; without it the built-in ones.", show_default=False),
    ] = None,
) -> None:
    """Check specs and prices against the rules: all errors at once, and exit code 2 if there are any."""
    from capplan.specs.gpus.validate import validate_specs

    emit(f"{validate_specs(path)}\n", output=None)


@app.command("import-microbench")
def import_microbench(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="CSV of microbenchmarks, also .gz.", show_default=False)
    ],
    *,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Folder of specs to write into.")],
    retrieved: Annotated[
        str | None, typer.Option(metavar="YYYY-MM-DD", help="When the sources were read; today by default.")
    ] = None,
    specs: SpecFolders = None,
) -> None:
    """Summarise microbenchmarks by GPU, and write them as the `measured:` block of its file in a folder of specs.

    Columns: gpu (an id), kind (matmul, copy_bandwidth, read_bandwidth, l2_bandwidth, launch_overhead), dtype,
    accumulate, value, unit, source, quality (A, B, C), regime (large, median_shapes, best_shape). Files that exist
    keep all else.

    Examples:

      capplan gpus import-microbench mine.csv -o ~/.config/capplan/gpu_specs
    """
    from datetime import date

    from capplan.specs import load_gpus
    from capplan.specs.gpus.microbench import import_microbench as write_blocks
    from capplan.specs.gpus.microbench import read_microbench

    try:
        day = date.fromisoformat(retrieved) if retrieved else date.today()
    except ValueError as error:
        raise UsageError(f"--retrieved {retrieved!r} is not a date such as 2026-11-21.") from error
    rows = [row for path in files for row in read_microbench(path)]
    done = write_blocks(rows, known=load_gpus(overlays=specs or ()), folder=output, retrieved=day)
    if not done.written:
        raise UsageError(
            f"no row is of a GPU that the database knows; rows name {', '.join(done.unknown[:3]) or 'none'}."
        )
    emit("".join(f"{path}\n" for path in done.written), output=None)
    if done.unknown:
        warn(f"left out, no spec: {', '.join(done.unknown)}")


@app.command()
def schema(*, output: OutputOption = None) -> None:
    """Print the JSON Schema of a GPU's file, for editors."""
    from capplan.specs.gpus.schema import gpu_schema

    emit(to_json(gpu_schema()), output=output)


@app.command()
def path() -> None:
    """Print where specs are read from, lowest first: what comes later wins."""
    from capplan.specs.folders import ENVIRONMENT_VARIABLE, built_in_folder, own_folder, own_overlays

    emit(f"{built_in_folder()}\n", output=None)
    for overlay in own_overlays():
        emit(f"{overlay}\n", output=None)
    if not own_folder().is_dir():
        warn(f"own specs may lie in {own_folder()}, or where {ENVIRONMENT_VARIABLE} or --specs names them")
