"""`capplan mcp`: the verbs as tools of an assistant."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from capplan.cli.output import SpecFolders
from capplan.errors import UsageError


def mcp(
    *,
    prices: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE.yaml", help="Own dated prices, laid over the built-in ones.", show_default=False),
    ] = None,
    specs: SpecFolders = None,
    text_only: Annotated[
        bool,
        typer.Option("--text-only", help="Answer with at most 2,000 characters of text, without the JSON document."),
    ] = False,
    traces: Annotated[
        int, typer.Option(min=0, max=64, help="Models traced at once; 0 takes models traced before.")
    ] = 2,
) -> None:
    """Serve the verbs to an assistant over the Model Context Protocol, on standard input and output.

    An assistant's client starts this command; docs/mcp.md shows the configuration. It reads no file and runs no code of
    a model, as `capplan serve`.

    Examples:

      capplan mcp

      capplan mcp --text-only --prices own-prices.yaml
    """
    try:
        from capplan.serve.mcp.server import run_stdio
        from capplan.serve.service import state_folder
        from capplan.serve.settings import ServiceLimits, Settings, default_planners
    except ModuleNotFoundError as error:
        raise UsageError(f"mcp needs {error.name}; install it with pip install 'capplan[mcp]'.") from error

    if sys.stdin is None or sys.stdout is None:  # the types say that they are there; a closed descriptor leaves None
        raise UsageError("mcp speaks over standard input and output, of which one is closed; a client opens both.")
    settings = Settings(
        prices=tuple(prices or ()),
        specs=tuple(path.resolve() for path in specs or ()),
        state=state_folder().resolve(),
        limits=ServiceLimits(planners=min(2, default_planners()), tracers=traces),
    )
    failed: BaseException | None = None
    try:
        run_stdio(settings, is_text_only=text_only)
    except* OSError as errors:  # writing to a client that is gone fails in a group of the server's tasks
        failed = errors
    while isinstance(failed, BaseExceptionGroup):
        failed = failed.exceptions[0]
    if failed is not None:
        raise failed
