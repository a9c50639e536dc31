"""Find the knee, above which a larger batch gains little, and the batch that saturates the GPU."""

import math
from collections.abc import Sequence

from capplan.core.latency.types import Binding, LatencyEstimate


def knee_batch(estimates: Sequence[LatencyEstimate], *, gain_fraction: float = 0.10) -> int:
    """Find the smallest batch from which doubling it gains less than `gain_fraction` of throughput.

    The curve must be given at rising batches; between them throughput is taken as linear in the
    logarithm of the batch. Where every doubling still pays, the largest batch is the answer.
    """
    points = sorted((estimate.batch, estimate.throughput_per_s.expected) for estimate in estimates)
    for index, (batch, rate) in enumerate(points[:-1]):
        later = points[index + 1 :]
        if all(gain_of_doubling(batch, rate, other, other_rate) < gain_fraction for other, other_rate in later):
            return batch
    return points[-1][0]


def saturating_batch(estimates: Sequence[LatencyEstimate], *, share_fraction: float = 0.95) -> int:
    """Find the smallest batch that reaches `share_fraction` of the best throughput on the curve."""
    points = sorted((estimate.batch, estimate.throughput_per_s.expected) for estimate in estimates)
    best = max(rate for _, rate in points)
    return next(batch for batch, rate in points if rate >= share_fraction * best)


def device_batch(estimates: Sequence[LatencyEstimate]) -> int | None:
    """Find the smallest batch from which on the device decides a step's time, not the host's launches.

    Args:
        estimates: a curve; the batches between its points are not looked at.

    Returns:
        The batch; None where the host decides at the largest one.
    """
    found: int | None = None
    for estimate in sorted(estimates, key=lambda each: -each.batch):
        if estimate.bound_by is Binding.LAUNCHES:
            break
        found = estimate.batch
    return found


def gain_of_doubling(batch: int, rate: float, other: int, other_rate: float) -> float:
    """Return the relative gain of throughput per doubling of the batch, from one point of the curve to a later one."""
    return float((other_rate / rate) ** (1 / math.log2(other / batch)) - 1)
