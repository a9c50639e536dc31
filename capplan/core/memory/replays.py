"""Replay one event stream at many batches and capacities, running each distinct course of events once.

GPUs of one memory size differ by a few MiB in what they leave to the allocator. A replay says for which capacities it
would run alike, so that most of these GPUs share it, exactly.
"""

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b

from capplan.core.memory.allocator import Checkpoint, ReplayResult, checkpoint, replay
from capplan.core.memory.repeats import Repeat
from capplan.core.memory.schedule import AllocationSchedule
from capplan.core.numbers import End

_LEAST_CAPACITY_STEPS = 2000
_DIGEST_BYTES = 16


Replays = dict[bytes, list[ReplayResult]]
"""Replays of one stream, by the sizes of its blocks."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stream:
    """What replays of one sequence of events share: where it repeats, and the replays made by the blocks' sizes."""

    repeats: tuple[Repeat, ...]
    optional: frozenset[int]
    kept: Replays = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class SharedStreams:
    """Streams of events, each known once: GPUs of several compute capabilities often run the same one.

    Attributes:
        earlier: returns the replays of a stream that are known from earlier, by the digest of the stream.
    """

    earlier: Callable[[str], Replays] | None = None
    _streams: dict[tuple[object, ...], Stream] = field(default_factory=dict)

    def of(self, schedule: AllocationSchedule, *, expandable_segments: bool = False) -> Stream:
        """Return the stream of a schedule: that of another one with the same events for the same purposes, if any."""
        key = (schedule.events, schedule.purposes, expandable_segments)
        found = self._streams.get(key)
        if found is None:
            found = Stream(repeats=schedule.repeats(), optional=schedule.optional, kept=self._known(key))
            self._streams[key] = found
        return found

    def _known(self, key: tuple[object, ...]) -> Replays:
        if self.earlier is None:
            return {}
        return self.earlier(blake2b(repr(key).encode(), digest_size=_DIGEST_BYTES).hexdigest())


@dataclass(kw_only=True)
class StreamReplays:
    """The replays of one schedule at one end of its uncertain sizes, kept by batch; they go with this object.

    Schedules that share their `streams` share the replays of equal sizes.
    """

    schedule: AllocationSchedule
    end: End
    expandable_segments: bool = False
    streams: SharedStreams = field(default_factory=SharedStreams)
    _sizes: dict[int, list[int]] = field(default_factory=dict)
    _kept: dict[int, list[ReplayResult]] = field(default_factory=dict)
    _least: dict[int, int] = field(default_factory=dict)
    _names: dict[int, bytes] = field(default_factory=dict)
    _kept_start: Checkpoint | None = None

    def at(self, batch: int, capacity_bytes: int | None = None) -> ReplayResult:
        """Return the replay at a batch, within a capacity where one is given. [bytes]"""
        kept = self._kept.get(batch)
        if kept is None:
            kept = self._kept[batch] = self.stream.kept.setdefault(self.sizes_name(batch), [])
        for result in kept:
            if result.holds_at(capacity_bytes):
                return result
        found = self._run(batch, capacity_bytes)
        kept.append(found)
        return found

    @cached_property
    def stream(self) -> Stream:
        """Return the stream of events, shared with other schedules that have the same."""
        return self.streams.of(self.schedule, expandable_segments=self.expandable_segments)

    def sizes_name(self, batch: int) -> bytes:
        """Return a digest that is equal for two batches or schedules if all blocks have equal sizes."""
        if batch not in self._names:
            sizes = array("q", self._sizes_at(batch)).tobytes()
            self._names[batch] = blake2b(sizes, digest_size=_DIGEST_BYTES).digest()
        return self._names[batch]

    def live_bytes(self, batch: int) -> int:
        """Return the most that blocks in use take at once, each rounded up: a bound of the capacity. [bytes]"""
        return self.schedule.live_bytes(self._sizes_at(batch))

    def least_capacity(self, batch: int) -> int:
        """Return the least capacity at which a batch fits, to 0.05 %; kept by batch. [bytes]

        A capacity between the largest total that a replay reserved and the least that it was denied changes nothing,
        so that each replay moves an end of the bracket by more than the halving does.
        """
        if batch not in self._least:
            low, high = self.live_bytes(batch), self.at(batch).peak_reserved_bytes
            while high - low > high // _LEAST_CAPACITY_STEPS:
                found = self.at(batch, (low + high) // 2)
                if found.failed_event is None:
                    high = found.peak_reserved_bytes
                else:
                    low = found.least_denied_bytes or high
            self._least[batch] = high
        return self._least[batch]

    def _run(self, batch: int, capacity_bytes: int | None) -> ReplayResult:
        return replay(
            self._sizes_at(batch),
            self.schedule.events,
            capacity_bytes=capacity_bytes,
            expandable_segments=self.expandable_segments,
            optional=self.stream.optional,
            start=self._start(batch),
            repeats=self.stream.repeats,
        )

    def _start(self, batch: int) -> Checkpoint:
        """Return the state after the blocks of one size at every batch, which the first batch that is asked makes."""
        if self._kept_start is None:
            until, expands = self.schedule.constant_events, self.expandable_segments
            sizes, events = self._sizes_at(batch), self.schedule.events
            self._kept_start = checkpoint(sizes, events, until=until, expandable_segments=expands)
        return self._kept_start

    def _sizes_at(self, batch: int) -> list[int]:
        if batch not in self._sizes:
            self._sizes[batch] = self.schedule.sizes(batch, self.end)
        return self._sizes[batch]
