"""PyTorch's CUDA caching allocator, replayed: what a stream of allocations and frees reserves.

The rules are those of the native backend (c10/cuda/CUDACachingAllocator): sizes round up to
512 bytes; up to 1 MiB comes from a pool of 2 MiB segments, less than 10 MiB from 20 MiB segments, more
from segments of its own size rounded up to 2 MiB; the smallest free block that is large enough is
taken, lowest address first, and split where more than 1 MiB (small pool: 512 bytes) would be left; a freed
block merges with its free neighbours; when the device is full, wholly free segments are given back
and the allocation is tried once more. `memory_allocated` counts whole blocks, unsplit remainders included.

Blocks are kept in units of 512 bytes, and segments never touch, so that neighbours are found by address alone.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from capplan.core.memory.repeats import Repeat

UNIT_BYTES = 512
"""Every block is a multiple of this. [bytes]"""

_MIB = 2**20 // UNIT_BYTES
_SMALL_LIMIT = 1 * _MIB
_SMALL_SEGMENT = 2 * _MIB
_LARGE_SEGMENT = 20 * _MIB
_LARGE_LIMIT = 10 * _MIB
_LARGE_ROUNDING = 2 * _MIB
_ADDRESS_BITS = 44
_ADDRESS_MASK = (1 << _ADDRESS_BITS) - 1
_SMALL, _LARGE = 0, 1

Block = tuple[int, int, int]
"""A block in use: its pool, start and size, in units of 512 bytes."""


class OutOfDeviceMemory(Exception):  # noqa: N818 - the field's name for it
    """An allocation that failed after the cached segments were given back; a signal between replays, never shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """The result of replaying a stream of events.

    `peak_event` is the index of the event at which the allocated peak was first reached, `failed_event` the
    allocation that found no memory (None where all did); peaks are over what ran. `least_denied_bytes` is the
    smallest total that the device was asked to reserve and refused; None where it refused nothing. [bytes]
    """

    peak_allocated_bytes: int
    peak_reserved_bytes: int
    peak_event: int
    failed_event: int | None = None
    retries: int = 0
    least_denied_bytes: int | None = None

    def holds_at(self, capacity_bytes: float | None) -> bool:
        """Return True if a replay within this capacity would run event for event like this one.

        A capacity enters a replay only where a total to be reserved is compared with it, so that two capacities
        that accept and refuse the same totals give the same replay. [bytes]
        """
        if capacity_bytes is None:
            return self.least_denied_bytes is None
        denied = self.least_denied_bytes
        return self.peak_reserved_bytes <= capacity_bytes and (denied is None or capacity_bytes < denied)


