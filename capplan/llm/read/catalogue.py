"""The catalogue of open language models: one JSON file per model, found by the names that people type."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from capplan.core.weights import find_weight_format
from capplan.errors import CapplanError, UnknownNameError, nearest_names
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.core.quantisation import Quantisation, default_quantisation
from capplan.llm.core.tensors import WeightRole
from capplan.llm.read.config.parse import parse_config
from capplan.llm.read.config.traits import UnusualModelError

_REFUSED = "refused.json"
_SUFFIXES = ("-instruct", "-it", "-chat", "-base")
_SUFFIX_FORMATS = {
    "fp8": "fp8", "fp8dynamic": "fp8", "quantizedw8a8": "int8", "w8a8": "int8", "quantizedw4a16": "int4_wo",
    "w4a16": "int4_wo", "awq": "awq", "gptq": "gptq", "gptqint4": "gptq", "int4": "int4_wo", "nvfp4": "nvfp4",
}  # fmt: skip
_FORMAT_SUFFIX = re.compile(
    r"[-.](fp8-dynamic|fp8|(?:quantized\.)?w8a8|(?:quantized\.)?w4a16|awq|gptq-int4|gptq|int4|nvfp4)$", re.IGNORECASE
)


@cache
def _entries() -> Mapping[str, Mapping[str, Any]]:
    """Return every entry of the catalogue by its id; the files are read once in a process."""
    folder = files("capplan") / "llm_models"
    found = {}
    for file in folder.iterdir():
        if file.name.endswith(".json") and file.name != _REFUSED:
            entry = json.loads(file.read_text(encoding="utf-8"))
            found[entry["id"]] = entry
    return dict(sorted(found.items()))


def catalogue_ids() -> tuple[str, ...]:
    """Return the ids of all models of the catalogue."""
    return tuple(_entries())


def models_of_equal_size(parameters: int) -> frozenset[str]:
    """Return the ids of all models with exactly so many parameters: releases and formats of the same layers."""
    return frozenset(name for name, entry in _entries().items() if entry["parameters"] == parameters)


def stored_checkpoint(name: str, weights: str) -> str | None:
    """Return the repository of a model of the catalogue whose checkpoint is stored in a format; None for none.

    Of a maker's several checkpoints that with the shortest name is taken. fp8 is what fp8 in blocks is, too.
    """
    formats = {"fp8", "fp8_block"} if weights in ("fp8", "fp8_block") else {weights}
    size = _entries()[name]["parameters"] if name in _entries() else None
    found = [
        (len(other), entry["hf_id"])
        for other, entry in _entries().items()
        if other.startswith(f"{name}-") and entry["parameters"] == size
        and (entry.get("quantisation") or {}).get("format") in formats
    ]  # fmt: skip
    return min(found)[1] if found else None


def load_catalogue() -> dict[str, LanguageModel]:
    """Return all models of the catalogue by id."""
    return {name: _model(entry) for name, entry in _entries().items()}


def find_in_catalogue(name: str) -> LanguageModel | None:
    """Return the model of a name, None if there is none.

    A name that ends in a number format, such as Qwen3-32B-AWQ or Qwen2.5-7B-Instruct-quantized.w8a8, is the model
    before it, stored in that format.

    Args:
        name: An id, a publisher's name with or without its organisation, in either case, with or without a suffix
            such as -instruct where one model alone has it.
    """
    word = name.rpartition("/")[2]
    found = _find_id(word)
    if found is not None:
        return _model(_entries()[found])
    suffix = _FORMAT_SUFFIX.search(word)
    base = _find_id(word[: suffix.start()]) if suffix is not None else None
    if suffix is None or base is None:
        return None
    model = _model(_entries()[base])
    quantisation = default_quantisation(model.architecture, find_weight_format(_SUFFIX_FORMATS[_plain(suffix[1])]))
    return replace(
        model,
        architecture=replace(model.architecture, name=word),
        quantisation=quantisation,
        hf_id=None,
        source=f"{model.source}; number format by the name",
    )


def _find_id(word: str) -> str | None:
    """Return the id of a name, also of one that adds words of fine-tuning to it, which change no layer."""
    names = _names()
    bare = re.sub(r"^meta-", "", word, flags=re.IGNORECASE)
    tuned = re.sub(r"-(instruct|chat|it|base|hf)(?=-v[\d.]+$|$)", "", bare, flags=re.IGNORECASE)
    return next((names[_plain(spelling)] for spelling in (word, bare, tuned) if _plain(spelling) in names), None)


def unknown_model(name: str) -> CapplanError:
    """Return the error of a name that the catalogue does not have: why it was refused, else the nearest ones."""
    word = name.rpartition("/")[2]
    plain = _plain(word)
    begun = tuple(identity for identity in catalogue_ids() if _plain(identity).startswith(plain))
    refused = json.loads((files("capplan") / "llm_models" / _REFUSED).read_text(encoding="utf-8"))
    for identity, entry in refused.items():
        known = (_plain(identity), _plain(entry["hf_id"].rpartition("/")[2]))
        # A long enough beginning of a known name counts, such as gemma-3n of gemma-3n-e4b-it.
        is_long = not begun and len(plain) >= _SHORTEST_BEGINNING
        if plain in known or (is_long and any(spelling.startswith(plain) for spelling in known)):
            return UnusualModelError(entry["reason"])
    nearest = tuple(dict.fromkeys((*begun[:_MOST_BEGUN], *nearest_names(word, catalogue_ids()))))[:_MOST_BEGUN]
    hint = "Run `capplan llm models` for all, or name a file: hf:config.json, hf:FOLDER, MODEL.gguf."
    if _ENCODERS.match(word):
        hint = f"Encoders are no language models here: `capplan plan hf:config.json` plans them. {hint}"
    return UnknownNameError("language model", name, nearest=nearest, hint=hint)


_ENCODERS = re.compile(r"(bge|e5|gte|minilm|all-minilm|(\w+-)?bert|roberta|xlm-roberta)\b", re.IGNORECASE)
_MOST_BEGUN = 3
_SHORTEST_BEGINNING = 7


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@cache
def _names() -> Mapping[str, str]:
    """Return every form of a name with its id; a shortened one that several models share means none of them."""
    exact: dict[str, str] = {}
    short: dict[str, set[str]] = {}
    for name, entry in _entries().items():
        published = entry["hf_id"].rpartition("/")[2]
        for spelling in (name, published, published.removeprefix("Meta-"), published.removesuffix("-hf")):
            exact.setdefault(_plain(spelling), name)
        for suffix in _SUFFIXES:
            if name.endswith(suffix):
                short.setdefault(_plain(name.removesuffix(suffix)), set()).add(name)
    for name in _entries():
        exact[_plain(name)] = name
    alone = {spelling: next(iter(models)) for spelling, models in short.items() if len(models) == 1}
    return {**alone, **exact}


def _model(entry: Mapping[str, Any]) -> LanguageModel:
    stored = entry.get("quantisation")
    return LanguageModel(
        architecture=parse_config(entry["config"], name=entry["id"]),
        dtype=entry["dtype"],
        quantisation=None if stored is None else _quantisation(stored),
        source=entry["source"],
        declares_fp8_cache=entry.get("declares_fp8_cache", False),
        check=entry["check"],
        hf_id=entry["hf_id"],
    )


def _quantisation(stored: Mapping[str, Any]) -> Quantisation:
    return Quantisation(
        format=find_weight_format(stored["format"]),
        roles=frozenset(WeightRole(role) for role in stored["roles"]),
        skipped_layers=frozenset(stored["skipped_layers"]),
        mixed=tuple((WeightRole(role), find_weight_format(name)) for role, name in stored["mixed"].items()),
    )
