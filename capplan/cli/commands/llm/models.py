"""`capplan llm models`: the catalogue of language models, listed, filtered and shown."""

from typing import Annotated

import typer

from capplan.cli.output import Format, FormatOption, JsonOption, OutputOption, emit, laid_out, resolve_format, to_json


def models(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODEL]...", help="Show these only: catalogue names or hf: files.", show_default=False),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION", help="'params < 40B', 'moe = yes and context >= 128k', 'attention = mla'; repeatable."
        ),
    ] = None,
    ids: Annotated[bool, typer.Option("--ids", "-q", help="Print names only, one per line.")] = False,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch the configuration and headers of hf:org/name over the network.")
    ] = False,
    chosen_format: FormatOption = None,
    json_flag: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """List the language models that capplan knows, with filters.

    Examples:  capplan llm models --where 'params < 40B'

    capplan llm models deepseek-v3 hf:path/to/config.json --json
    """
    from capplan.llm.core.model_query import select_models
    from capplan.llm.read.catalogue import load_catalogue
    from capplan.llm.read.sources import find_model
    from capplan.report.documents.llm.memory import llm_models_document
    from capplan.report.text.llm.models import llm_model_sections

    spelling = resolve_format(chosen_format, json_flag=json_flag, output=output)
    known = [find_model(name, download=download) for name in names] if names else list(load_catalogue().values())
    kept = select_models(known, where or ())
    if ids:
        emit("".join(f"{model.architecture.name}\n" for model in kept), output=output)
    elif spelling is Format.JSON:
        emit(to_json(llm_models_document(kept)), output=output)
    else:
        emit(laid_out(llm_model_sections(kept), spelling, output=output), output=output)
