"""Read a question from what a door received, and write a question as a door takes it."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, is_dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from capplan.core.workload import known_words
from capplan.errors import UnknownNameError, UsageError
from capplan.files import named_path
from capplan.units import counted
from capplan.verbs.statement.contract import Verb
from capplan.verbs.statement.options import Door, Field, fields_of, words_at
from capplan.verbs.statement.words import assignment
from capplan.wording import worded

Kind = TypeVar("Kind")


def read_question(
    kind: type[Kind], given: Mapping[str, Any], *, door: Door,
    name_of: Callable[[Field], str] = lambda field: field.name, is_text: bool = False,
) -> Kind:  # fmt: skip
    """Convert values by name to a question."""
    values: dict[str, Any] = {}
    known = {field.name: field for field in fields_of(kind) if field.option.doors & door}
    for name, value in _expanded(given, known).items():
        field = _find(name, known)
        if field.name in values:
            raise UsageError(f"the field {field.name!r} is given twice.")
        values[field.name] = read_field(field, value, what=name_of(field), door=door, is_text=is_text)
    for field in known.values():
        if field.is_required and field.name not in values:
            raise UsageError(f"the field {name_of(field)!r} is missing: {_lowered(field.option.help)}")
    return kind(**values)


def _expanded(given: Mapping[str, Any], known: Mapping[str, Field]) -> Mapping[str, Any]:
    """Write `training`, which holds a whole training step or a truth value, as the fields of a step."""
    if "training" not in given or "train" not in known:
        return given
    values = {name: value for name, value in given.items() if name != "training"}
    step = given["training"]
    if step is None or isinstance(step, bool | str):
        return values | ({} if step is None else {"train": step})
    if isinstance(step, msgspec.Struct) or is_dataclass(step):
        step = msgspec.to_builtins(step)
    if not isinstance(step, Mapping):
        raise UsageError(f'training: expected true, false or {{"optimizer": ...}}, not {short_repr(step)}.')
    for name in step:
        if name not in ("optimizer", "checkpointing", "accumulate"):
            raise UnknownNameError("field", str(name)[:100], ("optimizer", "checkpointing", "accumulate"))
    return values | {"train": True, **step}


def _find(name: str, known: Mapping[str, Field]) -> Field:
    """Return the field of a name, of its option's name, or of a list's name in the singular."""
    by_option = {field.key.replace("-", "_"): field for field in known.values()}
    plain = name.replace("-", "_")
    for word in (plain, f"{plain}s", _SINGULAR.get(plain, plain)):
        if word in known:
            return known[word]
        if word in by_option:
            return by_option[word]
    raise UnknownNameError("field", name[:100], known, hint=f"Known: {', '.join(known)}.")


_SINGULAR = {"models": "model", "batches": "batch"}


def read_field(field: Field, value: Any, *, what: str, door: Door, is_text: bool = False) -> Any:
    """Convert one value to what a field holds."""
    words = field.option.words
    value = _shaped(field, value, door=door)
    if words is not None and value is not None:
        if is_text and words.is_number and isinstance(value, str) and door is not Door.COMMAND:  # which wants units
            value = _number(value)
        value = words.read(value, what)
        if not words.is_number and (field.meta is None or not isinstance(value, int | float)):
            return value
    value = _canonical(field, value)
    # Refuse a word that a field does not admit.
    known = field.choices
    for word in (value if isinstance(value, list) else [value]) if known else ():
        if isinstance(word, str) and word not in known:
            members = field.enumeration
            hint = f"Known: {', '.join(known)}." if members is None else known_words(members, word)
            raise UnknownNameError(field.option.choice or field.key.replace("-", " "), word[:100], known, hint=hint)
    try:
        return msgspec.convert(value, bounded_type(field), strict=not is_text, dec_hook=_hook)
    except msgspec.ValidationError as error:
        reason = _in_words(_lowered(str(error)).partition(", got `")[0], field)
        reason = reason.replace("invalid RFC3339 encoded date", "expected a day such as 2026-11-21")
        shown = value[0] if isinstance(value, list) and len(value) == 1 and "a list" not in reason else value
        shown = str(shown) if isinstance(shown, Path) else shown
        raise UsageError(f"{what}: {reason}, not {short_repr(shown)}.") from error
    except (RecursionError, OverflowError) as error:
        raise UsageError(f"{what}: it is nested too deeply, or holds a number too large.") from error


_KINDS = {
    "int": "a whole number", "float": "a number", "str": "text", "bool": "true or false", "array": "a list",
    "object": "names with values",
}  # fmt: skip
_REFUSED = re.compile(r"expected `([a-z |]+)`(?: of length (>=|<=) (\d+))?")
_NO_BOUND = 1e12
"""Bounds from here on only keep numbers finite; nobody who mistypes one needs to know them."""


def _in_words(reason: str, field: Field) -> str:
    """Return what msgspec expected in plain English, with the bounds of a number."""
    expected = _REFUSED.match(reason)
    if expected is None:
        return reason
    kinds = [kind for kind in expected[1].split(" | ") if kind != "null"]
    words = " or ".join(_KINDS.get(kind, kind) for kind in kinds)
    if expected[2]:
        count, unit = int(expected[3]), "item" if "array" in kinds else "character"
        return f"expected {words} of at {'most' if expected[2] == '<=' else 'least'} {counted(count, unit)}"
    if field.bounds is None or not {"int", "float"} & set(kinds):
        return f"expected {words}"
    return f"expected {words} {bounds_in_words(field.bounds)}".rstrip()


def bounds_in_words(bounds: msgspec.Meta, *, shown: float = _NO_BOUND) -> str:
    """Return the bounds of a number, such as "from 1 to 7"; empty without any."""
    limits = (bounds.ge, bounds.gt, bounds.le)
    low, above, high = (
        None if limit is None or limit >= shown else f"{limit:,}".removesuffix(".0") for limit in limits
    )
    if low and high:
        return f"from {low} to {high}"
    words = (
        f"of at least {low}" if low else "",
        f"above {above}" if above else "",
        f"of at most {high}" if high else "",
    )
    return " and ".join(filter(None, words))


def bounded_type(field: Field) -> Any:
    """Return the type of a field with its bounds, which msgspec wants on each type, not on the union with None."""
    if field.meta is None:
        return field.type
    bounded: Any = reduce(or_, [Annotated[kind, field.meta] for kind in field.kinds])
    return bounded | None if field.default is None else bounded


def _shaped(field: Field, value: Any, *, door: Door) -> Any:
    """Wrap one value in a list where several are wanted, and unwrap the only item where one is.

    A set is put into the order of its texts, so that the same question has the same answer in every process. A path
    that Python hands over stands for its text.
    """
    if isinstance(value, Path) and door is Door.PYTHON and field.kinds == (str,):
        value = str(value)
    if field.is_list:
        if isinstance(value, set | frozenset):
            value = sorted(value, key=str)
        if isinstance(value, str) or (isinstance(value, Path | int | float) and not isinstance(value, bool)):
            value = [value]
        if field.enumeration is not None or door & (Door.HTTP | Door.PAGE):
            return _parted(value)
        return list(value) if isinstance(value, tuple) else value
    if field.option.words is None and not field.is_mapping and isinstance(value, list) and len(value) == 1:
        return value[0]
    return value


def _parted(values: Any) -> Any:
    """Return the items of a list, texts parted at their commas."""
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        return values
    return [piece.strip() for value in values for piece in value.split(",") if piece.strip()]


def _canonical(field: Field, value: Any) -> Any:
    """Return the words of an enumeration for others that it reads, such as fp16 for half; what it lacks stays."""
    if isinstance(value, list):
        return [_canonical(field, item) for item in value]
    if field.enumeration is None or not isinstance(value, str) or value in field.choices:
        return value
    try:
        return field.enumeration(value).value
    except ValueError:
        return value


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _hook(wanted: Any, value: Any) -> Any:
    """Convert what msgspec does not know: paths."""
    if wanted is Path and isinstance(value, str | Path):
        return named_path(value)
    raise ValueError("expected the path of a file")


def _lowered(words: str) -> str:
    """Return a sentence as the end of another one; what begins as GPUs does keeps its capitals."""
    first = words[:1] if words[1:2].isupper() else words[:1].lower()
    return first + words[1:300].partition(" - at `$")[0]


def short_repr(value: Any) -> str:
    """Return how a value is written in an error: its repr, cut after 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def changed_fields(question: Any, *, door: Door) -> dict[Field, Any]:
    """Return the fields of a question that differ from their defaults and may be written at a door."""
    fields = [field for field in fields_of(type(question)) if field.option.doors & door]
    values = {field: getattr(question, field.name) for field in fields}
    return {field: value for field, value in values.items() if value != field.default}


