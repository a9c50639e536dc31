"""Measure rates of a device in about a minute, and what PyTorch's calls cost on its host."""

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from capplan.core.calibrate.device import CopySpeed, DeviceBenchmark, MatmulSpeed
from capplan.core.latency import classes as kinds
from capplan.core.latency.calibration import HostCosts
from capplan.core.latency.device import QUEUED_LAUNCH_S
from capplan.core.measurement.statistics import summarise
from capplan.core.workload import Precision, TimingMethod
from capplan.errors import MeasurementError
from capplan.probe.measure.device import TorchDevice
from capplan.probe.measure.devices import cpu_name
from capplan.probe.measure.energy import Nvml
from capplan.probe.measure.model import half_dtype, numeric_settings
from capplan.probe.measure.oom import PointError, surviving
from capplan.probe.measure.point import best_method
from capplan.probe.measure.timing import StopRule, WarmUpRule, repeat, warm_up

_RULE = StopRule(minimum=10, maximum=500, budget_s=1.5, width_fraction=0.02)
_WARM = WarmUpRule(minimum=3, window=3, budget_s=0.5)
_LAUNCHES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Which matrices and copies: those that fill an accelerator take a CPU minutes."""

    matmuls: tuple[int, ...]
    copies_bytes: tuple[int, ...]
    precisions: tuple[Precision, ...]


_ON_ACCELERATOR = Sizes(
    matmuls=(512, 1024, 2048, 4096, 8192),
    copies_bytes=tuple(2**power for power in (20, 22, 24, 26, 28, 30)),
    precisions=(Precision.FP32_IEEE, Precision.TF32, Precision.FP16, Precision.BF16),
)
_ON_CPU = Sizes(
    matmuls=(128, 256, 512),
    copies_bytes=tuple(2**power for power in (16, 20, 24, 26)),
    precisions=(Precision.FP32_IEEE, Precision.BF16),
)


def benchmark_device(device: TorchDevice, *, name: str, nvml: Nvml | None) -> DeviceBenchmark:
    """Measure a device; sizes that do not fit and formats that it lacks are left out."""
    sizes = _ON_CPU if device.kind == "cpu" else _ON_ACCELERATOR
    matmuls: list[MatmulSpeed] = []
    for precision in sizes.precisions:
        for size in sizes.matmuls:
            with contextlib.suppress(PointError):
                matmuls.append(matmul_speed(device, size=size, precision=precision))
    copies: list[CopySpeed] = []
    for size_bytes in sizes.copies_bytes:
        with contextlib.suppress(PointError):
            copies.append(copy_speed(device, size_bytes=size_bytes))
    if not matmuls or not copies:
        raise MeasurementError(f"{name} ran no matrix product or no copy at all; is its memory taken?")
    kernel_s, dispatch_s = launch_costs(device)
    booked = nvml.process_bytes() if nvml else None
    reserved = torch.cuda.memory_reserved(device.torch_device) if device.kind == "cuda" else 0
    device.free_cached()
    return DeviceBenchmark(
        device=name,
        torch=torch.__version__,
        matmuls=tuple(matmuls),
        copies=tuple(copies),
        kernel_s=kernel_s,
        dispatch_s=dispatch_s,
        context_bytes=None if booked is None else booked - reserved,
        total_bytes=device.total_bytes(),
        usable_bytes=device.available_bytes(),
    )


def matmul_speed(device: TorchDevice, *, size: int, precision: Precision) -> MatmulSpeed:
    """Time the product of two square matrices."""
    dtype = half_dtype(precision) or torch.float32

    def attempt() -> float:
        first = torch.randn(size, size, device=device.torch_device, dtype=torch.float32).to(dtype)
        second = torch.randn(size, size, device=device.torch_device, dtype=torch.float32).to(dtype)
        out = torch.empty(size, size, device=device.torch_device, dtype=dtype)
        return _median_s(device, lambda: torch.mm(first, second, out=out))

    with torch.inference_mode(), numeric_settings(precision, autotune=False):
        latency_s = surviving(device, attempt, doing=f"the {precision} product of {size} rows")
    return MatmulSpeed(precision=precision, size=size, latency_s=latency_s)


def copy_speed(device: TorchDevice, *, size_bytes: int) -> CopySpeed:
    """Time a copy within the device's memory; a small one stays in its caches."""

    def attempt() -> float:
        source = torch.randn(size_bytes // 4, device=device.torch_device)
        target = torch.empty_like(source)
        return _median_s(device, lambda: target.copy_(source))

    with torch.inference_mode():
        latency_s = surviving(device, attempt, doing=f"a copy of {size_bytes} bytes")
    return CopySpeed(size_bytes=size_bytes, latency_s=latency_s)


def launch_costs(device: TorchDevice) -> tuple[float | None, float]:
    """Time the smallest kernel: on the device behind a full queue (None without events), and on the host. [s]"""
    tiny = torch.zeros(1, device=device.torch_device)

    def run() -> None:
        for _ in range(_LAUNCHES):
            tiny.add_(1)

    with torch.inference_mode():
        host_s = _per_launch(device, run, TimingMethod.NAIVE)
        return (_per_launch(device, run, TimingMethod.EVENT) if device.has_events else None), host_s


def _per_launch(device: TorchDevice, run: Callable[[], None], method: TimingMethod) -> float:
    warm_up(device, run, _WARM)
    samples_s = repeat(device, run, method=method, rule=StopRule(repetitions=20), expected_s=1e-3)
    return summarise(samples_s).median / _LAUNCHES


def _median_s(device: TorchDevice, run: Callable[[], object]) -> float:
    warm = warm_up(device, run, _WARM)
    samples_s = repeat(device, run, method=best_method(device), rule=_RULE, expected_s=warm.elapsed_s / warm.runs)
    return summarise(samples_s).median


_CALLS, _ROUNDS = 200, 30


def measure_host(*, cuda_call: float) -> HostCosts:
    """Measure this host in a few seconds: on a CUDA device where there is one, else on the CPU and extrapolated."""
    on_cuda = torch.cuda.is_available()
    before = torch.get_num_threads()
    clock = time.perf_counter if on_cuda else time.thread_time
    torch.set_num_threads(1)
    try:
        device = torch.device("cuda" if on_cuda else "cpu")
        with torch.inference_mode(), torch.device(device):
            settle = torch.cuda.synchronize if on_cuda else lambda: None  # calls on the CPU have ended when they return
            operators_s = {label: _call_s(call, settle, clock) for label, call in _calls().items()}
            image = torch.zeros(1, 8, 8, 8)
            view_s = _call_s(lambda: image.view(1, -1), settle, clock)
    finally:
        torch.set_num_threads(before)
    factor = 1.0 if on_cuda else cuda_call
    return HostCosts(
        cpu=cpu_name(),
        torch=str(torch.__version__),
        call_s=factor * view_s,
        launch_s=0.0 if on_cuda else factor * QUEUED_LAUNCH_S,
        operators_s={label: factor * cost for label, cost in operators_s.items()},
    )


def _call_s(call: Callable[[], object], settle: Callable[[], None], clock: Callable[[], float]) -> float:
    """Time one call: the lower quartile of rounds, since other programs only ever delay. [s]

    Calls on the CPU are timed by the thread's own time, which other programs do not touch; on CUDA, where a call may
    wait for the driver, by the wall clock.
    """
    for _ in range(_CALLS // 4):
        call()
    rounds = []
    for _ in range(_ROUNDS):
        settle()
        started = clock()
        for _ in range(_CALLS):
            call()
        rounds.append((clock() - started) / _CALLS)
    return sorted(rounds)[_ROUNDS // 4]


def _calls() -> Mapping[str, Callable[[], object]]:
    """Return a small call for each class of kernels, through the module that models call it by."""
    image, rows = torch.zeros(1, 8, 8, 8), torch.zeros(1, 8, 8)
    heads, index = torch.zeros(1, 1, 8, 8), torch.zeros(1, 8, dtype=torch.int64)
    dense, pointwise = nn.Conv2d(8, 8, 3), nn.Conv2d(8, 8, 1)
    linear, layer_norm, group_norm = nn.Linear(8, 8), nn.LayerNorm(8), nn.GroupNorm(2, 8)
    batch_norm, activation, pool = nn.BatchNorm2d(8).eval(), nn.ReLU(), nn.MaxPool2d(2)
    return {
        kinds.CONV: lambda: dense(image),
        kinds.CONV_1X1: lambda: pointwise(image),
        kinds.LINEAR: lambda: linear(rows),
        kinds.BATCHED_MATMUL: lambda: rows @ rows,
        kinds.ATTENTION: lambda: functional.scaled_dot_product_attention(heads, heads, heads),
        kinds.LAYER_NORM: lambda: layer_norm(rows),
        kinds.GROUP_NORM: lambda: group_norm(image),
        kinds.BATCH_NORM: lambda: batch_norm(image),
        kinds.SOFTMAX: lambda: rows.softmax(-1),
        kinds.CAST: lambda: rows.to(torch.float16),
        kinds.ACTIVATION: lambda: activation(rows),
        kinds.ADD: lambda: rows + rows,
        kinds.POINTWISE: lambda: rows * 2,
        kinds.COPY: lambda: torch.cat((rows, rows)),
        kinds.POOL: lambda: pool(image),
        kinds.REDUCTION: lambda: rows.mean(-1),
        kinds.UPSAMPLE: lambda: functional.interpolate(image, scale_factor=2),
        kinds.GATHER: lambda: functional.embedding(index, rows[0]),
    }
