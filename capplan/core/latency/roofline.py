"""The classic bound: a kernel cannot beat its FLOPs at peak rate, nor its bytes at printed bandwidth."""

from enum import IntEnum

import numpy as np

from capplan.core.numbers import FloatArray


class PeakUse(IntEnum):
    """Which of a GPU's rates limits a kernel's arithmetic: a column of `DeviceRates.peaks_flops_per_s`."""

    NONE = 0
    HALF = 1
    CONVOLUTION_32 = 2
    MATMUL_32 = 3
    VECTOR = 4
    DOUBLE = 5
    INT8 = 6
    FP8 = 7
    FP4 = 8


def bound_s(
    *, flops: FloatArray, peak_flops_per_s: FloatArray, traffic_bytes: FloatArray, bandwidth_bytes_per_s: FloatArray
) -> FloatArray:
    """Bound a kernel's time from below, elementwise: max(FLOPs ÷ peak, bytes ÷ bandwidth). [s]

    `traffic_bytes` must be what cannot but cross the memory bus: see `compulsory_bytes`.
    Williams, Waterman, Patterson: Roofline, CACM 2009.
    """
    return np.maximum(flops / peak_flops_per_s, traffic_bytes / bandwidth_bytes_per_s)


def compulsory_bytes(
    *,
    read_bytes: FloatArray,
    written_bytes: FloatArray,
    weight_bytes: FloatArray,
    all_weights_bytes: float,
    l2_bytes: FloatArray,
) -> FloatArray:
    """Return the bytes that a kernel must move between device memory and chip with a perfectly used L2 cache.

    A kernel may find at most an L2 of its input there and leave at most an L2 of its output; weights are
    read anew in every step unless all of them together stay cached. [bytes]
    """
    activations = np.maximum(read_bytes - l2_bytes, 0) + np.maximum(written_bytes - l2_bytes, 0)
    return activations + np.where(all_weights_bytes > l2_bytes, weight_bytes, 0.0)
