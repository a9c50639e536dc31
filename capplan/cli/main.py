"""The `capplan` command: registers the commands, turns errors into one sentence and an exit code."""

import errno
import gc
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from capplan.cli.lazy import LazyGroup
from capplan.cli.output import prepare_streams, shorten_library_warnings, unwritable, warn
from capplan.errors import CapplanError, UsageError
from capplan.verbs.statement.registry import COMMAND_TOPICS, CONFIGURABLE, SPEC_READERS, VERBS
from capplan.version import __version__
from capplan.wording import as_options

HELP = """
Which GPU fits this model at batch 32, how fast will it run there, and what will it cost?

Examples:

  capplan plan resnet50 --batch 32

  capplan compare resnet50 timm:convnext_tiny --gpu l4 --batch 32

  capplan estimate resnet50 --gpu l4 --batch 1..1024

  capplan gpus --where 'memory >= 48 GiB'
"""
EPILOG = (
    "Exit codes: 0 answered; 1 nothing fits, or a gate failed; 2 bad usage or input; "
    "3 the model could not be traced; 4 measuring failed; 5 the Hugging Face Hub could not be asked; "
    "70 a bug in capplan; 130 interrupted."
)


COMMANDS: Mapping[str, str] = {
    **{path: place for path, place in VERBS.items() if " " not in path},
    **{(group := path.split()[0]): f":{group}" for path in VERBS if " " in path},
    **{name: f"capplan.cli.own_commands:{name}" for name in ("serve", "mcp", "config")},
}
"""Every command and where it lies: verbs, groups of verbs, what asks nothing. Only the called one is imported."""


UNEXPECTED = 70
"""The exit code of an exception that nothing expected: EX_SOFTWARE of sysexits.h."""

_FULL = (errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EBADF)
"""Errors of a descriptor, which has no name: help is written to standard output by the library of commands."""

_OF_TYPER: tuple[Any, ...] = (typer.BadParameter.__mro__[2], typer.Exit, typer.Abort)
"""What typer raises to end a command: ClickException, which every release keeps elsewhere, Exit and Abort."""


class CapplanGroup(LazyGroup):
    """A command group that prints every error as one sentence and exits with its code."""

    lazy_commands = COMMANDS
    command_topics = COMMAND_TOPICS
    command_for_models = "plan"

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Build one command; with `--server`, one that asks a service."""
        command = super().get_command(ctx, cmd_name)
        server = ctx.params.get("server")
        if command is None or not server or cmd_name not in self.lazy_commands:
            return command
        from capplan.cli.remote import answered_remotely

        return answered_remotely(command, cmd_name, server)

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the options that stand before a command."""
        with _refused_in_a_sentence():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        is_debugging = bool(ctx.params.get("debug"))
        try:
            with _refused_in_a_sentence():
                ctx.default_map = configured_defaults(_command_of(ctx))
                return super().invoke(ctx)
        except _OF_TYPER:
            raise
        except CapplanError as error:
            if is_debugging:
                traceback.print_exc()
            warn(f"capplan: {_shortened(_with_other_option(as_options(str(error))), sys.argv[1:])}")
            raise typer.Exit(error.exit_code) from error
        except BrokenPipeError:
            raise typer.Exit(0) from None
        except KeyboardInterrupt:
            typer.echo("capplan: interrupted.", err=True)
            raise typer.Exit(130) from None
        except Exception as error:
            if isinstance(error, OSError) and error.filename is None and error.errno in _FULL:
                warn(f"capplan: {unwritable(error)}")
                raise typer.Exit(UsageError.exit_code) from error
            if is_debugging:
                traceback.print_exc()
            warn(f"capplan: {describe_bug(error)}")
            raise typer.Exit(UNEXPECTED) from error


_LONGEST_ECHO = 100
_ENDLESS_WORD = re.compile(rf"(\S{{{_LONGEST_ECHO}}})\S{{400,}}")


