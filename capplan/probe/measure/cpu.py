"""The host itself as a device: its clock, its memory and a limit on it."""

import contextlib
import ctypes
import os
import resource
from collections.abc import Iterator
from pathlib import Path

from capplan.core.measurement import MeasuredMemory
from capplan.errors import MeasurementError
from capplan.probe.measure.torch_device import TorchDevice

_M_MMAP_THRESHOLD = -3
_MAPPED_FROM_BYTES, _HIGHEST_MAPPED_FROM_BYTES = 64 * 2**10, 32 * 2**20
"""glibc's malloc.h; the second is what its own, rising threshold ends at."""


class CpuDevice(TorchDevice):
    """The host itself: its clock is the device's."""

    def reset_peaks(self) -> None:
        """Let the kernel count the peak resident set anew."""
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")

    def memory(self) -> MeasuredMemory:
        """Read the process's peak resident set; the system allocator keeps no other count."""
        return MeasuredMemory(process_bytes=_status_bytes("/proc/self/status", "VmHWM"))

    def total_bytes(self) -> int | None:
        """All memory of the host. [bytes]"""
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def available_bytes(self) -> int | None:
        """Read what the system can still give without swapping. [bytes]"""
        return _status_bytes("/proc/meminfo", "MemAvailable")

    @contextlib.contextmanager
    def limited_to(self, allowed_bytes: int) -> Iterator[None]:
        """Limit the process's private memory, so that allocations fail instead of waking the system's killer.

        Meanwhile glibc maps every tensor by itself: its heap would keep address space that the limit counts.
        """
        used = _status_bytes("/proc/self/status", "VmData")
        if used is None:
            raise MeasurementError("this system tells no process sizes; use --max-batch instead of a limit.")
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = used + allowed_bytes
        resource.setrlimit(
            resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
        )
        _map_from(_MAPPED_FROM_BYTES)
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
            _map_from(_HIGHEST_MAPPED_FROM_BYTES)

    def free_cached(self) -> None:
        """Drop what only garbage still holds, and let glibc give its heap's free pages back."""
        super().free_cached()
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def cpu_name() -> str:
    """What the system calls its processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model"))]
    return names[0] if names else os.uname().machine


def _map_from(size_bytes: int) -> None:
    """Let glibc's malloc map blocks of this size and above by themselves."""
    if (set_option := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        set_option(_M_MMAP_THRESHOLD, size_bytes)


def _status_bytes(path: str, key: str) -> int | None:
    """A line "key:  123 kB" of a /proc file; None where the system has none. [bytes]"""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith(f"{key}:")]
    return int(found[0]) * 1024 if found else None
