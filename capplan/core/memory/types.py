"""Types of memory estimates: peaks by part, whether they fit, and the calibrated sizes that they rest on."""

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
    def weight_bytes(self) -> float:
        """Return what parameters take: a model's, or those of a pipeline's other parts and layers. [bytes]"""
        return sum(part.size_bytes.expected for part in self.parts if part.name in _WEIGHTS)

    @property
    def peak_allocated_bytes(self) -> Interval:
        """Return what `torch.cuda.max_memory_allocated` would read. [bytes]"""
        return _total(self.parts)

    @property
    def peak_reserved_bytes(self) -> Interval:
        """Return what `torch.cuda.max_memory_reserved` would read. [bytes]"""
        return _total((*self.parts, self.fragmentation))

    @property
    def total_bytes(self) -> Interval:
        """Return what nvidia-smi would show for the process. [bytes]"""
        return _total(self.all_parts)


_WEIGHTS = ("weights", "weights of other parts", "largest layer", "largest layers")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaSize:
    """What CUDA or a library of it takes: torch from `since` on, compute capabilities lowest to highest. [bytes]"""

    since: tuple[int, int] = (0, 0)
    capabilities: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (99, 9))
    size_bytes: Interval
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionWorkspaces:
    """cuDNN's workspaces as shares of the bytes that a call reads and writes.

    `nchw_half` is for 16-bit tensors in NCHW, which tensor cores need copied to NHWC; `other` for the rest. On a
    full device an algorithm is chosen that takes no more than the expected share.
    """

    nchw_half: Interval
    other: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuWorkspaces:
    """oneDNN's copies for a convolution on a CPU, as shares of the bytes that the call reads and writes.

    `row_major` is for fp32 images in NCHW, `row_major_half` for those in 16 bits, `channels_last` for either in NHWC,
    of which only weights are copied.
    """

    row_major: Interval
    row_major_half: Interval
    channels_last: Interval
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationSize:
    """What collective communication takes on each GPU. [bytes]"""

    size_bytes: Interval
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCalibration:
    """Fitted or measured terms of a memory estimate, with where they come from; contexts latest release first.

    `uncertain_fraction` widens activations where a value was assumed or an operator is not known, either way;
    `compiled_fraction` is what compilation leaves of the eager activations at least, `graph_pool_fraction` what a graph
    replayed from a pool of its own is expected to hold of them. `least_kept_fraction` is the least share of the
    activations that is left where the tracer took every candidate as kept; `assumed_share_factor` how far they may lie
    either way where a share of the candidates was taken as kept.
    """

    convolution_workspaces: ConvolutionWorkspaces
    cpu_workspaces: CpuWorkspaces
    contexts: tuple[CudaSize, ...]
    communication: CommunicationSize
    uncertain_fraction: float
    compiled_fraction: float
    graph_pool_fraction: float
    least_kept_fraction: float
    assumed_share_factor: float
    origin: str

    def context(self, compute_capability: tuple[int, int] | None, *, torch_version: tuple[int, int]) -> CudaSize:
        """Find the context's size; an unknown compute capability gets the range over all known."""
        released = [row for row in self.contexts if torch_version >= row.since] or list(self.contexts)
        for row in released:
            lowest, highest = row.capabilities
            if compute_capability is not None and lowest <= compute_capability <= highest:
                return row
        return CudaSize(
            size_bytes=Interval(
                low=min(row.size_bytes.low for row in released),
                expected=released[0].size_bytes.expected,
                high=max(row.size_bytes.high for row in released),
            ),
            origin="no figure for this device: the range over all",
        )


UNCALIBRATED = MemoryCalibration(
    convolution_workspaces=ConvolutionWorkspaces(
        nchw_half=Interval(low=0, expected=0, high=1), other=Interval(low=0, expected=0, high=1)
    ),
    cpu_workspaces=CpuWorkspaces(
        row_major=Interval(low=0, expected=1, high=1),
        row_major_half=Interval(low=0, expected=1, high=2),
        channels_last=Interval(low=0, expected=0, high=1),
        origin="no calibration: from nothing to copies of all that a convolution touches",
    ),
    contexts=(
        CudaSize(
            size_bytes=Interval(low=256 * 2**20, expected=400 * 2**20, high=1024 * 2**20),
            origin="range of public readings, 256 MiB to 1 GiB",
        ),
    ),
    communication=CommunicationSize(
        size_bytes=Interval(low=0, expected=400 * 2**20, high=1024 * 2**20), origin="no calibration"
    ),
    uncertain_fraction=0.25,
    compiled_fraction=0.5,
    graph_pool_fraction=1.0,
    least_kept_fraction=0.2,
    assumed_share_factor=2.0,
    origin="no calibration: from nothing to a copy of all that a convolution touches",
)
"""What can be said before anything was measured."""
