"""A command group whose options cost nothing while they are not given.

Recent releases of typer convert every option's value through pydantic, also that of an option left out, and
importing pydantic takes longer than listing all GPUs.
"""

import shlex
from typing import Any, ClassVar

from typer.core import TyperGroup, TyperOption

from capplan.errors import UnknownNameError, nearest_names


class SparingOption(TyperOption):
    """An option that converts only a value that was given."""

    def process_value(self, ctx: Any, value: Any) -> Any:
        """Convert a value and call the option's callback; an optional one left out is None, unconverted."""
        if value is not None or self.required:
            return super().process_value(ctx, value)
        absent = () if self.multiple else None
        return absent if self.callback is None else self.callback(ctx, self, absent)


class SparingGroup(TyperGroup):
    """A command group with such options; those without a default of their own must default to None.

    `command_for_models` is the command that is suggested to whoever names a model in the place of a command.
    """

    command_for_models: ClassVar[str | None] = None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the first word names.

        Raises:
            UnknownNameError: there is none; the message suggests the nearest names, or how to ask about a model.
        """
        name = args[0] if args else ""
        if not name or name.startswith("-") or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        known = self.list_commands(ctx)
        hint = f"`{ctx.command_path} --help` lists all."
        if self.command_for_models is not None and not nearest_names(name, known):
            hint = f"For a model, write `{ctx.command_path} {self.command_for_models} {shlex.join(args)}`; {hint}"
        raise UnknownNameError("command", name, known, hint=hint)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all parameters, typer's own options (help, completion) among them."""
        parameters: list[Any] = super().get_params(ctx)
        for parameter in parameters:
            if type(parameter) is TyperOption:
                parameter.__class__ = SparingOption
        return parameters
