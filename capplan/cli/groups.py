"""Options that several commands share, as one parameter of the command function.

typer reads a command's options from its signature. `with_groups` puts the fields of a dataclass in the place of a
parameter of that type, and hands the command the dataclass made from their values.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_type_hints


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for typer, in which every parameter that is a group of options stands as its options.

    Args:
        command: a function with parameters annotated as options, arguments or groups of options (dataclasses).
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    def expanded(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{each.name: values.pop(each.name) for each in fields(group)})
        command(**values)

    parameters = [
        made
        for parameter in inspect.signature(command).parameters.values()
        for made in _parameters(parameter, hints[parameter.name])
    ]
    expanded.__name__, expanded.__doc__, expanded.__module__ = command.__name__, command.__doc__, command.__module__
    expanded.__annotations__ = {each.name: each.annotation for each in parameters}
    expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # inspect reads it
    return expanded


def _parameters(parameter: inspect.Parameter, hint: Any) -> list[inspect.Parameter]:
    """Return the parameters of a group's fields; a parameter that is not a group is returned keyword-only."""
    if not is_dataclass(hint):
        return [parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY)]
    hints = get_type_hints(hint, include_extras=True)
    return [
        inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=_default(each), annotation=hints[each.name]
        )
        for each in fields(hint)
    ]


def _default(option: Field[Any]) -> Any:
    return inspect.Parameter.empty if option.default is MISSING else option.default
