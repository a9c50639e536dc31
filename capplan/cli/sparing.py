"""A command group whose options cost nothing while they are not given.

Recent releases of typer convert every option's value through pydantic, also that of an option left out, and
importing pydantic takes longer than listing all GPUs.
"""

from typing import Any

from typer.core import TyperGroup, TyperOption


class SparingOption(TyperOption):
    """An option that converts only a value that was given."""

    def process_value(self, ctx: Any, value: Any) -> Any:
        """Convert a value and call the option's callback; an optional one left out is None, unconverted."""
        if value is not None or self.required:
            return super().process_value(ctx, value)
        absent = () if self.multiple else None
        return absent if self.callback is None else self.callback(ctx, self, absent)


class SparingGroup(TyperGroup):
    """A command group with such options; those without a default of their own must default to None."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, typer's own options (help, completion) among them."""
        parameters: list[Any] = super().get_params(ctx)
        for parameter in parameters:
            if type(parameter) is TyperOption:
                parameter.__class__ = SparingOption
        return parameters
