"""Read questions from JSON bodies and from query strings, in the words of the Python verbs or of the command line."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from capplan.errors import UsageError
from capplan.serve.questions.bounds import check_bounds
from capplan.strict_json import JsonError, read_json
from capplan.verbs.statement.options import Door
from capplan.verbs.statement.read import read_question

Kind = TypeVar("Kind")


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
    return read_question(kind, document, door=Door.HTTP, is_text=not is_strict)


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
