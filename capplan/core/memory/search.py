"""Find the largest batch within a capacity: guess from how the allocator's need grows, and certify by replays.

From a few large batches on, what a stream needs is nearly an affine function of the batch: the same blocks are split
and given back in the same order, only larger. Two batches whose need was replayed give the guess. The search around
it depends on the stream and the capacity alone, so that a GPU gets the same answer in any company.
"""

from collections.abc import Callable

from capplan.core.memory.replays import StreamReplays

_ANCHOR_BATCHES = (5, 17, 67, 257, 1021, 4093, 16381, 65521)
"""Primes: batches that many powers of two divide fill whole segments, and need less than their neighbours."""


def largest_replayed_batch(replays: StreamReplays, *, capacity_bytes: int, at_most: int) -> int:
    """Find a batch that fits a capacity while the next does not; 0 if not even one sample fits.

    Args:
        replays: the replays of one event stream.
        capacity_bytes: what the device leaves to the allocator. [bytes]
        at_most: no larger batch fits, by the closed form.
    """

    def fits(batch: int) -> bool:
        return replays.at(batch, capacity_bytes).failed_event is None

    if at_most < 1:
        return 0
    guess = min(at_most, max(1, _guess(replays, capacity_bytes, at_most)))
    return _bisect(fits, *_bracket(fits, guess, at_most=at_most))


def _guess(replays: StreamReplays, capacity_bytes: int, at_most: int) -> int:
    """Interpolate between the needs of the two anchors around the answer."""
    anchors = [batch for batch in _ANCHOR_BATCHES if batch <= max(at_most, _ANCHOR_BATCHES[1])]
    low, high = anchors[-2:]
    need_low, need_high = replays.least_capacity(low), replays.least_capacity(high)
    per_sample = (need_high - need_low) / (high - low)
    return int(low + (capacity_bytes - need_low) / per_sample) if per_sample > 0 else at_most


def _bracket(fits: Callable[[int], bool], guess: int, *, at_most: int) -> tuple[int, int]:
    """Widen the guess by doubling steps to a batch that fits (or 0) and a larger one that does not."""
    step = 1
    if fits(guess):
        fitting = guess
        while fitting + step <= at_most and fits(fitting + step):
            fitting, step = fitting + step, 2 * step
        return fitting, min(fitting + step, at_most + 1)
    failing = guess
    while failing - step > 0 and not fits(failing - step):
        failing, step = failing - step, 2 * step
    return max(0, failing - step), failing


def _bisect(fits: Callable[[int], bool], fitting: int, failing: int) -> int:
    while failing - fitting > 1:
        middle = (fitting + failing) // 2
        fitting, failing = (middle, failing) if fits(middle) else (fitting, middle)
    return fitting
