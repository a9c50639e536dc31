"""`capplan llm fit-memory`: learn vLLM's memory constants from its start-up logs."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from capplan.cli.output import OutputOption, emit, warn


def fit_memory(
    logs: Annotated[Path, typer.Argument(metavar="LOGS.csv", help="What vLLM logged at start-up, plain or .gz.")],
    since: Annotated[str, typer.Option(metavar="VERSION", help="First version of vLLM that the logs are of.")] = "0.17",
    base: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Calibration to start from instead of the shipped one.")
    ] = None,
    data: Annotated[str | None, typer.Option(metavar="TEXT", help="What the logs are, for the file's origin.")] = None,
    output: OutputOption = None,
) -> None:
    """Learn vLLM's memory constants from its start-up logs and write a calibration file.

    Example:  capplan llm fit-memory vllm-memory.csv.gz -o llm-memory.yaml
    """
    from capplan.llm.answer.fit_memory import fit_memory_file

    made = datetime.now(tz=UTC).date()
    found = fit_memory_file(logs, since=since, base=base, made=made, data=data)
    emit(found.text, output=output)
    left_out = sum(found.unknown_models.values())
    warn(f"fitted on {found.fitted.rows} starts; {left_out} of models outside the catalogue were left out")
