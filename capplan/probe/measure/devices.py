"""GPUs that torch can use: CUDA and ROCm, Intel's XPU, Apple's MPS."""

import contextlib
import ctypes
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from capplan.core.measurement.types import MeasuredMemory
from capplan.errors import MeasurementError
from capplan.probe.foreign.code import first_line
from capplan.probe.measure.device import Event, TorchDevice
from capplan.processes.system import IS_WINDOWS, free_memory_bytes, memory_bytes, private_memory_limited, stated_bytes


class _TorchEvent:
    """A CUDA or XPU event with timing; both count milliseconds."""

    def __init__(self, event: Any) -> None:
        self._event = event
        self.record = event.record

    def seconds_since(self, earlier: "_TorchEvent") -> float:
        """Time between two marks that the device has passed. [s]"""
        return float(earlier._event.elapsed_time(self._event)) / 1e3


class CudaDevice(TorchDevice):
    """A CUDA or ROCm GPU, and what `torch.xpu` does alike."""

    has_events = True

    @property
    def _torch(self) -> Any:
        """Return torch's module of this kind of device."""
        return getattr(torch, self.kind)

    def current(self) -> contextlib.AbstractContextManager[Any]:
        """Make this the current device: events are recorded on the current device's stream, whatever they time."""
        return self._torch.device(self.torch_device)  # type: ignore[no-any-return]  # untyped here

    def synchronize(self) -> None:
        self._torch.synchronize(self.torch_device)

    def make_event(self) -> Event:
        """Make a timing event, where this torch has them; it is recorded on the current stream."""
        if not self.has_events:
            return super().make_event()
        return _TorchEvent(self._torch.Event(enable_timing=True))

    def reset_peaks(self) -> None:
        """Reset the caching allocator's peaks."""
        self._torch.reset_peak_memory_stats(self.torch_device)

    def memory(self) -> MeasuredMemory:
        """Read the allocator's peaks, and what the driver says is taken of the device now."""
        memory = self._free_and_total()
        return MeasuredMemory(
            peak_allocated_bytes=self._torch.max_memory_allocated(self.torch_device),
            peak_reserved_bytes=self._torch.max_memory_reserved(self.torch_device),
            device_used_bytes=None if memory is None else memory[1] - memory[0],
        )

    def free_cached(self) -> None:
        """Collect garbage, then give the allocator's unused segments back."""
        super().free_cached()
        self._torch.empty_cache()

    def total_bytes(self) -> int | None:
        """Return what the driver reports in all. [bytes]"""
        return int(self._torch.get_device_properties(self.torch_device).total_memory)

    def available_bytes(self) -> int | None:
        """Return free driver memory plus unused allocator memory; None where this torch cannot report it. [bytes]"""
        if (memory := self._free_and_total()) is None:
            return None
        unused = self._torch.memory_reserved(self.torch_device) - self._torch.memory_allocated(self.torch_device)
        return memory[0] + int(unused)

    @contextlib.contextmanager
    def limited_to(self, allowed_bytes: int) -> Iterator[None]:
        """Limit the caching allocator to what it holds and the bytes allowed on top."""
        total = self._torch.get_device_properties(self.torch_device).total_memory
        wanted = self._torch.memory_allocated(self.torch_device) + allowed_bytes
        before = self._memory_fraction()
        self._torch.set_per_process_memory_fraction(min(before, wanted / total), self.torch_device)
        try:
            yield
        finally:
            self._torch.set_per_process_memory_fraction(before, self.torch_device)

    def _memory_fraction(self) -> float:
        """Return the share of the memory that this process may take; torch before 2.8 does not report it: all of it."""
        read = getattr(torch.cuda, "get_per_process_memory_fraction", None)
        return 1.0 if read is None else float(read(self.torch_device))

    def _free_and_total(self) -> tuple[int, int] | None:
        free, total = self._torch.mem_get_info(self.torch_device)
        return int(free), int(total)


