"""Write the stubs that editors and type checkers read: the signature of every verb, from its statement.

`python -m capplan.api.stub` writes `__init__.pyi`, `llm/__init__.pyi` and `api/served.pyi` anew; a test compares them.
"""

import textwrap
from collections.abc import Mapping
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from capplan.api import served, verbs
from capplan.api.call import docstring, positional_fields
from capplan.api.signatures import LLM_OBJECTS, OBJECTS, type_words
from capplan.verbs.statement.contract import Verb
from capplan.verbs.statement.options import Door
from capplan.verbs.statement.registry import PYTHON_NAMES, find_verb, llm_names

PATH = Path(__file__).parents[1] / "__init__.pyi"
LLM_PATH = PATH.parent / "llm" / "__init__.pyi"

SERVED_PATH = Path(__file__).with_name("served.pyi")

_HEAD = '''"""capplan: which GPU fits this model, how fast it runs there and what it costs, before anyone buys one.

Made by `python -m capplan.api.stub` from the verbs' statements; do not edit.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from torch import nn

'''
_LLM_HEAD = '''"""capplan.llm: the verbs about serving large language models.

Made by `python -m capplan.api.stub` from the verbs' statements; do not edit.
"""

from collections.abc import Sequence
from pathlib import Path

'''
_SERVED_HEAD = '''"""The verbs that a service answers, as methods of a client.

Made by `python -m capplan.api.stub` from the verbs' statements; do not edit.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

'''
_SERVED_FUNCTIONS = """
def methods() -> dict[str, Verb[Any, Any]]: ...
def places(verb: Verb[Any, Any]) -> tuple[Field, ...]: ...

class ServedVerbs:"""


def stub() -> str:
    """Return the content of the stub."""
    asked = {name: find_verb(path) for name, path in PYTHON_NAMES.items()}
    imports = {
        "capplan": {"llm as llm"},
        "capplan.api.client": {"Client as Client"},
        "capplan.version": {"__version__ as __version__"},
    }
    imports |= {"capplan.core.trace.types": {"Trace"}, "capplan.specs.gpus.load": {"Gpus"}}
    imports |= {"capplan.core.gpus.spec": {"GpuSpec"}, "capplan.core.workload": {"Training"}}
    imports["capplan.api.verbs"] = {f"{name} as {name}" for name in _written_by_hand()}
    return _HEAD + _signatures(asked, imports, OBJECTS)


def llm_stub() -> str:
    """Return the content of the stub of `capplan.llm`."""
    asked = {name: find_verb(path) for name, path in llm_names().items()}
    return _LLM_HEAD + _signatures(asked, {"capplan.specs.gpus.load": {"Gpus"}}, LLM_OBJECTS)


def served_stub() -> str:
    """Return the content of the stub of what a client asks."""
    imports = {
        "capplan.core.trace.types": {"Trace"},
        "capplan.verbs.statement.contract": {"Verb"},
        "capplan.verbs.statement.options": {"Field"},
    }
    found = []
    for name, verb in served.methods().items():
        for field in verb.fields_at(Door.HTTP):
            if field.enumeration is not None:
                imports.setdefault(field.enumeration.__module__, set()).add(field.enumeration.__name__)
        found.append(textwrap.indent(_method(name, verb), "    "))
    lines = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(imports.items())]
    functions = [
        "def methods() -> dict[str, Verb[Any, Any]]: ...",
        "def places(verb: Verb[Any, Any]) -> tuple[Field, ...]: ...",
    ]
    return _SERVED_HEAD + "\n".join([*lines, "", *functions, "", "class ServedVerbs:", *found])


def _method(name: str, verb: Verb[Any, Any]) -> str:
    stated, places = verb.fields_at(Door.HTTP), served.places(verb)
    positional = [f"    {field.wire}: {type_words(field, _SERVED)} = ...," for field in places]
    named = [f"    {field.wire}: {type_words(field, _SERVED)} = ...," for field in stated if field not in places]
    lines = [f"def {name}(", "    self,", *positional, "    *,", *named, "    format: str = ...,", ") -> Any:"]
    return "\n".join([*lines, f'    """{verb.summary.splitlines()[0]}"""', ""])


_SERVED = {"model": "str | Path | bytes | Trace | None", "models": "str | Path | bytes | Trace | Sequence[str] | None"}


def _signatures(asked: Mapping[str, Verb[Any, Any]], imports: dict[str, set[str]], objects: Mapping[str, str]) -> str:
    """Return imports of types, those named and those of the verbs, and the functions that ask the verbs."""
    functions = []
    answers = {}
    for name, verb in asked.items():
        for field in verb.fields_at(Door.PYTHON):
            if field.enumeration is not None:
                imports.setdefault(field.enumeration.__module__, set()).add(field.enumeration.__name__)
        if not verb.returns:
            raise LookupError(f"{verb.path}: Verb.returns must name the type that Python receives, as 'module:Name'.")
        module, _, kind = verb.returns.partition(":")
        one = kind.removesuffix("[]")
        imports.setdefault(module, set()).add(one)
        returned = one
        if kind != one or is_dataclass(getattr(import_module(module), one)):
            returned = f"_{one}Shown" if kind == one else f"_{one}sShown"
            answers[returned] = one if kind == one else f"tuple[{one}, ...]"
            imports["capplan.api.call"] = {"Shown"}
        functions.append(_function(name, verb, returned, objects))
    lines = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(imports.items())]
    classes = [f"class {name}(Shown, {extended}): ..." for name, extended in answers.items()]
    return "\n".join([*lines, "", *classes, "", *functions])


def _written_by_hand() -> list[str]:
    functions = {name for name, value in vars(verbs).items() if getattr(value, "__module__", "") == verbs.__name__}
    return sorted(functions)


def _function(name: str, verb: Verb[Any, Any], returns: str, objects: Mapping[str, str]) -> str:
    fields = verb.fields_at(Door.PYTHON)
    places = positional_fields(verb)
    positional = [f"    {'*' if field.is_list else ''}{field.name}: {type_words(field, objects)}," for field in places]
    named = [f"    {field.name}: {type_words(field, objects)} = ...," for field in fields if field not in places]
    star = ["    *,"] if named and not any(line.lstrip().startswith("*") for line in positional) else []
    if any(field.name == "train" for field in fields):
        named.append("    training: Training | bool | None = ...,")
    text = "\n".join(f"    {line}".rstrip() for line in docstring(verb).splitlines())
    lines = [f"def {name}(", *positional, *star, *named, f") -> {returns}:", f'    """{text.strip()}', '    """', ""]
    return "\n".join(lines)


if __name__ == "__main__":
    PATH.write_text(stub(), encoding="utf-8")
    LLM_PATH.write_text(llm_stub(), encoding="utf-8")
    SERVED_PATH.write_text(served_stub(), encoding="utf-8")
