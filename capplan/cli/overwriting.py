"""Protect files from being overwritten: inputs always, other files than older answers unless `--force`.

Both hold for every command alike, so the option and the list of inputs are taken from the command line here, once,
and the writer in `cli.output` asks for them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_command

OUTPUTS = frozenset({"output", "plot", "roofline", "accuracy"})
"""Parameters that name files to write; every other word of a command may name a file to read."""

_FORCE = "force"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What the command at work may overwrite."""

    inputs: tuple[Path, ...] = ()
    force: bool = False


_allowance: ContextVar[Allowance] = ContextVar("allowance", default=Allowance())  # noqa: B039 - frozen


def allowance() -> Allowance:
    """Return what the command at work may overwrite; outside of a command, no file but an older answer."""
    return _allowance.get()


def guard_outputs(command: Any) -> None:
    """Add the option `--force` to a command that writes files, and protect its inputs from being overwritten.

    Args:
        command: a command, or a group whose commands are guarded each.
    """
    for each in getattr(command, "commands", {}).values():
        guard_outputs(each)
    names = {parameter.name for parameter in command.params}
    if command.callback is None or not names & OUTPUTS:
        return
    is_own = _FORCE in names
    if not is_own:
        command.params.append(_force_option())
    command.callback = _guarded(command.callback, takes_force=is_own)


def _force_option() -> Any:
    """Make the option as typer makes it for a function, so that it fits every release of typer."""

    def declared(
        force: Annotated[
            bool, typer.Option("--force", help="Replace a file that is something else than an older answer.")
        ] = False,
    ) -> None:
        """Declare the option alone."""

    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command()(declared)
    [option] = [parameter for parameter in get_command(single).params if parameter.name == _FORCE]
    return option


def _guarded(callback: Callable[..., Any], *, takes_force: bool) -> Callable[..., Any]:
    @wraps(callback)
    def run(*positional: Any, **words: Any) -> Any:
        force = bool(words.get(_FORCE) if takes_force else words.pop(_FORCE, False))
        token = _allowance.set(Allowance(inputs=tuple(_files_named(words)), force=force))
        try:
            return callback(*positional, **words)
        finally:
            _allowance.reset(token)

    return run


def _files_named(words: Mapping[str, Any]) -> Iterator[Path]:
    """List the existing files that a command's words name, as they stand, or as in `FILE.py:Name` and `hf:FILE`."""
    for name, value in words.items():
        if name in OUTPUTS:
            continue
        for each in value if isinstance(value, list | tuple) else [value]:
            if not isinstance(each, str | Path):
                continue
            text = str(each)
            for candidate in (text, text.partition(":")[0], text.partition(":")[2], text.partition("=")[2]):
                if candidate and "\0" not in candidate and _is_file(candidate):
                    yield Path(candidate)


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False
