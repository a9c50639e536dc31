"""`capplan gpus`: the GPU database, listed, shown, compared, checked and extended."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli.completion import complete_gpus
from capplan.cli.options import SpecFolders
from capplan.cli.output import (
    Format,
    FormatOption,
    JsonOption,
    OutputOption,
    emit,
    laid_out,
    resolve_format,
    to_json,
    warn,
)
from capplan.cli.sparing import SparingGroup
from capplan.errors import UsageError

if TYPE_CHECKING:
    from capplan.core.gpus.attributes import Attribute
    from capplan.core.gpus.spec import GpuSpec

app = typer.Typer(
    cls=SparingGroup,
    help="List the GPUs that capplan knows, with filters; show, compare and check them; add your own.",
    invoke_without_command=True,
    no_args_is_help=False,
    rich_markup_mode=None,
)

GpuName = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="A GPU such as l4 or 'RTX 4090'.", show_default=False, autocompletion=complete_gpus
    ),
]


@app.callback()
def gpus(
    context: typer.Context,
    *,
    vendor: Annotated[list[str] | None, typer.Option(metavar="NAME", help="NVIDIA, AMD, ...; repeatable.")] = None,
    min_memory: Annotated[str | None, typer.Option(metavar="SIZE", help="At least this printed memory: 24GiB.")] = None,
    arch: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Hopper, ada-geforce, ...; repeatable.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION", help="'bf16 >= 300 TFLOP/s', 'fp8 = unsupported', 'tdp <= 75 W and l2 > 4MiB'."
        ),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Sort by this column, not by id; -COLUMN puts the largest first."),
    ] = None,
    columns: Annotated[str | None, typer.Option(metavar="A,B,...", help="Columns to show, or all.")] = None,
    cpus: Annotated[
        bool, typer.Option("--cpus", help="List the x86 CPUs of the database instead of its GPUs.")
    ] = False,
    ids: Annotated[bool, typer.Option("--ids", "-q", help="Print ids only, one per line.")] = False,
    specs: SpecFolders = None,
    chosen_format: FormatOption = None,
    json_flag: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """List the GPUs that capplan knows, with filters.

    Examples:  capplan gpus --min-memory 80GiB --sort -bf16
    capplan gpus --where 'bf16 >= 300 TFLOP/s and tdp <= 400 W' --columns id,bf16,tdp
    capplan gpus --cpus --sort -bandwidth
    """
    if context.invoked_subcommand is not None:
        return
    from capplan.core.gpus.attributes import ATTRIBUTES, DEFAULT_COLUMNS, find_attribute
    from capplan.core.gpus.query import at_least, parse_conditions, select_gpus, sort_gpus
    from capplan.specs import load_gpus

    conditions = [each for text in where or () for each in parse_conditions(text)]
    conditions += [at_least("memory", min_memory, what="--min-memory")] if min_memory else []
    names = DEFAULT_COLUMNS if columns is None else tuple(ATTRIBUTES) if columns == "all" else columns.split(",")
    shown = [find_attribute(name) for name in names]
    known = load_gpus(overlays=specs or ())
    listed = known.cpus if cpus else known
    kept = select_gpus(listed.values(), vendors=vendor or (), architectures=arch or (), conditions=conditions)
    kept = sort_gpus(kept, sort or "id")
    if ids:
        emit("".join(f"{spec.id}\n" for spec in kept), output=output)
        return
    spelling = resolve_format(chosen_format, json_flag=json_flag, output=output)
    count = f"{len(kept)} of {len(listed)} {'CPUs' if cpus else 'GPUs'}"
    emit(_listed(kept, shown, spelling, output, count=count), output=output)


def _listed(
    kept: "Sequence[GpuSpec]", shown: "Sequence[Attribute]", spelling: Format, output: Path | None, *, count: str
) -> str:
    """Format the devices of a list; a table ends with how many of the database they are."""
    from capplan.report.text.gpus import gpu_list_sections

    if spelling is Format.JSON:
        from capplan.report.documents.gpus import gpus_document

        return to_json(gpus_document(kept))
    return laid_out(gpu_list_sections(kept, shown, count=count), spelling, output=output)


@app.command()
def show(
    gpu: GpuName,
    *,
    specs: SpecFolders = None,
    chosen_format: FormatOption = None,
    json_flag: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Show every value of a GPU as it is written, with its source and date, and known prices."""
    from capplan.report.documents.gpus import gpu_sheet_document
    from capplan.report.text.gpus import gpu_sections
    from capplan.report.text.prices import gpu_price_sections
    from capplan.specs import load_gpus
    from capplan.specs.prices import load_prices

    known = load_gpus(overlays=specs or ())
    spec = known.find(gpu)
    architecture = known.architectures[spec.architecture_id]
    prices = load_prices(known, overlays=specs or ())
    hourly = [price for price in prices.hourly if price.gpu == spec.id]
    purchase = [price for price in prices.purchase if price.gpu == spec.id]
    spelling = resolve_format(chosen_format, json_flag=json_flag, output=output)
    if spelling is Format.JSON:
        sheet = gpu_sheet_document(spec, architecture, hourly=hourly, purchase=purchase)
        emit(to_json(sheet), output=output)
    elif spelling is Format.TABLE:
        sections = [*gpu_sections(spec, architecture), *gpu_price_sections(hourly, purchase)]
        emit(laid_out(sections, spelling, output=output), output=output)
    else:
        raise UsageError(f"gpus show has no {spelling}; use table or json.")


