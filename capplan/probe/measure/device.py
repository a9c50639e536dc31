"""The devices that torch can use: one class per kind, found by name."""

import contextlib
import ctypes
import gc
import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from capplan.core.measurement import MeasuredMemory
from capplan.errors import MeasurementError
from capplan.probe.measure.device_protocol import Event

_FLUSH_BYTES = 256 * 2**20
"""Written to displace what the L2 holds: above the largest L2 or infinity cache of a single GPU."""

_M_MMAP_THRESHOLD = -3
_MAPPED_FROM_BYTES, _HIGHEST_MAPPED_FROM_BYTES = 64 * 2**10, 32 * 2**20
"""glibc's malloc.h; the second is what its own, rising threshold ends at."""


class TorchDevice:
    """What the kinds of real devices share."""

    has_events = False

    def __init__(self, torch_device: torch.device) -> None:
        self.torch_device = torch_device
        self.kind = torch_device.type
        self._flush_buffer: torch.Tensor | None = None

    def now_s(self) -> float:
        """Read the host's clock. [s]"""
        return time.perf_counter()

    def synchronize(self) -> None:
        """Nothing runs behind the host's back."""

    def make_event(self) -> Event:
        """No queue, no events."""
        raise MeasurementError(f"{self.kind} has no events to time with; use --methods naive,sync.")

    def flush_cache(self) -> None:
        """Write a buffer larger than the last cache."""
        if self._flush_buffer is None:
            self._flush_buffer = torch.empty(_FLUSH_BYTES, dtype=torch.int8, device=self.torch_device)
        self._flush_buffer.zero_()

    def reset_peaks(self) -> None:
        """Nothing to reset."""

    def memory(self) -> MeasuredMemory:
        """Nothing is known."""
        return MeasuredMemory()

    def free_cached(self) -> None:
        """Drop what only garbage still holds."""
        gc.collect()

    def available_bytes(self) -> int | None:
        """Unknown."""
        return None

    @contextlib.contextmanager
    def limited_to(self, allowed_bytes: int) -> Iterator[None]:
        """No limit can be set on this kind of device."""
        raise MeasurementError(f"no memory limit of {allowed_bytes} bytes can be set on {self.kind}; use --max-batch.")
        yield


class CpuDevice(TorchDevice):
    """The host itself: its clock is the device's."""

    def reset_peaks(self) -> None:
        """Let the kernel count the peak resident set anew."""
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")

    def memory(self) -> MeasuredMemory:
        """Read the process's peak resident set; the system allocator keeps no other count."""
        return MeasuredMemory(process_bytes=_status_bytes("/proc/self/status", "VmHWM"))

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
        gc.collect()
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


class _TorchEvent:
    """A CUDA or XPU event with timing; both tell milliseconds."""

    def __init__(self, event: Any) -> None:
        self._event = event
        self.record = event.record

    def seconds_since(self, earlier: "_TorchEvent") -> float:
        """Time between two marks that the device has passed. [s]"""
        return float(earlier._event.elapsed_time(self._event)) / 1e3


class CudaDevice(TorchDevice):
    """A CUDA or ROCm GPU."""

    has_events = True

    def synchronize(self) -> None:
        """Wait for the device."""
        torch.cuda.synchronize(self.torch_device)

    def make_event(self) -> Event:
        """Make a timing event; it is recorded on the current stream."""
        return _TorchEvent(torch.cuda.Event(enable_timing=True))  # type: ignore[no-untyped-call]  # untyped in torch

    def reset_peaks(self) -> None:
        """Let the caching allocator count anew."""
        torch.cuda.reset_peak_memory_stats(self.torch_device)

    def memory(self) -> MeasuredMemory:
        """Read the allocator's peaks, and what the driver says is taken of the device now."""
        free, total = torch.cuda.mem_get_info(self.torch_device)
        return MeasuredMemory(
            peak_allocated_bytes=torch.cuda.max_memory_allocated(self.torch_device),
            peak_reserved_bytes=torch.cuda.max_memory_reserved(self.torch_device),
            device_used_bytes=total - free,
        )

    def free_cached(self) -> None:
        """Collect garbage, then give the allocator's unused segments back."""
        gc.collect()
        torch.cuda.empty_cache()

    def available_bytes(self) -> int | None:
        """What the driver has free, and what the allocator holds unused. [bytes]"""
        free, _ = torch.cuda.mem_get_info(self.torch_device)
        unused = torch.cuda.memory_reserved(self.torch_device) - torch.cuda.memory_allocated(self.torch_device)
        return int(free) + unused

    @contextlib.contextmanager
    def limited_to(self, allowed_bytes: int) -> Iterator[None]:
        """Limit the caching allocator to what it holds and the bytes allowed on top."""
        total = torch.cuda.get_device_properties(self.torch_device).total_memory
        wanted = torch.cuda.memory_allocated(self.torch_device) + allowed_bytes
        torch.cuda.set_per_process_memory_fraction(min(1.0, wanted / total), self.torch_device)
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0, self.torch_device)


