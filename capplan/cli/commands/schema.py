"""`capplan schema`: the JSON Schemas of the documents that capplan writes."""

from typing import Annotated

import typer

from capplan.cli.output import OutputOption, emit
from capplan.errors import UnknownNameError


def schema(
    name: Annotated[str | None, typer.Argument(help="Whose schema to print; without one, the names.")] = None,
    output: OutputOption = None,
) -> None:
    """Print the JSON Schema of a document that capplan writes."""
    from capplan.report.schemas import DOCUMENTS, schema_text

    names = sorted(DOCUMENTS)
    if name is None:
        emit("".join(f"{each}\n" for each in names), output=output)
    elif name in names:
        emit(schema_text(name), output=output)
    else:
        raise UnknownNameError("document", name, names, hint=f"Known: {', '.join(names)}.")
