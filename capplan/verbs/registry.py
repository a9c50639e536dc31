"""Every verb and where it lies; only the module of the one that is asked is imported."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capplan.verbs.contract import Verb

VERBS: Mapping[str, str] = {
    "plan": "capplan.verbs.plan:PLAN",
    "compare": "capplan.verbs.compare:COMPARE",
    "analyze": "capplan.verbs.analyze:ANALYZE",
    "memory": "capplan.verbs.memory:MEMORY",
    "estimate": "capplan.verbs.estimate:ESTIMATE",
    "report": "capplan.verbs.report:REPORT",
}
"""Where each verb lies, by its path: the words of its command."""

CONFIGURABLE = ("plan", "compare", "memory", "estimate", "report", "analyze")
"""The verbs whose defaults configuration files may set; each may have a table of its own there."""

PYTHON_NAMES: Mapping[str, str] = {
    "analyze": "analyze",
    "compare": "compare",
    "estimate": "estimate",
    "make_report": "report",
    "memory": "memory",
    "plan": "plan",
}
"""The verbs that `import capplan` offers, by what Python calls them."""


def find_verb(path: str) -> "Verb[Any, Any]":
    """Return a verb.

    Args:
        path: the words of its command, such as "plan" or "llm plan".
    """
    module, _, name = VERBS[path].partition(":")
    verb: Verb[Any, Any] = getattr(import_module(module), name)
    return verb


def verb_of(question: Any) -> "Verb[Any, Any] | None":
    """Return the verb that a question belongs to; None for what is no question of a verb."""
    kind = question if isinstance(question, type) else type(question)
    return next((verb for verb in map(find_verb, VERBS) if verb.question is kind), None)
