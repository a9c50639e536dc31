"""`capplan report MODEL --llm LOAD.yaml`: the report on serving a language model."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from capplan.cli.output import Format, command_line, emit, laid_out, to_json, write_atomically
from capplan.cli.progress import progress
from capplan.errors import UsageError
from capplan.printable import printable

if TYPE_CHECKING:
    from capplan.llm.core.fleet.planned import ServingReport


def report_llm(
    models: Sequence[str],
    load: Path,
    outputs: Sequence[Path],
    *,
    gpus: Sequence[str],
    specs: Sequence[Path],
    title: str | None,
) -> None:
    """Write the report on serving one model, or several on one fleet; exit 1 if nothing carries the load.

    Args:
        models: The models in the user's words.
        load: The load file.
        outputs: Where to; Markdown to stdout if there are none.
        gpus: GPUs to consider; those of the load file if empty.
        specs: Further spec folders.
        title: Title of the report.

    Raises:
        UsageError: Several models are named, or something of the load file is refused.
    """
    from capplan.llm.answer.report_serving import ServingReportRequest, report_serving

    if len(models) != 1:
        raise UsageError(f"--llm reports on one model, not {len(models)}; write one report for each.")
    request = ServingReportRequest(
        model=models[0], load_file=load, specs=tuple(specs), gpus=tuple(gpus), title=title, command=command_line()
    )
    with progress("working out the report"):
        made = report_serving(request)
    if not outputs:
        emit(str(_written(made, ".md")), output=None)
    contents = [_written(made, path.suffix.lower()) for path in outputs]
    for path, content in zip(outputs, contents, strict=True):
        write_atomically(path, content if isinstance(content, bytes) else printable(content).encode())
    if made.fleet.plan.recommended is None:
        raise typer.Exit(1)


def _written(made: "ServingReport", extension: str) -> str | bytes:
    """Return the report in the format of a file's extension."""
    from capplan.report.documents.llm.report import serving_report_document
    from capplan.report.pages import page_file
    from capplan.report.text.llm.report import serving_data, serving_page

    if extension == ".json":
        return to_json(serving_report_document(made))
    if extension == ".csv":
        return laid_out(serving_data(made), Format.CSV, output=None)
    return page_file(serving_page(made), extension)
