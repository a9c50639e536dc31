"""Measured steps laid end to end: what a fit of the latency model reads."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from capplan.core.latency_features import IntArray
from capplan.core.latency_model import KernelWork
from capplan.core.roofline import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRows:
    """Measured steps, their kernels laid end to end.

    Per kernel: `row`, `label`, `count`, and its work and rates before any fitted factor. Per row:
    `latency_s`, `weight`, GPU, host calls and launches, and the level of each kind of deviation.
    """

    row: IntArray
    label: IntArray
    count: FloatArray
    work: KernelWork
    peak_flops_per_s: FloatArray
    bandwidth_bytes_per_s: FloatArray
    l2_bytes: FloatArray
    latency_s: FloatArray
    weight: FloatArray
    gpu: IntArray
    host_calls: FloatArray
    host_launches: FloatArray
    levels: Mapping[str, IntArray]
    gpu_names: tuple[str, ...]
    level_names: Mapping[str, tuple[str, ...]]

    def select(self, rows: IntArray) -> "FitRows":
        """The same with only some rows."""
        position = np.full(len(self.latency_s), -1)
        position[rows] = np.arange(len(rows))
        kept = position[self.row] >= 0
        return replace(
            self,
            row=position[self.row[kept]],
            label=self.label[kept],
            count=self.count[kept],
            work=KernelWork(**{item.name: getattr(self.work, item.name)[kept] for item in fields(KernelWork)}),
            peak_flops_per_s=self.peak_flops_per_s[kept],
            bandwidth_bytes_per_s=self.bandwidth_bytes_per_s[kept],
            l2_bytes=self.l2_bytes[kept],
            latency_s=self.latency_s[rows],
            weight=self.weight[rows],
            gpu=self.gpu[rows],
            host_calls=self.host_calls[rows],
            host_launches=self.host_launches[rows],
            levels={kind: levels[rows] for kind, levels in self.levels.items()},
        )