@dataclass(slots=True)
class CachingAllocator:
    """The allocator's state; addresses and sizes in units of 512 bytes, totals in the properties in bytes.

    `capacity_bytes` is what the device leaves to the allocator; None means without limit.
    """

    capacity_bytes: int | None = None
    expandable_segments: bool = False
    _free: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    _size_by_start: tuple[dict[int, int], dict[int, int]] = field(default_factory=lambda: ({}, {}))
    _start_by_end: tuple[dict[int, int], dict[int, int]] = field(default_factory=lambda: ({}, {}))
    _segments: dict[int, int] = field(default_factory=dict)
    _frontier: list[int] = field(default_factory=lambda: [1, 1 << (_ADDRESS_BITS - 1)])
    allocated: int = 0
    reserved: int = 0
    peak_allocated: int = 0
    peak_reserved: int = 0
    retries: int = 0
    least_denied: int | None = None

    def copy(self, *, capacity_bytes: int | None) -> "CachingAllocator":
        """Return an independent allocator in the same state, within a capacity that what it holds fits. [bytes]"""
        return CachingAllocator(
            capacity_bytes=capacity_bytes,
            expandable_segments=self.expandable_segments,
            _free=(self._free[0].copy(), self._free[1].copy()),
            _size_by_start=(self._size_by_start[0].copy(), self._size_by_start[1].copy()),
            _start_by_end=(self._start_by_end[0].copy(), self._start_by_end[1].copy()),
            _segments=self._segments.copy(),
            _frontier=self._frontier.copy(),
            allocated=self.allocated,
            reserved=self.reserved,
            peak_allocated=self.peak_allocated,
            peak_reserved=self.peak_reserved,
        )

    def _add_free(self, pool: int, start: int, size: int) -> None:
        insort(self._free[pool], (size << _ADDRESS_BITS) | start)
        self._size_by_start[pool][start] = size
        self._start_by_end[pool][start + size] = start

    def _remove_free(self, pool: int, start: int, size: int) -> None:
        free = self._free[pool]
        del free[bisect_left(free, (size << _ADDRESS_BITS) | start)]
        del self._size_by_start[pool][start]
        del self._start_by_end[pool][start + size]

    def _grow(self, pool: int, size: int) -> None:
        if self.expandable_segments:
            page = _SMALL_SEGMENT if pool == _SMALL else _LARGE_SEGMENT
            frontier = self._frontier[pool]
            before = self._start_by_end[pool].get(frontier, frontier)
            mapped = -(-(size - (frontier - before)) // page) * page
            self._reserve(mapped)
            before = self._start_by_end[pool].get(frontier, frontier)  # pages may have been given back meanwhile
            if frontier - before + mapped < size:
                more = -(-(size - (frontier - before) - mapped) // page) * page
                self._reserve(more)
                mapped += more
            if before < frontier:
                self._remove_free(pool, before, frontier - before)
            self._frontier[pool] = frontier + mapped
            self._add_free(pool, before, frontier - before + mapped)
            return
        if pool == _SMALL:
            segment = _SMALL_SEGMENT
        elif size < _LARGE_LIMIT:
            segment = _LARGE_SEGMENT
        else:
            segment = -(-size // _LARGE_ROUNDING) * _LARGE_ROUNDING
        self._reserve(segment)
        start = self._frontier[pool]
        self._frontier[pool] = start + segment + 1
        self._segments[start] = segment
        self._add_free(pool, start, segment)

    def _reserve(self, size: int) -> None:
        if self.capacity_bytes is not None and (self.reserved + size) * UNIT_BYTES > self.capacity_bytes:
            self.retries += 1
            self._deny(self.reserved + size)
            self._give_back()
            if (self.reserved + size) * UNIT_BYTES > self.capacity_bytes:
                self._deny(self.reserved + size)
                raise OutOfDeviceMemory
        self.reserved += size
        self.peak_reserved = max(self.peak_reserved, self.reserved)

    def _deny(self, total: int) -> None:
        self.least_denied = total if self.least_denied is None else min(self.least_denied, total)

    def _give_back(self) -> None:
        for pool in (_SMALL, _LARGE):
            for start, size in list(self._size_by_start[pool].items()):
                if self.expandable_segments:
                    self._unmap(pool, start, size)
                elif self._segments.get(start) == size:
                    self._remove_free(pool, start, size)
                    del self._segments[start]
                    self.reserved -= size

    def _unmap(self, pool: int, start: int, size: int) -> None:
        """Return the whole pages inside a free block to the driver; the rest stays free on either side."""
        page = _SMALL_SEGMENT if pool == _SMALL else _LARGE_SEGMENT
        base = 1 if pool == _SMALL else 1 << (_ADDRESS_BITS - 1)
        first = base + -(-(start - base) // page) * page
        last = base + (start + size - base) // page * page
        if first >= last:
            return
        self._remove_free(pool, start, size)
        if start < first:
            self._add_free(pool, start, first - start)
        if last < start + size:
            self._add_free(pool, last, start + size - last)
        if last == self._frontier[pool]:
            self._frontier[pool] = first
        self.reserved -= last - first


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The state after the first `events` events of a stream, from which replays of the rest may start.

    `blocks` are those taken so far, by storage; `peak_event` is the event of the allocated peak so far.
    """

    allocator: CachingAllocator
    blocks: tuple[Block | None, ...]
    events: int
    peak_event: int


def checkpoint(
    sizes_bytes: Sequence[int], events: Sequence[int], *, until: int, expandable_segments: bool = False
) -> Checkpoint:
    """Run the first `until` events of a stream without a limit and return the state reached. [bytes]"""
    allocator = CachingAllocator(expandable_segments=expandable_segments)
    blocks: list[Block | None] = [None] * len(sizes_bytes)
    peak_event = _run(allocator, blocks, sizes_bytes, events, first=0, until=until)[0]
    return Checkpoint(allocator=allocator, blocks=tuple(blocks), events=until, peak_event=peak_event)


def replay(
    sizes_bytes: Sequence[int],
    events: Sequence[int],
    *,
    capacity_bytes: int | None = None,
    expandable_segments: bool = False,
    optional: Set[int] = frozenset(),
    start: Checkpoint | None = None,
    repeats: Sequence[Repeat] = (),
) -> ReplayResult:
    """Run a stream of events: `e` >= 0 allocates storage e, `~e` < 0 frees it.

    A stream that fails stops there, unless the storage is `optional`: then it goes on without, as cuDNN does with
    an algorithm that needs no workspace.
    """
    if start is None or (capacity_bytes is not None and start.allocator.peak_reserved * UNIT_BYTES > capacity_bytes):
        allocator = CachingAllocator(capacity_bytes=capacity_bytes, expandable_segments=expandable_segments)
        blocks: list[Block | None] = [None] * len(sizes_bytes)
        first = peak_event = 0
    else:
        allocator = start.allocator.copy(capacity_bytes=capacity_bytes)
        blocks = list(start.blocks)
        first, peak_event = start.events, start.peak_event
    course = _Course(
        allocator=allocator, blocks=blocks, sizes=sizes_bytes, events=events, optional=optional, peak_event=peak_event
    )
    failed_event = course.run_all(first, [repeat for repeat in repeats if repeat.first >= first])
    denied = allocator.least_denied
    return ReplayResult(
        peak_allocated_bytes=allocator.peak_allocated * UNIT_BYTES,
        peak_reserved_bytes=allocator.peak_reserved * UNIT_BYTES,
        peak_event=course.peak_event,
        failed_event=failed_event,
        retries=allocator.retries,
        least_denied_bytes=None if denied is None else denied * UNIT_BYTES,
    )


@dataclass(slots=True, kw_only=True)
class _Course:
    """A replay under way: runs stretches of the stream, and passes over repetitions that would run alike."""

    allocator: CachingAllocator
    blocks: list[Block | None]
    sizes: Sequence[int]
    events: Sequence[int]
    optional: Set[int]
    peak_event: int

    def run_all(self, first: int, repeats: Sequence[Repeat]) -> int | None:
        """Run the stream from an event on; return the event that failed, None where none did."""
        for repeat in repeats:
            failed = self._run(first, repeat.first)
            if failed is None:
                failed = self._run_repeat(repeat)
            if failed is not None:
                return failed
            first = repeat.boundary(repeat.count)
        return self._run(first, len(self.events))

    def _run(self, first: int, until: int) -> int | None:
        before = self.allocator.peak_allocated
        peaked, failed = _run(
            self.allocator, self.blocks, self.sizes, self.events, first=first, until=until, optional=self.optional
        )
        if self.allocator.peak_allocated > before:
            self.peak_event = peaked
        return failed

    def _run_repeat(self, repeat: Repeat) -> int | None:
        """Run repetitions until the state before one is that before an earlier one; then only what is left over."""
        seen: dict[tuple[object, ...], tuple[int, int]] = {}
        index, passed = 0, False
        while index < repeat.count:
            if not passed:
                state = self._state(repeat, index)
                before = seen.setdefault(state, (index, self.allocator.retries))
                if before[0] < index:
                    # Skip as many whole cycles as there are; the blocks in use are then those of the last repetition
                    # skipped.
                    cycle = index - before[0]
                    times = (repeat.count - index) // cycle
                    later = index + times * cycle
                    here, there = repeat.boundary(index), repeat.boundary(later)
                    held = [self.blocks[self.events[here - back]] for back in repeat.live[index]]
                    for back, block in zip(repeat.live[index], held, strict=True):
                        self.blocks[self.events[there - back]] = block
                    self.allocator.retries += times * (self.allocator.retries - before[1])
                    index, passed = later, True
                    continue
            failed = self._run(repeat.boundary(index), repeat.boundary(index + 1))
            if failed is not None:
                return failed
            index += 1
        return None

    def _state(self, repeat: Repeat, index: int) -> tuple[object, ...]:
        """Return everything that decides how the replay continues from a boundary.

        These are the free blocks and those in use, by how long ago each was allocated. What was allocated before the
        stretch is as it was, but for what is freed by now. Segments follow from all these, because they never touch.
        """
        allocator, boundary = self.allocator, repeat.boundary(index)
        return (
            tuple(allocator._free[_SMALL]),
            tuple(allocator._free[_LARGE]),
            tuple(allocator._frontier),
            allocator.reserved,
            allocator.allocated,
            repeat.freed[index],
            repeat.live[index],
            tuple(self.blocks[self.events[boundary - back]] for back in repeat.live[index]),
        )


def _run(
    allocator: CachingAllocator,
    blocks: list[Block | None],
    sizes_bytes: Sequence[int],
    events: Sequence[int],
    *,
    first: int,
    until: int,
    optional: Set[int] = frozenset(),
) -> tuple[int, int | None]:
    """Run the events before `until`; return the event of the last new allocated peak, and the one that failed.

    The allocator's state is held in local variables: a plan runs this loop for some hundred thousand events, and a
    method for each allocation and each free would take as long again. A test compares the two.
    """
    peak, peak_event, allocated = allocator.peak_allocated, 0, allocator.allocated
    pools = tuple(zip(allocator._free, allocator._size_by_start, allocator._start_by_end, strict=True))
    splits_exactly = allocator.expandable_segments
    for index in range(first, until):
        event = events[index]
        if event < 0:
            block = blocks[~event]
            if block is None:
                continue
            pool, start, size = block
            free, sizes, starts = pools[pool]
            allocated -= size
            end = start + size
            if (following := sizes.pop(end, None)) is not None:
                del free[bisect_left(free, (following << _ADDRESS_BITS) | end)]
                end += following
            if (before := starts.pop(start, None)) is not None:
                del free[bisect_left(free, ((start - before) << _ADDRESS_BITS) | before)]
                start = before
            insort(free, ((end - start) << _ADDRESS_BITS) | start)
            sizes[start], starts[end] = end - start, start
            continue
        size = -(-sizes_bytes[event] // UNIT_BYTES)
        if size <= 0:
            blocks[event] = None
            continue
        pool = _SMALL if size <= _SMALL_LIMIT else _LARGE
        free, sizes, starts = pools[pool]
        place = bisect_left(free, size << _ADDRESS_BITS)
        if place == len(free):
            if not _grows(allocator, pool, size):
                if event in optional:
                    continue
                allocator.allocated, allocator.peak_allocated = allocated, peak
                return peak_event, index
            place = bisect_left(free, size << _ADDRESS_BITS)
        key = free.pop(place)
        start, found = key & _ADDRESS_MASK, key >> _ADDRESS_BITS
        del sizes[start]
        rest = found - size
        if rest and (pool == _SMALL or rest > _SMALL_LIMIT or splits_exactly):
            insort(free, (rest << _ADDRESS_BITS) | (start + size))
            sizes[start + size] = rest
            starts[start + found] = start + size
            found = size
        else:
            del starts[start + found]
        blocks[event] = (pool, start, found)
        allocated += found
        if allocated > peak:
            peak, peak_event = allocated, index
    allocator.allocated, allocator.peak_allocated = allocated, peak
    return peak_event, None


def _grows(allocator: CachingAllocator, pool: int, size: int) -> bool:
    """Reserve another segment for a pool; return False if the device holds no more."""
    try:
        allocator._grow(pool, size)
    except OutOfDeviceMemory:
        return False
    return True
