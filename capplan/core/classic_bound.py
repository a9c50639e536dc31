"""The classic bound of a whole step: all FLOPs at the printed peaks, all bytes at the printed bandwidth; the longer."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from capplan.core.fusion import executed_recording
from capplan.core.gpu import GpuSpec, PeakKind, SourceKind
from capplan.core.latency_attention import AttentionPath
from capplan.core.latency_device import DeviceRates
from capplan.core.latency_features import counted_flops, kernel_table
from capplan.core.roofline import PeakUse
from capplan.core.trace import Recording
from capplan.core.workload import Workload
from capplan.units import format_bytes_per_s, format_count, format_flops, format_flops_per_s, format_seconds

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


def classic_bound(recording: Recording, workload: Workload, *, rates: DeviceRates, batch: int) -> ClassicBound:
    """Sum a step's FLOPs by the unit that does them, and its bytes."""
    table = kernel_table(executed_recording(recording, workload), workload, batches=[batch])
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


def explain_classic_bound(bound: ClassicBound, gpu: GpuSpec) -> list[str]:
    """Write the classic bound out, a division a line, and where its rates were read."""
    lines = [f"the classic bound on {gpu.name}, as if the step were one kernel"]
    for each in bound.work:
        lines.append(
            f"  {format_flops(each.flops)} ÷ {format_flops_per_s(each.flops_per_s)} ({_UNITS[each.use]}) "
            f"= {format_seconds(each.time_s)}"
        )
    lines += [
        f"  {format_count(bound.traffic_bytes, spaced=True)}B ÷ {format_bytes_per_s(bound.bandwidth_bytes_per_s)} "
        f"= {format_seconds(bound.memory_s)}, every operand read from memory and every result written to it",
        f"  arithmetic {format_seconds(bound.compute_s)}, memory {format_seconds(bound.memory_s)}: "
        f"{'arithmetic' if bound.compute_s > bound.memory_s else 'memory'} is the longer",
    ]
    return [*lines, *(f"  {line}" for line in _sources(bound, gpu))]


def _sources(bound: ClassicBound, gpu: GpuSpec) -> Iterator[str]:
    rates = {each.flops_per_s for each in bound.work}
    keys = [f"peak.{kind.value}" for kind in PeakKind if gpu.peak(kind) in rates]
    for key in [*keys, "bandwidth"]:
        figure = gpu.figures.get(key)
        if figure is None:
            continue
        named = [source for source in figure.sources if source.kind is not SourceKind.UNVERIFIED] or figure.sources
        read = "; ".join(source.title + (f" ({source.url})" if source.url else "") for source in named[:1])
        yield f"{key} {figure.text}: {read or 'no source'}"
