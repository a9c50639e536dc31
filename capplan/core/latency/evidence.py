"""Say what an estimate of one GPU rests on: its own timings, those of relatives, or its spec sheet alone."""

from dataclasses import dataclass

from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.calibration import Calibration
from capplan.core.latency.lookup import architecture_key, architecture_source
from capplan.core.latency.types import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEvidence:
    """The class of evidence for one GPU, and the reason in words."""

    evidence: Evidence
    reason: str


def gpu_evidence(calibration: Calibration | None, gpu: GpuSpec) -> GpuEvidence:
    """Classify what a calibration knows of a GPU.

    Args:
        calibration: the part that serves the workload; None where nothing was fitted.
        gpu: the GPU that is estimated.
    """
    if calibration is None or calibration.origin is None:
        return GpuEvidence(evidence=Evidence.SPEC_SHEET, reason="no calibration: engineering guesses")
    own = calibration.gpus.get(gpu.id)
    if own is not None and own.rows > 0:
        return GpuEvidence(evidence=Evidence.MEASURED, reason=f"{own.rows} timed steps on this GPU")
    if own is not None:
        return GpuEvidence(evidence=Evidence.MICROBENCHMARKS, reason="single kernels timed on this GPU, no whole step")
    relatives = _timed(calibration, architecture_key(gpu))
    if relatives:
        return GpuEvidence(evidence=Evidence.ARCHITECTURE, reason=f"timed on {_listed(relatives)}: same architecture")
    source = architecture_source(calibration, gpu)
    if source is not None:
        related = _listed(_timed(calibration, source)) or source
        return GpuEvidence(evidence=Evidence.SEGMENT, reason=f"timed on {related}: related architecture")
    return GpuEvidence(evidence=Evidence.SPEC_SHEET, reason="no GPU of this or a related architecture was timed")


def _timed(calibration: Calibration, architecture: str) -> list[str]:
    return [name for name, factors in calibration.gpus.items() if factors.architecture == architecture]


def _listed(names: list[str]) -> str:
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
