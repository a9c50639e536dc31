"""What a test that walks a tree, a table or a page must have seen before its finding counts."""

from collections.abc import Iterable
from typing import TypeVar

Case = TypeVar("Case")


def at_least(least: int, cases: Iterable[Case]) -> list[Case]:
    """Return all cases; fail if they are so few that the walk has missed what it is about."""
    seen = list(cases)
    assert len(seen) >= least, f"saw {len(seen)} cases, not at least {least}"
    return seen
