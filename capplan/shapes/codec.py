"""Encode documents as plain JSON values and decode them again, by their types."""

from dataclasses import fields
from typing import Any, Final, TypeVar, get_type_hints

import msgspec

from capplan.errors import UsageError

T = TypeVar("T")


SCHEMA_VERSION: Final = 1
"""Version of every document that has no count of its own."""


def to_plain(document: object) -> Any:
    """Return a document as mappings, lists, text and numbers, in the order of its fields.

    Args:
        document: A struct, a dataclass, or a list or mapping of these. Unset fields are left out.
    """
    return msgspec.to_builtins(document, enc_hook=_plain_value)


def _plain_value(value: object) -> float | str:
    """Return a float or text of another library, such as numpy's or torch's, as Python's own."""
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str(value)
    raise NotImplementedError(f"documents hold no {type(value).__name__}")


def from_plain(value: object, kind: type[T], *, where: str, noun: str) -> T:
    """Return the document that plain JSON values describe; fields that the type does not know are ignored.

    Args:
        value: What a JSON parser returned.
        kind: The document's type.
        where: Name of the file, which begins the error message.
        noun: What the document is called in the error message, such as "plan".
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: a damaged {noun} ({str(error).replace('`', '')}).") from error
    except UnicodeEncodeError as error:  # JSON may name half of a character, such as \ud800
        raise UsageError(f"{where}: a damaged {noun} (a text holds half of a character).") from error


def tagged(kind: type, *, tag_field: str, suffix: str) -> type[msgspec.Struct]:
    """Return a struct type with a dataclass's fields, for a union whose members a tag field distinguishes.

    msgspec cannot decode unions of dataclasses, because it needs to know which field holds the tag.

    Args:
        kind: A dataclass whose field `tag_field` has the tag as its default.
        tag_field: Name of that field.
        suffix: What the type's name ends in, to distinguish it from the dataclass.
    """
    hints = get_type_hints(kind)
    columns = {field.name: field for field in fields(kind)}
    tag = columns.pop(tag_field).default
    return msgspec.defstruct(
        kind.__name__ + suffix,
        [(name, hints[name]) for name in columns],
        frozen=True,
        kw_only=True,
        tag_field=tag_field,
        tag=tag,  # type: ignore[arg-type]  # a text, as the dataclass declares it
        namespace={"__doc__": kind.__doc__},
    )


def as_tagged(value: object, kind: type[msgspec.Struct]) -> msgspec.Struct:
    """Return the fields of a dataclass as the struct that `tagged` made for it."""
    return kind(**{name: getattr(value, name) for name in kind.__struct_fields__})


def mirrored(kind: type, name: str = "", /, **kinds: Any) -> type[msgspec.Struct]:
    """Return a struct type with a dataclass's fields.

    Args:
        kind: A dataclass.
        name: The type's name; that of the dataclass and "Document" if empty.
        kinds: Types of fields that are written as others than the dataclass has, or described.
    """
    hints = get_type_hints(kind)
    return msgspec.defstruct(
        name or f"{kind.__name__}Document",
        list(({field.name: hints[field.name] for field in fields(kind)} | kinds).items()),
        frozen=True,
        kw_only=True,
        namespace={"__doc__": (kind.__doc__ or "").replace("None", "null")},
    )
