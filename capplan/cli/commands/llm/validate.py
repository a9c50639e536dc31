"""`capplan llm validate`: how wrong predictions of serving runs are on anyone's measurements."""

from pathlib import Path
from typing import Annotated

import typer

from capplan.cli.options import SpecFolders
from capplan.cli.output import Format, FormatOption, JsonOption, OutputOption, emit, laid_out, resolve_format, to_json
from capplan.errors import UnknownNameError, UsageError


def validate(
    measured: Annotated[
        list[Path],
        typer.Argument(metavar="SERVING.csv...", help="Measured runs: CSV, plain or .gz.", show_default=False),
    ],
    by: Annotated[str, typer.Option(help="Columns that make a cell.")] = "gpu,engine,model",
    quality: Annotated[
        str, typer.Option(metavar="LETTERS", help="Qualities that are judged; rows without one count as B.")
    ] = "AB",
    specs: SpecFolders = None,
    calibration: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Constants from `capplan llm fit`; the shipped ones by default.")
    ] = None,
    chosen_format: FormatOption = None,
    json_flag: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Compare predicted with measured TTFT, TPOT and output tokens per second.

    Rows that cannot be predicted are listed with the reason. A KV format that is not stated is taken as fp8 where
    weights are narrower than 16 bits, since published runs are mostly so.

    Examples:  capplan llm validate serving.csv.gz --by gpu,engine

    capplan llm validate runs.csv --quality ABC --json
    """
    from capplan.llm.answer.deployments import Deployments
    from capplan.llm.answer.validate_serving import validate_serving
    from capplan.llm.core.serving.accuracy import CELL_COLUMNS
    from capplan.llm.read.runs.serving_rows import read_serving
    from capplan.llm.read.time_calibration import load_time_calibration
    from capplan.report.documents.llm.serving import llm_validation_document
    from capplan.report.text.llm.serving import llm_validation_sections
    from capplan.specs import load_gpus

    spelling = resolve_format(chosen_format, json_flag=json_flag, output=output)
    columns = [name.strip() for name in by.split(",") if name.strip()]
    for name in columns:
        if name not in CELL_COLUMNS:
            raise UnknownNameError("column", name, CELL_COLUMNS, hint=f"Known: {', '.join(CELL_COLUMNS)}.")
    files = [read_serving(path) for path in measured]
    found = validate_serving(
        [run for file in files for run in file.runs],
        unreadable=[row for file in files for row in file.skipped],
        deployments=Deployments(gpus=load_gpus(overlays=specs or ()), assumes_narrow_cache=True),
        calibration=load_time_calibration(calibration),
        qualities=quality.upper(),
    )
    if spelling is Format.JSON:
        emit(to_json(llm_validation_document(found, by=columns)), output=output)
    else:
        emit(laid_out(llm_validation_sections(found, by=columns), spelling, output=output), output=output)
    if not found.answers:
        raise UsageError("no row could be predicted; see the skipped rows.")
