"""The shapes of answers about pipelines: fractions from 0 to 1, bytes, seconds."""

from operator import attrgetter
from typing import Final

from capplan.core.measurement.pipeline import PipelineTimes, StageTimes, typical_s
from capplan.core.measurement.start import MeasuredStart, StartStep
from capplan.core.numbers import Interval
from capplan.core.pipelines.measured import Judged, JudgedPipeline, PipelineCell, PipelineValidation
from capplan.core.pipelines.prepared import PipelineMemory, PipelineMemoryOn
from capplan.shapes.common import VERSIONED, in_words
from capplan.shapes.plan import OFFLOAD_WORDS, PIPELINE
from capplan.shapes.shape import CSV, Shape, Typed, column, figure, itself, reads
from capplan.units import format_bytes, format_fraction, format_seconds


def _named(place: int) -> Typed:
    return reads(str, lambda cell: cell.name[place])


def _median_s(name: str) -> Typed:
    return reads(float | None, lambda stage: typical_s(getattr(stage, name)))


def _per_repetition(name: str) -> Typed:
    return reads(float, lambda timed: attrgetter(name)(timed) / timed.repetitions)


# fmt: off
ERRORS: Final = Shape("PipelineErrors", PipelineCell, "The errors of rows that belong together.", (
    figure("pipeline", _named(0), show=column("pipeline", csv="expected")),
    figure("gpu", _named(1), show=column("gpu", csv="expected")),
    figure("shared", _named(2), "one GPU or several GPUs", column("on", csv="on=expected")),
    figure("metric", meaning="power_w is estimated at the measured time, the others from the pipeline alone",
        show=column("metric", csv="expected")),
    figure("rows", "errors.count", show=column("rows", csv="expected")),
    figure("median_error_fraction", "errors.median", show=column("median", format_fraction, csv="expected")),
    figure("p90_error_fraction", "errors.p90", show=column("p90", format_fraction, csv="expected")),
    figure("bias", "errors.bias", "median of estimated over measured", column("bias", "{:.3f}".format, csv="expected")),
    figure("coverage_fraction", "coverage", "rows whose measurement lies in the interval", column("coverage", format_fraction, csv="expected")),
))
JUDGED_ENERGY: Final = Shape("JudgedEnergyDocument", Judged, "Power or energy of a row and its estimate. [W or J]", (
    figure("measured"),
    figure("predicted", "estimated"),
))
JUDGED_ROW: Final = Shape("JudgedPipelineRow", JudgedPipeline, "A row and its estimate. [s]", (
    figure("row", "measured.line", show=column("row")),
    figure("pipeline", "measured.pipeline", show=column("pipeline")),
    figure("gpu", "measured.gpu", show=column("gpu")),
    figure("ulysses", "measured.degrees.ulysses", show=column("ulysses")),
    figure("ring", "measured.degrees.ring", show=column("ring")),
    figure("batch", "measured.batch", show=column("batch")),
    figure("measured_s", "measured.latency_s", show=column("measured", format_seconds)),
    figure("predicted_s", "latency_s", show=column("estimated", format_seconds)),
    figure("energy", JUDGED_ENERGY, "where the row states power or energy", default={}),
))
VALIDATION: Final = Shape("PipelineValidationDocument", PipelineValidation, "What `capplan validate --format json` writes for measured pipelines.", (
    *VERSIONED,
    figure("cells", ERRORS.at(reads(tuple[PipelineCell, ...], lambda validation: validation.cells()))),
    figure("rows", JUDGED_ROW),
    figure("skipped", meaning="why rows were left out, with how many"),
))
PLACED_MEMORY: Final = Shape("PlacedMemory", PipelineMemoryOn, "A pipeline's memory with its waiting weights in one place, on one GPU. [bytes]", (
    figure("gpu", "gpu.id", "null: an unknown GPU", column("GPU", csv="expected", unknown="any")),
    figure("offload", in_words("offload"), "none, model, streamed or sequential",
        column("weights", OFFLOAD_WORDS.__getitem__, csv="expected")),
    figure("batch", "worst.batch", show=CSV.alone()),
    figure("peak_allocated_bytes", "worst.peak_allocated_bytes", show=CSV),
    figure("peak_reserved_bytes", "worst.peak_reserved_bytes", show=CSV),
    figure("total_bytes", "worst.total_bytes", "what nvidia-smi would show for the process",
        column("needs", format_bytes, csv="low expected high")),
    figure("parts", reads(dict[str, Interval], lambda place: {part.name: part.size_bytes for part in place.worst.all_parts}), "what the worst moment holds"),
    figure("moments", reads(dict[str, Interval], lambda place: {part: memory.total_bytes for part, memory in place.moments.items()}), "the process while each part runs"),
    figure("peak_module", "worst.peak_module"),
    figure("available_bytes", show=column("may be filled", format_bytes), default=None),
    figure("status", show=column("fits", csv="expected"), default=None),
    figure("max_batch", show=column("largest batch", "{:,}".format, csv="expected"), default=None),
))
MEMORY: Final = Shape("PipelineMemoryDocument", PipelineMemory, "What `capplan memory --format json` writes for a pipeline.", (
    *VERSIONED,
    figure("name"),
    figure("batch"),
    figure("pipeline", PIPELINE.at("facts")),
    figure("places", PLACED_MEMORY),
))
STAGE_FRAMES: Final = Shape("StageFrames", StageTimes, "The times of one stage in the order of the repetitions; empty where it was not timed in this way. [s]",
    tuple(map(figure, ("host_s", "device_s", "waited_s"))))
