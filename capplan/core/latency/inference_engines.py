"""Turn the calibration of compiled steps into an inference engine's, by constants fitted to the engine's steps."""

from dataclasses import replace

import numpy as np

from capplan.core.assumed import ENGINE_INHERITED_SHARE
from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.core.latency import classes as kinds
from capplan.core.latency.calibration import (
    PRIOR_CLASSES,
    Calibration,
    EngineCalibration,
    EngineEfficiency,
    EngineFactors,
    EngineWidths,
    IntervalWidth,
)
from capplan.core.latency.types import Evidence, GpuEvidence
from capplan.core.numbers import FloatArray
from capplan.core.workload import Framework, Precision, Workload

REFERENCE_CLOCK_HZ = 1.5e9
"""The clock at which engines' fixed times of kernels are stated; those that were timed boost to 1.41 to 2.52 GHz."""
_CELLS = ("device nchw", "device nhwc", "device single", "launches")
_ONNX_RUNTIME = "ONNX Runtime was timed with BERT alone: the rest is transferred from TensorRT, wider interval"
_FP8 = "no engine was timed in fp8: transferred from int8 and 16 bits, wider interval"
_INT8 = (
    "int8 is taken as every product quantised and fused, with fp16 between; a graph whose quantisation leaves layers "
    "unfused or in fp32 may be slower than fp16"
)


def engine_calibration(
    calibration: Calibration, framework: Framework, constants: EngineEfficiency | None = None
) -> Calibration:
    """Return the part of a calibration that serves an inference engine.

    It is the part for compiled steps with the engine's constants in their place. Without constants of the engine, the
    part for compiled steps is returned as it is; its users say that it was made for other steps.
    """
    compiled = calibration.parts.get("compile", calibration)
    known = calibration.engines.get(framework.value)
    held = constants or (known.constants if known else None)
    if held is None:
        return compiled
    classes = {
        label: replace(
            shares,
            compute=shares.compute * factor,
            bandwidth=shares.bandwidth * factor,
            fixed_s=held.convolution_s if _is_convolution(label) else 0.0,
        )
        for label, shares in {**PRIOR_CLASSES, **compiled.classes}.items()
        for factor in [_factor(label, held)]
    }
    found = replace(
        compiled,
        classes=classes,
        constants=replace(compiled.constants, kernel_s=held.kernel_s),
        widths={},
        serves=framework.value,
        engines={framework.value: known} if known else {},
    )
    return replace(found, widths=_cells(known.transformers, known)) if known else found


def with_convolution_widths(calibration: Calibration, framework: Framework) -> Calibration:
    """Return an engine's calibration with the intervals of networks of convolutions."""
    known = calibration.engines.get(framework.value)
    return replace(calibration, widths=_cells(known.convolutions, known)) if known else calibration


def _cells(widths: EngineWidths, known: EngineCalibration) -> dict[str, IntervalWidth]:
    between = float(np.sqrt(max(0.0, widths.gpus**2 - widths.models**2)))
    width = IntervalWidth(
        below=widths.models, above=widths.models, between_gpus=between, between_sheets=between, between_others=between,
        between_other_sheets=between, rows=known.origin.rows,
    )  # fmt: skip
    return dict.fromkeys(_CELLS, width)


def _factor(label: str, held: EngineEfficiency) -> float:
    if label.startswith(kinds.ATTENTION):
        return held.attention
    if _is_convolution(label):
        return held.convolution
    if label in (kinds.LINEAR, kinds.BATCHED_MATMUL):
        return held.product
    return held.norm if label in (kinds.FUSED_NORM, kinds.LAYER_NORM) else held.elementwise


def _is_convolution(label: str) -> bool:
    return kinds.is_convolution(label) or kinds.is_depthwise(label)


_CONVOLUTIONS = np.array([_is_convolution(label) for label in kinds.ALL_CLASSES])


def least_times(calibration: Calibration, gpu: GpuSpec) -> FloatArray | None:
    """Return what a kernel of each class takes at least in a CUDA graph; None where no engine was timed. [s]

    Kernels of a graph follow one another without a host, as an engine's do. How long small ones take was timed in
    TensorRT's steps alone: a fit to saturated batches sees a third of it.
    """
    known = calibration.engines.get(Framework.TENSORRT.value)
    if known is None:
        return None
    least_s = known.constants.kernel_s + known.constants.convolution_s * _CONVOLUTIONS
    return np.asarray(least_s * REFERENCE_CLOCK_HZ / (gpu.boost_clock_hz or REFERENCE_CLOCK_HZ))


