"""Read LOAD.yaml of language-model serving: its keys are the options of `capplan llm plan`, with underscores."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from capplan.specs.load import CONSTRAINT_KEYS
from capplan.specs.strict_yaml import Tree, read_yaml
from capplan.specs.values import per_second
from capplan.verbs.llm.plan_question import LlmPlanQuestion
from capplan.verbs.statement.file_keys import KeyReader, fields_by_key
from capplan.verbs.statement.options import Door, Field, fields_of

KEYS: Mapping[str, Field] = {
    key: field for key, field in fields_by_key(fields_of(LlmPlanQuestion), Door.LOAD).items() if key != "model"
}
"""The keys of a load file, with the fields that they set; `model` stands beside the file, or in a fleet's entry."""
_BY_NAME = {field.name: key for key, field in KEYS.items()}
_OTHER_NAMES = {"hours": "hours_of_use", "gpus": "gpu", "engines": "engine"}
_LIMITS = ("max_ttft", "max_tpot", "max_e2e", "percentile", "certainty")
_BESIDE = ("service", "running", "observed")
"""The parts of a file of `capplan load` beside `llm`; `service` is what `capplan report` reads."""
_BUYERS = (*CONSTRAINT_KEYS, "allow_spot")
_Question = TypeVar("_Question")
_SHARE = re.compile(r"(-?\d+(?:\.\d+)?)\s*%")


def read_load_file(path: Path, *, model: str) -> LlmPlanQuestion:
    """Read a load file."""
    return read_load_tree(read_yaml(path), shown=str(path), model=model)


def read_load_tree(tree: Tree, *, shown: str, model: str) -> LlmPlanQuestion:
    """Read what a load file holds."""
    reader = _OptionKeyReader(shown, shown)
    options, buyers = parted(tree)
    for key in buyers:
        reader.refuse(key, "states what a buyer admits, which `capplan llm report` decides by; leave it out here")
    values = reader.read(options)
    reader.finish({})
    return LlmPlanQuestion(model=model, **values)


def parted(tree: Tree) -> tuple[Tree, Tree]:
    """Return the keys that are options of a plan, and those that state what a buyer admits, as a report's load does."""
    keys = _keys_of(tree)
    buyers = {name for name in _BUYERS if name in keys and (name not in KEYS or isinstance(keys[name], dict))}
    return {key: keys[key] for key in keys if key not in buyers}, {key: keys[key] for key in buyers}


def _keys_of(tree: Tree) -> Tree:
    """Return the keys of a load file that are options: those of its part `llm`, where it has one."""
    inner = tree.get("llm", tree)
    if inner is tree or not isinstance(inner, dict) or not set(tree) <= {"llm", *_BESIDE}:
        return tree
    return {**inner, **{key: tree[key] for key in ("running",) if key in tree and key in KEYS}}


def with_load(question: _Question, path: Path | None, *, model: str) -> _Question:
    """Return a question about serving with what a load file states; an option other than its default wins over it."""
    if path is None:
        return question
    stated = read_load_file(path, model=model)
    own = {field.name: field for field in fields_of(type(question))}
    taken = {
        field.name: getattr(stated, field.name)
        for field in KEYS.values()
        if field.name in own
        and getattr(question, field.name) == own[field.name].default
        and getattr(stated, field.name) != field.default
    }
    return replace(question, **taken)  # type: ignore[type-var]  # questions are dataclasses


def read_fleet(tree: Tree, *, shown: str, apart: Mapping[str, str]) -> tuple[LlmPlanQuestion, ...]:
    """Read several models with their loads: `models` is a list, keys beside it hold for all of them."""
    reader = _OptionKeyReader(shown, shown)
    entries = tree.get("models")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        reader.refuse("models", "must be a list of loads, each with its model, such as - {model: qwen3-8b, rate: 5/s}")
        reader.finish({})
    asked = []
    for entry in entries if isinstance(entries, list) else []:
        keys = {**{key: value for key, value in tree.items() if key != "models"}, **entry}
        model = keys.pop("model", None)
        if not isinstance(model, str) or not model.strip():
            reader.refuse("models", f"each entry must name its model, not {model!r}")
        for key in apart.keys() & reader.in_options_names(keys).keys():
            reader.refuse(key, apart[key])
        asked.append((str(model), reader.read(keys)))
    reader.finish({})
    return tuple(LlmPlanQuestion(model=model, **values) for model, values in asked)


class _OptionKeyReader(KeyReader):
    """Reads the keys of a load file, in the options' names or in others that they have had."""

    def read(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of the fields that keys name."""
        given = self.in_options_names(tree)
        values = {key: _as_option(KEYS[key], value) if key in KEYS else value for key, value in given.items()}
        return self.fields(values, KEYS, door=Door.LOAD)

    def in_options_names(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keys in the names of options, those of the group `limits` among them."""
        given = dict(tree)
        limits = given.pop("limits", {})
        if isinstance(limits, dict):
            given |= {key if key in _LIMITS[3:] else f"max_{key}": value for key, value in limits.items()}
        else:
            self.refuse("limits", f"must be keys with times, such as ttft: 1 s, not {limits!r}")
        named: dict[str, Any] = {}
        for key, value in given.items():
            name = _OTHER_NAMES.get(key) or _BY_NAME.get(key, key)
            if name in named:
                self.refuse(key, f"is given twice, as {name}, too; keep one")
            named[name] = value
        return named


def _as_option(field: Field, value: Any) -> Any:
    """Return a value as the field's option takes it: a rate with its time, shares in percent, prices by name."""
    if field.name == "rate_per_s" and isinstance(value, str):
        rate = per_second(value)
        return value if rate is None else rate
    if (
        field.name == "api_usd_per_million_tokens"
        and isinstance(value, dict)
        and {"input", "output"} <= set(value) <= {"input", "cached", "output"}
    ):
        return [value[name] for name in ("input", "cached", "output") if name in value]
    if field.option.words is None and isinstance(value, str) and float in field.kinds:
        share = _SHARE.fullmatch(value)
        return value if share is None else float(share[1]) / 100
    return value