class XpuDevice(TorchDevice):
    """An Intel GPU."""

    has_events = True

    def synchronize(self) -> None:
        """Wait for the device."""
        torch.xpu.synchronize(self.torch_device)

    def make_event(self) -> Event:
        """Make a timing event."""
        return _TorchEvent(torch.xpu.Event(enable_timing=True))  # type: ignore[no-untyped-call]  # untyped in torch

    def reset_peaks(self) -> None:
        """Let the caching allocator count anew."""
        torch.xpu.reset_peak_memory_stats(self.torch_device)

    def memory(self) -> MeasuredMemory:
        """Read the allocator's peaks."""
        return MeasuredMemory(
            peak_allocated_bytes=torch.xpu.max_memory_allocated(self.torch_device),
            peak_reserved_bytes=torch.xpu.max_memory_reserved(self.torch_device),
        )

    def free_cached(self) -> None:
        """Collect garbage, then give the allocator's unused segments back."""
        gc.collect()
        torch.xpu.empty_cache()


class MpsDevice(TorchDevice):
    """Apple's GPU: timed by the host's clock around a synchronise."""

    def synchronize(self) -> None:
        """Wait for the device."""
        torch.mps.synchronize()

    def memory(self) -> MeasuredMemory:
        """Read what the driver has given to the process; there is no peak."""
        return MeasuredMemory(process_bytes=torch.mps.driver_allocated_memory())

    def free_cached(self) -> None:
        """Collect garbage, then give unused memory back."""
        gc.collect()
        torch.mps.empty_cache()


def open_device(words: str | None) -> TorchDevice:
    """Find a device by its name ("cuda:0", "cpu"); without one, the first accelerator at hand, else the CPU.

    Raises:
        MeasurementError: no such device here; the message names those at hand.
    """
    at_hand = devices_at_hand()
    chosen = words or next(iter(at_hand))
    try:
        wanted = torch.device(chosen)
    except RuntimeError:
        wanted = None
    if wanted is not None and wanted.type != "cpu" and wanted.index is None:
        wanted = torch.device(wanted.type, 0)
    if wanted is None or str(torch.device(wanted.type) if wanted.type == "cpu" else wanted) not in at_hand:
        listed = ", ".join(f"{name} ({label})" for name, label in at_hand.items())
        raise MeasurementError(f"no device {chosen!r} here; at hand: {listed}.")
    return _CLASSES[wanted.type](torch.device("cpu") if wanted.type == "cpu" else wanted)


def devices_at_hand() -> dict[str, str]:
    """Name the devices that torch can use here, accelerators first, with what their drivers call them."""
    found = {f"cuda:{index}": torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())}
    if torch.xpu.is_available():
        found |= {f"xpu:{index}": torch.xpu.get_device_name(index) for index in range(torch.xpu.device_count())}
    if torch.backends.mps.is_available():
        found["mps:0"] = "Apple GPU"
    return {**found, "cpu": cpu_name()}


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


_CLASSES: dict[str, type[TorchDevice]] = {"cpu": CpuDevice, "cuda": CudaDevice, "xpu": XpuDevice, "mps": MpsDevice}
