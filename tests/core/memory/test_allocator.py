"""The caching allocator's rules, against hand derivations and a public GPU trace."""

import itertools
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.core.memory.allocator import (
    _ADDRESS_BITS,
    _ADDRESS_MASK,
    _LARGE,
    _SMALL,
    _SMALL_LIMIT,
    UNIT_BYTES,
    Block,
    CachingAllocator,
    OutOfDeviceMemory,
    checkpoint,
    replay,
)

MIB = 2**20


class Allocator(CachingAllocator):
    """The allocator by single calls, as PyTorch makes them: what the replay's loop must agree with."""

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the blocks in use. [bytes]"""
        return self.allocated * UNIT_BYTES

    @property
    def reserved_bytes(self) -> int:
        """Bytes of the segments held. [bytes]"""
        return self.reserved * UNIT_BYTES

    def allocate(self, size_bytes: int) -> Block | None:
        """Take a block: its (pool, start, size) in units of 512 bytes, to be given to `free`; None for no bytes.

        Raises:
            OutOfDeviceMemory: the device holds no more, even after cached segments were given back.
        """
        if size_bytes <= 0:
            return None
        size = -(-size_bytes // UNIT_BYTES)
        pool = _SMALL if size <= _SMALL_LIMIT else _LARGE
        free = self._free[pool]
        index = bisect_left(free, size << _ADDRESS_BITS)
        if index == len(free):
            self._grow(pool, size)
            index = bisect_left(free, size << _ADDRESS_BITS)
        key = free.pop(index)
        start, found = key & _ADDRESS_MASK, key >> _ADDRESS_BITS
        del self._size_by_start[pool][start]
        del self._start_by_end[pool][start + found]
        rest = found - size
        if rest and (pool == _SMALL or rest > _SMALL_LIMIT or self.expandable_segments):
            self._add_free(pool, start + size, rest)
            found = size
        self.allocated += found
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return pool, start, found

    def free(self, block: Block | None) -> None:
        """Return a block to its pool, merged with its free neighbours."""
        if block is None:
            return
        pool, start, size = block
        self.allocated -= size
        sizes, starts = self._size_by_start[pool], self._start_by_end[pool]
        end = start + size
        following = sizes.get(end)
        if following is not None:
            self._remove_free(pool, end, following)
            size += following
        before = starts.get(start)
        if before is not None:
            self._remove_free(pool, before, start - before)
            size += start - before
            start = before
        self._add_free(pool, start, size)


def test_sizes_round_up_to_512_bytes():
    allocator = Allocator()
    allocator.allocate(1)
    assert allocator.allocated_bytes == 512
    allocator.allocate(513)
    assert allocator.allocated_bytes == 512 + 1024


def test_no_bytes_take_no_block():
    allocator = Allocator()
    assert allocator.allocate(0) is None
    assert (allocator.allocated_bytes, allocator.reserved_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("size", "segment"),
    [
        (1, 2 * MIB),
        (1 * MIB, 2 * MIB),  # the small pool's last size
        (1 * MIB + 1, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),  # from 10 MiB on a segment of its own, rounded up to 2 MiB
        (10 * MIB + 1, 12 * MIB),
        (25 * MIB, 26 * MIB),
    ],
)
def test_segment_of_a_first_allocation(size, segment):
    allocator = Allocator()
    allocator.allocate(size)
    assert allocator.reserved_bytes == segment


def test_public_gpu_trace_of_a_resnet_at_batch_32():
    # pytorch PR #88825's memory notebook, fp32 training at batch 32, per-op growth of memory_allocated.
    # bn1: [32, 64, 112, 112] fp32 is 98 MiB, mean and inverse deviation of 64 channels 512 bytes each.
    # maxpool: [32, 64, 56, 56] fp32 is 24.5 MiB, its int64 indices 49 MiB in a 50 MiB segment whose last 1 MiB is
    # not more than 1 MiB and so is not split off.
    batch_norm, max_pool = Allocator(), Allocator()
    for size in (32 * 64 * 112 * 112 * 4, 64 * 4, 64 * 4):
        batch_norm.allocate(size)
    for size in (32 * 64 * 56 * 56 * 4, 32 * 64 * 56 * 56 * 8):
        max_pool.allocate(size)
    assert batch_norm.allocated_bytes / MIB == 98.0009765625
    assert max_pool.allocated_bytes / MIB == 74.5


def test_the_smallest_free_block_that_is_large_enough_is_taken():
    allocator = Allocator()
    large, small = allocator.allocate(40 * MIB), allocator.allocate(30 * MIB)
    allocator.free(large)
    allocator.free(small)
    allocator.allocate(29 * MIB)  # 30 - 29 is not more than 1 MiB: the 30 MiB block whole
    assert allocator.allocated_bytes == 30 * MIB
    assert allocator.reserved_bytes == 70 * MIB


def test_a_block_is_split_and_its_rest_used():
    allocator = Allocator()
    allocator.free(allocator.allocate(40 * MIB))
    allocator.allocate(12 * MIB)
    allocator.allocate(28 * MIB)
    assert allocator.reserved_bytes == allocator.allocated_bytes == 40 * MIB


def test_free_neighbours_merge():
    allocator = Allocator()
    allocator.free(allocator.allocate(40 * MIB))
    blocks = [allocator.allocate(10 * MIB) for _ in range(4)]
    for index in (0, 2, 1, 3):
        allocator.free(blocks[index])
    allocator.allocate(40 * MIB)
    assert allocator.reserved_bytes == 40 * MIB


def test_neighbours_in_different_segments_do_not_merge():
    allocator = Allocator()
    blocks = [allocator.allocate(10 * MIB) for _ in range(2)]
    for block in blocks:
        allocator.free(block)
    allocator.allocate(20 * MIB)
    assert allocator.reserved_bytes == 40 * MIB


def test_small_and_large_pools_do_not_share():
    allocator = Allocator()
    allocator.free(allocator.allocate(20 * MIB))
    allocator.allocate(1 * MIB)
    assert allocator.reserved_bytes == 22 * MIB


def test_a_full_device_gives_back_whole_free_segments_and_retries():
    allocator = Allocator(capacity_bytes=100 * MIB)
    held, freed = allocator.allocate(40 * MIB), allocator.allocate(50 * MIB)
    allocator.free(freed)
    allocator.allocate(60 * MIB)  # 90 held; 50 given back, 40 + 60 = 100
    assert held is not None
    assert allocator.reserved_bytes == 100 * MIB
    assert allocator.retries == 1


def test_a_segment_in_use_in_part_is_not_given_back():
    allocator = Allocator(capacity_bytes=100 * MIB)
    allocator.free(allocator.allocate(60 * MIB))
    allocator.allocate(20 * MIB)  # 20 of the 60 MiB segment
    with pytest.raises(OutOfDeviceMemory):
        allocator.allocate(50 * MIB)  # 40 MiB free in the segment, 40 beside it


def test_expandable_segments_grow_instead():
    # The same stream: 20 MiB used of 60, and the segment's free 40 MiB grow by 10, in pages of 20.
    allocator = Allocator(capacity_bytes=100 * MIB, expandable_segments=True)
    allocator.free(allocator.allocate(60 * MIB))
    allocator.allocate(20 * MIB)
    allocator.allocate(50 * MIB)
    assert allocator.reserved_bytes == 80 * MIB
    assert allocator.allocated_bytes == 70 * MIB


def test_expandable_segments_split_exactly():
    # 49 MiB of three 20 MiB pages; nothing of the rest belongs to the block.
    allocator = Allocator(expandable_segments=True)
    allocator.allocate(49 * MIB)
    assert (allocator.allocated_bytes, allocator.reserved_bytes) == (49 * MIB, 60 * MIB)


def test_expandable_segments_give_back_whole_pages():
    allocator = Allocator(capacity_bytes=100 * MIB, expandable_segments=True)
    first, second = allocator.allocate(40 * MIB), allocator.allocate(40 * MIB)
    allocator.free(first)
    allocator.allocate(60 * MIB)  # 80 mapped; the first two pages go back: 40 + 60
    assert second is not None
    assert allocator.reserved_bytes == 100 * MIB


def test_replay_tells_where_the_peak_stands_and_what_failed():
    sizes = [40 * MIB, 30 * MIB, 90 * MIB]
    events = [0, 1, ~0, 2, ~1, ~2]
    free = replay(sizes, events)
    assert (free.peak_allocated_bytes, free.peak_event, free.failed_event) == (120 * MIB, 3, None)
    limited = replay(sizes, events, capacity_bytes=110 * MIB)
    assert limited.failed_event == 3
    assert limited.peak_allocated_bytes == 70 * MIB


@st.composite
def streams(draw):
    sizes = draw(st.lists(st.integers(0, 64 * MIB), min_size=1, max_size=40))
    events, live = [], []
    for index in range(len(sizes)):
        events.append(index)
        live.append(index)
        while live and draw(st.booleans()):
            events.append(~live.pop(draw(st.integers(0, len(live) - 1))))
    return sizes, [*events, *(~index for index in live)]


@given(streams(), st.booleans())
def test_blocks_never_overlap_and_all_come_back(stream, expandable):
    sizes, events = stream
    allocator = Allocator(expandable_segments=expandable)
    blocks: dict[int, tuple[int, int, int] | None] = {}
    for event in events:
        if event < 0:
            allocator.free(blocks.pop(~event))
        else:
            blocks[event] = allocator.allocate(sizes[event])
        taken = sorted(block for block in blocks.values() if block)
        for (pool, start, size), (next_pool, next_start, _) in itertools.pairwise(taken):
            assert pool != next_pool or start + size <= next_start
        wanted = sum(-(-sizes[index] // 512) * 512 for index in blocks)
        assert wanted <= allocator.allocated_bytes <= allocator.reserved_bytes
    assert allocator.allocated_bytes == 0


@given(streams(), st.integers(1, 400))
def test_a_limit_holds_and_what_fits_without_retry_is_unchanged(stream, capacity_mib):
    sizes, events = stream
    free = replay(sizes, events)
    limited = replay(sizes, events, capacity_bytes=capacity_mib * MIB)
    assert limited.peak_reserved_bytes <= capacity_mib * MIB
    if free.peak_reserved_bytes <= capacity_mib * MIB:
        assert limited == free


def replayed_by_calls(sizes, events, *, capacity_bytes, expandable):
    """The allocated and reserved peak of a stream, one call of the allocator after the other, and what failed."""
    allocator = Allocator(capacity_bytes=capacity_bytes, expandable_segments=expandable)
    blocks = {}
    for index, event in enumerate(events):
        if event < 0:
            allocator.free(blocks.pop(~event))
            continue
        try:
            blocks[event] = allocator.allocate(sizes[event])
        except OutOfDeviceMemory:
            return allocator.peak_allocated * 512, allocator.peak_reserved * 512, index
    return allocator.peak_allocated * 512, allocator.peak_reserved * 512, None


@given(streams(), st.booleans(), st.one_of(st.none(), st.integers(1, 600)))
def test_a_replay_does_what_single_calls_do(stream, expandable, capacity_mib):
    sizes, events = stream
    capacity = None if capacity_mib is None else capacity_mib * MIB
    found = replay(sizes, events, capacity_bytes=capacity, expandable_segments=expandable)
    expected = replayed_by_calls(sizes, events, capacity_bytes=capacity, expandable=expandable)
    assert (found.peak_allocated_bytes, found.peak_reserved_bytes, found.failed_event) == expected


@given(streams(), st.booleans(), st.integers(1, 600), st.integers(1, 600))
def test_a_replay_says_for_which_capacities_it_holds(stream, expandable, capacity_mib, other_mib):
    sizes, events = stream
    first, other = (
        replay(sizes, events, capacity_bytes=mib * MIB, expandable_segments=expandable)
        for mib in (capacity_mib, other_mib)
    )
    assert first.holds_at(capacity_mib * MIB)
    assert not first.holds_at(other_mib * MIB) or other == first


@given(streams(), st.integers(0, 20), st.one_of(st.none(), st.integers(1, 600)))
def test_a_replay_from_a_checkpoint_is_the_whole_replay(stream, until, capacity_mib):
    sizes, events = stream
    capacity = None if capacity_mib is None else capacity_mib * MIB
    start = checkpoint(sizes, events, until=min(until, len(events)))
    assert replay(sizes, events, capacity_bytes=capacity, start=start) == replay(sizes, events, capacity_bytes=capacity)
