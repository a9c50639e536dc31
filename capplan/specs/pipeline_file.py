"""Read FILE.pipeline.yaml: the parts of a pipeline, how often each runs, and the parameters of an item."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from capplan.core.named_code import before_colon
from capplan.core.ops.attention import AttentionBackend
from capplan.core.pipelines.types import BATCH_NAME, Offload, Part, PartKind, Pipeline
from capplan.core.workload import Framework, Precision
from capplan.errors import UnknownNameError, UsageError, nearest_names
from capplan.files import exists, is_file
from capplan.specs.strict_yaml import Checker, Tree, read_yaml

SUFFIXES = (".pipeline.yaml", ".pipeline.yml")
KNOWN_PREFIX = "pipeline:"
"""What stands before the name of a pipeline that comes with capplan."""
_KNOWN = Path(__file__).parent / "pipelines"
_MOST_PARTS = 32
_KEYS = ("name", "item", "parameters", "derived", "item_seconds", "host_s", "precision", "offload", "parts")
_SETTABLE = ("times", "precision", "framework", "weights", "attention", "offload", "on", "after")
"""What a question may state of a part, too."""
_PART_KEYS = (
    "model",
    "arguments",
    "inputs",
    "prepare",
    "samples",
    "kind",
    "weights_of",
    "tokens",
    "quantises",
    *_SETTABLE,
)

Word = TypeVar("Word", Precision, Framework, Offload, PartKind, AttentionBackend)


def known_names() -> tuple[str, ...]:
    """Return the names of the pipelines that come with capplan."""
    return tuple(sorted(path.name.removesuffix(SUFFIXES[0]) for path in _KNOWN.glob(f"*{SUFFIXES[0]}")))


def known_file(name: str) -> Path:
    """Return the file of a pipeline that comes with capplan."""
    if name not in known_names():
        raise UnknownNameError("pipeline", name, known_names(), hint="A file of your own ends in .pipeline.yaml.")
    return _KNOWN / f"{name}{SUFFIXES[0]}"


def read_pipeline(path: Path) -> Pipeline:
    """Read a pipeline's file."""
    tree = read_yaml(path)
    checker = Checker(str(path), "")
    checker.unknown_keys(tree, _KEYS, "")
    words = checker.words(tree, ("name", "item"))
    parts = tree.get("parts")
    if not isinstance(parts, dict) or not parts or len(parts) > _MOST_PARTS:
        checker.refuse("parts", f"must be 1 to {_MOST_PARTS} parts by name, each with a model")
        parts = {}
    pipeline = Pipeline(
        name=words.get("name", path.name.removesuffix(".yaml").removesuffix(".yml").removesuffix(".pipeline")),
        item=words.get("item", "item"),
        parts=tuple(part for name, given in parts.items() if (part := _part(checker, name, given, path)) is not None),
        parameters=_numbers(checker, tree, "parameters"),
        derived={
            name: _expression(checker, {f"derived.{name}": value}, f"derived.{name}", "1")
            for name, value in checker.mapping(tree, "derived").items()
        },
        item_seconds=None if "item_seconds" not in tree else _expression(checker, tree, "item_seconds", "1"),
        host_s=_expression(checker, tree, "host_s", "0"),
        precision=_word(checker, tree, "precision", Precision),
        offload=_word(checker, tree, "offload", Offload),
    )
    names = [part.name for part in pipeline.parts]
    for part in pipeline.parts:
        if part.weights_of and part.weights_of not in names[: names.index(part.name)]:
            checker.refuse(f"parts.{part.name}.weights_of", f"{part.weights_of!r} is no part before it")
    if not checker.problems and (reason := pipeline.disorder()):
        checker.refuse("parts", reason)
    checker.finish({})
    for part in pipeline.parts:
        pipeline.filled(part)
        pipeline.runs(part, 1)
    pipeline.seconds_of_item()
    pipeline.host_time_s(1)
    return pipeline


def _part(checker: Checker, name: str, given: object, path: Path) -> Part | None:
    where = f"parts.{name}."
    if not isinstance(given, dict):
        checker.refuse(f"parts.{name}", "must be keys with values, with a model among them")
        return None
    checker.unknown_keys(given, _PART_KEYS, where)
    words = checker.words(given, ("model", "weights_of"), prefix=where)
    if "model" not in words:
        checker.refuse(
            f"{where}model", "is missing; write it as `capplan plan` takes it, such as timm:vit_base_patch16_224"
        )
        return None
    arguments = given.get("arguments", {})
    if not isinstance(arguments, dict):
        checker.refuse(f"{where}arguments", "must be keys with values")
        arguments = {}
    if not isinstance(given.get("quantises", False), bool):
        checker.refuse(f"{where}quantises", f"must be true or false, not {given['quantises']!r}")
    tokens = given.get("tokens", [])
    return Part(
        name=name,
        model=_model_words(words["model"], path),
        arguments=arguments,
        inputs=checker.texts({f"{where}inputs": given.get("inputs", [])}, f"{where}inputs"),
        prepare=checker.texts({f"{where}prepare": given.get("prepare", [])}, f"{where}prepare"),
        samples=_expression(checker, given, "samples", "1", prefix=where),
        kind=_word(checker, given, "kind", PartKind, prefix=where) or PartKind.OTHER,
        weights_of=words.get("weights_of", ""),
        tokens=tuple(map(str, tokens if isinstance(tokens, list) else [tokens])),
        quantises=given.get("quantises") is True,
        **_settings(checker, given, where),
    )