def to_wire(question: Any) -> dict[str, Any]:
    """Return a question as JSON holds it: what differs from the defaults, of the fields that a service takes."""
    for field in changed_fields(question, door=~Door.HTTP):
        if not field.option.doors & Door.HTTP:
            raise UsageError(f"{field.flag} works on this machine only; leave it out, or leave out --server.")
    changed = changed_fields(question, door=Door.HTTP)
    return {
        field.wire: msgspec.to_builtins(value if field.option.words is None else field.option.words.to_wire(value))
        for field, value in changed.items()
    }


def command_of(verb: Verb[Any, Any], question: Any, *, program: str = "capplan") -> str:
    """Return the command that asks a question."""
    words = [program, verb.path] if verb.path else [program]
    options: list[str] = []
    for field, value in changed_fields(question, door=Door.COMMAND).items():
        if field.option.is_argument:
            words += map(str, value) if field.is_list else [str(value)]
        else:
            options += _option_words(field, value)
    return " ".join([*words[:2], shlex.join([*words[2:], *options])]).strip()


def _option_words(field: Field, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [field.flag] if value else []
    if isinstance(value, Mapping):
        return [word for name, item in value.items() for word in (field.flag, assignment(name, item))]
    if isinstance(value, tuple) and field.is_list:
        texts = [getattr(item, "value", str(item)) for item in value]
        return [field.flag, ",".join(texts)] if field.name == "gpus" else [v for t in texts for v in (field.flag, t)]
    if field.option.words is not None:
        return [field.flag, field.option.words.write(value)]
    text = getattr(value, "value", None)
    return [field.flag, text if text is not None else f"{value:.15g}" if isinstance(value, float) else str(value)]


def served_help(field: Field, fields: Sequence[Field]) -> str:
    """Return the help of a field where a service answers, other fields by their names in JSON."""
    return worded(field.option.served or field.option.help, words_at(fields, Door.HTTP))


def wire_type(question: type) -> type[msgspec.Struct]:
    """Return a struct with the fields of a question as JSON holds them, for schemas."""
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for field in fields_of(question):
        if not field.option.doors & Door.HTTP:
            continue
        meta = msgspec.Meta(description=served_help(field, fields_of(question))) if field.option.help else None
        plain: Any = bounded_type(field) if field.option.words is None else field.option.words.wire
        if field.option.words is not None and field.default is None:
            plain = plain | None
        annotated: Any = plain if meta is None else Annotated[plain, meta]
        default = field.default if field.option.words is None else _wire_default(field)
        fields.append((field.wire, annotated) if field.is_required else (field.wire, annotated, default))
    struct = msgspec.defstruct(question.__name__, fields, kw_only=True, forbid_unknown_fields=True)
    struct.__doc__ = question.__doc__
    return struct


def _wire_default(field: Field) -> Any:
    assert field.option.words is not None
    value = None if field.default in (None, MISSING) else field.option.words.to_wire(field.default)
    return msgspec.field(default_factory=dict) if value == {} else value
