"""Which cases of a test run every time, and which at night alone."""

from collections.abc import Collection, Sequence
from typing import Any

import pytest


def mostly_nightly(cases: Sequence[str], *, daily: Collection[str]) -> list[Any]:
    """Mark all cases but the daily ones `nightly`: they repeat what the daily ones show, on other models.

    Raises:
        ValueError: a daily case is not among the cases.
    """
    if strangers := set(daily) - set(cases):
        raise ValueError(f"not among the cases: {', '.join(sorted(strangers))}")
    return [case if case in daily else pytest.param(case, marks=pytest.mark.nightly) for case in cases]
