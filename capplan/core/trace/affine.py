"""Integers that grow with the batch size: constant + per_sample · batch."""

from typing import NamedTuple


class Affine(NamedTuple):
    """An integer function of the batch size: `constant + per_sample · batch`."""

    constant: int
    per_sample: int = 0

    def at(self, batch: int) -> int:
        """Evaluate at a batch size."""
        return self.constant + self.per_sample * batch


def fit_affine(*, first: tuple[int, int], second: tuple[int, int]) -> Affine | None:
    """Find the affine function through two (batch, value) pairs; None if it is not an integer one."""
    (batch_a, value_a), (batch_b, value_b) = first, second
    per_sample, rest = divmod(value_b - value_a, batch_b - batch_a)
    return None if rest else Affine(value_a - per_sample * batch_a, per_sample)
