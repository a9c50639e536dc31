"""The `capplan` command: registers the commands, turns expected errors into exit codes."""

from typing import Annotated, Any

import typer

from capplan.cli.lazy import LazyGroup
from capplan.cli.output import prepare_streams, warn
from capplan.errors import CapplanError
from capplan.version import __version__

EPILOG = (
    "Exit codes: 0 answered; 1 nothing fits, or a gate failed; 2 bad usage or input; "
    "3 the model could not be traced; 4 measuring failed; 130 interrupted."
)


COMMANDS = {
    "plan": "capplan.cli.commands.plan:plan",
    "analyze": "capplan.cli.commands.analyze:analyze",
    "memory": "capplan.cli.commands.memory:memory",
    "trace": "capplan.cli.commands.trace:trace",
    "report": "capplan.cli.commands.report:report",
    "diff": "capplan.cli.commands.diff:diff",
    "check": "capplan.cli.commands.check:check",
    "estimate": "capplan.cli.commands.estimate:estimate",
    "validate": "capplan.cli.commands.validate:validate",
    "calibrate": "capplan.cli.commands.calibrate:app",
    "measure": "capplan.cli.commands.measure.command:measure",
    "llm": "capplan.cli.commands.llm.group:app",
    "schema": "capplan.cli.commands.schema:schema",
    "gpus": "capplan.cli.commands.gpus:app",
    "prices": "capplan.cli.commands.prices:app",
    "cache": "capplan.cli.commands.cache:app",
}
"""Every command and where it lies; only the module of the one that is called is imported."""


class CapplanGroup(LazyGroup):
    """A command group that prints expected errors as one sentence and exits with their code."""

    lazy_commands = COMMANDS

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        try:
            return super().invoke(ctx)
        except CapplanError as error:
            warn(f"capplan: {error}")
            raise typer.Exit(error.exit_code) from error
        except BrokenPipeError:
            raise typer.Exit(0) from None
        except KeyboardInterrupt:
            typer.echo("capplan: interrupted.", err=True)
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=CapplanGroup,
    name="capplan",
    help="Which GPU fits this model at batch 32, how fast will it run there, and what will it cost?",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help and errors stay plain text: nothing is cut or boxed when piped
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"capplan {__version__}")
        raise typer.Exit


@app.callback()
def capplan(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Register the options that stand before any command."""


def main() -> None:
    """Run the command line."""
    prepare_streams()
    app()
