"""torch.cuda with several devices, each with a queue and a memory of its own: what it refuses, the real one refuses.

Messages and types are those of torch: events are read only once recorded and passed (ATen/cuda/CUDAEvent.h), they are
recorded on the current device's stream, and a full device raises `torch.cuda.OutOfMemoryError`.
"""

import contextlib
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

LAUNCH_S = 5e-6


@dataclass
class FakeGpu:
    total_bytes: int = 8 * 2**30
    others_bytes: int = 512 * 2**20
    queue_end_s: float = 0.0
    allocated: int = 0
    reserved: int = 0
    peak_allocated: int = 0
    peak_reserved: int = 0
    fraction: float = 1.0
    flops_per_s: dict[torch.dtype, float] = field(
        default_factory=lambda: {torch.float32: 20e12, torch.float16: 100e12, torch.bfloat16: 100e12}
    )
    tf32_flops_per_s: float = 50e12
    bandwidth_bytes_per_s: float = 250e9

    @property
    def free_bytes(self) -> int:
        return self.total_bytes - self.others_bytes - self.reserved


class FakeTensor:
    """Memory that is given back when nobody holds it."""


@dataclass
class FakeCuda:
    gpus: list[FakeGpu] = field(default_factory=lambda: [FakeGpu(), FakeGpu()])
    clock_s: float = 1.0
    current: int = 0
    log: list[str] = field(default_factory=list)
    synchronised: int = 0
    broken: str | None = None

    def now_s(self) -> float:
        return self.clock_s

    def launch(self, work_s: float, *, on: int) -> None:
        """What a kernel does: the host goes on at once, the device's queue grows."""
        self.log.append("work")
        self.clock_s += LAUNCH_S
        gpu = self.gpus[on]
        gpu.queue_end_s = max(gpu.queue_end_s, self.clock_s) + work_s

    def empty(self, size_bytes: int, *, on: int) -> FakeTensor:
        """What the caching allocator does, a segment per tensor; cached segments are dropped before it gives up."""
        gpu = self.gpus[on]
        limit = int(gpu.fraction * gpu.total_bytes)
        if gpu.allocated + size_bytes > gpu.reserved:
            gpu.reserved = gpu.allocated
            if size_bytes > gpu.free_bytes or gpu.reserved + size_bytes > limit:
                raise torch.cuda.OutOfMemoryError(
                    f"CUDA out of memory. Tried to allocate {size_bytes / 2**20:.2f} MiB. GPU {on} has a total "
                    f"capacity of {gpu.total_bytes / 2**30:.2f} GiB of which {gpu.free_bytes / 2**20:.2f} MiB is free."
                )
            gpu.reserved += size_bytes
        gpu.allocated += size_bytes
        gpu.peak_allocated = max(gpu.peak_allocated, gpu.allocated)
        gpu.peak_reserved = max(gpu.peak_reserved, gpu.reserved)
        tensor = FakeTensor()
        weakref.finalize(tensor, self._give_back, gpu, size_bytes)
        return tensor

    @staticmethod
    def _give_back(gpu: FakeGpu, size_bytes: int) -> None:
        gpu.allocated -= size_bytes

    def synchronize(self, device: Any = None) -> None:
        self.log.append("synchronize")
        self.synchronised += 1
        self.clock_s = max(self.clock_s, self._gpu(device).queue_end_s)

    def event(self, enable_timing: bool = False) -> "FakeEvent":
        return FakeEvent(cuda=self, enable_timing=enable_timing)

    @contextlib.contextmanager
    def device(self, device: torch.device) -> Iterator[None]:
        before, self.current = self.current, device.index
        try:
            yield
        finally:
            self.current = before

    def init(self) -> None:
        if self.broken:
            raise RuntimeError(self.broken)

    def empty_cache(self) -> None:
        self.log.append("empty_cache")
        for gpu in self.gpus:
            gpu.reserved = gpu.allocated

    def reset_peaks(self, device: Any = None) -> None:
        gpu = self._gpu(device)
        gpu.peak_allocated, gpu.peak_reserved = gpu.allocated, gpu.reserved

    def set_fraction(self, fraction: float, device: Any = None) -> None:
        assert 0 <= fraction <= 1, "Invalid fraction value; allowed range: 0~1"
        self._gpu(device).fraction = fraction

    def properties(self, device: Any = None) -> SimpleNamespace:
        return SimpleNamespace(
            total_memory=self._gpu(device).total_bytes,
            uuid="11111111-2222-3333-4444-555555555555",
            name="NVIDIA L4",
            multi_processor_count=58,
            major=8,
            minor=9,
        )

    def _gpu(self, device: Any) -> FakeGpu:
        index = device.index if isinstance(device, torch.device) else device
        return self.gpus[self.current if index is None else index]

    def stand_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put this in the place of torch.cuda's functions."""
        for name, replacement in {
            "Event": self.event,
            "device": self.device,
            "synchronize": self.synchronize,
            "init": self.init,
            "is_initialized": lambda: True,
            "device_count": lambda: len(self.gpus),
            "get_device_properties": self.properties,
            "get_device_name": lambda device=None: self.properties(device).name,
            "mem_get_info": lambda device=None: (self._gpu(device).free_bytes, self._gpu(device).total_bytes),
            "memory_allocated": lambda device=None: self._gpu(device).allocated,
            "memory_reserved": lambda device=None: self._gpu(device).reserved,
            "max_memory_allocated": lambda device=None: self._gpu(device).peak_allocated,
            "max_memory_reserved": lambda device=None: self._gpu(device).peak_reserved,
            "reset_peak_memory_stats": self.reset_peaks,
            "empty_cache": self.empty_cache,
            "set_per_process_memory_fraction": self.set_fraction,
            "get_per_process_memory_fraction": lambda device=None: self._gpu(device).fraction,
        }.items():
            monkeypatch.setattr(torch.cuda, name, replacement, raising=False)
        monkeypatch.setattr(torch.xpu, "is_available", lambda: False)

    def array(self, *shape: int, dtype: torch.dtype = torch.float32, device: torch.device) -> "FakeArray":
        """What `torch.empty` and its kind do; memory is taken as the allocator would take it."""
        assert device.index is not None
        size_bytes = prod(shape) * dtype.itemsize
        return FakeArray(
            cuda=self, shape=shape, dtype=dtype, device=device, memory=self.empty(size_bytes, on=device.index)
        )

    def factories(self) -> TorchFunctionMode:
        """Serve torch's factory functions on "cuda"; others go on to torch."""
        return _Factories(self)


