"""Write the stub that editors and type checkers read: the signature of every verb, from its statement.

`python -m capplan.api.stub` writes `capplan/__init__.pyi` anew; a test compares it.
"""

from pathlib import Path
from typing import Any, get_args

from capplan.api import verbs
from capplan.api.asking import docstring
from capplan.verbs.contract import Verb
from capplan.verbs.options import Door, Field
from capplan.verbs.registry import PYTHON_NAMES, find_verb
from capplan.verbs.words import BATCHES, TIME, TORCH_VERSION, Words

PATH = Path(__file__).parents[1] / "__init__.pyi"

_HEAD = '''"""capplan: which GPU fits this model, how fast it runs there and what it costs, before anyone buys one.

Made by `python -m capplan.api.stub` from the verbs' statements; do not edit.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

'''
_OBJECTS = {
    "model": "str | nn.Module | Trace",
    "models": "str | nn.Module | Trace | Sequence[str | nn.Module | Trace]",
    "inputs": "Sequence[str] | Callable[[int], Any]",
    "gpus": "str | Gpus | Sequence[str | GpuSpec] | None",
}
"""Types of the fields in whose place Python callers may hand over objects."""
_WORDS: dict[int, str] = {
    id(BATCHES): "Sequence[int] | str",
    id(TIME): "float | str | None",
    id(TORCH_VERSION): "tuple[int, int] | str",
}


def stub() -> str:
    """Return the content of the stub."""
    asked = {name: find_verb(path) for name, path in PYTHON_NAMES.items()}
    imports = {"capplan.api.client": {"Client as Client"}, "capplan.version": {"__version__ as __version__"}}
    imports |= {"capplan.core.trace.types": {"Trace"}, "capplan.specs.gpus.load": {"Gpus"}}
    imports |= {"capplan.core.gpus.spec": {"GpuSpec"}, "capplan.core.workload": {"Training"}}
    imports["capplan.api.verbs"] = {f"{name} as {name}" for name in _written_by_hand()}
    functions = []
    for name, verb in asked.items():
        for field in verb.fields_at(Door.PYTHON):
            if field.enumeration is not None:
                imports.setdefault(field.enumeration.__module__, set()).add(field.enumeration.__name__)
        module, _, kind = verb.returns.partition(":")
        imports.setdefault(module, set()).add(kind)
        functions.append(_function(name, verb, kind))
    lines = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(imports.items())]
    return _HEAD + "\n".join(lines) + "\n\n" + "\n".join(functions)


def _written_by_hand() -> list[str]:
    functions = {name for name, value in vars(verbs).items() if getattr(value, "__module__", "") == verbs.__name__}
    return sorted(functions)


def _function(name: str, verb: Verb[Any, Any], returns: str) -> str:
    fields = verb.fields_at(Door.PYTHON)
    positional = [
        f"    *{field.name}: {_type(field)}," if field.is_list else f"    {field.name}: {_type(field)},"
        for field in fields
        if field.option.is_argument
    ]
    star = [] if any(line.lstrip().startswith("*") for line in positional) else ["    *,"]
    named = [f"    {field.name}: {_type(field)} = ...," for field in fields if not field.option.is_argument]
    if any(field.name == "train" for field in fields):
        named.append("    training: Training | bool | None = ...,")
    text = "\n".join(f"    {line}".rstrip() for line in docstring(verb).splitlines())
    lines = [f"def {name}(", *positional, *star, *named, f") -> {returns}:", f'    """{text.strip()}', '    """', ""]
    return "\n".join(lines)


def _type(field: Field) -> str:
    if field.name in _OBJECTS:
        return _OBJECTS[field.name]
    words: Words | None = field.option.words
    if words is not None and id(words) in _WORDS:
        return _WORDS[id(words)]
    if words is not None:
        return "Mapping[str, Any]" if field.is_mapping else "Sequence[int] | str | None"
    empty = " | None" if field.default is None or field.is_list else ""
    if field.enumeration is not None:
        one = f"{field.enumeration.__name__} | str"
        return f"Sequence[{one}] | str{empty}" if field.is_list else f"{one}{empty}"
    if field.is_list:
        item = "str | Path" if any(Path in get_args(kind) for kind in field.kinds) else "str"
        return f"Sequence[{item}] | str{empty}"
    (kind,) = field.kinds
    return ("str | Path" if kind is Path else kind.__name__) + empty


if __name__ == "__main__":
    PATH.write_text(stub(), encoding="utf-8")