STAGE: Final = Shape("StageDocument", StageTimes, "Median times of one stage; null where it was not timed in this way. [s]", (
    figure("name"),
    figure("host_s", _median_s("host_s"), "how long the host was held when nothing waits"),
    figure("device_s", _median_s("device_s"), "between events around the stage; null on a device without events"),
    figure("waited_s", _median_s("waited_s"), "the host's time with a wait for the device after the stage"),
    figure("frames", STAGE_FRAMES.at(itself(StageTimes)), "the same, repetition by repetition"),
))
FRAMES: Final = Shape("EndToEndFrames", PipelineTimes, "Latencies of single repetitions, each waited for at its end, or stalled by a wait after every stage. [s]", (
    figure("free_latency_s", "alone_s"),
    figure("stalled_latency_s", "stalled_frames_s"),
))
END_TO_END: Final = Shape("EndToEndDocument", PipelineTimes, "The whole pipeline: with the host left free, and stalled by a wait after every stage. [s, 1/s]", (
    figure("free_latency_s"),
    figure("stalled_latency_s"),
    figure("free_s", _per_repetition("free_s"), "per repetition, when repetitions overlap"),
    figure("stalled_s", _per_repetition("stalled_s")),
    figure("free_throughput_per_s"),
    figure("stalled_throughput_per_s"),
    figure("frames", FRAMES.at(itself(PipelineTimes)), "the whole pipeline, repetition by repetition"),
))
START_STEP: Final = Shape("StartStepDocument", StartStep, "One part of a start.", (
    figure("part"),
    figure("median_s"),
    figure("times_s", meaning="start by start"),
))
MEASURED_START: Final = Shape("MeasuredStartDocument", MeasuredStart, "What `capplan measure MODEL --start --format json` writes.", (
    figure("name"),
    figure("device"),
    figure("batch"),
    figure("weight_bytes"),
    figure("steps", START_STEP),
    figure("whole", START_STEP, "to the first answer"),
))
TIMED: Final = Shape("PipelineDocument", PipelineTimes, "A pipeline at one batch.", (
    figure("name"),
    figure("batch"),
    figure("device"),
    figure("has_events"),
    figure("repetitions"),
    figure("stages", STAGE),
    figure("end_to_end", END_TO_END.at(itself(PipelineTimes))),
))
ALL_TIMED: Final = Shape("PipelinesDocument", tuple, "What `capplan measure --pipeline FILE.py:FUNCTION --format json` writes: a pipeline for each batch.", (
    figure("pipelines", TIMED.at(itself(tuple[PipelineTimes, ...]))),
))
# fmt: on
