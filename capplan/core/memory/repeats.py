"""Find stretches of an event stream that repeat, such as a deep model's layers, so that a replay can skip them.

Two stretches are the same if their events allocate blocks of the same size at every batch and free the block that was
allocated the same number of events ago. Once an allocator is in the same state before two of them, all that follow run
alike: a replay goes on behind them (`allocator.replay`), exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_WORD = 12
"""Events that must be alike for a distance between two places to be tried as a period."""
_MOST_PERIODS = 16
_FEWEST_REPEATS = 4
_SHORTEST_PERIOD = 6

Words = NDArray[np.int64]
"""What each event does, a row of integers per event: rows are equal where events do the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """A stretch of `period` events from event `first` on that occurs `count` times in a row.

    `live` holds, for each of the `count` + 1 boundaries, the events from `first` on that allocated what is in use,
    counted back from the boundary; `freed` how many blocks allocated before `first` are freed by then.
    """

    first: int
    period: int
    count: int
    live: tuple[tuple[int, ...], ...]
    freed: tuple[int, ...]

    def boundary(self, index: int) -> int:
        """Return the event at which repetition `index` begins."""
        return self.first + index * self.period


def find_repeats(words: Words, events: Sequence[int], *, first: int) -> tuple[Repeat, ...]:
    """Find stretches that repeat at least four times, those that save most first chosen, in order of the stream."""
    found: list[tuple[int, int, int]] = []
    for period in _periods(words[first:]):
        same = (words[first:-period] == words[first + period :]).all(axis=1)
        edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            count = (end - start) // period + 1
            if count >= _FEWEST_REPEATS:
                found.append((first + start, period, count))
    chosen: list[tuple[int, int, int]] = []
    for start, period, count in sorted(found, key=lambda repeat: -(repeat[2] - 1) * repeat[1]):
        end = start + period * count
        if all(end <= other or start >= other + length * times for other, length, times in chosen):
            chosen.append((start, period, count))
    return tuple(_described(events, *repeat) for repeat in sorted(chosen))


def event_words(events: Sequence[int], kinds: NDArray[np.int64]) -> Words:
    """Return what each event does: the kind of block that it allocates, or how long ago that which it frees was."""
    stream = np.array(events, dtype=np.int64)
    allocates = stream >= 0
    born = np.zeros(len(kinds), dtype=np.int64)
    places = np.flatnonzero(allocates)
    born[stream[places]] = places
    words = np.zeros((len(stream), kinds.shape[1] + 1), dtype=np.int64)
    words[places, 1:] = kinds[stream[places]]
    freeing = np.flatnonzero(~allocates)
    words[freeing, 0] = freeing - born[~stream[freeing]]
    return words


def _periods(words: Words) -> list[int]:
    """Return the distances at which runs of events most often recur."""
    length = len(words) - _WORD
    if length < _FEWEST_REPEATS * _SHORTEST_PERIOD:
        return []
    generator = np.random.default_rng(0)
    mixed = words @ generator.integers(1, 2**62, size=words.shape[1], dtype=np.int64)
    weights = generator.integers(1, 2**62, size=_WORD, dtype=np.int64) | 1
    hashed = np.zeros(length, dtype=np.int64)
    for place, weight in enumerate(weights):
        hashed += mixed[place : place + length] * weight
    order = np.argsort(hashed, kind="stable")
    again = hashed[order][1:] == hashed[order][:-1]
    distances, times = np.unique(np.diff(order)[again], return_counts=True)
    ranked = distances[np.argsort(-times * distances, kind="stable")]
    return [int(period) for period in ranked[:_MOST_PERIODS] if period >= _SHORTEST_PERIOD]


def _described(events: Sequence[int], first: int, period: int, count: int) -> Repeat:
    """Describe a repeat, with the blocks in use at each of its boundaries."""
    born: dict[int, int] = {}
    live: list[tuple[int, ...]] = [()]
    freed = [0]
    gone = 0
    for index in range(first, first + period * count):
        event = events[index]
        if event >= 0:
            born[event] = index
        elif born.pop(~event, None) is None:
            gone += 1
        if (index + 1 - first) % period == 0:
            live.append(tuple(index + 1 - birth for birth in born.values()))
            freed.append(gone)
    return Repeat(first=first, period=period, count=count, live=tuple(live), freed=tuple(freed))
