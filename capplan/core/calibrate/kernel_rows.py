"""Turn single measured matrix products and attentions into one-kernel steps, for architectures without whole models."""

from dataclasses import dataclass

import numpy as np

from capplan.core.calibrate.dataset import TimedStep
from capplan.core.calibrate.kernels import MeasuredOperator, operator_step
from capplan.core.gpus.rate_laws import RateLaws
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency import classes as kinds
from capplan.core.latency.device import Unsupported, device_rates, kernel_peaks
from capplan.core.latency.kernel_time import KernelWork, tile_utilisation
from capplan.core.latency.lookup import KERNELS, architecture_key, precision_key
from capplan.core.latency.roofline import PeakUse
from capplan.core.numbers import FloatArray
from capplan.core.workload import Precision, Workload

_WEIGHT = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredKernel:
    """One kernel in bf16: `groups` products of [m, k] by [k, n], its bytes, and its time. [bytes, s]"""

    label: str
    gpu: str
    m: int
    n: int
    k: int
    groups: int
    flops: float
    read_bytes: float
    weight_bytes: float
    written_bytes: float
    latency_s: float


def linear_kernel(*, gpu: str, m: int, n: int, k: int, latency_s: float) -> MeasuredKernel:
    """Return a linear layer in bf16: [m, k] activations by [k, n] weights."""
    return MeasuredKernel(
        label=kinds.LINEAR, gpu=gpu, m=m, n=n, k=k, groups=1, flops=2.0 * m * n * k, read_bytes=2.0 * m * k,
        weight_bytes=2.0 * n * k, written_bytes=2.0 * m * n, latency_s=latency_s,
    )  # fmt: skip


def causal_attention_kernel(
    *, gpu: str, batch: int, length: int, heads: int, key_heads: int, head_dim: int, latency_s: float
) -> MeasuredKernel:
    """Return causal attention in bf16 over its own keys; half of the score matrix is computed."""
    return MeasuredKernel(
        label=kinds.ATTENTION, gpu=gpu, m=length, n=length, k=head_dim, groups=batch * heads,
        flops=2.0 * batch * heads * length * length * head_dim,
        read_bytes=2.0 * batch * length * head_dim * (heads + 2 * key_heads), weight_bytes=0.0,
        written_bytes=2.0 * batch * length * head_dim * heads, latency_s=latency_s,
    )  # fmt: skip


def kernel_step(kernel: MeasuredKernel | MeasuredOperator, gpu: GpuSpec, laws: RateLaws) -> TimedStep | None:
    """Turn a timed kernel into a training row; None if the GPU lacks the peak or the timing beats the roofline."""
    if isinstance(kernel, MeasuredOperator):
        return operator_step(kernel, gpu, laws)
    return _serving_step(kernel, gpu, laws)


def _serving_step(kernel: MeasuredKernel, gpu: GpuSpec, laws: RateLaws) -> TimedStep | None:
    workload = Workload(precision=Precision.BF16)
    rates, sheet = device_rates(gpu, workload, laws), device_rates(gpu, workload, laws, use_own=False)
    if isinstance(rates, Unsupported) or isinstance(sheet, Unsupported):
        return None
    used = tile_utilisation(
        m=_one(kernel.m), n=_one(kernel.n), groups=_one(kernel.groups), k=_one(kernel.k), units=_one(rates.units)
    )
    zero = _one(0.0)
    label, in_half = np.array([kinds.CLASS_INDEX[kernel.label]]), np.array([PeakUse.HALF])
    return TimedStep(
        gpu=gpu.id,
        levels={"architecture": architecture_key(gpu), "torch": "", "precision": precision_key(workload)},
        relatives=gpu.design.relatives,
        label=label,
        count=_one(1.0),
        work=KernelWork(
            flops=_one(kernel.flops), read_bytes=_one(kernel.read_bytes), written_bytes=_one(kernel.written_bytes),
            weight_bytes=_one(kernel.weight_bytes), k=_one(kernel.k), utilisation=used, serial=zero,
            launches=_one(1.0), misaligned=zero, strided=zero, foreign_layout=zero,
        ),
        peak_flops_per_s=kernel_peaks(rates, label=label, peak_use=in_half),
        bandwidth_bytes_per_s=rates.bandwidth_bytes_per_s,
        sheet_peak_flops_per_s=kernel_peaks(sheet, label=label, peak_use=in_half),
        sheet_bandwidth_bytes_per_s=sheet.bandwidth_bytes_per_s,
        l2_bytes=rates.l2_bytes,
        host_calls=0.0,
        host_launches=0.0,
        host_convolutions=0.0,
        latency_s=kernel.latency_s,
        weight=_WEIGHT,
        family=f"{kernel.label} kernels on {gpu.id}",
        cell=KERNELS,
    )  # fmt: skip


def _one(value: float) -> FloatArray:
    return np.array([float(value)])
