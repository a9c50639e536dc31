"""Which cases of a test run every time, and which at night alone."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def mostly_nightly(cases: Iterable[Any], *, daily: Collection[Any]) -> list[Any]:
    """Mark all cases but the daily ones `nightly`: they repeat what the daily ones show, on other models.

    Args:
        cases: what `pytest.mark.parametrize` takes: a value each, or a tuple of them.
        daily: those that run every time; a tuple stands here by its first value.

    Raises:
        ValueError: a daily case is not among the cases.
    """
    named = [(case[0], case) if isinstance(case, tuple) else (case, (case,)) for case in cases]
    if strangers := [each for each in daily if each not in [name for name, _ in named]]:
        raise ValueError(f"not among the cases: {', '.join(sorted(map(str, strangers)))}")
    return [pytest.param(*case, marks=[] if name in daily else [pytest.mark.nightly]) for name, case in named]
