"""capplan: which GPU fits a model, how fast it runs there and what it costs, before anyone buys one.

The verbs of the command line, for Python callers. Importing capplan loads neither torch nor numpy.
"""

from typing import Any

from capplan.api.client import Client
from capplan.api.verbs import (
    load_gpus,
    load_trace,
    read_sweep,
)
from capplan.verbs.statement.registry import PYTHON_NAMES
from capplan.version import __version__

__all__ = [
    "Client",
    "__version__",
    "analyze",
    "calibrate",
    "check",
    "compare",
    "diff",
    "estimate",
    "gpus",
    "llm",
    "load_gpus",
    "load_trace",
    "make_report",
    "measure",
    "memory",
    "plan",
    "prices",
    "query",
    "read_sweep",
    "sweep",
    "trace",
    "validate",
]


def __dir__() -> list[str]:
    """Return what tab completion shows: the verbs, though none is imported yet."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> Any:
    """Return the function that asks a verb; it is made when it is first asked for, so that importing loads nothing."""
    if name == "llm":
        from importlib import import_module

        return import_module("capplan.llm")
    if name not in PYTHON_NAMES:
        raise AttributeError(f"module 'capplan' has no attribute {name!r}")
    from capplan.api.call import python_function
    from capplan.verbs.statement.registry import find_verb

    function = python_function(find_verb(PYTHON_NAMES[name]), name)
    globals()[name] = function
    return function
