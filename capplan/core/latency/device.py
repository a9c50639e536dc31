"""What a GPU can do for one workload: its rates from the spec sheet, at the clocks that it sustains."""

from dataclasses import dataclass

import numpy as np

from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.core.latency.roofline import PeakUse
from capplan.core.numbers import BoolArray, FloatArray
from capplan.core.workload import Precision, Workload

_BOOST_BRANDS = ("geforce", "rtx", "quadro", "titan", "radeon", "arc")
_SUSTAINED_OVER_PRINTED = {(8, 6): 1.15}
_SUSTAINED_OVER_PRINTED_ELSE = 1.10
"""Cards of these brands run above their printed boost clock, GA102 by most; data-centre cards print their ceiling."""

_VECTOR_POWER_EXPONENT, _BANDWIDTH_POWER_EXPONENT = 0.55, 0.22
"""How rates fall with a power limit below that of the full card, from the one capped card that was measured."""

_HALF_FLOPS_PER_JOULE = {
    (7, 0): 0.40e12, (7, 5): 0.42e12, (8, 0): 0.75e12, (8, 6): 0.42e12, (8, 7): 0.42e12, (8, 9): 0.64e12,
    (9, 0): 1.20e12, (10, 0): 1.70e12, (10, 3): 1.90e12, (12, 0): 0.82e12,
}  # fmt: skip
"""16-bit tensor FLOPs that an architecture does for a joule when its power limit binds: measured matrix
products of A100, H100, L40S, B200 and RTX PRO 6000 over their power limits; others by process."""

_VECTOR_FLOPS_PER_JOULE = {(7, 5): 0.057e12}
"""FLOPs outside tensor cores that an architecture does for a joule when its power limit binds: long fp32 matrix
products on a T4 settle at half of the printed rate (NeuSight's kernel timings); no other card's are known."""
_MORE_THAN_VECTORS = 1.2

_TENSOR_CORES_SINCE = (7, 0)
_TF32_MATMULS_BY_DEFAULT_BEFORE = (1, 12)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """Why a GPU cannot run a workload."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRates:
    """A GPU's rates for one workload, before any fitted factor.

    `peaks_flops_per_s` and `printed_flops_per_s` have a column per `PeakUse`: sustained, and as printed.
    `bandwidth_bytes_per_s` is sustained, `printed_bandwidth_bytes_per_s` printed. `on_tensor_cores` says of each
    `PeakUse` whether tensor cores, with their wishes for layout and alignment, do it.
    """

    peaks_flops_per_s: FloatArray
    printed_flops_per_s: FloatArray
    bandwidth_bytes_per_s: float
    printed_bandwidth_bytes_per_s: float
    l2_bytes: float
    units: float
    on_tensor_cores: BoolArray


def device_rates(gpu: GpuSpec, workload: Workload) -> DeviceRates | Unsupported:
    """Read a GPU's rates for a workload off its spec sheet, or say what it lacks."""
    vector = gpu.peak(PeakKind.FP32)
    half = _half_peak(gpu, workload.precision)
    single = _single_peaks(gpu, workload)
    if workload.precision.half_dtype and half is None:
        return _lacks(gpu, workload.precision)
    if single is None:
        return _lacks(gpu, workload.precision)
    if vector is None:
        vector = single[1]
    convolution, matmul = single
    printed = np.full(len(PeakUse), np.inf)
    printed[PeakUse.HALF] = half or vector
    printed[PeakUse.CONVOLUTION_32], printed[PeakUse.MATMUL_32] = convolution, matmul
    printed[PeakUse.VECTOR] = vector
    printed[PeakUse.DOUBLE] = gpu.peak(PeakKind.FP64) or vector / 32
    printed[PeakUse.INT8] = gpu.peak(PeakKind.INT8) or half or vector
    capped = power_cap_fraction(gpu)
    return DeviceRates(
        peaks_flops_per_s=_sustained(gpu, printed, vector_peak=vector, capped=capped),
        printed_flops_per_s=printed,
        bandwidth_bytes_per_s=gpu.memory_bandwidth_bytes_per_s * capped**_BANDWIDTH_POWER_EXPONENT,
        printed_bandwidth_bytes_per_s=gpu.memory_bandwidth_bytes_per_s,
        l2_bytes=float(gpu.l2_bytes or 4 * 2**20),
        units=float(gpu.unit_count or max(1, round(vector / 0.5e12))),
        on_tensor_cores=_on_tensor_cores(gpu, printed, vector),
    )


