"""The types of documents by name, made from the shapes; `types.pyi` states their fields for type checkers."""

from typing import Any

from capplan.shapes.registry import shapes


def __getattr__(name: str) -> Any:
    """Return the type of a document."""
    shape = shapes().get(name)
    if shape is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return shape.struct
