"""What the operating system says of the CPU at hand: cores, instructions, clock, cache and memory."""

import os
from dataclasses import dataclass
from pathlib import Path

import torch

from capplan.errors import UsageError
from capplan.probe.measure.devices import cpu_name
from capplan.units import BYTES, parse_quantity

_ARCHITECTURES = (
    ("amx_bf16", "x86-amx"),
    ("avx512_bf16", "x86-avx512-bf16"),
    ("avx512f", "x86-avx512"),
    ("avx2", "x86-avx2"),
)
"""Architectures of the database by the instruction that tells them, widest first."""

_CPU = Path("/sys/devices/system/cpu/cpu0")


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuFacts:
    """One CPU as the system describes it; `threads` are the cores that PyTorch uses. [Hz, bytes]"""

    name: str
    architecture_id: str
    threads: int
    clock_hz: float | None
    cache_bytes: int | None
    memory_bytes: int


def read_cpu_facts() -> CpuFacts:
    """Read what Linux says of the CPU at hand; what it does not say is None."""
    lines = _cpuinfo()
    flags = set(lines.get("flags", "").split())
    found = next((name for flag, name in _ARCHITECTURES if flag in flags), "x86-avx2")
    if found == "x86-avx512-bf16" and lines.get("vendor_id") == "GenuineIntel":
        found = "x86-avx512"
    return CpuFacts(
        name=cpu_name(),
        architecture_id=found,
        threads=torch.get_num_threads(),
        clock_hz=_clock_hz(lines),
        cache_bytes=last_level_cache_bytes(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    )


def _cpuinfo() -> dict[str, str]:
    """Return the lines of the first core in /proc/cpuinfo; empty elsewhere."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _clock_hz(lines: dict[str, str]) -> float | None:
    """Return the highest clock that the system states, else the present one; virtual machines hide the former."""
    try:
        return 1e3 * float((_CPU / "cpufreq" / "cpuinfo_max_freq").read_text())
    except (OSError, ValueError):
        return 1e6 * float(lines["cpu MHz"]) if "cpu MHz" in lines else None


def last_level_cache_bytes() -> int | None:
    """Return the size of the last-level cache as Linux reports it; None elsewhere. [bytes]"""
    try:
        sizes = [(each / "size").read_text().strip() for each in (_CPU / "cache").glob("index*")]
        return max(int(parse_quantity(f"{size}iB", BYTES, what="cache")) for size in sizes)
    except (OSError, ValueError, UsageError):
        return None
