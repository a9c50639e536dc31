"""Timed pipelines as a typed document: times in seconds, throughput in samples per second."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from capplan.core.measurement.pipeline import PipelineTimes, StageTimes, typical_s

_Median = float | None


class StageDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Median times of one stage; null where it was not timed in this way. [s]"""

    name: str
    host_s: Annotated[_Median, Meta(description="how long the host was held when nothing waits")]
    device_s: Annotated[_Median, Meta(description="between events around the stage; null on a device without events")]
    waited_s: Annotated[_Median, Meta(description="the host's time with a wait for the device after the stage")]
    frames: Annotated["StageFrames", Meta(description="the same, repetition by repetition")]


class StageFrames(msgspec.Struct, frozen=True, kw_only=True):
    """The times of one stage in the order of the repetitions; empty where it was not timed in this way. [s]"""

    host_s: tuple[float, ...]
    device_s: tuple[float, ...]
    waited_s: tuple[float, ...]


class EndToEndDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The whole pipeline: with the host left free, and stalled by a wait after every stage. [s, 1/s]"""

    free_latency_s: float
    stalled_latency_s: float
    free_s: Annotated[float, Meta(description="per repetition, when repetitions overlap")]
    stalled_s: float
    free_throughput_per_s: float
    stalled_throughput_per_s: float
    frames: Annotated["EndToEndFrames", Meta(description="the whole pipeline, repetition by repetition")]


class EndToEndFrames(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies of single repetitions, each waited for at its end, or stalled by a wait after every stage. [s]"""

    free_latency_s: tuple[float, ...]
    stalled_latency_s: tuple[float, ...]


class PipelineDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline at one batch."""

    name: str
    batch: int
    device: str
    has_events: bool
    repetitions: int
    stages: tuple[StageDocument, ...]
    end_to_end: EndToEndDocument


class PipelinesDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `capplan measure --pipeline FILE.py:FUNCTION --format json` writes: a pipeline for each batch."""

    pipelines: tuple[PipelineDocument, ...]


def pipelines_document(timed: Sequence[PipelineTimes]) -> PipelinesDocument:
    """Return timed pipelines as a document.

    Args:
        timed: The pipeline at each batch.
    """
    return PipelinesDocument(pipelines=tuple(map(_pipeline, timed)))


def _pipeline(timed: PipelineTimes) -> PipelineDocument:
    return PipelineDocument(
        name=timed.name,
        batch=timed.batch,
        device=timed.device,
        has_events=timed.has_events,
        repetitions=timed.repetitions,
        stages=tuple(map(_stage, timed.stages)),
        end_to_end=EndToEndDocument(
            free_latency_s=timed.free_latency_s,
            stalled_latency_s=timed.stalled_latency_s,
            free_s=timed.free_s / timed.repetitions,
            stalled_s=timed.stalled_s / timed.repetitions,
            free_throughput_per_s=timed.free_throughput_per_s,
            stalled_throughput_per_s=timed.stalled_throughput_per_s,
            frames=EndToEndFrames(free_latency_s=timed.alone_s, stalled_latency_s=timed.stalled_frames_s),
        ),
    )


def _stage(stage: StageTimes) -> StageDocument:
    return StageDocument(
        name=stage.name,
        host_s=typical_s(stage.host_s),
        device_s=typical_s(stage.device_s),
        waited_s=typical_s(stage.waited_s),
        frames=StageFrames(host_s=stage.host_s, device_s=stage.device_s, waited_s=stage.waited_s),
    )