def _on_tensor_cores(gpu: GpuSpec, printed: FloatArray, vector_peak: float) -> BoolArray:
    """Which uses run on tensor cores: 16 bits and integers where there are any, fp32 where they speed it up."""
    found = np.zeros(len(PeakUse), dtype=bool)
    found[[PeakUse.HALF, PeakUse.INT8]] = (gpu.compute_capability or _TENSOR_CORES_SINCE) >= _TENSOR_CORES_SINCE
    for use in (PeakUse.CONVOLUTION_32, PeakUse.MATMUL_32):
        found[use] = printed[use] > _MORE_THAN_VECTORS * vector_peak
    return found


def host_slowness(gpu: GpuSpec) -> float:
    """How long a host of a GPU's generation takes for a call, against one of 2020.

    Nobody says which host runs a GPU; the time of a call halves in about four years of releases (steps
    of one image on V100, T4, A100 and MI250 systems), and is held from 2022 on, where no data lies.
    """
    if gpu.release_date is None:
        return 1.0
    year = gpu.release_date.year + gpu.release_date.month / 12
    return float(0.5 ** ((min(max(year, 2016.0), 2022.0) - 2020.5) / 4.0))


def power_cap_fraction(gpu: GpuSpec) -> float:
    """A card's power limit over that of the full-power card with the same chip; 1 where it is not capped."""
    if gpu.tdp_w is None or gpu.nominal_tdp_w is None:
        return 1.0
    return min(1.0, gpu.tdp_w / gpu.nominal_tdp_w)


def half_flops_per_joule(gpu: GpuSpec) -> float | None:
    """16-bit tensor FLOPs per joule of a GPU's architecture; None where nothing is known. [FLOP/J]"""
    return _HALF_FLOPS_PER_JOULE.get(gpu.compute_capability) if gpu.compute_capability else None


def _sustained(gpu: GpuSpec, printed: FloatArray, *, vector_peak: float, capped: float) -> FloatArray:
    boost = _boost(gpu)
    rates = printed * boost
    rates[PeakUse.VECTOR] *= capped**_VECTOR_POWER_EXPONENT
    per_joule = half_flops_per_joule(gpu)
    if per_joule is None or gpu.tdp_w is None:
        return rates
    limit = per_joule * gpu.tdp_w
    rates[PeakUse.HALF] = min(rates[PeakUse.HALF], limit)
    vector_limit = _VECTOR_FLOPS_PER_JOULE.get(gpu.compute_capability or (0, 0), np.inf) * gpu.tdp_w
    rates[PeakUse.VECTOR] = min(rates[PeakUse.VECTOR], vector_limit)
    for use in (PeakUse.CONVOLUTION_32, PeakUse.MATMUL_32):
        on_tensor_cores = printed[use] > _MORE_THAN_VECTORS * vector_peak
        rates[use] = min(rates[use], limit / 2 if on_tensor_cores else vector_limit)
    return rates


def _boost(gpu: GpuSpec) -> float:
    """The clock that a card sustains, over the printed one."""
    if not any(brand in gpu.name.lower().split() for brand in _BOOST_BRANDS):
        return 1.0
    capability = gpu.compute_capability
    return _SUSTAINED_OVER_PRINTED.get(capability, _SUSTAINED_OVER_PRINTED_ELSE) if capability else 1.0


def _half_peak(gpu: GpuSpec, precision: Precision) -> float | None:
    if precision.half_dtype == "bfloat16":
        return gpu.peak(PeakKind.BF16)
    tensor = gpu.peak(PeakKind.FP16)
    return tensor or max(gpu.peak(PeakKind.FP16_VECTOR) or 0.0, gpu.peak(PeakKind.FP32) or 0.0) or None


def _single_peaks(gpu: GpuSpec, workload: Workload) -> tuple[float, float] | None:
    """The rates of 32-bit convolutions and matrix products, which TF32 may speed up."""
    vector, tensor = gpu.peak(PeakKind.FP32), gpu.peak(PeakKind.TF32)
    if workload.precision is Precision.TF32 and tensor is None:
        return None
    if vector is None:
        vector = gpu.peak(PeakKind.BF16) if workload.precision.half_dtype else None
    if vector is None:
        return None
    matrix = gpu.peak(PeakKind.FP32_MATRIX) or vector
    if workload.precision is Precision.FP32_IEEE or tensor is None:
        return matrix, matrix
    plain = workload.precision is Precision.FP32 and workload.torch_version >= _TF32_MATMULS_BY_DEFAULT_BEFORE
    return tensor, vector if plain else tensor


def _lacks(gpu: GpuSpec, precision: Precision) -> Unsupported:
    held = ", ".join(kind.value for kind, rate in gpu.peak_flops_per_s.items() if rate)
    return Unsupported(reason=f"{gpu.id} has no peak rate for {precision}; its spec states {held or 'none'}")
