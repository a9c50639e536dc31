"""Read questions that reach the service from JSON bodies and query strings, within bounds, and link to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlencode

from msgspec import Meta

from capplan.errors import UsageError
from capplan.strict_json import JsonError, read_json
from capplan.verbs.statement.options import Door, Option
from capplan.verbs.statement.read import read_question, to_wire

Kind = TypeVar("Kind")


def question_from_json(kind: type[Kind], content: bytes) -> Kind:
    """Decode a JSON body."""
    try:
        document = read_json(content)
    except JsonError as error:
        raise UsageError(f"the body {error}.") from error
    if not isinstance(document, dict):
        raise UsageError("the body is JSON but not an object; write the question's fields as one object.")
    return question_from_mapping(kind, document)


def question_from_mapping(kind: type[Kind], document: Mapping[str, Any], *, is_strict: bool = True) -> Kind:
    """Convert a mapping of fields to a question."""
    check_bounds(document)
    return read_question(kind, document, door=Door.HTTP, name_of=lambda field: field.wire, is_text=not is_strict)


def question_from_query(kind: type[Kind], pairs: Sequence[tuple[str, str]]) -> Kind:
    """Read a question from the pairs of a query string: lists are repeated, or parted by commas."""
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if value == "":
            continue
        held = fields.get(name)
        fields[name] = value if held is None else [*(held if isinstance(held, list) else [held]), value]
    return question_from_mapping(kind, fields, is_strict=False)


API = "/api/v1"


def question_link(name: str, question: Any, **further: str) -> str | None:
    """Return the path and query string that ask a question; None where a query string cannot hold it."""
    fields = to_wire(question)
    if any(isinstance(value, dict) for value in fields.values()):
        return None
    words = {
        field: ",".join(map(str, value)) if isinstance(value, list | tuple) else value
        for field, value in fields.items()
    }
    asked = urlencode({**words, **further}, safe=":,")
    return f"{API}/{name}?{asked}" if asked else f"{API}/{name}"


MOST_VALUES = 100_000
DEEPEST = 12
LONGEST_TEXT = 2_000


def check_bounds(value: Any) -> None:
    """Refuse data that is too deep or too long, and what is not a plain value."""
    left = [(value, 0)]
    count = 0
    while left:
        part, depth = left.pop()
        count += 1
        if depth > DEEPEST or count > MOST_VALUES:
            raise UsageError(f"the question is nested deeper than {DEEPEST}, or holds over {MOST_VALUES:,} values.")
        if isinstance(part, Mapping):
            left += [(inner, depth + 1) for pair in part.items() for inner in pair]
        elif isinstance(part, list):
            left += [(inner, depth + 1) for inner in part]
        elif isinstance(part, str):
            if len(part) > LONGEST_TEXT:
                raise UsageError(f"the question holds a text of over {LONGEST_TEXT:,} characters.")
            try:
                part.encode()
            except UnicodeEncodeError:
                raise UsageError("the question holds half of a character, which is not a text.") from None
        elif isinstance(part, int) and not isinstance(part, bool) and abs(part) >= 2**63:
            raise UsageError("the question holds an integer beyond 64 bits.")
        elif not isinstance(part, bool | int | float | None):
            raise UsageError(f"the question holds a {type(part).__name__}, which is not a plain value.")


_field = partial(Option, doors=Door.HTTP)
CannedName = Literal["cheapest", "fastest", "quickest", "fits", "failures"]


@dataclass(frozen=True, kw_only=True)
class ResultsQuestion:
    """Canned questions to the results of a sweep, for models, GPUs and workloads whose names hold some letters."""

    ask: Annotated[CannedName, _field(help="Which canned question is asked.")] = "cheapest"
    model: Annotated[str, Meta(max_length=100), _field(help="Letters of models' names.")] = ""
    gpu: Annotated[str, Meta(max_length=100), _field(help="Letters of GPUs' ids.")] = ""
    workload: Annotated[str, Meta(max_length=100), _field(help="Letters of workloads' names.")] = ""
    limit: Annotated[int, Meta(ge=1, le=5000), _field(help="Rows at most.")] = 200
