"""What was learnt about memory from measurements: a type; the data is YAML."""

from dataclasses import dataclass

from capplan.core.estimates import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSize:
    """What CUDA takes beside the allocator on some compute capabilities, lowest and highest included. [bytes]"""

    capabilities: tuple[tuple[int, int], tuple[int, int]]
    size_bytes: Interval
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCalibration:
    """Fitted or measured terms of a memory estimate, with where they come from.

    `convolution_workspace` is a share of the bytes that a cuDNN call reads and writes.
    """

    convolution_workspace: Interval
    contexts: tuple[ContextSize, ...]
    origin: str

    def context(self, compute_capability: tuple[int, int] | None) -> ContextSize:
        """Find the context's size; unknown compute capabilities get the widest row."""
        for row in self.contexts:
            lowest, highest = row.capabilities
            if compute_capability is not None and lowest <= compute_capability <= highest:
                return row
        return ContextSize(
            capabilities=((0, 0), (99, 9)),
            size_bytes=Interval(
                low=min(row.size_bytes.low for row in self.contexts),
                expected=sorted(row.size_bytes.expected for row in self.contexts)[len(self.contexts) // 2],
                high=max(row.size_bytes.high for row in self.contexts),
            ),
            origin="no figure for this device: the range over all",
        )


UNCALIBRATED = MemoryCalibration(
    convolution_workspace=Interval(low=0, expected=0, high=1),
    contexts=(
        ContextSize(
            capabilities=((0, 0), (99, 9)),
            size_bytes=Interval(low=256 * 2**20, expected=400 * 2**20, high=1024 * 2**20),
            origin="range of public readings, 256 MiB to 1 GiB",
        ),
    ),
    origin="no calibration: from nothing to a copy of all that a convolution touches",
)
"""What can be said before anything was measured."""
