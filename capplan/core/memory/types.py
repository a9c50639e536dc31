"""The answers about one GPU and batch: intervals, memory by part, latency with its bound."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from capplan.core.numbers import Interval
from capplan.core.trace.types import Role

PART_NAMES: Mapping[Role, str] = {
    Role.PARAMETER: "weights",
    Role.BUFFER: "buffers",
    Role.INPUT: "inputs",
    Role.ACTIVATION: "activations",
    Role.GRADIENT: "gradients",
    Role.OPTIMIZER: "optimizer states",
}
"""What a storage's role is called among the parts of a peak."""


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

    `parts` lie inside the allocated peak (`torch.cuda.max_memory_allocated`); `fragmentation` is what the
    caching allocator reserves on top; `context` is what CUDA takes outside the allocator.
    """

    batch: int
    parts: tuple[MemoryPart, ...]
    fragmentation: MemoryPart
    context: MemoryPart
    usable_bytes: int | None
    peak_op: str
    peak_module: str
    largest: tuple[LiveTensor, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def all_parts(self) -> tuple[MemoryPart, ...]:
        """The parts with fragmentation and CUDA context, which add up to the total. [bytes]"""
        return (*self.parts, self.fragmentation, self.context)

    @property
    def peak_allocated_bytes(self) -> Interval:
        """What `torch.cuda.max_memory_allocated` would read. [bytes]"""
        return _total(self.parts)

    @property
    def peak_reserved_bytes(self) -> Interval:
        """What `torch.cuda.max_memory_reserved` would read. [bytes]"""
        return _total((*self.parts, self.fragmentation))

    @property
    def total_bytes(self) -> Interval:
        """What nvidia-smi would show for the process. [bytes]"""
        return _total(self.all_parts)


def _total(parts: Sequence[MemoryPart]) -> Interval:
    """Add parts up in one pass; a plan asks for thousands of totals. [bytes]"""
    sizes = [part.size_bytes for part in parts]
    return Interval(
        low=sum(size.low for size in sizes),
        expected=sum(size.expected for size in sizes),
        high=sum(size.high for size in sizes),
    )


class FitStatus(StrEnum):
    """Whether the estimate fits: for its whole interval, for part of it, or for none of it."""

    FITS = "fits"
    BORDERLINE = "borderline"
    DOES_NOT_FIT = "does not fit"


def fit_status(total_bytes: Interval, *, available_bytes: Interval) -> FitStatus:
    """Compare a peak with what may be filled: it fits if its high end stays within the low end of that."""
    if total_bytes.high <= available_bytes.low:
        return FitStatus.FITS
    return FitStatus.DOES_NOT_FIT if total_bytes.low > available_bytes.high else FitStatus.BORDERLINE
