"""The types of measured points as `capplan.core.measurement.format` writes them: a line each, or one document."""

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from capplan.core.measurement.compare import Pairing, RunComparison, RunVerdict
from capplan.core.measurement.op_times import ModulesOfBatch, ProfiledBatch
from capplan.core.measurement.statistics import ConfidenceInterval
from capplan.core.measurement.types import MeasurementFailure
from capplan.core.workload import Framework, Layout, Precision, TimingMethod

Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0)]
Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class MeasuredModelDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Which model ran."""

    name: str
    words: Annotated[str, Meta(description="names the model again on a command line")]
    library: str
    input_size: Annotated[tuple[Count, ...], Meta(description="the first input's shape of one sample")]
    versions: dict[str, str]
    source_sha256: str | None


class MeasuredWorkloadDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Under which conditions it ran."""

    batch: Annotated[int, Meta(ge=1)]
    precision: Precision
    framework: Framework
    layout: Layout


class ClocksDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Clocks while measuring. [Hz]"""

    graphics_hz: float | None
    memory_hz: float | None


class DeviceDocument(msgspec.Struct, frozen=True, kw_only=True):
    """On what it ran."""

    name: Annotated[str, Meta(description="as the driver reports it")]
    kind: str
    gpu: Annotated[str | None, Meta(description="id in the GPU database, where it knows the device")]
    driver: str | None
    cuda: str | None
    cudnn: str | None
    torch: str
    memory_bytes: int | None
    power_limit_w: float | None
    clocks: ClocksDocument
    temperature_c: float | None
    throttling: tuple[str, ...]
    threads: int | None


class RulesDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The rules that a point was timed by; null leaves them to capplan."""

    warm_up_runs: int | None
    repetitions: int | None
    budget_s: float
    method: TimingMethod | None
    flush_l2: bool
    autotune: bool


class WarmUpDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What ran before the first repetition that counts."""

    runs: int
    elapsed_s: float
    first_s: float
    stable: bool


class LatencyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of the repetitions. [s]"""

    mean: Seconds
    std: Share
    median: Seconds
    p90: Seconds
    p95: Seconds
    p99: Seconds
    median_low: Annotated[
        float | None, Meta(description="95 % confidence interval of the median; null below six repetitions")
    ]
    median_high: float | None
    samples: Annotated[tuple[Seconds, ...], Meta(min_length=1)]


class MeasuredMemoryDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Peaks while measuring; null where the device cannot report them. [bytes]"""

    peak_allocated_bytes: int | None
    peak_reserved_bytes: int | None
    device_used_bytes: int | None
    process_bytes: int | None


class TheoryDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The bound and the estimate for the same batch on the same GPU, and shares of the GPU's peaks. [s]"""

    bound: float
    expected: float
    low: float
    high: float
    calibration: str | None
    mfu_fraction: float | None
    mbu_fraction: float | None


class MeasurementDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One point that was timed."""

    schema_version: Literal[1]
    model: MeasuredModelDocument
    workload: MeasuredWorkloadDocument
    device: DeviceDocument
    method: TimingMethod
    l2_flushed: bool
    warm_up: WarmUpDocument
    latency_s: LatencyDocument
    throughput_per_s: Seconds
    memory: MeasuredMemoryDocument
    power_w: float | None
    energy_j_per_sample: float | None
    estimate: TheoryDocument | None
    finite_outputs: bool
    notes: tuple[str, ...]
    rules: RulesDocument | None = None
    date: Moment
    command: str


class LimitDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What a point was allowed to take; null where not limited."""

    allowed_bytes: int | None
    reserve_fraction: float | None


class FailureReason(msgspec.Struct, frozen=True, kw_only=True):
    """Why a point has no measurement."""

    kind: MeasurementFailure
    message: str
    limit: LimitDocument | None = None


class FailureDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One point that could not be measured."""

    schema_version: Literal[1]
    model: MeasuredModelDocument
    workload: MeasuredWorkloadDocument
    device: DeviceDocument
    failure: FailureReason
    rules: RulesDocument | None = None
    date: Moment
    command: str


class ProfileClass(msgspec.Struct, frozen=True, kw_only=True):
    """One class of kernels of a profiled step, measured and estimated. [s]"""

    label: str
    calls: float
    measured_s: float
    estimated_s: float | None


class ProfileDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A profiled batch by class of kernel."""

    batch: int
    classes: tuple[ProfileClass, ...]


class MeasuredModule(msgspec.Struct, frozen=True, kw_only=True):
    """One module of a step with all below it, measured by hooks. [s]"""

    path: Annotated[str, Meta(description="its name in the model; empty for the model itself")]
    kind: Annotated[str, Meta(description="its class")]
    calls: Count
    measured_s: float
    macs: Annotated[int | None, Meta(description="multiply-accumulates; null where the model could not be traced")]
    estimated_s: Annotated[float | None, Meta(description="its kernels' time on the device alone")]


class ModulesDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A batch by module, in the order of the model."""

    batch: int
    steps: Annotated[int, Meta(description="the times are medians over so many steps")]
    host_s: Annotated[float | None, Meta(description="the estimate of the host's time for a step [s]")]
    modules: tuple[MeasuredModule, ...]


class MeasureDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `capplan measure --format json` writes."""

    measurements: tuple[MeasurementDocument, ...]
    failures: tuple[FailureDocument, ...]
    profiles: tuple[ProfileDocument, ...] | UnsetType = UNSET
    modules: tuple[ModulesDocument, ...] | UnsetType = UNSET


class MeasurementComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A question that two runs answered: the second median over the first, with its 95 % interval. [s]"""

    model: str
    batch: int
    precision: Precision
    framework: Framework
    layout: Layout
    first_median_s: float
    second_median_s: float
    ratio: ConfidenceInterval
    verdict: RunVerdict


class MeasurementComparisonsDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `capplan measure --compare A B --format json` writes."""

    comparisons: tuple[MeasurementComparison, ...]


def profiles_document(profiled: Iterable[ProfiledBatch]) -> tuple[ProfileDocument, ...]:
    """Return profiled batches as a document.

    Args:
        profiled: The batches with their times by class of kernel.
    """
    return tuple(
        ProfileDocument(
            batch=batch.batch,
            classes=tuple(
                ProfileClass(label=row.label, calls=row.calls, measured_s=row.measured_s, estimated_s=row.estimated_s)
                for row in batch.classes
            ),
        )
        for batch in profiled
    )


def modules_document(batches: Iterable[ModulesOfBatch]) -> tuple[ModulesDocument, ...]:
    """Return batches that were timed by module as a document.

    Args:
        batches: The batches with their times by module.
    """
    return tuple(
        ModulesDocument(
            batch=batch.batch,
            steps=batch.steps,
            host_s=batch.host_s,
            modules=tuple(
                MeasuredModule(
                    path=module.path,
                    kind=module.kind,
                    calls=module.calls,
                    measured_s=module.measured_s,
                    macs=module.macs,
                    estimated_s=module.estimated_s,
                )
                for module in batch.modules
            ),
        )
        for batch in batches
    )


def comparisons_document(pairing: Pairing) -> MeasurementComparisonsDocument:
    """Return the questions that two runs both answered as a document.

    Args:
        pairing: The questions of two runs.
    """
    return MeasurementComparisonsDocument(comparisons=tuple(map(_comparison, pairing.pairs)))


def _comparison(pair: RunComparison) -> MeasurementComparison:
    workload = pair.first.workload
    return MeasurementComparison(
        model=pair.first.model.words,
        batch=workload.batch,
        precision=workload.precision,
        framework=workload.framework,
        layout=workload.layout,
        first_median_s=pair.first.latency.median,
        second_median_s=pair.second.latency.median,
        ratio=pair.ratio,
        verdict=pair.verdict,
    )
