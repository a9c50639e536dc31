"""`capplan diff`: what changed between two plans or two reports."""

from typing import Annotated

import typer

from capplan.app.documents import read_json
from capplan.cli.output import Format, FormatOption, JsonOption, OutputOption, emit, laid_out, resolve_format, to_json
from capplan.errors import UsageError


def diff(
    before: Annotated[str, typer.Argument(metavar="A.json", help="A plan or report as JSON.", show_default=False)],
    after: Annotated[str, typer.Argument(metavar="B.json", help="Another one.", show_default=False)],
    format_: FormatOption = None,
    json_: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Describe what changed between two plans, or two reports, that were saved as JSON.

    Examples:

      capplan diff before.json after.json

      capplan diff before.json after.json --format md
    """
    from capplan.report.documents.diff import compare_documents, diff_document
    from capplan.report.text.saved_plans import change_sections

    spelling = resolve_format(format_, json_flag=json_, output=output)
    if spelling is Format.CSV:
        raise UsageError("a difference is written as table, md or json, not csv.")
    changes = compare_documents(read_json(before), read_json(after), names=(before, after))
    if spelling is Format.JSON:
        emit(to_json(diff_document(changes)), output=output)
    else:
        emit(laid_out(change_sections(changes), spelling, output=output), output=output)
