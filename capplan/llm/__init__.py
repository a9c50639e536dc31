"""Serving of language models: the arithmetic (`core`), what is read from files (`read`), and the answers (`answer`).

The verbs of `capplan llm`, for Python callers: `capplan.llm.plan(...)`. Importing this package loads nothing else.
"""

from importlib import import_module
from typing import Any


def __dir__() -> list[str]:
    """Return what tab completion shows: the verbs, though none is imported yet."""
    names = import_module("capplan.verbs.statement.registry").llm_names()
    return sorted({*names, *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> Any:
    """Return the function that asks a verb about language models; it is made when it is first asked for.

    The doors and the verbs stand above this package, so that they are imported by name, and only here.
    """
    registry = import_module("capplan.verbs.statement.registry")
    path = registry.llm_names().get(name)
    if path is None:
        raise AttributeError(f"module 'capplan.llm' has no attribute {name!r}")
    function = import_module("capplan.api.call").python_function(registry.find_verb(path), name)
    globals()[name] = function
    return function
