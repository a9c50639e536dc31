"""Answer a plan's questions about GPU memory: whether a batch fits, and the largest one that does.

For many batches or GPUs build a `MemoryModel` once: it keeps its event streams and replays.
"""

from collections.abc import Callable
from dataclasses import dataclass

from capplan.core.assumed import BOARD_SYSTEM_BYTES
from capplan.core.gpus.rate_laws import is_board
from capplan.core.gpus.spec import GpuSpec
from capplan.core.memory.model import MemoryModel, capacity_for_allocator
from capplan.core.memory.replays import StreamReplays
from capplan.core.memory.types import FitStatus, MemoryEstimate, fit_status
from capplan.core.numbers import End, Interval, largest_true
from capplan.core.workload import LARGEST_BATCH
from capplan.units import format_bytes


def memory_shortage(memory: MemoryEstimate, available_bytes: float) -> str:
    """Return by how much a batch exceeds the memory at the low end of its size, in words."""
    needed = memory.total_bytes
    return (
        f"needs {needed.to_text(format_bytes)}, {format_bytes(available_bytes)} may be filled: "
        f"{format_bytes(needed.low - available_bytes)} too much"
    )


def usable_memory(gpu: GpuSpec) -> Interval:
    """Return what a process can allocate: as reported, or the usual share of its kind of card ± 3 %. [bytes]

    A board's memory is its system's, too.
    """
    expected, high = gpu.expected_usable_bytes, min(gpu.memory_bytes, 1.03 * gpu.expected_usable_bytes)
    usable = Interval(low=0.97 * expected, expected=expected, high=max(expected, high))
    if gpu.usable_bytes is not None:
        usable = Interval.exact(gpu.usable_bytes)
    if not is_board(gpu):
        return usable
    held = BOARD_SYSTEM_BYTES
    return Interval(
        low=max(0.0, usable.low - held["high"]),
        expected=max(0.0, usable.expected - held["expected"]),
        high=max(0.0, usable.high - held["low"]),
    )


def available_memory(gpu: GpuSpec, *, utilization_fraction: float) -> Interval:
    """Return the memory budget of one process on a GPU: usable memory × utilisation. [bytes]

    Within it the allocator gives back what it cached before it fails, so that estimates and largest batches that
    replay it within the same limit agree.
    """
    return usable_memory(gpu) * utilization_fraction


def judge_fit(estimate: MemoryEstimate, *, available_bytes: Interval, max_batch: int) -> FitStatus:
    """Compare an estimate with the limit it was made within: borderline at least, up to the largest batch that fits.

    The allocator's segments may fit an odd batch worse than a larger one.
    """
    status = fit_status(estimate.total_bytes, available_bytes=available_bytes)
    certain = status is not FitStatus.DOES_NOT_FIT or estimate.batch > max_batch
    return status if certain else FitStatus.BORDERLINE


def largest_fitting_batch(
    model: MemoryModel, *, gpu: GpuSpec | None, available_bytes: float, end: End = End.EXPECTED
) -> int:
    """Find the largest batch whose process stays within `available_bytes`; 0 if not even one sample does.

    A replay shows that this batch fits, and a replay or the closed form that the next one does not; or a kernel refuses
    the next one, whatever the memory. A recording that holds for one batch alone answers with that batch or 0.
    """
    replays = model.replays(gpu, end)
    capacity = capacity_for_allocator(available_bytes, model.context(gpu).size_bytes, end)
    exact = model.recording.exact_batch
    if exact is not None:
        return exact if replays.at(exact, capacity).failed_event is None else 0
    refused, bound = model.refused_above, model.curve.largest_batch(capacity)
    most = LARGEST_BATCH if refused is None else min(refused, LARGEST_BATCH)
    if bound is None or bound > LARGEST_BATCH:
        return most
    return min(most, largest_replayed_batch(replays, capacity_bytes=capacity, at_most=bound))


def largest_certain_batch(model: MemoryModel, *, gpu: GpuSpec | None, available_bytes: Interval) -> int:
    """Find the largest batch that fits for certain: the upper end of its need within the least that is available.

    It is the largest by replays of the upper end, or a few 64ths below it where the estimate of that batch, rounded up
    to the allocator's segments, is borderline. It is 0 where no batch is certain.
    """
    found = largest_fitting_batch(model, gpu=gpu, available_bytes=available_bytes.low, end=End.HIGH)
    if model.recording.exact_batch is not None:
        return found
    while found:
        total = model.total_bytes(batch=found, gpu=gpu, available_bytes=available_bytes.expected)
        if fit_status(total, available_bytes=available_bytes) is FitStatus.FITS:
            break
        found -= max(1, found // 64)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestBatch:
    """The largest batch of a GPU: `certain` at the unfavourable end of every size, `expected` by the expected sizes."""

    certain: int
    expected: int

    @property
    def planned(self) -> int:
        """The batch to plan: the certain one, or the expected one where none is certain; 1 where none fits."""
        return self.certain or self.expected or 1


def largest_batches(model: MemoryModel, *, gpu: GpuSpec, utilization_fraction: float) -> LargestBatch:
    """Find the largest batch of a GPU, for certain and by the expected sizes: one rule for every verb."""
    available = available_memory(gpu, utilization_fraction=utilization_fraction)
    expected = largest_fitting_batch(model, gpu=gpu, available_bytes=available.expected)
    certain = largest_certain_batch(model, gpu=gpu, available_bytes=available) if expected else 0
    return LargestBatch(certain=min(expected, certain), expected=expected)


_ANCHOR_BATCHES = (5, 17, 67, 257, 1021, 4093, 16381, 65521)
"""Primes: batches that many powers of two divide fill whole segments, and need less than their neighbours."""


def largest_replayed_batch(replays: StreamReplays, *, capacity_bytes: int, at_most: int) -> int:
    """Find a batch that fits a capacity while the next does not; 0 if not even one sample fits."""

    def fits(batch: int) -> bool:
        return replays.at(batch, capacity_bytes).failed_event is None

    if at_most < 1:
        return 0
    guess = min(at_most, max(1, _guess(replays, capacity_bytes, at_most)))
    return largest_true(fits, *_bracket(fits, guess, at_most=at_most))


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
