"""The commands that ask nothing: `serve`, the page and the JSON API; `mcp`, tools of an assistant; `config`."""

import contextlib
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capplan.cli.output import (
    Format,
    FormatOption,
    JsonOption,
    OutputOption,
    SpecFolders,
    emit,
    laid_out,
    resolve_format,
)
from capplan.errors import UsageError

if TYPE_CHECKING:
    from capplan.serve.settings import Settings


Folder = Annotated[
    Path | None,
    typer.Option(metavar="SWEEP", help="Results of `capplan sweep` to offer on the page.", show_default=False),
]
Prices = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE.yaml", help="Own dated prices, laid over the built-in ones.", show_default=False),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A file with the token that requests must present.", show_default=False),
]
Names = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="A name under which the service is reached; repeatable.", show_default=False),
]
Host = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Address to bind; the loopback address is reachable from here only.")
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Bind beyond the loopback address without a token.")]
Hub = Annotated[
    bool, typer.Option("--hub", help="Look up models that requests name on the Hugging Face Hub: configurations alone.")
]
Timeout = Annotated[
    float, typer.Option(min=1.0, metavar="SECONDS", help="Seconds of the processor after which a trace is stopped.")
]


def serve(
    *,
    host: Host = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="Port to bind; 0 takes a free one.")] = 8000,
    results: Folder = None,
    prices: Prices = None,
    specs: SpecFolders = None,
    token_file: TokenFile = None,
    insecure: Insecure = False,
    hub: Hub = False,
    allow_host: Names = None,
    traces: Annotated[
        int, typer.Option(min=0, max=64, metavar="N", help="Models traced at once; 0 takes uploads only.")
    ] = 4,
    waiting: Annotated[
        int, typer.Option(min=0, max=10_000, metavar="N", help="Models that may wait to be traced.")
    ] = 16,
    trace_timeout: Timeout = 300.0,
    trace_memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory that one trace may take.")] = "8GiB",
) -> None:
    """Serve a web page and a JSON API that answer what the command line answers, until interrupted.

    Examples:

      capplan serve

      capplan serve --host 0.0.0.0 --token-file token.txt --allow-host capplan.example.org
    """
    try:
        from capplan.serve.run import run_service
        from capplan.serve.service import state_folder
        from capplan.serve.settings import ServiceLimits, Settings, default_planners, read_token
    except ModuleNotFoundError as error:
        raise UsageError(f"serve needs {error.name}; install it with pip install 'capplan[serve]'.") from error
    from capplan.units import BYTES, parse_quantity

    settings = Settings(
        host=host,
        port=port,
        hosts=tuple(allow_host or ()),
        token=None if token_file is None else read_token(token_file),
        is_insecure=insecure,
        allows_hub=hub,
        prices=tuple(prices or ()),
        specs=tuple(path.resolve() for path in specs or ()),
        results=_checked_results(results),
        state=state_folder().resolve(),
        limits=ServiceLimits(
            planners=default_planners(),
            tracers=traces,
            waiting=waiting,
            trace_s=trace_timeout,
            trace_bytes=int(parse_quantity(trace_memory, BYTES, what="--trace-memory")),
        ),
    )

    def greet(address: str) -> None:
        # a service needs no reader, and may be started without one
        with contextlib.suppress(UsageError, BrokenPipeError):
            emit(_greeting(address, settings), output=None)

    run_service(settings, announce=greet)


def _checked_results(folder: Path | None) -> Path | None:
    """Return the folder of a sweep's results, after a look at its manifest."""
    if folder is None:
        return None
    from capplan.app.sweep.results import read_sweep

    read_sweep(folder)
    return folder.resolve()


def _greeting(address: str, settings: "Settings") -> str:
    """Return what is served, and where."""
    access = "no token is needed" if settings.token is None else "a token is needed"
    from capplan.processes.system import lacks

    lines = [
        f"capplan serves at {address} ({access})",
        f"  page     {address}",
        f"  API      {address}api/v1/plan, described at {address}api/v1/openapi.json",
        f"  health   {address}healthz, metrics {address}metrics",
    ]
    if find_spec("mcp") is not None:
        lines.append(f"  MCP      {address}mcp, for assistants")
    if settings.results is not None:
        lines.append(f"  results  {address}results, of the sweep in {settings.results}")
    lines += [f"  prices   {path}, laid over the built-in ones" for path in settings.prices]
    lines += [f"  GPUs     {path}, laid over the built-in ones" for path in settings.specs]
    lines += [less] if (less := lacks()) is not None else []
    return "\n".join([*lines, "Press Ctrl-C to end; what runs is finished first."]) + "\n"


def mcp(
    *,
    prices: Prices = None,
    specs: SpecFolders = None,
    text_only: Annotated[
        bool,
        typer.Option("--text-only", help="Answer with at most 3,000 characters of text, without structured content."),
    ] = False,
    traces: Annotated[
        int, typer.Option(min=0, max=64, metavar="N", help="Models traced at once; 0 takes models traced before.")
    ] = 2,
    hub: Hub = False,
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
        allows_hub=hub,
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


def config(*, format_: FormatOption = None, json_: JsonOption = False, output: OutputOption = None) -> None:
    """Show the defaults that configuration files set, and the file of each.

    Read are, the later the stronger: capplan.toml in the user's configuration folder, [tool.capplan] of the nearest
    pyproject.toml, and the nearest capplan.toml. CAPPLAN_CONFIG names one file to read instead, or none if it is empty.
    Options on the command line win over all of them.

    Examples:

      capplan config

      capplan config --json
    """
    from capplan.cli.settings import all_settable, in_force, load_settings
    from capplan.report.sections import Lines, Section, Table, plain_columns
    from capplan.verbs.statement.registry import CONFIGURABLE, SPEC_READERS

    chosen = Format(resolve_format(format_, json_flag=json_, output=output))
    settings = load_settings()
    rows = [
        (
            command,
            key,
            ", ".join(stored.value) if isinstance(stored.value, tuple) else str(stored.value),
            str(stored.file),
        )
        for command in (*CONFIGURABLE, *SPEC_READERS)
        for key, stored in sorted(in_force(settings, command).items())
    ]
    if chosen is Format.JSON:
        from capplan.shapes.gpus import SETTINGS
        from capplan.verbs.statement.contract import to_json

        emit(to_json(SETTINGS.document(rows)), output=output)
    elif rows or chosen is not Format.TABLE:
        columns = plain_columns("command", "option", "value", "file")
        emit(laid_out([Section([Table(columns, rows)])], chosen, output=output), output=output)
    else:
        nothing = f"no configuration file sets anything; capplan.toml may set {', '.join(all_settable())}."
        emit(laid_out([Section([Lines([nothing])])], chosen, output=output), output=output)