def gains_from_int8(gpu: GpuSpec) -> bool:
    """Return True if a GPU multiplies int8 faster than 16 bits: Volta's tensor cores, for one, know no int8."""
    wide = max(gpu.peak(kind) or 0.0 for kind in (PeakKind.FP16, PeakKind.FP32))
    return (gpu.peak(PeakKind.INT8) or 0.0) > wide


def engine_factors(
    calibration: Calibration, gpu: GpuSpec, workload: Workload, *, architecture: str
) -> FloatArray | float:
    """Return what an engine's timed steps on a GPU, or on others of its architecture, add to its rates, by class.

    Those of convolutions stay as they are: the factors follow from transformers.
    """
    known = calibration.engines.get(workload.framework.value)
    if known is None:
        return 1.0
    return np.where(_CONVOLUTIONS, 1.0, _own_factor(known, gpu, workload, architecture))


def _own_factor(known: EngineCalibration, gpu: GpuSpec, workload: Workload, architecture: str) -> float:
    is_int8 = workload.precision is Precision.INT8 and gains_from_int8(gpu)
    own = known.gpus.get(gpu.id)
    if own is not None:
        return _factor_of(own, is_int8=is_int8)
    related = [
        _factor_of(factors, is_int8=is_int8) for factors in known.gpus.values() if factors.architecture == architecture
    ]
    return float(np.exp(ENGINE_INHERITED_SHARE * np.mean(np.log(related)))) if related else 1.0


def _factor_of(factors: EngineFactors, *, is_int8: bool) -> float:
    return factors.int8 if is_int8 else factors.wide


def is_timed(calibration: Calibration, gpu: GpuSpec, workload: Workload) -> bool:
    """Return True if an engine's steps were timed on a GPU, in a number format like the workload's."""
    known = calibration.engines.get(workload.framework.value)
    return known is not None and gpu.id in known.gpus and workload.precision is not Precision.FP8


def knows_architecture(calibration: Calibration, workload: Workload, architecture: str) -> bool:
    """Return True if an engine's steps were timed on an architecture, in a number format like the workload's."""
    known = calibration.engines.get(workload.framework.value)
    is_known = known is not None and any(factors.architecture == architecture for factors in known.gpus.values())
    return is_known and workload.precision is not Precision.FP8


def engine_notes(calibration: Calibration, gpu: GpuSpec, workload: Workload) -> tuple[str, ...]:
    """Return notes on what an engine's estimate borrows."""
    notes = []
    if workload.precision is Precision.INT8:
        slow = f"{gpu.id} is no faster in int8 than in fp16, which an engine takes instead"
        notes.append(_INT8 if gains_from_int8(gpu) else slow)
    if workload.precision is Precision.FP8:
        notes.append(_FP8)
    if workload.framework is Framework.ONNXRUNTIME:
        notes.append(_ONNX_RUNTIME)
    elif not is_timed(calibration, gpu, workload) and workload.precision is not Precision.FP8:
        label = workload.framework.product
        notes.append(f"{gpu.id} was never timed in {label}: taken from its spec sheet and other GPUs, wider interval")
    return tuple(notes)


def engine_evidence(calibration: Calibration, gpu: GpuSpec, workload: Workload, *, architecture: str) -> GpuEvidence:
    """Classify what is known of an engine on a GPU."""
    known = calibration.engines[workload.framework.value]
    label = workload.framework.product
    if workload.framework is Framework.ONNXRUNTIME:
        return GpuEvidence(evidence=Evidence.TRANSFERRED, reason=_ONNX_RUNTIME)
    if workload.precision is Precision.FP8:
        return GpuEvidence(evidence=Evidence.TRANSFERRED, reason=_FP8)
    own = known.gpus.get(gpu.id)
    if own is not None:
        return GpuEvidence(evidence=Evidence.MEASURED, reason=f"{own.rows} steps of {label} timed on this GPU")
    related = [name for name, factors in known.gpus.items() if factors.architecture == architecture]
    if related:
        reason = f"{label} timed on {', '.join(related)}: same architecture"
        return GpuEvidence(evidence=Evidence.ARCHITECTURE, reason=reason)
    reason = f"transferred: no step of {label} was timed on this architecture"
    return GpuEvidence(evidence=Evidence.TRANSFERRED, reason=reason)
