"""The types of documents by name, made from the shapes; `types.pyi` states their fields for type checkers."""

from typing import Any

from capplan.shapes.registry import shape_named


def __getattr__(name: str) -> Any:
    """Return the type of a document.

    Python asks for `__path__` at each `from ... import`, for which no shape is loaded.
    """
    shape = None if name.startswith("_") else shape_named(name)
    if shape is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return shape.struct
