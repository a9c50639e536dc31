"""Read questions from JSON bodies and from query strings, in the words of the Python verbs or of the command line."""

import types
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar, get_args, get_origin

import msgspec

from capplan.errors import UnknownNameError, UsageError
from capplan.serve.questions.bounds import check_bounds
from capplan.strict_json import JsonError, read_json
from capplan.verbs.options import Door
from capplan.verbs.read import read_question

Kind = TypeVar("Kind")

ALIASES: Final[Mapping[str, str]] = {
    "model": "models",
    "batch": "batches",
    "batches": "batch",
    "gpu": "gpus",
    "provider": "providers",
    "region": "regions",
    "vendor": "vendors",
    "arch": "architectures",
    "architecture": "architectures",
    "input": "inputs",
    "arg": "arguments",
    "utilization": "utilization_fraction",
    "max_latency": "max_latency_s",
    "min_throughput": "min_throughput_per_s",
    "max_price": "max_usd_per_hour",
    "torch": "torch_version",
    "gain": "gain_fraction",
    "sharding": "shardings",
    "train": "training",
    "term": "terms",
    "tier": "tiers",
    "max_age": "max_age_days",
    "conditions": "where",
}
"""Names of options of the command line, and the fields that they stand for."""


def question_from_json(kind: type[Kind], content: bytes) -> Kind:
    """Decode a JSON body.

    Raises:
        UsageError: it is not JSON, or does not hold what the question must.
    """
    try:
        document = read_json(content)
    except JsonError as error:
        raise UsageError(f"the body {error}.") from error
    if not isinstance(document, dict):
        raise UsageError("the body is JSON but not an object; write the question's fields as one object.")
    return question_from_mapping(kind, document)


def question_from_mapping(kind: type[Kind], document: Mapping[str, Any], *, is_strict: bool = True) -> Kind:
    """Convert a mapping of fields to a question.

    Args:
        kind: the type of the question.
        document: the fields' values.
        is_strict: refuse texts where numbers are wanted, as in JSON but not in a query string.

    Raises:
        UsageError: a field is unknown, or holds something else than it must.
    """
    check_bounds(document)
    if not issubclass(kind, msgspec.Struct):
        return read_question(kind, document, door=Door.HTTP, is_text=not is_strict)
    known = {field.name: field for field in msgspec.structs.fields(kind)}
    fields: dict[str, Any] = {}
    for name, value in document.items():
        found = name.replace("-", "_") if name.replace("-", "_") in known else ALIASES.get(name.replace("-", "_"), name)
        if found not in known:
            raise UnknownNameError("field", name[:100], known, hint=f"Known: {', '.join(known)}.")
        if found in fields:
            raise UsageError(f"the field {found!r} is given twice.")
        fields[found] = _shaped(known[found].type, value)
    try:
        return msgspec.convert(fields, kind, strict=is_strict)
    except msgspec.ValidationError as error:
        raise UsageError(f"the question cannot be read: {_lowered(str(error))}.") from error
    except (RecursionError, OverflowError) as error:
        raise UsageError(
            "the question cannot be read: it is nested too deeply, or holds a number too large."
        ) from error


def question_from_query(kind: type[Kind], pairs: Sequence[tuple[str, str]]) -> Kind:
    """Read a question from the pairs of a query string: lists are repeated, or parted by commas.

    Raises:
        UsageError: a field is unknown, or holds something else than it must.
    """
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if value == "":
            continue
        held = fields.get(name)
        fields[name] = value if held is None else [*(held if isinstance(held, list) else [held]), value]
    return question_from_mapping(kind, fields, is_strict=False)


def _shaped(wanted: Any, value: Any) -> Any:
    """Put one value where a list is wanted into a list, and take the only item of a list where one value is."""
    kinds = set(_origins(wanted))
    if isinstance(value, str) and list in kinds and str not in kinds:
        return [piece.strip() for piece in value.split(",") if piece.strip()]
    if isinstance(value, list) and list in kinds and str not in kinds and all(isinstance(each, str) for each in value):
        return [piece.strip() for each in value for piece in each.split(",") if piece.strip()] if value else value
    if isinstance(value, list) and str in kinds and list in kinds and value and all(isinstance(v, str) for v in value):
        return ",".join(value)
    if isinstance(value, int) and not isinstance(value, bool) and list in kinds and int not in kinds:
        return [value]
    if isinstance(value, list) and len(value) == 1 and list not in kinds:
        return value[0]
    return value


def _origins(wanted: Any) -> list[Any]:
    """Return the plain types that an annotation admits."""
    if get_origin(wanted) is types.UnionType or str(get_origin(wanted)) == "typing.Union":
        return [each for part in get_args(wanted) for each in _origins(part)]
    if hasattr(wanted, "__metadata__"):
        return _origins(get_args(wanted)[0])
    return [get_origin(wanted) or wanted]


def _lowered(words: str) -> str:
    return words[:1].lower() + words[1:300] if words else "it holds something else than it must"
