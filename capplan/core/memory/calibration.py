"""Types of the memory calibration; its data is YAML."""

from dataclasses import dataclass

from capplan.core.numbers import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSize:
    """What CUDA takes outside the allocator: torch from `since` on, compute capabilities lowest to highest. [bytes]"""

    since: tuple[int, int] = (0, 0)
    capabilities: tuple[tuple[int, int], tuple[int, int]]
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
    contexts: tuple[ContextSize, ...]
    communication: CommunicationSize
    uncertain_fraction: float
    compiled_fraction: float
    graph_pool_fraction: float
    least_kept_fraction: float
    assumed_share_factor: float
    origin: str

    def context(self, compute_capability: tuple[int, int] | None, *, torch_version: tuple[int, int]) -> ContextSize:
        """Find the context's size; an unknown compute capability gets the range over all known."""
        released = [row for row in self.contexts if torch_version >= row.since] or list(self.contexts)
        for row in released:
            lowest, highest = row.capabilities
            if compute_capability is not None and lowest <= compute_capability <= highest:
                return row
        return ContextSize(
            capabilities=((0, 0), (99, 9)),
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
        ContextSize(
            capabilities=((0, 0), (99, 9)),
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
