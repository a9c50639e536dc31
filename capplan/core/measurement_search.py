"""The largest batch that runs, found by running: never an answer that was not tried."""

from collections.abc import Callable
from enum import StrEnum


class Search(StrEnum):
    """How batches are tried: doubling to a failure and halving back, or one by one."""

    BINARY = "binary"
    SEQUENTIAL = "sequential"


def largest_running_batch(runs: Callable[[int], bool], *, search: Search, at_most: int) -> int:
    """Find the largest batch up to a cap that `runs`; 0 if not even one sample does.

    Both searches take failures to be monotonous: sequential search stops at the first one.
    """
    if search is Search.SEQUENTIAL:
        return _sequential(runs, at_most)
    fitting, failing = _doubled_to_failure(runs, at_most)
    while failing - fitting > 1:
        middle = (fitting + failing) // 2
        if runs(middle):
            fitting = middle
        else:
            failing = middle
    return fitting


def _sequential(runs: Callable[[int], bool], at_most: int) -> int:
    batch = 0
    while batch < at_most and runs(batch + 1):
        batch += 1
    return batch


def _doubled_to_failure(runs: Callable[[int], bool], at_most: int) -> tuple[int, int]:
    """The largest batch on the way that ran, and the smallest that is known, or by the cap taken, to fail."""
    fitting, tried = 0, 1
    while tried < at_most:
        if not runs(tried):
            return fitting, tried
        fitting, tried = tried, tried * 2
    return (at_most, at_most + 1) if runs(at_most) else (fitting, at_most)
