"""`capplan llm fleet`: several language models on one fleet."""

from pathlib import Path
from typing import Annotated

import typer

from capplan.cli.commands.llm.groups import CalibrationOption
from capplan.cli.options import SpecFolders
from capplan.cli.output import Format, FormatOption, JsonOption, OutputOption, emit, laid_out, resolve_format, to_json
from capplan.cli.progress import progress


def fleet(
    file: Annotated[
        Path,
        typer.Argument(metavar="FLEET.yaml", help="models: a list of loads, each with its model.", show_default=False),
    ],
    share_gpus: Annotated[
        bool,
        typer.Option("--share-gpus", help="Also put several models on the same GPUs where that is cheaper (estimate)."),
    ] = False,
    specs: SpecFolders = None,
    calibration: CalibrationOption = None,
    chosen_format: FormatOption = None,
    json_flag: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Find the fleet that serves several language models together, on one kind of GPU or mixed, the cheapest first.

    Exit 1 if none does.

    Example:  capplan llm fleet FLEET.yaml
    """
    from capplan.llm.answer.shared_fleet import plan_shared_fleet
    from capplan.report.documents.llm.fleet import fleet_document
    from capplan.report.text.llm.fleet import shared_fleet_sections

    spelling = resolve_format(chosen_format, json_flag=json_flag, output=output)
    with progress("planning every model"):
        found = plan_shared_fleet(file, specs=tuple(specs or ()), calibration=calibration, shares_gpus=share_gpus)
    if spelling is Format.JSON:
        emit(to_json(fleet_document(found.plans, found.fleets)), output=output)
    else:
        emit(laid_out(shared_fleet_sections(found.plans, found.fleets), spelling, output=output), output=output)
    if not found.fleets:
        raise typer.Exit(1)
