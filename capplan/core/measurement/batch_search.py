"""Find the largest batch that runs, by running it: never an answer that was not tried."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from capplan.core.latency.advice import GAIN_FRACTION, gain_of_doubling, knee
from capplan.core.measurement.types import Measurement
from capplan.core.numbers import largest_true
from capplan.core.workload import BatchSearch


def largest_running_batch(runs: Callable[[int], bool], *, search: BatchSearch, at_most: int) -> int:
    """Find the largest batch up to a cap that `runs`; 0 if not even one sample does.

    Both searches take failures to be monotonous: sequential search stops at the first one.
    """
    if search is BatchSearch.SEQUENTIAL:
        batch = 0
        while batch < at_most and runs(batch + 1):
            batch += 1
        return batch
    return largest_true(runs, *_doubled_to_failure(runs, at_most))


def _doubled_to_failure(runs: Callable[[int], bool], at_most: int) -> tuple[int, int]:
    """Return the largest batch on the way that ran, and the smallest that is known, or by the cap taken, to fail."""
    fitting, tried = 0, 1
    while tried < at_most:
        if not runs(tried):
            return fitting, tried
        fitting, tried = tried, tried * 2
    return (at_most, at_most + 1) if runs(at_most) else (fitting, at_most)


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
        knee_batch=knee(rising, gain_fraction=GAIN_FRACTION),
    )


def still_pays(before: Measurement, after: Measurement) -> bool:
    """Return True if the larger batch gained at least 10 % of throughput per doubling."""
    pair = [(point.workload.batch, point.throughput_per_s) for point in (before, after)]
    return gain_of_doubling(*pair[0], *pair[1]) >= GAIN_FRACTION
