"""Replays of one event stream at many batches and capacities, each distinct course of events run once.

GPUs of one memory size differ by a few MiB in what they leave to the allocator. A replay says for which capacities it
would run alike, so that most of these GPUs share it, exactly.
"""

from dataclasses import dataclass, field

from capplan.core.memory.allocator import Checkpoint, Replay, checkpoint, replay
from capplan.core.memory.schedule import End, Program

_LEAST_CAPACITY_STEPS = 2000


@dataclass(slots=True, kw_only=True)
class StreamReplays:
    """The replays of one program at one end of its uncertain sizes, kept by batch; they go with this object."""

    program: Program
    end: End
    expandable_segments: bool = False
    _sizes: dict[int, list[int]] = field(default_factory=dict)
    _kept: dict[int, list[Replay]] = field(default_factory=dict)
    _least: dict[int, int] = field(default_factory=dict)
    _optional: frozenset[int] | None = None
    _start: Checkpoint | None = None

    def at(self, batch: int, capacity_bytes: int | None = None) -> Replay:
        """Return the replay at a batch, within a capacity where one is given. [bytes]"""
        kept = self._kept.setdefault(batch, [])
        for each in kept:
            if each.holds_at(capacity_bytes):
                return each
        found = self._run(batch, capacity_bytes)
        kept.append(found)
        return found

    def live_bytes(self, batch: int) -> int:
        """Return the most that blocks in use take at once, each rounded up: no smaller capacity will do. [bytes]"""
        return self.program.live_bytes(self._sizes_at(batch))

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

    def _run(self, batch: int, capacity_bytes: int | None) -> Replay:
        sizes = self._sizes_at(batch)
        if self._start is None:
            self._optional = self.program.optional
            self._start = checkpoint(
                sizes,
                self.program.events,
                until=self.program.constant_events,
                expandable_segments=self.expandable_segments,
            )
        return replay(
            sizes,
            self.program.events,
            capacity_bytes=capacity_bytes,
            expandable_segments=self.expandable_segments,
            optional=self._optional or frozenset(),
            start=self._start,
        )

    def _sizes_at(self, batch: int) -> list[int]:
        if batch not in self._sizes:
            self._sizes[batch] = self.program.sizes(batch, self.end)
        return self._sizes[batch]