def _shortened(message: str, words: Sequence[str]) -> str:
    """Return a message in which long arguments are cut, as they were typed or quoted, and words without an end.

    Arguments have more than 100 characters; words that files hold, more than any path has.
    """
    for word in words:
        for spelling in (word, repr(word)[1:-1]):
            if len(spelling) > _LONGEST_ECHO:
                message = message.replace(spelling, f"{spelling[:_LONGEST_ECHO]}...")
    return _ENDLESS_WORD.sub(r"\1...", message)


def _with_other_option(message: str) -> str:
    """Return a message; one that refuses a number of GPUs also names the option for their names."""
    return f"{message} It is how many GPUs; --gpu NAME says which." if message.startswith("--gpus: ") else message


@contextmanager
def _refused_in_a_sentence() -> Iterator[None]:
    """Print what the library of commands refuses as one sentence, as all other refusals, and exit with its code."""
    try:
        yield
    except _OF_TYPER[0] as error:
        message = error.format_message().replace("Value error, ", "").rstrip(".")
        if "\n" in message:  # the help of a group, where no command is named
            raise
        command = error.ctx.command_path if getattr(error, "ctx", None) else "capplan"
        warn(f"capplan: {_shortened(message[:1].lower() + message[1:], sys.argv[1:])}. See `{command} --help`.")
        raise typer.Exit(error.exit_code) from error


def _command_of(ctx: Any) -> str | None:
    """Return the command that is called, from the arguments that are left to it."""
    words = [*getattr(ctx, "_protected_args", ()), *ctx.args]
    return str(words[0]) if words else None


def configured_defaults(command: str | None) -> dict[str, dict[str, Any]]:
    """Return the defaults that configuration files set for a command, by the names of its parameters."""
    if command not in (*CONFIGURABLE, *SPEC_READERS):
        return {}
    from capplan.cli.settings import in_force, load_settings, settable

    values: dict[str, Any] = {}
    for key, setting in in_force(load_settings(), command).items():
        field = settable(command)[key]
        values[key if field is None else field.name] = setting.value
    return {command: values if command in CONFIGURABLE else _inherited(command, values)}


def _inherited(group: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return defaults for a command and for all commands below it, nested as the groups are."""
    found: dict[str, Any] = dict(values)
    for path in VERBS:
        first, *words = path.split()
        below = found
        for word in words if first == group else ():
            below = below.setdefault(word, dict(values))
    return found


def describe_bug(error: Exception) -> str:
    """Return one sentence on an exception that nothing expected, with how to report it."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(Path(__file__).parents[1])]
    where = f" in {Path(ours[-1].filename).name}, line {ours[-1].lineno}" if ours else ""
    words = " ".join(str(error).split())[:300]
    return (
        f"unexpected {type(error).__name__}{where}{': ' + words if words else ''}; this is a bug in capplan: please "
        "report it with the command and the traceback that it shows as `capplan --debug COMMAND ...`."
    )


app = typer.Typer(
    cls=CapplanGroup,
    name="capplan",
    help=HELP,
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
    debug: Annotated[
        bool, typer.Option("--debug", envvar="CAPPLAN_DEBUG", help="Show the traceback of an error.")
    ] = False,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="URL",
            envvar="CAPPLAN_SERVER",
            help="Ask the service at this address; its token in CAPPLAN_TOKEN.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Register the options that stand before any command."""
    del debug, server  # the group reads them where errors are caught and commands are built


_COLLECTED_AFTER = 200_000
"""New objects after which cycles are searched: imports and plans make many objects and few cycles, and searching them
after every 700, as Python does, took 8 % of a command."""


def main() -> None:
    """Run the command line."""
    gc.set_threshold(_COLLECTED_AFTER)
    prepare_streams()
    shorten_library_warnings()
    try:
        app()
    except OSError as error:  # help and usage are printed outside of commands
        warn(f"capplan: {unwritable(error)}")
        sys.exit(UsageError.exit_code)