class XpuDevice(CudaDevice):
    """An Intel GPU; newer releases of torch report more of it."""

    def __init__(self, torch_device: torch.device) -> None:
        super().__init__(torch_device)
        self.has_events = _has_timing_events(torch_device)

    def reset_peaks(self) -> None:
        """Reset the caching allocator's peaks, where it counts them."""
        if hasattr(torch.xpu, "reset_peak_memory_stats"):
            super().reset_peaks()

    def memory(self) -> MeasuredMemory:
        """Read the allocator's peaks and the device memory in use, where this torch reports them."""
        return super().memory() if hasattr(torch.xpu, "max_memory_reserved") else MeasuredMemory()

    @contextlib.contextmanager
    def limited_to(self, allowed_bytes: int) -> Iterator[None]:
        """Limit the caching allocator to what it holds and the bytes allowed on top, where this torch can."""
        can_limit = hasattr(torch.xpu, "set_per_process_memory_fraction")
        with super().limited_to(allowed_bytes) if can_limit else TorchDevice.limited_to(self, allowed_bytes):
            yield

    def _memory_fraction(self) -> float:
        return 1.0  # torch does not report it

    def _free_and_total(self) -> tuple[int, int] | None:
        if not hasattr(torch.xpu, "mem_get_info"):
            return None
        try:
            return super()._free_and_total()
        except RuntimeError:  # drivers without the extension that reports free memory
            return None


def _has_timing_events(where: torch.device) -> bool:
    """Return True if this torch can time between two events on an Intel GPU; before 2.6 it raises."""
    with torch.xpu.device(where):
        first, second = (torch.xpu.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]  # untyped
        try:
            first.record()
            second.record()
            torch.xpu.synchronize(where)
            first.elapsed_time(second)
        except (NotImplementedError, RuntimeError):
            return False
    return True


class MpsDevice(TorchDevice):
    """Apple's GPU: timed by the host's clock around a synchronise."""

    def synchronize(self) -> None:
        torch.mps.synchronize()

    def memory(self) -> MeasuredMemory:
        """Return the memory that the driver has given to the process, without a peak, which Metal does not report."""
        return MeasuredMemory(process_bytes=torch.mps.driver_allocated_memory())

    def free_cached(self) -> None:
        """Collect garbage, then give unused memory back."""
        super().free_cached()
        torch.mps.empty_cache()

    def total_bytes(self) -> int | None:
        """Return what Metal recommends as the most; the memory itself is shared with the host. [bytes]"""
        found = getattr(torch.mps, "recommended_max_memory", None)
        return None if found is None else int(found())

    def available_bytes(self) -> int | None:
        """Return what Metal recommends as the most, less what the process has. [bytes]"""
        total = self.total_bytes()
        return None if total is None else max(0, total - torch.mps.driver_allocated_memory())

    @contextlib.contextmanager
    def limited_to(self, allowed_bytes: int) -> Iterator[None]:
        """Limit the allocator to what it holds and the bytes allowed on top, as a share of Metal's recommendation."""
        if not (total := self.total_bytes()):
            with super().limited_to(allowed_bytes):
                yield
            return
        wanted = torch.mps.driver_allocated_memory() + allowed_bytes
        torch.mps.set_per_process_memory_fraction(min(_MPS_DEFAULT_SHARE, wanted / total))
        try:
            yield
        finally:
            torch.mps.set_per_process_memory_fraction(_MPS_DEFAULT_SHARE)


_MPS_DEFAULT_SHARE = 1.7
"""PYTORCH_MPS_HIGH_WATERMARK_RATIO's default: how much of Metal's recommendation torch itself allows."""


_M_MMAP_THRESHOLD = -3
_MAPPED_FROM_BYTES, _HIGHEST_MAPPED_FROM_BYTES = 64 * 2**10, 32 * 2**20
"""glibc's malloc.h; the second is what its own, rising threshold ends at."""


