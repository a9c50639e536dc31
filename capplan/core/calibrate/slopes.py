"""Differentiate the kernel time model for the fit: one evaluation gives all slopes but those of the cache."""

from dataclasses import dataclass, replace

import numpy as np

from capplan.core.latency.calibration import GlobalConstants
from capplan.core.latency.kernel_time import KernelRates, KernelWork, is_product, kernel_times
from capplan.core.numbers import FloatArray

_CACHE = ("l2_hit", "l2_reach", "l2_sharpness")
_STEP = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSlopes:
    """Kernels' times and their derivatives by the logarithm of each constant. [s]

    `fields` are the constants of kernel classes, `constants` those that all classes share. `gpu_compute` and
    `gpu_bandwidth` are the GPU's factors on its two roofs, `rates` both at once, as a deviation moves them.
    """

    total_s: FloatArray
    fields: dict[str, FloatArray]
    constants: dict[str, FloatArray]
    gpu_compute: FloatArray
    gpu_bandwidth: FloatArray
    rates: FloatArray


def kernel_slopes(work: KernelWork, rates: KernelRates, constants: GlobalConstants) -> KernelSlopes:
    """Differentiate `kernel_times` by hand, elementwise; the cache's constants by small differences.

    Args:
        work: what the kernels do.
        rates: their rates, with all factors.
        constants: what all classes share.
    """
    found = kernel_times(work, rates, constants)
    joined = np.maximum(found.total_s - found.fixed_s, 1e-30)
    joins = is_product(work)
    compute, memory = (np.where(joins, part / joined, 1.0) for part in (found.compute_s, found.memory_s))
    passes = rates.layout_passes * work.foreign_layout * found.missed_bytes / rates.bandwidth_bytes_per_s
    streamed = found.memory_s - passes
    per_byte = (1 + rates.strided * work.strided) / (rates.bandwidth_bytes_per_s * rates.bandwidth)
    missed = found.missed_bytes / np.maximum(work.read_bytes + work.written_bytes, 1.0)
    lost_to_k = rates.half_k / (work.k + rates.half_k)
    by_compute = -compute * found.compute_s
    by_stream = -memory * streamed
    fields = {
        "compute": by_compute,
        "bandwidth": by_stream,
        "half_k": -by_compute * lost_to_k,
        "misaligned": -by_compute * rates.misaligned * work.misaligned,
        "layout_passes": memory * passes,
        "write_weight": memory * rates.write_weight * work.written_bytes * missed * per_byte,
        "strided": -by_stream * rates.strided * work.strided / (1 + rates.strided * work.strided),
    }
    shared = {
        name: (kernel_times(work, rates, _moved(constants, name)).total_s - found.total_s) / _STEP for name in _CACHE
    }
    shared["tile_power"] = by_compute * constants.tile_power * np.log(work.utilisation)
    shared["kernel_s"] = constants.kernel_s * work.launches
    return KernelSlopes(
        total_s=found.total_s,
        fields=fields,
        constants=shared,
        gpu_compute=by_compute,
        gpu_bandwidth=-memory * found.memory_s,
        rates=by_compute + by_stream,
    )


def _moved(constants: GlobalConstants, name: str) -> GlobalConstants:
    return replace(constants, **{name: getattr(constants, name) * float(np.exp(_STEP))})
