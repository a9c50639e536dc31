"""Write the spec file of the CPU at hand, which no vendor's page describes, from what the system says."""

import re
from datetime import date

from capplan.core.gpus.spec import CPU_USABLE_SHARE, GpuSpec, PeakKind

_PEAKS = (PeakKind.FP64, PeakKind.FP32, PeakKind.BF16, PeakKind.INT8)


def render_cpu_sheet(cpu: GpuSpec, *, read_on: date) -> str:
    """Return the text of a CPU's file, without what was measured.

    Args:
        cpu: its spec.
        read_on: the day on which the system was asked.
    """
    peaks = [
        f"  {kind}: {{value: {rate / 1e12:.4g}, unit: {'TOP/s' if kind is PeakKind.INT8 else 'TFLOP/s'}, source: host}}"
        for kind in _PEAKS
        if (rate := cpu.peak(kind))
    ]
    keys = ", ".join(f"peak.{kind}" for kind in _PEAKS if cpu.peak(kind))
    lines = [
        f'name: "{_plain(cpu.name)}"',
        f"architecture: {cpu.architecture_id}",
        "segment: {value: cpu, source: host}",
        f"memory: {{value: {cpu.memory_bytes / 2**20:.0f}, unit: MiB, source: host}}",
        f"usable: {{value: {CPU_USABLE_SHARE * cpu.memory_bytes / 2**20:.0f}, unit: MiB, source: host}}",
        f"bandwidth: {{value: {cpu.memory_bandwidth_bytes_per_s / 1e9:.4g}, unit: GB/s, source: host}}",
        *([f"l2: {{value: {cpu.l2_bytes / 2**20:.0f}, unit: MiB, source: host}}"] if cpu.l2_bytes else []),
        f"units: {{value: {cpu.unit_count}, source: host}}",
        "peak:",
        *peaks,
        "exemptions:",
        f"  - {{rule: formula, keys: [{keys}], reason: cores that PyTorch uses at the clock that the system states}}",
        "  - {rule: bandwidth, keys: [bandwidth], reason: what long copies reach on this machine}",
        "  - {rule: ridge, keys: [bandwidth], reason: copies were timed beside whatever else ran on this machine}",
        "notes:",
        '  - "This machine: the cores that PyTorch uses and the memory that is installed."',
        "sources:",
        f'  host: {{kind: measured, title: "/proc/cpuinfo and /sys of this machine, copies timed on it", '
        f"retrieved: {read_on}}}",
    ]
    return "\n".join(lines) + "\n"


def _plain(name: str) -> str:
    return re.sub(r"[^\w ()@.,+-]", "", name)[:80] or "CPU"