def _settings(checker: Checker, given: Tree, where: str) -> dict[str, Any]:
    """Return what a file or a question states of how and where a part runs, by the name of the part's attribute."""
    settings: dict[str, Any] = {}
    for key, members in (
        ("precision", Precision), ("framework", Framework), ("attention", AttentionBackend), ("offload", Offload),
    ):  # fmt: skip
        if key in given:
            settings[key] = _word(checker, given, key, members, prefix=where)
    if "times" in given:
        settings["times"] = _expression(checker, given, "times", "1", prefix=where)
    if "after" in given:
        after = given["after"] if not isinstance(given["after"], tuple) else list(given["after"])
        settings["after"] = checker.texts(
            {f"{where}after": [after] if isinstance(after, str) else after}, f"{where}after"
        )
    return {**settings, **checker.words(given, ("weights", "on"), prefix=where)}


def with_part_settings(pipeline: Pipeline, given: Mapping[str, object]) -> Pipeline:
    """Return a pipeline whose parts run as a question states."""
    names = [part.name for part in pipeline.parts]
    changes: dict[str, dict[str, Any]] = {name: {} for name in names}
    for key, value in sorted(given.items(), key=lambda item: "." in item[0]):  # those of one part come last
        name, _, rest = key.rpartition(".")
        checker = Checker("⟨part⟩", "")
        if rest not in _SETTABLE:
            meant = nearest_names(rest, _SETTABLE) or _SETTABLE
            raise UsageError(f"⟨part⟩ {key}: {rest!r} is not what a part may be set; use {', '.join(meant)}.")
        if name and name not in names:
            raise UsageError(f"⟨part⟩ {key}: {pipeline.name} has no part {name!r}; it has {', '.join(names)}.")
        settings = _settings(checker, {rest: value}, f"{name}." if name else "")
        if checker.problems:
            problem = checker.problems[0]
            raise UsageError(f"⟨part⟩ {problem.key}: {problem.message}.")
        for part in [name] if name else names:
            changes[part] |= settings
    changed = replace(pipeline, parts=tuple(replace(part, **changes[part.name]) for part in pipeline.parts))
    if reason := changed.disorder():
        raise UsageError(f"⟨part⟩: {reason}.")
    return changed


def _model_words(words: str, path: Path) -> str:
    """Return a part's model, with a file of its own code or configuration looked for beside the pipeline's file."""
    prefix, colon, rest = before_colon(words)
    if prefix in ("hf", "diffusers") and colon and exists(path.parent / rest):
        return f"{prefix}:{path.parent / rest}"
    file = words.rpartition(":")[0] if colon and ".py:" in words else words
    if not exists(file) and is_file(path.parent / file):
        return str(path.parent / file) + words[len(file) :]
    return words


def _expression(checker: Checker, tree: Tree, key: str, default: str, *, prefix: str = "") -> str:
    """Read an expression: text, or a plain number."""
    value = tree.get(key, default)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        checker.refuse(f"{prefix}{key}", f"must be a number or an expression such as steps * passes, not {value!r}")
        return default
    return str(value)


def _numbers(checker: Checker, tree: Tree, key: str) -> Mapping[str, int | float]:
    numbers: dict[str, int | float] = {}
    for name, value in checker.mapping(tree, key).items():
        dotted = f"{key}.{name}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            checker.refuse(dotted, f"must be a number, not {value!r}")
        elif not name.isidentifier() or name == BATCH_NAME:
            checker.refuse(
                dotted, "is no name that an expression can use" if name != BATCH_NAME else "is the batch's own"
            )
        else:
            numbers[name] = value
    return numbers


def _word(checker: Checker, tree: Tree, key: str, members: type[Word], *, prefix: str = "") -> Word | None:
    return None if key not in tree else checker.member(f"{prefix}{key}", tree[key], members)


def settings_of(given: Mapping[str, Any]) -> dict[str, int | float]:
    """Return the values of parameters that a question sets."""
    settings: dict[str, int | float] = {}
    for name, value in given.items():
        if isinstance(value, bool):
            settings[name] = int(value)
        elif isinstance(value, int | float):
            settings[name] = value
        else:
            raise UsageError(f"⟨set⟩ {name}={value}: {value!r} is not a number.")
    return settings
