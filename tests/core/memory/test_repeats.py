"""A replay that passes over repetitions comes to exactly what the whole replay comes to."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from capplan.core.memory.allocator import replay
from capplan.core.memory.repeats import event_words, find_repeats

MIB = 2**20
SIZES = st.sampled_from([100, 4096, MIB // 2, MIB, 3 * MIB, 9 * MIB, 11 * MIB, 25 * MIB])


@st.composite
def layered_streams(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Draw a stream of some layers that are alike: each frees its own blocks, one the next layer's block replaces."""
    inner = draw(st.lists(SIZES, min_size=3, max_size=8))
    handed_on, layers = draw(SIZES), draw(st.integers(4, 24))
    sizes: list[int] = []
    events: list[int] = []

    def allocate(size: int) -> int:
        sizes.append(size)
        events.append(len(sizes) - 1)
        return len(sizes) - 1

    kept = [allocate(size) for size in draw(st.lists(SIZES, max_size=6))]
    order = draw(st.permutations(range(len(inner))))
    leaks = draw(st.booleans())
    before = allocate(handed_on)
    for _ in range(layers):
        own = [allocate(size) for size in inner]
        after = allocate(handed_on)
        events.extend(~own[place] for place in order[leaks:])
        events.append(~before)
        before = after
    for block in kept:
        events.append(~block)
    allocate(draw(SIZES))
    events.append(~before)
    return sizes, events


def words_of(sizes: list[int], events: list[int]) -> np.ndarray:
    return event_words(events, np.array(sizes, dtype=np.int64)[:, None])


@given(layered_streams(), st.one_of(st.none(), st.integers(1, 400)), st.booleans())
def test_nothing_is_lost_by_passing_repetitions_over(
    stream: tuple[list[int], list[int]], capacity_mib: int | None, expandable: bool
) -> None:
    sizes, events = stream
    repeats = find_repeats(words_of(sizes, events), events, first=0)
    limits = {"capacity_bytes": None if capacity_mib is None else capacity_mib * MIB, "expandable_segments": expandable}
    assert replay(sizes, events, repeats=repeats, **limits) == replay(sizes, events, **limits)  # type: ignore[arg-type]


@given(layered_streams(), st.integers(1, 400), st.sets(st.integers(0, 200)))
def test_nor_where_blocks_are_done_without(
    stream: tuple[list[int], list[int]], capacity_mib: int, optional: set[int]
) -> None:
    sizes, events = stream
    # what a block is for is part of its kind, so that stretches with other optional blocks are not alike
    kinds = np.array([(size, block in optional) for block, size in enumerate(sizes)], dtype=np.int64)
    repeats = find_repeats(event_words(events, kinds), events, first=0)
    whole = replay(sizes, events, capacity_bytes=capacity_mib * MIB, optional=frozenset(optional))
    assert (
        replay(sizes, events, capacity_bytes=capacity_mib * MIB, optional=frozenset(optional), repeats=repeats) == whole
    )


def test_the_layers_of_a_chain_are_found() -> None:
    # a block of 2 MiB is handed on by 20 layers, each of which takes three of 4 MiB: 4 allocations and 4 frees
    sizes, events = [2 * MIB], [0]
    for _ in range(20):
        first, before = len(sizes), events[0] if len(sizes) == 1 else len(sizes) - 1
        sizes += [4 * MIB] * 3 + [2 * MIB]
        events += [first, first + 1, first + 2, first + 3, ~first, ~(first + 1), ~(first + 2), ~before]
    (found,) = find_repeats(words_of(sizes, events), events, first=0)
    assert found.period == 8
    assert found.count >= 19


def test_a_stream_without_layers_has_no_repeats() -> None:
    sizes = [(1 + block) * MIB for block in range(200)]
    assert find_repeats(words_of(sizes, list(range(200))), list(range(200)), first=0) == ()
