"""A command group that imports a command's module when the command is called, not before."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.main import get_command, get_group

from capplan.cli.overwriting import guard_outputs
from capplan.cli.sparing import SparingGroup


class LazyGroup(SparingGroup):
    """A group whose subclasses name their commands, each as "module:function" or "module:typer app"."""

    lazy_commands: ClassVar[Mapping[str, str]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        """All commands, in the order in which they are named."""
        eager: list[str] = super().list_commands(ctx)
        return [*self.lazy_commands, *(name for name in eager if name not in self.lazy_commands)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and build one command; None where there is none of that name."""
        place = self.lazy_commands.get(cmd_name)
        return super().get_command(ctx, cmd_name) if place is None else _build(cmd_name, place)


def _build(name: str, place: str) -> Any:
    module, _, attribute = place.partition(":")
    found = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        command: Any = get_group(found)
    else:
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(name)(found)
        command = get_command(single)
    command.name = name
    guard_outputs(command)
    return command
