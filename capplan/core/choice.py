"""Choose among options of which some rest on weak evidence: one rule for every answer that recommends something."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

WORTH_MENTIONING_FRACTION = 0.9
"""An option passed over for its evidence is mentioned if its cost is at most this share of the chosen one's."""


def choose(options: Sequence[T], *, cost: Callable[[T], float], is_weak: Callable[[T], bool]) -> tuple[T, T | None]:
    """Choose the option of least cost among those of good evidence; among all, where no evidence is good.

    Returns:
        The option to take, and a clearly cheaper one that was passed over because its evidence is weak.
    """
    least = min(options, key=cost)
    sure = [option for option in options if not is_weak(option)]
    if not sure:
        return least, None
    chosen = min(sure, key=cost)
    is_cheaper = cost(least) < WORTH_MENTIONING_FRACTION * cost(chosen)
    return chosen, least if is_cheaper else None


def evidence_rank(*, cost: float | None, is_weak: bool) -> tuple[bool, bool, float]:
    """Return a key that sorts options by the same rule: with a cost first, good evidence before weak, then by cost."""
    return cost is None, is_weak, cost or 0.0
