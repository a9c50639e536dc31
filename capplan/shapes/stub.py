"""Write `types.pyi`, which gives type checkers the fields of the documents that the shapes make.

`python -m capplan.shapes.stub` writes it anew; a test compares it.
"""

from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from msgspec import Struct, UnsetType

from capplan.shapes.registry import shapes
from capplan.shapes.shape import Shape, is_union

PATH = Path(__file__).with_name("types.pyi")

_HEAD = '''"""Types of documents. Made by `python -m capplan.shapes.stub` from the shapes; do not edit."""

'''


def stub() -> str:
    """Return the content of the stub."""
    imports: dict[str, set[str]] = {"msgspec": {"Struct"}}
    classes = [_class(shape, imports) for shape in shapes().values()]
    lines = [
        f"from {module} import {', '.join(sorted(names))}" if names else f"import {module}"
        for module, names in sorted(imports.items())
    ]
    return _HEAD + "\n".join([*lines, "", *classes])


def _class(shape: Shape, imports: dict[str, set[str]]) -> str:
    lines = [f"class {shape.name}(Struct, frozen=True, kw_only=True):"]
    for name, hint, has_default in shape.fields():
        lines.append(f"    {name}: {_words(hint, imports)}{' = ...' if has_default else ''}")
    return "\n".join([*lines, ""])


def _words(hint: Any, imports: dict[str, set[str]]) -> str:
    """Return a type as it is written, and note what it imports."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _words(arguments[0], imports)
    if is_union(hint):
        return " | ".join(_words(kind, imports) for kind in arguments)
    if origin is Literal:
        imports.setdefault("typing", set()).add("Literal")
        return f"Literal[{', '.join(_literal(value, imports) for value in arguments)}]"
    if origin is not None:
        return f"{_words(origin, imports)}[{', '.join(_words(kind, imports) for kind in arguments)}]"
    if hint is NoneType:
        return "None"
    if hint is Ellipsis:
        return "..."
    if hint is Any:
        imports.setdefault("typing", set()).add("Any")
        return "Any"
    if issubclass(hint, Struct):
        return str(hint.__name__)
    if hint.__module__ not in ("builtins", "msgspec"):
        if hint.__module__ == "datetime":
            imports.setdefault("datetime", set())
            return f"datetime.{hint.__name__}"
        imports.setdefault(hint.__module__, set()).add(hint.__name__)
    elif hint is UnsetType:
        imports["msgspec"].add("UnsetType")
    return str(hint.__name__)


def _literal(value: object, imports: dict[str, set[str]]) -> str:
    if not isinstance(value, Enum):
        return repr(value)
    kind = type(value)
    imports.setdefault(kind.__module__, set()).add(kind.__name__)
    return f"{kind.__name__}.{value.name}"


if __name__ == "__main__":
    PATH.write_text(stub(), encoding="utf-8")
