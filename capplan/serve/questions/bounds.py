"""Bounds of what a question may hold, whatever its fields are: depth, length, numbers and texts that can be written."""

from collections.abc import Mapping
from typing import Any

from capplan.errors import UsageError

MOST_VALUES = 100_000
DEEPEST = 12
LONGEST_TEXT = 2_000


def check_bounds(value: Any) -> None:
    """Refuse data that is too deep or too long, and what is not a plain value.

    Args:
        value: what was decoded from JSON.

    Raises:
        UsageError: it exceeds a bound.
    """
    left = [(value, 0)]
    count = 0
    while left:
        each, depth = left.pop()
        count += 1
        if depth > DEEPEST or count > MOST_VALUES:
            raise UsageError(f"the question is nested deeper than {DEEPEST}, or holds over {MOST_VALUES:,} values.")
        if isinstance(each, Mapping):
            left += [(part, depth + 1) for pair in each.items() for part in pair]
        elif isinstance(each, list):
            left += [(part, depth + 1) for part in each]
        else:
            _check_plain(each)


def _check_plain(value: Any) -> None:
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT:
            raise UsageError(f"the question holds a text of over {LONGEST_TEXT:,} characters.")
        if not _is_writable(value):
            raise UsageError("the question holds half of a character, which is not a text.")
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        raise UsageError("the question holds an integer beyond 64 bits.")
    elif not isinstance(value, bool | int | float | None):
        raise UsageError(f"the question holds a {type(value).__name__}, which is not a plain value.")


def _is_writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