KERNEL_S = 8e-6
"""The time of a kernel that has next to nothing to do: longer than a launch, so that the queue fills."""


@dataclass
class FakeArray:
    """A tensor on one of the devices: its kernels take their time in the device's queue, and compute nothing."""

    cuda: FakeCuda
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    memory: FakeTensor

    def to(self, dtype: torch.dtype) -> "FakeArray":
        return self if dtype is self.dtype else self.cuda.array(*self.shape, dtype=dtype, device=self.device)

    def add_(self, number: float) -> "FakeArray":
        self._launch(2 * self._size_bytes() / self._gpu().bandwidth_bytes_per_s)
        return self

    def copy_(self, source: "FakeArray") -> "FakeArray":
        assert source.shape == self.shape
        self._launch((self._size_bytes() + source._size_bytes()) / self._gpu().bandwidth_bytes_per_s)
        return self

    def _mm(self, other: "FakeArray", out: "FakeArray") -> "FakeArray":
        (rows, inner), (also_inner, columns) = self.shape, other.shape
        if self.dtype is not other.dtype or inner != also_inner or out.shape != (rows, columns):
            raise RuntimeError("mat1 and mat2 must have the same dtype, and shapes that can be multiplied")
        rate = self._gpu().flops_per_s.get(self.dtype)
        if rate is None:
            raise RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasGemmEx( ... )`")
        if self.dtype is torch.float32 and torch.backends.cuda.matmul.allow_tf32:
            rate = self._gpu().tf32_flops_per_s
        self._launch(2 * rows * inner * columns / rate)
        return out

    def _launch(self, work_s: float) -> None:
        self.cuda.launch(KERNEL_S + work_s, on=self.device.index or 0)

    def _size_bytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    def _gpu(self) -> FakeGpu:
        return self.cuda.gpus[self.device.index or 0]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> "FakeArray":
        if func is torch.mm:
            return args[0]._mm(args[1], **kwargs)  # type: ignore[no-any-return]  # what torch hands over is untyped
        assert func is torch.empty_like, f"{func} is not stood in for"
        return args[0].cuda.array(*args[0].shape, dtype=args[0].dtype, device=args[0].device)  # type: ignore[no-any-return]


class _Factories(TorchFunctionMode):
    """Makes fake arrays where torch would make tensors on a CUDA device."""

    def __init__(self, cuda: FakeCuda) -> None:
        super().__init__()
        self._cuda = cuda

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        device = (kwargs or {}).get("device")
        if func in (torch.randn, torch.zeros, torch.empty) and device is not None and device.type == "cuda":
            made = self._cuda.array(*args, **kwargs)
            made._launch(0.0)
            return made
        return func(*args, **(kwargs or {}))


@dataclass
class FakeEvent:
    cuda: FakeCuda
    enable_timing: bool
    on: int | None = None
    passed_s: float | None = None

    def record(self, stream: None = None) -> None:
        assert stream is None
        if self.on not in (None, self.cuda.current):
            raise RuntimeError(f"Event device {self.on} does not match recording stream's device {self.cuda.current}.")
        self.cuda.log.append("record")
        self.on = self.cuda.current
        gpu = self.cuda.gpus[self.on]
        self.passed_s = gpu.queue_end_s = max(gpu.queue_end_s, self.cuda.clock_s)

    def elapsed_time(self, end: "FakeEvent") -> float:
        if not (self.enable_timing and end.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.passed_s is None or end.passed_s is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if max(self.passed_s, end.passed_s) > self.cuda.clock_s:
            raise ValueError("Both events must be completed before calculating elapsed time.")
        return 1e3 * (end.passed_s - self.passed_s)
