"""The fingerprint of device and software, who else uses the device, and what the system says of its CPU."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

import torch

from capplan.core.measurement.types import Clocks, DeviceFacts
from capplan.errors import MeasurementError, UsageError
from capplan.probe.measure.device import TorchDevice
from capplan.probe.measure.devices import cpu_name, cpuinfo
from capplan.probe.measure.energy import Nvml
from capplan.processes.system import memory_bytes
from capplan.units import BYTES, format_bytes, parse_quantity

_BUSY_LOAD = 0.5
"""A CPU is busy where processes other than this one keep more of its cores than this share at work."""


def device_facts(device: TorchDevice, *, nvml: Nvml | None, gpu: str | None = None) -> DeviceFacts:
    """Gather what identifies a device and its state now. `gpu` is the id of its spec."""
    where = device.torch_device
    return DeviceFacts(
        name=_name(where),
        kind=device.kind,
        gpu=gpu,
        driver=nvml.driver_version() if nvml else None,
        cuda=torch.version.cuda or torch.version.hip,
        cudnn=str(torch.backends.cudnn.version()) if device.kind == "cuda" else None,  # type: ignore[no-untyped-call]  # untyped in torch
        torch=torch.__version__,
        memory_bytes=device.total_bytes(),
        power_limit_w=nvml.power_limit_w() if nvml else None,
        clocks=nvml.clocks() if nvml else Clocks(),
        temperature_c=nvml.temperature_c() if nvml else None,
        throttling=nvml.throttling() if nvml else (),
        threads=torch.get_num_threads() if device.kind == "cpu" else None,
    )


def torch_release() -> tuple[int, int]:
    """Return the release of torch at hand, (2, 11) for "2.11.0+cu130"."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def _name(where: torch.device) -> str:
    if where.type == "cuda":
        return torch.cuda.get_device_name(where)
    if where.type == "xpu":
        return str(torch.xpu.get_device_name(where))
    return cpu_name() if where.type == "cpu" else "Apple GPU"


def others_at_work(device: TorchDevice, *, nvml: Nvml | None) -> str | None:
    """Describe in one sentence who else uses the device; None if nobody does, or if that cannot be known."""
    if device.kind == "cpu":
        try:
            running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) - 1
        except (OSError, ValueError, IndexError):
            return None
        cores = os.cpu_count() or 1
        if running <= _BUSY_LOAD * cores:
            return None
        return f"{running} other process(es) or threads run on this host's {cores} cores; timings will suffer."
    others = nvml.other_processes() if nvml else ()
    if not others:
        return None
    listed = ", ".join(
        f"pid {other.pid} ({'memory unknown' if other.usedGpuMemory is None else format_bytes(other.usedGpuMemory)})"
        for other in others
    )
    return f"{_name(device.torch_device)} is in use by {len(others)} other process(es): {listed}; timings will suffer."


_ARCHITECTURES = (
    ("amx_bf16", "x86-amx"),
    ("avx512_bf16", "x86-avx512-bf16"),
    ("avx512f", "x86-avx512"),
    ("avx2", "x86-avx2"),
)
"""Architectures of x86 in the database by the instruction that identifies them, widest first."""
_X86 = frozenset({"x86_64", "amd64", "i386", "i686"})
_OTHER = "cpu-other"
"""The architecture of CPUs whose operations per clock are not known: their peaks are what products reached."""

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
    text, held = cpuinfo(), memory_bytes()
    if held is None:
        raise MeasurementError("this system does not report its memory, so that its CPU cannot be described.")
    return CpuFacts(
        name=cpu_name(text),
        architecture_id=cpu_architecture(text, machine=platform.machine()),
        threads=torch.get_num_threads(),
        clock_hz=_clock_hz(_first_core(text)),
        cache_bytes=last_level_cache_bytes(),
        memory_bytes=held,
    )


def cpu_architecture(text: str, *, machine: str) -> str:
    """Return the id of a CPU's architecture in the database; `cpu-other` where its instructions are not known there."""
    if machine.lower() not in _X86:
        return _OTHER
    lines = _first_core(text)
    flags = set(lines.get("flags", "").split())
    found = next((name for flag, name in _ARCHITECTURES if flag in flags), _OTHER)
    return "x86-avx512" if found == "x86-avx512-bf16" and lines.get("vendor_id") == "GenuineIntel" else found


def _first_core(text: str) -> dict[str, str]:
    """Return the lines of the first core in /proc/cpuinfo."""
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
        sizes = [(folder / "size").read_text().strip() for folder in (_CPU / "cache").glob("index*")]
        return max(int(parse_quantity(f"{size}iB", BYTES, what="cache")) for size in sizes)
    except (OSError, ValueError, UsageError):
        return None
