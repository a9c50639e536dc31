"""Rates that a device reaches, measured in about a minute, and the calibration that follows from them."""

from dataclasses import dataclass, replace
from datetime import date

import numpy as np

from capplan.core.calibrate.kernels import alone
from capplan.core.gpus.rate_laws import MicrobenchRow
from capplan.core.gpus.spec import GpuSpec, Microbenchmark, Quality, Regime
from capplan.core.latency.calibration import Calibration, DeviceFactors
from capplan.core.latency.device import Unsupported, device_rates
from capplan.core.latency.lookup import architecture_key
from capplan.core.latency.op_table import kernel_table
from capplan.core.latency.predict import time_kernels
from capplan.core.latency.step import ExecutedStep
from capplan.core.origin import Origin
from capplan.core.trace.types import Affine, Kernel, MemoryFormat, Operand
from capplan.core.workload import Precision, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulSpeed:
    """The product of two square matrices of `size` rows. [s]"""

    precision: Precision
    size: int
    latency_s: float

    @property
    def flops_per_s(self) -> float:
        """2 · size³ operations over the time. [FLOP/s]"""
        return 2 * self.size**3 / self.latency_s


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySpeed:
    """A copy of `size_bytes` within the device's memory. [s]"""

    size_bytes: int
    latency_s: float

    @property
    def bytes_per_s(self) -> float:
        """Bytes read and written over the time. [bytes/s]"""
        return 2 * self.size_bytes / self.latency_s


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceBenchmark:
    """Measured rates and times of a device; None where the device cannot report them.

    `kernel_s` is what a smallest kernel takes on the device behind a full queue, `dispatch_s` what the host needs to
    launch it; `context_bytes` is what the driver books on the process beside the allocator.
    """

    device: str
    torch: str
    matmuls: tuple[MatmulSpeed, ...]
    copies: tuple[CopySpeed, ...]
    kernel_s: float | None
    dispatch_s: float
    context_bytes: int | None
    total_bytes: int | None
    usable_bytes: int | None


_KINDS = {
    Precision.FP16: Microbenchmark.MATMUL_HALF, Precision.BF16: Microbenchmark.MATMUL_HALF,
    Precision.TF32: Microbenchmark.MATMUL_TF32, Precision.FP32_IEEE: Microbenchmark.MATMUL_FP32,
}  # fmt: skip


def microbench_rows(benchmark: DeviceBenchmark, *, gpu: str, source: str) -> tuple[MicrobenchRow, ...]:
    """Return what was measured as microbenchmarks of a GPU: the largest product of each format, the largest copy."""
    found = [(Microbenchmark.COPY, max(benchmark.copies, key=lambda copy: copy.size_bytes).bytes_per_s)]
    for precision, kind in _KINDS.items():
        products = [matmul for matmul in benchmark.matmuls if matmul.precision is precision]
        if products:
            found.append((kind, max(products, key=lambda matmul: matmul.size).flops_per_s))
    if benchmark.kernel_s is not None:
        found.append((Microbenchmark.LAUNCH, benchmark.kernel_s))
    return tuple(
        MicrobenchRow(gpu=gpu, kind=kind, value=value, quality=Quality.A, regime=Regime.SUSTAINED, source=source)
        for kind, value in found
    )


def calibrated_by(
    benchmark: DeviceBenchmark, *, gpu: GpuSpec, base: Calibration, made: date, command: str
) -> Calibration | Unsupported:
    """Set one GPU's factors in a calibration to measured ÷ modelled, the GPU's former factors left out.

    The two largest matrix products of the fastest number format that the spec states make its compute factor
    (a geometric mean), the largest copy its bandwidth factor. Nothing else of the base changes; no whole step was timed
    on the GPU, so that its intervals are those of GPUs whose single kernels were.
    """
    bare = base.without_gpu(gpu.id)
    known = [
        matmul
        for matmul in benchmark.matmuls
        if not isinstance(device_rates(gpu, Workload(precision=matmul.precision), base.laws), Unsupported)
    ]
    if not known:
        return Unsupported(reason=f"{gpu.id} states no peak for any number format that was measured")
    best = max(known, key=lambda matmul: matmul.flops_per_s).precision
    measured = sorted((matmul for matmul in known if matmul.precision is best), key=lambda matmul: matmul.size)[-2:]
    modelled = [_matmul_s(matmul, gpu, bare) for matmul in measured]
    copied = max(benchmark.copies, key=lambda copy: copy.size_bytes)
    flat = Operand(dtype="float32", shape=(Affine(copied.size_bytes // 4),), memory_format=MemoryFormat.CONTIGUOUS)
    copy_s = _device_s(Kernel(name="aten.clone", inputs=(flat,), outputs=(flat,)), Workload(), gpu, bare)
    if isinstance(copy_s, Unsupported):
        return copy_s
    ratios = []
    for matmul, time_s in zip(measured, modelled, strict=True):
        if isinstance(time_s, Unsupported):
            return time_s
        ratios.append(time_s / matmul.latency_s)
    factors = DeviceFactors(
        architecture=architecture_key(gpu),
        compute=float(np.exp(np.mean(np.log(ratios)))),
        bandwidth=copy_s / copied.latency_s,
        single_rows=0 if best.half_dtype else len(ratios),
    )
    sources = (*(base.origin.sources if base.origin else ()), f"{benchmark.device}, torch {benchmark.torch}, {made}")
    return replace(
        base,
        name=f"{base.name}, {gpu.id} as measured",
        gpus={**base.gpus, gpu.id: factors},
        origin=Origin(made=made, command=command, sources=sources, rows=len(benchmark.matmuls) + len(benchmark.copies))
        if base.origin is None
        else replace(base.origin, made=made, command=command, sources=sources),
    )


def _matmul_s(speed: MatmulSpeed, gpu: GpuSpec, calibration: Calibration) -> float | Unsupported:
    square = (Affine(speed.size), Affine(speed.size))
    dtype = speed.precision.half_dtype or "float32"
    kernel = Kernel(
        name="aten.mm",
        inputs=(Operand(dtype=dtype, shape=square), Operand(dtype=dtype, shape=square, is_weight=True)),
        outputs=(Operand(dtype=dtype, shape=square),),
    )
    return _device_s(kernel, Workload(precision=speed.precision), gpu, calibration)


def _device_s(kernel: Kernel, workload: Workload, gpu: GpuSpec, calibration: Calibration) -> float | Unsupported:
    """Return the modelled time of one kernel on a device. [s]"""
    rates = device_rates(gpu, workload, calibration.laws)
    if isinstance(rates, Unsupported):
        return rates
    step = ExecutedStep.of(alone(kernel, workload), workload, calibration=calibration)
    timed = time_kernels(step.on(gpu), kernel_table(step, batches=[1]), devices=[(gpu, rates)])
    return float(timed.device_s[0, 0])
