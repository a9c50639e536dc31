"""The answers about one GPU and batch: intervals, memory by part, latency with its bound."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A quantity with what it may be at least and at most."""

    low: float
    expected: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.expected <= self.high:
            raise ValueError(f"an interval must not fall: {self.low}, {self.expected}, {self.high}")

    def __add__(self, other: "Interval") -> "Interval":
        return Interval(
            low=self.low + other.low,
            expected=self.expected + other.expected,
            high=self.high + other.high,
        )

    @classmethod
    def exact(cls, value: float) -> "Interval":
        """A quantity that is known."""
        return cls(low=value, expected=value, high=value)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPart:
    """One share of a peak, and where its figure comes from. [bytes]"""

    name: str
    size_bytes: Interval
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTensor:
    """One storage alive at the peak: who made it, and its size. [bytes]"""

    label: str
    shape: tuple[int, ...]
    dtype: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """Peak memory of one workload at one batch on one GPU.

    `parts` lie inside the allocated peak (`torch.cuda.max_memory_allocated`); `slack` is what the
    caching allocator reserves on top; `context` is what CUDA takes beside the allocator.
    """

    batch: int
    parts: tuple[MemoryPart, ...]
    slack: MemoryPart
    context: MemoryPart
    usable_bytes: int | None
    peak_op: str
    peak_module: str
    largest: tuple[LiveTensor, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def peak_allocated_bytes(self) -> Interval:
        """What `torch.cuda.max_memory_allocated` would read. [bytes]"""
        return sum((part.size_bytes for part in self.parts), Interval.exact(0))

    @property
    def peak_reserved_bytes(self) -> Interval:
        """What `torch.cuda.max_memory_reserved` would read. [bytes]"""
        return self.peak_allocated_bytes + self.slack.size_bytes

    @property
    def total_bytes(self) -> Interval:
        """What nvidia-smi would show for the process. [bytes]"""
        return self.peak_reserved_bytes + self.context.size_bytes


class FitStatus(StrEnum):
    """Does the estimate fit: for its whole interval, for part of it, for none of it."""

    FITS = "fits"
    BORDERLINE = "borderline"
    DOES_NOT_FIT = "does not fit"


def fit_status(total_bytes: Interval, *, available_bytes: Interval) -> FitStatus:
    """Compare a peak with what may be filled: it fits if its high end stays within the low end of that."""
    if total_bytes.high <= available_bytes.low:
        return FitStatus.FITS
    return FitStatus.DOES_NOT_FIT if total_bytes.low > available_bytes.high else FitStatus.BORDERLINE


class Binding(StrEnum):
    """What the time of a run is mostly spent waiting for."""

    COMPUTE = "compute"
    BANDWIDTH = "bandwidth"
    LAUNCHES = "launches"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyEstimate:
    """Time of one batch on one GPU: what cannot be beaten, what is expected, and between what. [s]

    `calibration` names what the interval was learnt from; None where nothing was measured for this
    cell, and then the interval is a statement of ignorance, not of coverage. A training step may accumulate
    gradients over several `micro_batches` of the batch; its time is theirs together.
    """

    batch: int
    bound_s: float
    latency_s: Interval
    bound_by: Binding
    share_by_binding: tuple[tuple[Binding, float], ...]
    calibration: str | None
    notes: tuple[str, ...] = ()
    micro_batches: int = 1

    @property
    def samples(self) -> int:
        """Samples that one timed step takes."""
        return self.batch * self.micro_batches

    @property
    def throughput_per_s(self) -> Interval:
        """Samples per second; the low end belongs to the high latency. [1/s]"""
        return Interval(
            low=self.samples / self.latency_s.high,
            expected=self.samples / self.latency_s.expected,
            high=self.samples / self.latency_s.low,
        )
