"""Build operators from the shapes of measured single kernels, and one-kernel steps from them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from capplan.core.calibrate.dataset import TimedStep, timed_step
from capplan.core.gpus.rate_laws import RateLaws
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency import classes as kinds
from capplan.core.latency.classes import is_convolution, kernel_class
from capplan.core.latency.device import DeviceRates, Unsupported, device_rates, kernel_peaks
from capplan.core.latency.kernel_time import KernelWork, PeakUse, bound_s, tile_utilisation
from capplan.core.latency.lookup import KERNELS, architecture_key, precision_key
from capplan.core.latency.op_table import KernelTable, kernel_table
from capplan.core.latency.predict import MOST_WINOGRAD_GAIN, least_bytes
from capplan.core.latency.step import ExecutedStep
from capplan.core.numbers import FloatArray
from capplan.core.trace.types import Affine, Attribute, Kernel, Op, Operand, Recording
from capplan.core.workload import Precision, Workload

_WEIGHT = 0.5

_CLOCK_TOLERANCE = 1.05
"""How far above its printed rates a GPU may be timed: clocks and timers are not exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOperator:
    """One operator's kernel on one GPU, timed without what surrounds it. [s]

    `torch_known` is false where the source does not say which torch ran; the workload's then counts for nothing.
    """

    gpu: str
    kernel: Kernel
    workload: Workload
    torch_known: bool
    latency_s: float


def operator_step(measured: MeasuredOperator, gpu: GpuSpec, laws: RateLaws) -> TimedStep | None:
    """Convert a measured operator to a training row of one operator.

    None where the GPU lacks the peak, or where the time is below what the GPU can reach.
    """
    recording = alone(measured.kernel, measured.workload)
    table = kernel_table(ExecutedStep.of(recording, measured.workload), batches=(1,))
    rates = device_rates(gpu, measured.workload, laws)
    if not isinstance(rates, DeviceRates) or measured.latency_s < _least_s(table, measured.kernel, rates):
        return None
    label = kernel_class(measured.kernel)
    step = timed_step(
        table, recording, measured.workload, gpu=gpu, column=0, latency_s=measured.latency_s,
        family=f"{label} kernels on {gpu.id}", laws=laws,
    )  # fmt: skip
    if step is None:
        return None
    levels = step.levels if measured.torch_known else {**step.levels, "torch": ""}
    return replace(
        step, levels=levels, cell=KERNELS, weight=_WEIGHT, host_calls=0.0, host_launches=0.0, host_convolutions=0.0
    )


def alone(kernel: Kernel, workload: Workload) -> Recording:
    """Return a step of one kernel, of which only the time is asked: no storage is recorded."""
    return Recording(
        configuration=workload.configuration,
        modules=("",),
        kernels=(kernel,),
        ops=(Op(kernel=0, module=0, reads=(), writes=()),),
        storages=(),
        batches=(1,),
        exact_batch=1,
    )


def _least_s(table: KernelTable, kernel: Kernel, rates: DeviceRates) -> float:
    """Return the shortest time that a row can plausibly have; any convolution may run by Winograd's algorithm. [s]"""
    gain = MOST_WINOGRAD_GAIN if is_convolution(kernel_class(kernel)) else 1.0
    bounds = bound_s(
        flops=table.flops / gain,
        peak_flops_per_s=rates.printed_flops_per_s[table.peak_use][:, None],
        traffic_bytes=least_bytes(table, [rates])[0],
        bandwidth_bytes_per_s=np.array(rates.printed_bandwidth_bytes_per_s),
    )
    return float(bounds.sum()) / _CLOCK_TOLERANCE


def elementwise_kernel(name: str, *, rows: int, columns: int, operands: int) -> Kernel:
    """Return an elementwise operator (`add`, `relu`, ...) on so many fp32 matrices; its other arguments are numbers."""
    matrix = _tensor(rows, columns)
    return _kernel(name, [matrix] * operands, [matrix])


def softmax_kernel(*, rows: int, columns: int) -> Kernel:
    """Return a softmax over the columns of a matrix in fp32."""
    return _kernel("_softmax", [_tensor(rows, columns)], [_tensor(rows, columns)], dim=-1)


def layer_norm_kernel(*, rows: int, columns: int) -> Kernel:
    """Return a layer norm with scale and shift over the columns of an fp32 matrix; it writes its statistics, too."""
    matrix, weight, statistics = _tensor(rows, columns), _weight(columns), _tensor(rows, 1)
    return _kernel("native_layer_norm", [matrix, weight, weight], [matrix, statistics, statistics])


def linear_operator(*, m: int, n: int, k: int) -> Kernel:
    """Return a linear layer with bias in fp32: [m, k] activations by [k, n] weights."""
    return _kernel("addmm", [_weight(n), _tensor(m, k), _weight(k, n)], [_tensor(m, n)])


def batched_product_kernel(*, groups: int, m: int, n: int, k: int) -> Kernel:
    """Return a batched matrix product of activations in fp32: `groups` times [m, k] by [k, n]."""
    return _kernel("bmm", [_tensor(groups, m, k), _tensor(groups, k, n)], [_tensor(groups, m, n)])


def convolution_kernel(
    *, images: int, channels_in: int, channels_out: int, size: int, window: int, stride: int, padding: int
) -> Kernel:
    """Return a square convolution in fp32, its bias added by a kernel of its own."""
    out = (size + 2 * padding - window) // stride + 1
    return _kernel(
        "convolution",
        [_tensor(images, channels_in, size, size), _weight(channels_out, channels_in, window, window)],
        [_tensor(images, channels_out, out, out)],
        stride=(stride, stride), padding=(padding, padding), dilation=(1, 1), transposed=False, groups=1,
    )  # fmt: skip


def _kernel(name: str, inputs: Sequence[Operand], outputs: Sequence[Operand], **attributes: Attribute) -> Kernel:
    return Kernel(name=f"aten.{name}", inputs=tuple(inputs), outputs=tuple(outputs), attributes=attributes)


def _tensor(*sizes: int) -> Operand:
    return Operand(dtype="float32", shape=tuple(map(Affine, sizes)))


def _weight(*sizes: int) -> Operand:
    return replace(_tensor(*sizes), is_weight=True)


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
    """Convert a timed kernel to a training row; None if the GPU lacks the peak or the timing beats the roofline."""
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
            launches=_one(1.0), misaligned=zero, strided=zero, foreign_layout=zero, stretch=_one(1.0),
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
