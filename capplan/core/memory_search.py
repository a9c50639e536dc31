"""The largest batch that fits a device: inverted from the closed form, then certified by replays.

The peak of the storages alone bounds the batch from above at once. Workspaces, rounding and the allocator's
segments are not affine, so the answer is searched below that bound by replaying the allocator within the device's
memory, until one batch fits and the next does not.
"""

from collections.abc import Callable

from capplan.core.batches import LARGEST_BATCH
from capplan.core.gpu import GpuSpec
from capplan.core.memory_model import MemoryModel, capacity_for_allocator
from capplan.core.memory_program import End


def largest_fitting_batch(
    model: MemoryModel, *, gpu: GpuSpec | None, available_bytes: float, end: End = End.EXPECTED
) -> int:
    """Find the largest batch whose process stays within `available_bytes`; 0 if not even one sample does.

    `end` says which end of the uncertain terms must fit. A recording that holds for one batch alone answers
    with that batch or 0.
    """
    capacity = capacity_for_allocator(available_bytes, model.context(gpu).size_bytes, end)

    def fits(batch: int) -> bool:
        return batch_fits(model, batch=batch, gpu=gpu, capacity_bytes=capacity, end=end)

    exact = model.recording.exact_batch
    if exact is not None:
        return exact if fits(exact) else 0
    bound = model.curve.largest_batch(capacity)
    if bound is None or bound > LARGEST_BATCH:
        return LARGEST_BATCH
    return _largest(fits, at_most=bound)


def batch_fits(model: MemoryModel, *, batch: int, gpu: GpuSpec | None, capacity_bytes: int, end: End) -> bool:
    """Tell whether the allocator finds room for every allocation within a capacity, giving back what it cached."""
    free = model.replayed(batch=batch, gpu=gpu, end=end)
    if free.peak_allocated_bytes > capacity_bytes or free.peak_reserved_bytes <= capacity_bytes:
        return free.peak_reserved_bytes <= capacity_bytes
    limited = model.replayed(batch=batch, gpu=gpu, end=end, capacity_bytes=capacity_bytes)
    return limited.failed_event is None


def _largest(fits: Callable[[int], bool], *, at_most: int) -> int:
    """Halve towards the largest batch that fits, starting just under the bound, where it usually lies."""
    fitting, failing = 0, at_most + 1
    step = max(1, at_most // 64)
    while failing - fitting > 1:
        candidate = max(fitting + 1, failing - step) if fitting == 0 else (fitting + failing) // 2
        if fits(candidate):
            fitting = candidate
        else:
            failing = candidate
            step *= 4
    return fitting
