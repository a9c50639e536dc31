"""Find what a calibration knows of one GPU: its own factors, else its architecture's, else the nearest relative's."""

from dataclasses import dataclass

import numpy as np

from capplan.core.calibration import CLASS_FIELDS, Calibration, DeviceFactors
from capplan.core.gpu import GpuSpec
from capplan.core.latency_classes import ALL_CLASSES
from capplan.core.latency_priors import PRIOR_CLASSES
from capplan.core.roofline import FloatArray

_UNCALIBRATED_HALF_WIDTH = 0.6
_SERIAL_STEP_S = 300e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedConstants:
    """A calibration's constants for one GPU: arrays over `ALL_CLASSES`, and factors on its two roofs."""

    compute: FloatArray
    bandwidth: FloatArray
    half_k: FloatArray
    misaligned: FloatArray
    layout_passes: FloatArray
    write_weight: FloatArray
    strided: FloatArray
    gpu_compute: float
    gpu_bandwidth: float
    serial_step_s: float


def resolve_constants(calibration: Calibration, gpu: GpuSpec) -> ResolvedConstants:
    """Gather a calibration's constants for one GPU."""
    known = [calibration.classes.get(label) or PRIOR_CLASSES[label] for label in ALL_CLASSES]
    columns = {name: np.array([getattr(item, name) for item in known]) for name in CLASS_FIELDS}
    factors = calibration.gpus.get(gpu.id, DeviceFactors())
    for label, factor in factors.classes.items():
        position = ALL_CLASSES.index(label)
        columns["compute"][position] *= factor
        columns["bandwidth"][position] *= factor
    return ResolvedConstants(
        **columns, gpu_compute=factors.compute, gpu_bandwidth=factors.bandwidth, serial_step_s=_SERIAL_STEP_S
    )


def interval_width(calibration: Calibration | None) -> tuple[float, str | None, tuple[str, ...]]:
    """The half-width of the log error, what it was learnt from, and what to tell."""
    if calibration is None or calibration.origin is None:
        return _UNCALIBRATED_HALF_WIDTH, None, ("no calibration: efficiencies are engineering guesses",)
    return _UNCALIBRATED_HALF_WIDTH, calibration.name, ()
