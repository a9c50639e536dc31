"""Compare a measurement with bound and estimate, and compute the shares of the GPU's peaks that it reached."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.classes import ALL_CLASSES
from capplan.core.latency.decompositions import AttentionPath
from capplan.core.latency.device import DeviceRates, Unsupported, device_rates
from capplan.core.latency.op_table import KernelTable, kernel_table
from capplan.core.latency.predict import estimate_latencies, time_kernels
from capplan.core.latency.step import ExecutedStep
from capplan.core.measurement.types import TheoryFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class Theory:
    """What arithmetic says of one model on one GPU."""

    step: ExecutedStep
    gpu: GpuSpec

    def figures_at(self, *, batch: int, median_s: float) -> TheoryFigures | Unsupported:
        """Describe what was to be expected at a batch, or why nothing was."""
        (answer,) = estimate_latencies(self.step, gpus=[self.gpu], batches=[batch])
        rates = device_rates(self.gpu, self.step.workload, self.step.laws)
        if isinstance(answer, Unsupported):
            return answer
        if isinstance(rates, Unsupported):
            return rates
        estimate, table = answer[0], self._table(batch)
        return TheoryFigures(
            bound_s=estimate.bound_s,
            expected_s=estimate.latency_s.expected,
            low_s=estimate.latency_s.low,
            high_s=estimate.latency_s.high,
            calibration=estimate.calibration,
            mfu_fraction=_compute_s(table, rates) / median_s,
            mbu_fraction=_traffic_bytes(table) / rates.printed_bandwidth_bytes_per_s / median_s,
        )

    def device_s_by_class(self, batch: int) -> Mapping[str, float] | Unsupported:
        """Return the estimated time on the device of each class of kernel at a batch. [s]"""
        rates = device_rates(self.gpu, self.step.workload, self.step.laws)
        if isinstance(rates, Unsupported):
            return rates
        table = self._table(batch)
        timed = time_kernels(self.step.on(self.gpu), table, devices=[(self.gpu, rates)])
        spent_s = timed.times.total_s[0, :, 0] * timed.count[0]
        sums: dict[str, float] = {}
        for label, time_s in zip(table.label, spent_s, strict=True):
            if time_s > 0:
                name = ALL_CLASSES[label]
                sums[name] = sums.get(name, 0.0) + float(time_s)
        return sums

    def _table(self, batch: int) -> KernelTable:
        return kernel_table(self.step, batches=[batch])


def _compute_s(table: KernelTable, rates: DeviceRates) -> float:
    """Return the time of all FLOPs at the printed dense peaks of the units that do them; attention as if fused. [s]"""
    return float(np.sum(table.flops[:, 0] * _calls(table) / rates.printed_flops_per_s[table.peak_use]))


def _traffic_bytes(table: KernelTable) -> float:
    """Return what all kernels read and write. [bytes]"""
    moved = table.read_bytes[:, 0] + table.written_bytes[:, 0] + table.weight_bytes[:, 0]
    return float(np.sum(moved * _calls(table)))


def _calls(table: KernelTable) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return np.where(table.path != AttentionPath.UNFUSED, table.count, 0.0)
