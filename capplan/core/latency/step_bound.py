"""The classic bound of a whole step: all FLOPs at the printed peaks, all bytes at the printed bandwidth; the longer.

It counts by the same rule as the bound of each kernel (`BOUND_RULE`), so that the kernels' bounds, summed, are never
below it: a sum of maxima is at least the maximum of the sums.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.decompositions import AttentionPath
from capplan.core.latency.device import DeviceRates, device_rates
from capplan.core.latency.kernel_time import PeakUse
from capplan.core.latency.op_table import counted_flops, kernel_table
from capplan.core.latency.predict import least_bytes, least_flops
from capplan.core.latency.step import ExecutedStep
from capplan.core.power import PeakSeconds

BOUND_RULE = (
    "the longer of FLOPs ÷ printed peak and bytes ÷ printed bandwidth; of a convolution that may run by Winograd's "
    "algorithm (3×3, stride 1, outside tensor cores) a quarter of the FLOPs count; of what a kernel reads and writes, "
    "as much as the L2 holds counts as cached, and all weights if they fit there together"
)
"""What the bound of a kernel is, and that of a step, which is the sum of its kernels' or of the step as one kernel."""

UNIT_NAMES = {
    PeakUse.HALF: "16 bits",
    PeakUse.CONVOLUTION_32: "fp32 convolutions",
    PeakUse.MATMUL_32: "fp32 matrix products",
    PeakUse.VECTOR: "outside tensor cores",
    PeakUse.DOUBLE: "fp64",
    PeakUse.INT8: "int8",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitWork:
    """The FLOPs of a step that one kind of unit does, the least that will do, and its printed dense rate."""

    use: PeakUse
    flops: float
    least_flops: float
    flops_per_s: float

    @property
    def time_s(self) -> float:
        """Least FLOPs ÷ FLOP/s. [s]"""
        return self.least_flops / self.flops_per_s

    @property
    def direct_s(self) -> float:
        """Return all FLOPs ÷ FLOP/s; no bound where an algorithm does without some of them. [s]"""
        return self.flops / self.flops_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicBound:
    """The step as one kernel: its arithmetic by kind of unit, costliest first, and its traffic; attention is fused.

    `operand_bytes` are those of all operands, `traffic_bytes` those that must cross the memory bus. [bytes]
    """

    work: tuple[UnitWork, ...]
    operand_bytes: float
    traffic_bytes: float
    l2_bytes: float
    bandwidth_bytes_per_s: float

    @property
    def flops(self) -> float:
        """Return all FLOPs."""
        return sum(unit.flops for unit in self.work)

    @property
    def compute_s(self) -> float:
        """Least FLOPs ÷ FLOP/s, summed over the units. [s]"""
        return sum(unit.time_s for unit in self.work)

    @property
    def memory_s(self) -> float:
        """Bytes that must cross the memory bus ÷ bandwidth. [s]"""
        return self.traffic_bytes / self.bandwidth_bytes_per_s

    @property
    def bound_s(self) -> float:
        """Return the longer of arithmetic and memory. [s]"""
        return max(self.compute_s, self.memory_s)


def classic_bound(step: ExecutedStep, *, rates: DeviceRates, batch: int) -> ClassicBound:
    """Sum a step's FLOPs by the unit that does them, and its bytes."""
    table = kernel_table(step, batches=[batch])
    runs = np.where(table.path != AttentionPath.UNFUSED, table.count, 0.0)
    flops, least = counted_flops(table)[:, 0] * runs, least_flops(table, [rates])[0, :, 0] * runs
    moved = (table.read_bytes[:, 0] + table.written_bytes[:, 0] + table.weight_bytes[:, 0]) * runs
    work = [
        UnitWork(
            use=use,
            flops=float(flops[table.peak_use == use].sum()),
            least_flops=float(least[table.peak_use == use].sum()),
            flops_per_s=float(rates.printed_flops_per_s[use]),
        )
        for use in UNIT_NAMES
    ]
    return ClassicBound(
        work=tuple(sorted((unit for unit in work if unit.flops > 0), key=lambda unit: -unit.time_s)),
        operand_bytes=float(moved.sum()),
        traffic_bytes=float((least_bytes(table, [rates])[0, :, 0] * runs).sum()),
        l2_bytes=rates.l2_bytes,
        bandwidth_bytes_per_s=rates.printed_bandwidth_bytes_per_s,
    )


_NARROW = (PeakUse.INT8, PeakUse.FP8, PeakUse.FP4)


def step_peak_seconds(step: ExecutedStep, gpu: GpuSpec, batches: Sequence[int]) -> tuple[PeakSeconds | None, ...]:
    """Return the work of a step on one GPU at each batch; None where the GPU cannot run it.

    Bytes are those that must cross the memory bus. Attention counts as fused.

    Args:
        step: The step.
        gpu: The GPU.
        batches: Batches; of a recording that holds at one batch, that one.
    """
    rates = device_rates(gpu, step.workload, step.laws)
    if not isinstance(rates, DeviceRates):
        return (None,) * len(batches)
    table = kernel_table(step, batches=batches)
    runs = np.where(table.path != AttentionPath.UNFUSED, table.count, 0.0)[:, None]
    seconds = counted_flops(table) * runs / rates.printed_flops_per_s[table.peak_use][:, None]
    memory_s = (least_bytes(table, [rates])[0] * runs).sum(axis=0) / rates.printed_bandwidth_bytes_per_s
    is_narrow = np.isin(table.peak_use, _NARROW)
    return tuple(
        PeakSeconds(memory_s=memory, wide_s=wide, narrow_s=narrow)
        for memory, wide, narrow in zip(
            memory_s.tolist(),
            seconds[~is_narrow].sum(axis=0).tolist(),
            seconds[is_narrow].sum(axis=0).tolist(),
            strict=True,
        )
    )
