"""A measured batch curve: where throughput is best, and where a larger batch stopped helping."""

from collections.abc import Sequence
from dataclasses import dataclass

from capplan.core.knee import gain_of_doubling
from capplan.core.measurement import Measurement

GAIN_FRACTION = 0.10
"""A doubling that gains less than this share of throughput no longer pays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCurve:
    """What a curve says. `knee_batch` is the smallest from which no doubling gains 10 %, None where all still do."""

    largest_batch: int
    best_batch: int
    best_throughput_per_s: float
    knee_batch: int | None


def measured_curve(points: Sequence[Measurement]) -> MeasuredCurve | None:
    """Read a curve of at least two batches; None for fewer. Of a batch measured twice the last counts."""
    by_batch = {point.workload.batch: point.throughput_per_s for point in points}
    rising = sorted(by_batch.items())
    if len(rising) < 2:
        return None
    best_batch, best = max(rising, key=lambda pair: pair[1])
    return MeasuredCurve(
        largest_batch=rising[-1][0],
        best_batch=best_batch,
        best_throughput_per_s=best,
        knee_batch=_knee(rising),
    )


def still_pays(before: Measurement, after: Measurement) -> bool:
    """Did the larger batch gain at least 10 % of throughput per doubling?"""
    pair = [(each.workload.batch, each.throughput_per_s) for each in (before, after)]
    return gain_of_doubling(*pair[0], *pair[1]) >= GAIN_FRACTION


def _knee(rising: Sequence[tuple[int, float]]) -> int | None:
    for index, (batch, rate) in enumerate(rising[:-1]):
        if all(gain_of_doubling(batch, rate, *later) < GAIN_FRACTION for later in rising[index + 1 :]):
            return batch
    return None
