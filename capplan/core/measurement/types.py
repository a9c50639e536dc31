"""Types of a measurement: statistics, memory, energy, and a fingerprint of model, device and software."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from capplan.core.measurement.statistics import ConfidenceInterval, Summary, median_interval, summarise
from capplan.core.workload import Framework, Layout, Precision, TimingMethod

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """Which model ran.

    `words` name it on a command line; `input_size` is the first input's shape of one sample.
    """

    name: str
    words: str
    library: str
    input_size: tuple[int, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    source_sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredWorkload:
    """Under which conditions it ran."""

    batch: int
    precision: Precision = Precision.FP32
    framework: Framework = Framework.EAGER
    layout: Layout = Layout.NCHW


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimit:
    """What a point was allowed to take; None where not limited.

    A size, and the share of the available memory that is left free.
    """

    allowed_bytes: int | None = None
    reserve_fraction: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingRules:
    """The rules that a point was timed by; None leaves them to capplan."""

    warm_up_runs: int | None = None
    repetitions: int | None = None
    budget_s: float = 10.0
    method: TimingMethod | None = None
    flush_l2: bool = False
    autotune: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """Clocks while measuring. [Hz]"""

    graphics_hz: float | None = None
    memory_hz: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """On what it ran.

    `name` is as the driver reports it, `gpu` the spec's id where the database knows the name.
    """

    name: str
    kind: str
    gpu: str | None = None
    driver: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    torch: str
    memory_bytes: int | None = None
    power_limit_w: float | None = None
    clocks: Clocks = Clocks()
    temperature_c: float | None = None
    throttling: tuple[str, ...] = ()
    threads: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredMemory:
    """Peaks while measuring; None where the device cannot report them. [bytes]

    Allocated and reserved are the caching allocator's; `device_used_bytes` is all that is taken of the device, other
    processes included; `process_bytes` what the driver books on this process (on a CPU its peak resident set).
    """

    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    device_used_bytes: int | None = None
    process_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPower:
    """Mean power over a stretch of repetitions, and the energy of one sample in it."""

    power_w: float
    energy_j_per_sample: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """What ran before the first repetition that counts.

    `first_s` is the very first call, lazy loading included.
    """

    runs: int
    elapsed_s: float
    first_s: float
    stable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TheoryFigures:
    """The bound and the estimate for the same batch on the same GPU, and shares of the GPU's peaks. [s]

    `mfu_fraction` is the time that the model's FLOPs take at the printed dense peaks over the measured median,
    `mbu_fraction` the same of its bytes at the printed bandwidth. [s]
    """

    bound_s: float
    expected_s: float
    low_s: float
    high_s: float
    calibration: str | None
    mfu_fraction: float | None
    mbu_fraction: float | None

    def error_fraction(self, measured_s: float) -> float:
        """Return how far the estimate is above (positive) or below the measurement, over the measurement."""
        return self.expected_s / measured_s - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One point that was timed. `samples_s` are the repetitions in their order. [s]"""

    model: ModelIdentity
    workload: MeasuredWorkload
    device: DeviceFacts
    samples_s: tuple[float, ...]
    method: TimingMethod
    warm_up: WarmUp
    memory: MeasuredMemory
    date: datetime
    command: str
    l2_flushed: bool = False
    power: MeasuredPower | None = None
    finite_outputs: bool = True
    theory: TheoryFigures | None = None
    notes: tuple[str, ...] = ()
    rules: TimingRules | None = None

    @property
    def latency(self) -> Summary:
        """Statistics of the repetitions. [s]"""
        return summarise(self.samples_s)

    @property
    def median(self) -> ConfidenceInterval | None:
        """Return the median with its 95 % confidence interval; None below six repetitions. [s]"""
        return median_interval(self.samples_s)

    @property
    def throughput_per_s(self) -> float:
        """Samples per second: repetitions times batch over the seconds that they took. [1/s]"""
        return len(self.samples_s) * self.workload.batch / sum(self.samples_s)


class MeasurementFailure(StrEnum):
    """Why a point has no measurement."""

    OUT_OF_MEMORY = "out of memory"
    ERROR = "error"
    TIMEOUT = "timeout"
    CRASH = "crash"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedMeasurement:
    """A point that could not be measured, and why in one sentence."""

    model: ModelIdentity
    workload: MeasuredWorkload
    device: DeviceFacts
    kind: MeasurementFailure
    message: str
    date: datetime
    command: str
    rules: TimingRules | None = None
    limit: MemoryLimit | None = None


Point = Measurement | FailedMeasurement
