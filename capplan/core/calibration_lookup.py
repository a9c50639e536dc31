"""Find what a calibration knows of one GPU and workload: its own factors, else the nearest relative's, told."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from capplan.core.calibration import CLASS_FIELDS, Calibration, DeviceFactors
from capplan.core.gpu import GpuSpec
from capplan.core.latency_classes import ALL_CLASSES
from capplan.core.latency_priors import PRIOR_CLASSES
from capplan.core.roofline import FloatArray
from capplan.core.workload import Variant, Workload

UNCALIBRATED_HALF_WIDTH = 0.6
SERIAL_STEP_S = 300e-9

_RELATIVES: Mapping[str, tuple[str, ...]] = {
    "12.0": ("8.9", "8.6"), "12.1": ("12.0", "8.9"), "8.9": ("8.6", "12.0"), "8.6": ("8.9", "12.0"),
    "8.7": ("8.6", "8.9"), "10.0": ("9.0", "8.0"), "10.3": ("10.0", "9.0", "8.0"), "9.0": ("8.0", "10.0"),
    "8.0": ("9.0", "7.0"), "7.0": ("7.5", "8.0"), "7.5": ("7.0", "8.0"), "7.2": ("7.0", "7.5"), "6.0": ("7.0",),
    "6.1": ("6.0", "7.0"),
}  # fmt: skip
"""Whose kernels a compute capability shares most, nearest first."""

INHERITED_SHARE = 0.5
"""How much of a relative's deviation an architecture without measurements takes over, in logs."""


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


def architecture_key(gpu: GpuSpec) -> str:
    """Name the architecture that shares kernels: the compute capability, or the vendor's name for it."""
    return ".".join(map(str, gpu.compute_capability)) if gpu.compute_capability else gpu.architecture


def precision_key(workload: Workload) -> str:
    """The family of number formats whose kernels differ: "half" under 16 bits and autocast, else "single"."""
    return "single" if workload.precision.variant is Variant.FULL else "half"


def torch_key(version: tuple[int, int]) -> str:
    """Spell a torch version as deviations do."""
    return f"{version[0]}.{version[1]}"


def resolve_constants(calibration: Calibration, gpu: GpuSpec, workload: Workload) -> ResolvedConstants:
    """Gather a calibration's constants for one GPU and workload."""
    columns = {name: _class_column(calibration, name) for name in CLASS_FIELDS}
    factor = np.exp(_log_deviation(calibration, gpu, workload))
    columns["compute"] = columns["compute"] * factor
    columns["bandwidth"] = columns["bandwidth"] * factor
    own = calibration.gpus.get(gpu.id, DeviceFactors())
    return ResolvedConstants(
        **columns, gpu_compute=own.compute, gpu_bandwidth=own.bandwidth, serial_step_s=SERIAL_STEP_S
    )


def architecture_source(calibration: Calibration, gpu: GpuSpec) -> str | None:
    """The architecture whose measurements serve a GPU: its own, the nearest relative's, or none."""
    key = architecture_key(gpu)
    return next(
        (name for name in (key, *_RELATIVES.get(key, ())) if f"architecture {name}" in calibration.deviations), None
    )


def torch_source(calibration: Calibration, version: tuple[int, int]) -> tuple[int, int] | None:
    """The measured torch version nearest to the one asked for."""
    measured = [_version(name.removeprefix("torch ")) for name in calibration.deviations if name.startswith("torch ")]
    return min(measured, key=lambda other: _distance(other, version), default=None)


def interval_width(calibration: Calibration | None) -> tuple[float, str | None, tuple[str, ...]]:
    """The half-width of the log error, what it was learnt from, and what to tell."""
    if calibration is None or calibration.origin is None:
        return UNCALIBRATED_HALF_WIDTH, None, ("no calibration: efficiencies are engineering guesses",)
    return UNCALIBRATED_HALF_WIDTH, calibration.name, ()


def _class_column(calibration: Calibration, name: str) -> FloatArray:
    return np.array([getattr(calibration.classes.get(label, PRIOR_CLASSES[label]), name) for label in ALL_CLASSES])


def _log_deviation(calibration: Calibration, gpu: GpuSpec, workload: Workload) -> FloatArray:
    source = architecture_source(calibration, gpu)
    version = torch_source(calibration, workload.torch_version)
    share = 1.0 if gpu.id in calibration.gpus else INHERITED_SHARE
    return (
        share * _logs(calibration, f"architecture {source}")
        + _logs(calibration, f"torch {torch_key(version)}" if version else "")
        + _logs(calibration, f"precision {precision_key(workload)}")
    )


def _logs(calibration: Calibration, name: str) -> FloatArray:
    factors = calibration.deviations.get(name, {})
    return np.log([factors.get(label, 1.0) for label in ALL_CLASSES])


def _version(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)


def _distance(one: tuple[int, int], other: tuple[int, int]) -> int:
    return abs((one[0] * 20 + one[1]) - (other[0] * 20 + other[1]))
