"""Every verb and where it lies; only the module of the one that is asked is imported."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capplan.verbs.statement.contract import Verb

VERBS: Mapping[str, str] = {
    "plan": "capplan.verbs.plan:PLAN",
    "compare": "capplan.verbs.compare:COMPARE",
    "analyze": "capplan.verbs.analyze:ANALYZE",
    "memory": "capplan.verbs.memory:MEMORY",
    "estimate": "capplan.verbs.estimate:ESTIMATE",
    "report": "capplan.verbs.report:REPORT",
    "load": "capplan.verbs.load:LOAD",
    "accept": "capplan.verbs.accept:ACCEPT",
    "trace": "capplan.verbs.trace:TRACE",
    "measure": "capplan.verbs.measure:MEASURE",
    "sweep": "capplan.verbs.sweep:SWEEP",
    "diff": "capplan.verbs.saved:DIFF",
    "check": "capplan.verbs.saved:CHECK",
    "query": "capplan.verbs.saved:QUERY",
    "schema": "capplan.verbs.saved:SCHEMA",
    "explain": "capplan.verbs.explain:EXPLAIN",
    "validate": "capplan.verbs.validate:VALIDATE",
    "calibrate fit": "capplan.verbs.calibrate:CALIBRATE_FIT",
    "calibrate device": "capplan.verbs.calibrate:CALIBRATE_DEVICE",
    "calibrate host": "capplan.verbs.calibrate:CALIBRATE_HOST",
    "calibrate power": "capplan.verbs.calibrate:CALIBRATE_POWER",
    "gpus": "capplan.verbs.gpus:GPUS",
    "gpus show": "capplan.verbs.gpus:GPUS_SHOW",
    "gpus compare": "capplan.verbs.gpus:GPUS_COMPARE",
    "gpus detect": "capplan.verbs.gpus:GPUS_DETECT",
    "gpus new": "capplan.verbs.gpu_files:GPUS_NEW",
    "gpus validate": "capplan.verbs.gpu_files:GPUS_VALIDATE",
    "gpus import-microbench": "capplan.verbs.gpu_files:GPUS_IMPORT_MICROBENCH",
    "gpus schema": "capplan.verbs.gpu_files:GPUS_SCHEMA",
    "gpus path": "capplan.verbs.gpu_files:GPUS_PATH",
    "prices": "capplan.verbs.prices:PRICES",
    "prices import": "capplan.verbs.prices:PRICES_IMPORT",
    "prices update": "capplan.verbs.price_update:PRICES_UPDATE",
    "prices sources": "capplan.verbs.price_update:PRICES_SOURCES",
    "cache": "capplan.verbs.cache:CACHE",
    "cache clear": "capplan.verbs.cache:CACHE_CLEAR",
    "llm memory": "capplan.verbs.llm.memory:LLM_MEMORY",
    "llm estimate": "capplan.verbs.llm.estimate:LLM_ESTIMATE",
    "llm plan": "capplan.verbs.llm.plan:LLM_PLAN",
    "llm simulate": "capplan.verbs.llm.simulate:LLM_SIMULATE",
    "llm models": "capplan.verbs.llm.memory:LLM_MODELS",
    "llm scale": "capplan.verbs.llm.scale:LLM_SCALE",
    "llm start": "capplan.verbs.llm.start:LLM_START",
    "llm support": "capplan.verbs.llm.support:LLM_SUPPORT",
    "llm report": "capplan.verbs.llm.report:LLM_REPORT",
    "llm fleet": "capplan.verbs.llm.fleet:LLM_FLEET",
    "llm validate": "capplan.verbs.llm.validate:LLM_VALIDATE",
    "llm fit": "capplan.verbs.llm.fit:LLM_FIT",
    "llm evidence update": "capplan.verbs.llm.evidence:LLM_EVIDENCE_UPDATE",
    "llm fit-memory": "capplan.verbs.llm.fit:LLM_FIT_MEMORY",
    "llm train memory": "capplan.verbs.llm.train_job:LLM_TRAIN_MEMORY",
    "llm train estimate": "capplan.verbs.llm.train_job:LLM_TRAIN_ESTIMATE",
    "llm train plan": "capplan.verbs.llm.train_plan:LLM_TRAIN_PLAN",
    "llm train validate": "capplan.verbs.llm.validate:LLM_TRAIN_VALIDATE",
}
"""Where each verb lies, by its path: the words of its command."""

COMMAND_TOPICS: Mapping[str, tuple[str, ...]] = {
    "Choose GPUs": ("plan", "compare", "report", "llm"),
    "Understand a model": ("analyze", "memory", "estimate", "trace", "explain"),
    "Measure and judge": ("load", "accept", "measure", "validate", "calibrate"),
    "Many models, many people": ("sweep", "query", "serve", "mcp"),
    "GPUs and prices": ("gpus", "prices"),
    "Saved answers": ("diff", "check", "schema"),
    "Settings": ("config", "cache"),
}
"""The headings under which `capplan --help` lists the commands; one that is not named here is listed last."""

CONFIGURABLE = ("plan", "compare", "memory", "estimate", "report", "analyze")
"""The verbs whose defaults configuration files may set; each may have a table of its own there."""
SPEC_READERS = ("calibrate", "check", "diff", "gpus", "llm", "mcp", "prices", "query", "serve", "sweep", "validate")
"""The other commands, or groups of them, that take own specs and prices, and so the key `specs` of these files."""

PYTHON_NAMES: Mapping[str, str] = {
    "analyze": "analyze",
    "calibrate": "calibrate fit",
    "check": "check",
    "compare": "compare",
    "diff": "diff",
    "estimate": "estimate",
    "gpus": "gpus",
    "make_report": "report",
    "measure": "measure",
    "memory": "memory",
    "plan": "plan",
    "prices": "prices",
    "query": "query",
    "sweep": "sweep",
    "trace": "trace",
    "validate": "validate",
}
"""The verbs that `import capplan` offers, by what Python calls them."""


TOOLS = ("plan", "memory", "estimate", "llm plan", "llm memory", "llm train plan", "gpus show")
"""The verbs that an assistant sees as tools of their own; the others it reaches through one more tool."""


def llm_names() -> dict[str, str]:
    """Return the verbs that `import capplan.llm` offers, by what Python calls them."""
    return {
        path.removeprefix("llm ").replace("-", "_").replace(" ", "_"): path for path in VERBS if path.startswith("llm ")
    }


def find_verb(path: str) -> "Verb[Any, Any]":
    """Return a verb."""
    module, _, name = VERBS[path].partition(":")
    verb: Verb[Any, Any] = getattr(import_module(module), name)
    return verb


def served_verbs() -> tuple[str, ...]:
    """Return the paths of the verbs that a service may answer."""
    return tuple(path for path in VERBS if find_verb(path).is_served)


def verb_of(question: Any) -> "Verb[Any, Any] | None":
    """Return the verb that a question belongs to, or None if it belongs to no verb."""
    kind = question if isinstance(question, type) else type(question)
    return next((verb for verb in map(find_verb, VERBS) if verb.question is kind), None)
