"""The classic bound of a whole step: all FLOPs at the printed peaks, all bytes at the printed bandwidth; the longer."""

from dataclasses import dataclass

import numpy as np

from capplan.core.latency.decompositions import AttentionPath
from capplan.core.latency.device import DeviceRates
from capplan.core.latency.op_table import counted_flops, kernel_table
from capplan.core.latency.roofline import PeakUse
from capplan.core.latency.step import ExecutedStep

_UNITS = {
    PeakUse.HALF: "16 bits",
    PeakUse.CONVOLUTION_32: "fp32 convolutions",
    PeakUse.MATMUL_32: "fp32 matrix products",
    PeakUse.VECTOR: "outside tensor cores",
    PeakUse.DOUBLE: "fp64",
    PeakUse.INT8: "int8",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitWork:
    """The FLOPs of a step that one kind of unit does, and its printed dense rate."""

    use: PeakUse
    flops: float
    flops_per_s: float

    @property
    def time_s(self) -> float:
        """FLOPs ÷ FLOP/s. [s]"""
        return self.flops / self.flops_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicBound:
    """The step as one kernel: its arithmetic by kind of unit, costliest first, and its traffic; attention is fused."""

    work: tuple[UnitWork, ...]
    traffic_bytes: float
    bandwidth_bytes_per_s: float

    @property
    def flops(self) -> float:
        """All FLOPs."""
        return sum(each.flops for each in self.work)

    @property
    def compute_s(self) -> float:
        """FLOPs ÷ FLOP/s, summed over the units. [s]"""
        return sum(each.time_s for each in self.work)

    @property
    def memory_s(self) -> float:
        """Bytes ÷ bandwidth, every operand crossing the memory bus. [s]"""
        return self.traffic_bytes / self.bandwidth_bytes_per_s


def classic_bound(step: ExecutedStep, *, rates: DeviceRates, batch: int) -> ClassicBound:
    """Sum a step's FLOPs by the unit that does them, and its bytes."""
    table = kernel_table(step, batches=[batch])
    runs = np.where(table.path != AttentionPath.UNFUSED, table.count, 0.0)
    flops = counted_flops(table)[:, 0] * runs
    moved = (table.read_bytes[:, 0] + table.written_bytes[:, 0] + table.weight_bytes[:, 0]) * runs
    by_use = {use: float(flops[table.peak_use == use].sum()) for use in _UNITS}
    work = (
        UnitWork(use=use, flops=total, flops_per_s=float(rates.printed_flops_per_s[use]))
        for use, total in by_use.items()
        if total > 0
    )
    return ClassicBound(
        work=tuple(sorted(work, key=lambda each: -each.time_s)),
        traffic_bytes=float(moved.sum()),
        bandwidth_bytes_per_s=rates.printed_bandwidth_bytes_per_s,
    )
