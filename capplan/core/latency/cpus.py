"""What a CPU can do for one workload: rates of its vector and matrix units, from its spec or from microbenchmarks.

A CPU has no queue and no tensor cores of the kind that GPUs have: operators run one after the other, and what a call
costs passes before each of them.
"""

import numpy as np

from capplan.core.gpus.spec import GpuSpec, MeasuredRate, Microbenchmark, PeakKind, Quality
from capplan.core.latency.rates import DeviceRates, Unsupported
from capplan.core.latency.roofline import PeakUse
from capplan.core.workload import Framework, Precision, Workload

_SINGLE_SHARE, _HALF_SHARE, _COPY_SHARE = 0.55, 0.35, 0.6
"""Shares of the printed rates that long matrix products and copies are taken to sustain where nobody has timed a CPU:
guesses. All cores together run below the highest clock, wide vectors and matrix units further below."""


def cpu_rates(cpu: GpuSpec, workload: Workload) -> DeviceRates | Unsupported:
    """Return a CPU's rates for a workload, printed and sustained, or what it lacks.

    Args:
        cpu: its spec, with microbenchmarks where there are any.
        workload: fp32 and the 16-bit formats that the spec states, in eager mode.
    """
    if workload.framework is not Framework.EAGER:
        reason = f"{cpu.id} is a CPU, which is estimated in eager mode alone"
        return Unsupported(reason=reason, lacking=workload.framework.value)
    single = cpu.peak(PeakKind.FP32)
    if single is None:
        return Unsupported(reason=f"{cpu.id} has no peak rate for fp32 in its spec")
    if workload.precision is Precision.TF32:
        return Unsupported(reason=f"{cpu.id} is a CPU and has no TF32")
    half = _half_peak(cpu, workload.precision)
    if workload.precision.half_dtype and half is None:
        reason = f"{cpu.id} has no instructions for {workload.precision}"
        return Unsupported(reason=reason, lacking=str(workload.precision))
    printed = np.full(len(PeakUse), np.inf)
    printed[PeakUse.HALF] = half or single
    printed[[PeakUse.CONVOLUTION_32, PeakUse.MATMUL_32, PeakUse.VECTOR]] = single
    printed[PeakUse.DOUBLE] = cpu.peak(PeakKind.FP64) or single / 2
    printed[PeakUse.INT8] = cpu.peak(PeakKind.INT8) or single
    printed[[PeakUse.FP8, PeakUse.FP4]] = half or single
    sustained = printed * _share(cpu, Microbenchmark.MATMUL_FP32, single, _SINGLE_SHARE)
    if half is not None:
        sustained[PeakUse.HALF] = half * _share(cpu, Microbenchmark.MATMUL_HALF, half, _HALF_SHARE)
    bandwidth = cpu.memory_bandwidth_bytes_per_s
    return DeviceRates(
        peaks_flops_per_s=sustained,
        printed_flops_per_s=printed,
        bandwidth_bytes_per_s=bandwidth * _share(cpu, Microbenchmark.COPY, bandwidth, _COPY_SHARE),
        printed_bandwidth_bytes_per_s=bandwidth,
        l2_bytes=float(cpu.l2_bytes or 8 * 2**20),
        units=1.0,  # products are cut into blocks that fit any number of cores
        on_tensor_cores=np.ones(len(PeakUse), dtype=bool),  # no Winograd, which oneDNN leaves out unless asked
    )


def _half_peak(cpu: GpuSpec, precision: Precision) -> float | None:
    return cpu.peak(PeakKind.BF16 if precision.half_dtype == "bfloat16" else PeakKind.FP16)


def _share(cpu: GpuSpec, kind: Microbenchmark, printed: float, guess: float) -> float:
    """Return what was measured over what is printed, or a guess where nothing was."""
    own: MeasuredRate | None = cpu.measured.get(kind)
    return guess if own is None or own.quality is Quality.C else own.value / printed