class CpuDevice(TorchDevice):
    """The host itself: its clock is the device's."""

    def reset_peaks(self) -> None:
        """Reset the kernel's peak of the resident set."""
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")

    def memory(self) -> MeasuredMemory:
        """Read the process's peak resident set; the system allocator keeps no other count."""
        return MeasuredMemory(process_bytes=stated_bytes("/proc/self/status", "VmHWM"))

    def total_bytes(self) -> int | None:
        """Return all memory of the host. [bytes]"""
        return memory_bytes()

    def available_bytes(self) -> int | None:
        """Read what the system can still give without swapping. [bytes]"""
        return free_memory_bytes()

    @contextlib.contextmanager
    def limited_to(self, allowed_bytes: int) -> Iterator[None]:
        """Limit the process's private memory, so that allocations fail instead of waking the system's killer.

        Meanwhile glibc maps every tensor by itself: its heap would keep address space that the limit counts.
        """
        with private_memory_limited(allowed_bytes) as is_limited:
            if not is_limited:
                raise MeasurementError("this system does not report process sizes; use ⟨max-batch⟩ instead of a limit.")
            _map_from(_MAPPED_FROM_BYTES)
            try:
                yield
            finally:
                _map_from(_HIGHEST_MAPPED_FROM_BYTES)

    def free_cached(self) -> None:
        """Collect garbage, and make glibc return its heap's free pages."""
        super().free_cached()
        if (trim := _glibc("malloc_trim")) is not None:
            trim(0)


_ARM_PARTS = {
    "0xd0c": "Neoverse-N1", "0xd40": "Neoverse-V1", "0xd49": "Neoverse-N2", "0xd4f": "Neoverse-V2",
    "0xd84": "Neoverse-V3", "0xd8e": "Neoverse-N3",
}  # fmt: skip
"""Cores of servers by "CPU part" where "CPU implementer" is Arm, as Linux lists them (arm64/include/asm/cputype.h):
Graviton2 has N1, Graviton3 V1, Graviton4 and Grace V2."""


def cpuinfo() -> str:
    """Return what Linux says of its processors; empty elsewhere."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def cpu_name(text: str | None = None) -> str:
    """Return what the system calls its processor.

    Linux on Arm states numbers of the core and no name.
    """
    lines = (cpuinfo() if text is None else text).splitlines()
    said = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in reversed(lines))}
    if name := said.get("model name") or said.get("Model"):
        return name
    machine, implementer, part = platform.machine(), said.get("CPU implementer"), said.get("CPU part")
    if implementer is None or part is None:
        return machine
    if implementer == "0x41" and part in _ARM_PARTS:
        return f"Arm {_ARM_PARTS[part]}"
    return f"Arm core of implementer {implementer}, part {part}"


def _map_from(size_bytes: int) -> None:
    """Make glibc's malloc map blocks of this size and above by themselves."""
    if (set_option := _glibc("mallopt")) is not None:
        set_option(_M_MMAP_THRESHOLD, size_bytes)


def _glibc(name: str) -> Any:
    """Return a function of glibc; None where the process has another library of C."""
    return None if IS_WINDOWS else getattr(ctypes.CDLL(None), name, None)


_CLASSES: dict[str, type[TorchDevice]] = {"cpu": CpuDevice, "cuda": CudaDevice, "xpu": XpuDevice, "mps": MpsDevice}


def open_device(words: str | None) -> TorchDevice:
    """Find a device by its name ("cuda:0", "cpu"); without one, the first accelerator at hand, else the CPU."""
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
        broken = _broken_cuda() if chosen.startswith("cuda") else None
        raise MeasurementError(f"no device {chosen!r} here{f' ({broken})' if broken else ''}; at hand: {listed}.")
    return _CLASSES[wanted.type](torch.device("cpu") if wanted.type == "cpu" else wanted)


def devices_at_hand() -> dict[str, str]:
    """Name the devices that torch can use here, accelerators first, with what their drivers call them."""
    labels: dict[str, str] = {}
    if _broken_cuda() is None:
        labels = {f"cuda:{index}": torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())}
    if torch.xpu.is_available():
        labels |= {f"xpu:{index}": torch.xpu.get_device_name(index) for index in range(torch.xpu.device_count())}
    if torch.backends.mps.is_available():
        labels["mps:0"] = "Apple GPU"
    return {**labels, "cpu": cpu_name()}


def _broken_cuda() -> str | None:
    """Return why CUDA is unusable although the driver lists devices; None if it is usable, or lists none."""
    if not torch.cuda.device_count():
        return None
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]  # untyped in torch
    except (RuntimeError, AssertionError) as error:  # a driver too old for this torch, or one that lost its device
        return first_line(error)
    return None
