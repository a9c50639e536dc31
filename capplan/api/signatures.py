"""The types of options as people write them, which signatures and stubs show."""

import inspect
from collections.abc import Mapping, Sequence
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any

from capplan.verbs.statement.options import Field, plain_types

OBJECTS = {
    "model": "str | nn.Module | Trace",
    "models": "str | nn.Module | Trace | Sequence[str | nn.Module | Trace]",
    "inputs": "Sequence[str] | Callable[[int], Any]",
    "gpus": "str | Gpus | Sequence[str | GpuSpec] | None",
    "gpu": "str | GpuSpec | None",
    "definition": "str | Path | Mapping[str, Any]",
}
"""Types of the fields in whose place Python callers may hand over objects."""
LLM_OBJECTS = {"gpus": "str | Gpus | Sequence[str] | None"}


class _Words(str):
    """Words that a signature shows as they are, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def type_words(field: Field, objects: Mapping[str, str]) -> str:
    """Return the type of an option, such as "float | str | None"."""
    if field.name in objects:
        return objects[field.name]
    if field.option.words is not None:
        return field.option.words.python + (" | None" if field.default is None else "")
    if field.is_mapping:
        return "Mapping[str, Any]"
    empty = " | None" if field.default is None or field.is_list else ""
    if field.enumeration is not None:
        one = f"{field.enumeration.__name__} | str"
        return f"Sequence[{one}] | str{empty}" if field.is_list else f"{one}{empty}"
    if field.is_list:
        (kind,) = plain_types(field.item)
        item = "str | Path" if kind is Path else kind.__name__
        return f"Sequence[{item}] | {item if kind is int else 'str'}{empty}"
    (kind,) = field.kinds
    return {Path: "str | Path", date: "date | str"}.get(
        kind, kind.__name__ if isinstance(kind, type) else "str"
    ) + empty


def signature(fields: Sequence[Field], places: Sequence[Field], *, objects: Mapping[str, str]) -> inspect.Signature:
    """Return the signature of a verb's function: types and defaults as people write them.

    Args:
        fields: the verb's options.
        places: those that may be given by place.
        objects: types of the options in whose place objects may stand.
    """
    parameters = []
    for field in fields:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if field in places else inspect.Parameter.KEYWORD_ONLY
        default = inspect.Parameter.empty if field in places else _default(field)
        words = _Words(type_words(field, objects))
        parameters.append(inspect.Parameter(field.name, kind, default=default, annotation=words))
    return inspect.Signature(sorted(parameters, key=lambda parameter: parameter.kind))


def _default(field: Field) -> Any:
    if field.option.words is not None and field.default is not None and not field.option.words.is_number:
        written = field.option.words.write(field.default)
        return None if written == "{}" else written
    return field.default.value if isinstance(field.default, StrEnum) else field.default