@app.command()
def compare(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...", help="GPUs, or families such as a100.", show_default=False, autocompletion=complete_gpus
        ),
    ],
    *,
    specs: SpecFolders = None,
    chosen_format: FormatOption = None,
    json_flag: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Put GPUs side by side, each number with its multiple of the first GPU's."""
    from capplan.report.text.gpus import gpu_comparison_sections
    from capplan.specs import load_gpus

    known = load_gpus(overlays=specs or ())
    chosen = [spec for name in names for spec in known.find_all(name).gpus]
    spelling = resolve_format(chosen_format, json_flag=json_flag, output=output)
    if spelling is Format.JSON:
        from capplan.report.documents.gpus import gpus_document

        emit(to_json(gpus_document(chosen)), output=output)
    else:
        emit(laid_out(gpu_comparison_sections(chosen), spelling, output=output), output=output)


@app.command()
def detect(
    *,
    specs: SpecFolders = None,
    json_flag: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Detect the GPUs of this machine and how they differ from their specs. Exit 1 if there is none."""
    from capplan.core.gpus.installed import match_gpu
    from capplan.probe.installed_gpus import find_installed_gpus
    from capplan.report.documents.installed import installed_document
    from capplan.report.text.gpus import installed_sections
    from capplan.specs import load_gpus

    known = load_gpus(overlays=specs or ())
    devices, reasons = find_installed_gpus()
    matches = [(device, match_gpu(device, known.values())) for device in devices]
    chosen = Format.JSON if json_flag else Format.TABLE
    sections = installed_sections(matches)
    emit(
        to_json(installed_document(matches)) if json_flag else laid_out(sections, chosen, output=output), output=output
    )
    if not devices:
        warn(f"no GPU found ({'; '.join(reasons)})")
        raise typer.Exit(1)


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
def new(
    *,
    source: Annotated[str | None, typer.Option("--from", metavar="ID", help="Start from this GPU's values.")] = None,
    specs: SpecFolders = None,
    output: OutputOption = None,
) -> None:
    """Write a commented template for a GPU's file; its stem becomes the id."""
    from capplan.specs import load_gpus
    from capplan.specs.gpus.template import render_template

    known = load_gpus(overlays=specs or ())
    emit(render_template(known.sheets[known.find(source).id] if source else None), output=output)


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
