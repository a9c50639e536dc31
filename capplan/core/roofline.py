"""The classic bound: a kernel cannot beat its FLOPs at peak rate, nor its bytes at printed bandwidth."""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class PeakUse(IntEnum):
    """Which of a GPU's rates limits a kernel's arithmetic: a column of `DeviceRates.peaks_flops_per_s`."""

    NONE = 0
    HALF = 1
    CONVOLUTION_32 = 2
    MATMUL_32 = 3
    VECTOR = 4
    DOUBLE = 5
    INT8 = 6
    VECTOR_HALF = 7


def bound_s(
    *, flops: FloatArray, peak_flops_per_s: FloatArray, traffic_bytes: FloatArray, bandwidth_bytes_per_s: FloatArray
) -> FloatArray:
    """Bound a kernel's time from below, elementwise: max(FLOPs ÷ peak, bytes ÷ bandwidth). [s]

    The bytes are each operand read once and each result written once; a cache can keep some of them
    from device memory, so the bandwidth term is a bound for working sets beyond the L2 cache.
    Williams, Waterman, Patterson: Roofline, CACM 2009.
    """
    return np.maximum(flops / peak_flops_per_s, traffic_bytes / bandwidth_bytes_per_s)


def ridge_point(*, peak_flops_per_s: float, bandwidth_bytes_per_s: float) -> float:
    """The arithmetic intensity above which compute binds. [FLOP/byte]"""
    return peak_flops_per_s / bandwidth_bytes_per_s
