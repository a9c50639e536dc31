"""Time of one kernel: the classic bound, and compute against bandwidth with fitted efficiencies and a fixed cost."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from capplan.core.latency.calibration import GlobalConstants
from capplan.core.numbers import BoolArray, FloatArray

_TILES = (
    (256, 128, 1.00), (128, 256, 1.00), (128, 128, 0.95), (256, 64, 0.88), (128, 64, 0.82), (64, 128, 0.82),
    (64, 64, 0.65), (256, 32, 0.65), (128, 32, 0.60),
)  # fmt: skip
"""Rows, columns and relative speed of the thread-block tiles that matrix-product libraries choose from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTimes:
    """The parts of kernels' times [s], and the bytes of activations that the cache does not hold."""

    compute_s: FloatArray
    memory_s: FloatArray
    fixed_s: FloatArray
    total_s: FloatArray
    missed_bytes: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelWork:
    """What kernels do, in arrays that broadcast: see `KernelTable`.

    `stretch` is how much longer a kernel of few thread blocks streams than one that fills the GPU.
    """

    flops: FloatArray
    read_bytes: FloatArray
    written_bytes: FloatArray
    weight_bytes: FloatArray
    k: FloatArray
    utilisation: FloatArray
    serial: FloatArray
    launches: FloatArray
    misaligned: FloatArray
    strided: FloatArray
    foreign_layout: FloatArray
    stretch: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassArrays:
    """The constants of classes of kernels in arrays, on one architecture: see `ClassConstants`."""

    compute: FloatArray
    bandwidth: FloatArray
    half_k: FloatArray
    misaligned: FloatArray
    layout_passes: FloatArray
    write_weight: FloatArray
    strided: FloatArray
    fixed_s: FloatArray | float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRates(ClassArrays):
    """What the GPU and its calibration give each kernel, in arrays that broadcast.

    `peak_flops_per_s` and `bandwidth_bytes_per_s` hold the factors of the GPU and architecture.
    """

    peak_flops_per_s: FloatArray
    bandwidth_bytes_per_s: FloatArray
    l2_bytes: FloatArray
    serial_step_s: FloatArray


def kernel_times(work: KernelWork, rates: KernelRates, constants: GlobalConstants) -> KernelTimes:
    """Time kernels on a GPU, elementwise. [s]"""
    moved = work.read_bytes + work.written_bytes
    missed = 1 - constants.l2_hit / (1 + (moved / (constants.l2_reach * rates.l2_bytes)) ** constants.l2_sharpness)
    weighted = (work.read_bytes + rates.write_weight * work.written_bytes) * missed + work.weight_bytes
    weighted = weighted * (1 + rates.strided * work.strided) * work.stretch
    memory_s = weighted / (rates.bandwidth_bytes_per_s * rates.bandwidth)
    passes = rates.layout_passes * work.foreign_layout
    memory_s = memory_s + passes * moved * missed / rates.bandwidth_bytes_per_s
    efficiency = (
        rates.compute
        * work.utilisation**constants.tile_power
        * (work.k / (work.k + rates.half_k))
        * np.exp(-rates.misaligned * work.misaligned)
    )
    compute_s = work.flops / (rates.peak_flops_per_s * efficiency)
    fixed_s = constants.kernel_s * work.launches + rates.serial_step_s * work.serial + rates.fixed_s
    joined_s = np.where(is_product(work), np.sqrt(compute_s**2 + memory_s**2), compute_s + memory_s)
    return KernelTimes(
        compute_s=compute_s,
        memory_s=memory_s,
        fixed_s=fixed_s,
        total_s=joined_s + fixed_s,
        missed_bytes=moved * missed,
    )


def is_product(work: KernelWork) -> BoolArray:
    """Return which kernels are matrix products or convolutions: the others have an inner dimension of 1."""
    return np.asarray(work.k > 1)


def tile_utilisation(
    *, m: FloatArray, n: FloatArray, groups: FloatArray, k: FloatArray, units: FloatArray
) -> FloatArray:
    """Return the share of a GPU that the best tiling of a matrix product keeps busy; 1 where `m` is 0.

    For each tile: its own speed, times the part of the tiles that is output, times the part of the last
    wave over the multiprocessors that is filled. A long inner dimension may be split over idle ones.
    """
    best = np.zeros(np.broadcast_shapes(m.shape, units.shape))
    output = m * n * groups
    for rows, columns, speed in _TILES:
        tiles = np.ceil(m / rows) * np.ceil(n / columns) * groups
        tiles = np.maximum(tiles, 1.0)
        splits = np.clip(np.floor(units / tiles), 1.0, np.maximum(1.0, np.floor(k / 512)))
        waves = tiles * splits / units
        best = np.maximum(best, speed * output / (tiles * rows * columns) * waves / np.ceil(waves))
    return np.where(m > 0, np.maximum(best, 1e-3), 1.0)


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
