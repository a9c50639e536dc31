"""When the parts of a pipeline run: what overlaps within a batch of items, and between batches that follow.

A part starts once the parts that it waits for are over and its device is free. Two streams of a GPU are one device
within a batch: neither is faster beside the other. A batch takes until its last part is over.

While one device works on a batch, another works on the next, so that a steady state makes a batch in the time of the
busiest device. Two streams share a GPU's units, and their kernels' times add up; what they save is the time in which
one stream's GPU would wait for its host or for weights. So a GPU with two streams is busy for the longest of the sum of
all kernels, the first stream alone, and the second alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from capplan.core.pipelines.types import ON_GPU, ON_STREAM


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRuns:
    """All runs of a part for one batch of items.

    Attributes:
        name: the part.
        on: where it runs.
        after: the parts that must be over before it.
        time_s: the time of all its runs, with the moving of its weights. [s]
        kernels_s: the time in which its kernels keep the device busy; at most `time_s`. [s]
    """

    name: str
    on: str
    after: tuple[str, ...]
    time_s: float
    kernels_s: float


def device_of(on: str) -> str:
    """Return the device of a place: a stream's is that of the GPU."""
    return ON_GPU if on == ON_STREAM else on


def start_times(spans: Sequence[PartRuns]) -> Mapping[str, float]:
    """Return when each part of a batch starts, in the order of a pipeline's parts. [s]"""
    starts: dict[str, float] = {}
    ends: dict[str, float] = {}
    free: dict[str, float] = {}
    for span in spans:
        device = device_of(span.on)
        starts[span.name] = max([free.get(device, 0.0), *(ends[name] for name in span.after)])
        ends[span.name] = free[device] = starts[span.name] + span.time_s
    return starts


def batch_time_s(spans: Sequence[PartRuns]) -> float:
    """Return how long a batch takes from its first part's start to the end of its last part. [s]"""
    starts = start_times(spans)
    return max((starts[span.name] + span.time_s for span in spans), default=0.0)


def interval_s(spans: Sequence[PartRuns]) -> float:
    """Return the time from the end of one batch to the end of the next in a steady state. [s]"""
    busy: dict[str, float] = {}
    for span in spans:
        busy[span.on] = busy.get(span.on, 0.0) + span.time_s
    kernels_s = sum(span.kernels_s for span in spans if device_of(span.on) == ON_GPU)
    return max([kernels_s, *busy.values()])
