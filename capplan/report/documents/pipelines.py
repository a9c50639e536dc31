"""Answers about pipelines as typed documents: fractions from 0 to 1, bytes, seconds."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from capplan.core.measurement.pipeline import PipelineTimes, StageTimes, typical_s
from capplan.core.memory.types import FitStatus
from capplan.core.numbers import Interval
from capplan.core.pipelines.measured import PipelineMetric, PipelineValidation
from capplan.core.pipelines.prepared import PipelineMemory
from capplan.shapes.codec import SCHEMA_VERSION, Document
from capplan.shapes.plan import PIPELINE
from capplan.shapes.types import PlannedPipeline


class PipelineErrors(msgspec.Struct, frozen=True, kw_only=True):
    """The errors of rows that belong together."""

    pipeline: str
    gpu: str
    shared: Annotated[str, Meta(description="one GPU or several GPUs")]
    metric: Annotated[
        PipelineMetric,
        Meta(description="power_w is estimated at the measured time, the others from the pipeline alone"),
    ]
    rows: int
    median_error_fraction: float
    p90_error_fraction: float
    bias: Annotated[float, Meta(description="median of estimated over measured")]
    coverage_fraction: Annotated[float, Meta(description="rows whose measurement lies in the interval")]


class JudgedEnergyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Power or energy of a row and its estimate. [W or J]"""

    measured: float
    predicted: Interval


class JudgedPipelineRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row and its estimate. [s]"""

    row: int
    pipeline: str
    gpu: str
    ulysses: int
    ring: int
    batch: int
    measured_s: float
    predicted_s: Interval
    energy: Annotated[
        dict[PipelineMetric, JudgedEnergyDocument], Meta(description="where the row states power or energy")
    ] = {}


class PipelineValidationDocument(Document, frozen=True, kw_only=True):
    """What `capplan validate --format json` writes for measured pipelines."""

    cells: tuple[PipelineErrors, ...]
    rows: tuple[JudgedPipelineRow, ...]
    skipped: Annotated[dict[str, int], Meta(description="why rows were left out, with how many")]


def pipeline_validation_document(found: PipelineValidation) -> PipelineValidationDocument:
    """Return a validation of pipelines as a document.

    Args:
        found: the validation.
    """
    cells = tuple(
        PipelineErrors(
            pipeline=cell.name[0],
            gpu=cell.name[1],
            shared=cell.name[2],
            metric=cell.metric,
            rows=cell.errors.count,
            median_error_fraction=cell.errors.median,
            p90_error_fraction=cell.errors.p90,
            bias=cell.errors.bias,
            coverage_fraction=cell.coverage,
        )
        for cell in found.cells()
    )
    rows = tuple(
        JudgedPipelineRow(
            row=row.measured.line,
            pipeline=row.measured.pipeline,
            gpu=row.measured.gpu,
            ulysses=row.measured.degrees.ulysses,
            ring=row.measured.degrees.ring,
            batch=row.measured.batch,
            measured_s=row.measured.latency_s,
            predicted_s=row.latency_s,
            energy={
                metric: JudgedEnergyDocument(measured=value.measured, predicted=value.estimated)
                for metric, value in row.energy.items()
            },
        )
        for row in found.rows
    )
    return PipelineValidationDocument(
        schema_version=SCHEMA_VERSION, cells=cells, rows=rows, skipped=dict(found.skipped)
    )


class PlacedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline's memory with its waiting weights in one place, on one GPU. [bytes]"""

    gpu: Annotated[str | None, Meta(description="null: an unknown GPU")]
    offload: Annotated[str, Meta(description="none, model, streamed or sequential")]
    peak_allocated_bytes: Interval
    peak_reserved_bytes: Interval
    total_bytes: Annotated[Interval, Meta(description="what nvidia-smi would show for the process")]
    parts: Annotated[dict[str, Interval], Meta(description="what the worst moment holds")]
    moments: Annotated[dict[str, Interval], Meta(description="the process while each part runs")]
    peak_module: str
    available_bytes: float | None = None
    status: FitStatus | None = None
    max_batch: int | None = None


class PipelineMemoryDocument(Document, frozen=True, kw_only=True):
    """What `capplan memory --format json` writes for a pipeline."""

    name: str
    batch: int
    pipeline: PlannedPipeline
    places: tuple[PlacedMemory, ...]


def pipeline_memory_document(answer: PipelineMemory) -> PipelineMemoryDocument:
    """Return the memory of a pipeline as a document.

    Args:
        answer: the memory of a batch of its items.
    """
    places = tuple(
        PlacedMemory(
            gpu=None if place.gpu is None else place.gpu.id,
            offload=place.offload.value,
            peak_allocated_bytes=place.worst.peak_allocated_bytes,
            peak_reserved_bytes=place.worst.peak_reserved_bytes,
            total_bytes=place.worst.total_bytes,
            parts={part.name: part.size_bytes for part in place.worst.all_parts},
            moments={moment.part: moment.memory.total_bytes for moment in place.moments},
            peak_module=place.worst.peak_module,
            available_bytes=place.available_bytes,
            status=place.status,
            max_batch=place.max_batch,
        )
        for place in answer.places
    )
    return PipelineMemoryDocument(
        schema_version=SCHEMA_VERSION,
        name=answer.name,
        batch=answer.batch,
        pipeline=PIPELINE.document(answer.facts),
        places=places,
    )


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
