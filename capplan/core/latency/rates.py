"""A device's rates for one workload, or why it cannot run it."""

from dataclasses import dataclass

from capplan.core.numbers import BoolArray, FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """Why a GPU cannot run a workload; `lacking` names what it lacks in a word or two, for summaries."""

    reason: str
    lacking: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRates:
    """A GPU's rates for one workload, before any fitted factor.

    `peaks_flops_per_s` and `printed_flops_per_s` have a column per `PeakUse`: sustained, and as printed.
    `bandwidth_bytes_per_s` is what kernels of models sustain, `printed_bandwidth_bytes_per_s` printed.
    `on_tensor_cores` says of each `PeakUse` whether tensor cores, with their wishes for layout and alignment, do it.
    """

    peaks_flops_per_s: FloatArray
    printed_flops_per_s: FloatArray
    bandwidth_bytes_per_s: float
    printed_bandwidth_bytes_per_s: float
    l2_bytes: float
    units: float
    on_tensor_cores: BoolArray
