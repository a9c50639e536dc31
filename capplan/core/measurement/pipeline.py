"""A pipeline of stages timed in both ways: events that leave the host free, and a wait after every stage."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """One stage, repetition by repetition. [s]

    `host_s` is how long the host was held by the stage when nothing waits; `device_s` the time between the events
    around it on the device, empty where there are none; `waited_s` the host's time with a wait for the device after it.
    """

    name: str
    host_s: tuple[float, ...]
    device_s: tuple[float, ...]
    waited_s: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineTimes:
    """A pipeline both ways: with the host left free, and with a wait after every stage. [s]

    `free_s` is the whole stretch of `repetitions` without a wait between or within them, so that they overlap on the
    device; `stalled_s` that with a wait after every stage. `alone_s` are repetitions without waits within them, each
    waited for at its end: what one input takes when none is ahead of it.
    """

    name: str
    batch: int
    device: str
    has_events: bool
    repetitions: int
    stages: tuple[StageTimes, ...]
    free_s: float
    stalled_s: float
    alone_s: tuple[float, ...]

    @property
    def free_latency_s(self) -> float:
        """Return the median time of one repetition on its own, the host left free until its end. [s]"""
        return median(self.alone_s)

    @property
    def stalled_latency_s(self) -> float:
        """Return the median time of one repetition with a wait after every stage. [s]"""
        return median(self.stalled_frames_s)

    @property
    def stalled_frames_s(self) -> tuple[float, ...]:
        """Return the time of each repetition with a wait after every stage. [s]"""
        return tuple(sum(times) for times in zip(*(stage.waited_s for stage in self.stages), strict=True))

    @property
    def free_throughput_per_s(self) -> float:
        """Samples per second end to end when the host runs ahead. [1/s]"""
        return self.repetitions * self.batch / self.free_s

    @property
    def stalled_throughput_per_s(self) -> float:
        """Samples per second end to end with a wait after every stage. [1/s]"""
        return self.repetitions * self.batch / self.stalled_s


def typical_s(samples_s: Sequence[float]) -> float | None:
    """Return the median of a stage's times; None where there are none. [s]"""
    return median(samples_s) if samples_s else None
