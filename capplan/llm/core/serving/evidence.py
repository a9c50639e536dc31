"""How sure a prediction is: what was measured of its deployment decides the width of its interval."""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from math import exp, log, sqrt

from capplan.core.numbers import NORMAL_90, Interval
from capplan.llm.core.timing.calibration import KernelClass, LlmCalibration, Width, pair_name


class ServingEvidence(StrEnum):
    """What the constants were learnt from, seen from one deployment."""

    MEASURED_HERE = "calibrated with a measured run of this deployment"
    SAME = "model and GPU measured in other settings"
    OTHER_MODEL = "GPU measured, model not"
    OTHER_GPU = "model measured, GPU not"
    OTHER_BOTH = "neither model nor GPU measured"
    NETWORK = "transferred: exchange between servers in every layer was measured in one deployment"
    STREAMS = "transferred: of this engine only single streams of one model were measured, on this GPU"
    STREAMS_ELSEWHERE = "transferred: of this engine only single streams of one model were measured, on other GPUs"
    TRANSFER = "transferred: no GPU of this vendor or kind, or no run of this engine, was measured"

    @property
    def is_transferred(self) -> bool:
        """Return True if no load of the kind was measured, so that intervals are the widest."""
        return self in (
            ServingEvidence.NETWORK,
            ServingEvidence.STREAMS,
            ServingEvidence.STREAMS_ELSEWHERE,
            ServingEvidence.TRANSFER,
        )


class ModelKind(StrEnum):
    """Kinds of models whose interval widths differ."""

    DENSE = "dense"
    EXPERTS = "experts"
    NARROW_EXPERTS = "experts of 4 bits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjustment:
    """A factor learnt from measured runs of the same deployment, and the deviation of its logarithm that remains."""

    factor: float = 1.0
    deviation: float | None = None
    runs: int = 0


def evidence_of(
    calibration: LlmCalibration,
    *,
    model: str,
    gpu: str,
    vendor: str,
    engine: str,
    architecture: str,
    segment: str | None = None,
    kernels: Set[KernelClass] = frozenset(),
) -> ServingEvidence:
    """Classify a deployment by what was measured.

    A model counts as measured with the engine that served it alone. A class of kernels that no run exercised in this
    engine (a format, linear attention), on this architecture where the GPU was measured, makes the model a new one.
    """
    known_gpu = gpu in calibration.measured_gpus
    new_kind = segment is not None and segment not in calibration.measured_segments and not known_gpu
    streams = calibration.single_streams.get(engine)
    if streams and engine not in calibration.measured_engines:
        return ServingEvidence.STREAMS if gpu in streams else ServingEvidence.STREAMS_ELSEWHERE
    if vendor != "NVIDIA" or engine not in calibration.measured_engines or new_kind:
        return ServingEvidence.TRANSFER
    timed = {tuple(name.split(" | ")) for name in calibration.kernel_factors}
    if known_gpu:
        known_kernels = all((str(kernel), engine, architecture) in timed for kernel in kernels)
    else:
        known_kernels = {str(kernel) for kernel in kernels} <= {name for name, of, _ in timed if of == engine}
    if pair_name(model, engine) in calibration.measured_pairs and known_kernels:
        return ServingEvidence.SAME if known_gpu else ServingEvidence.OTHER_GPU
    return ServingEvidence.OTHER_MODEL if known_gpu else ServingEvidence.OTHER_BOTH


def half_width(width: Width, evidence: ServingEvidence) -> float:
    """Return the factor between the expected value and either end of its 90 % interval."""
    match evidence:
        case ServingEvidence.SAME | ServingEvidence.MEASURED_HERE:
            return width.same
        case ServingEvidence.OTHER_MODEL:
            return width.other_model
        case ServingEvidence.OTHER_GPU:
            return width.other_gpu
        case ServingEvidence.OTHER_BOTH:
            return width.other_both
        case _:  # transferred
            return width.transfer


def interval(value: float, *, width: Width, evidence: ServingEvidence, adjustment: Adjustment) -> Interval:
    """Return a value with its 90 % interval, symmetric in the logarithm."""
    expected = value * adjustment.factor
    factor = half_width(width, evidence)
    if adjustment.deviation is not None:
        factor = min(factor, exp(NORMAL_90 * adjustment.deviation))
    return Interval(low=expected / factor, expected=expected, high=expected * factor)


def widened(found: Interval, factors: Sequence[float]) -> Interval:
    """Return an interval that also spans what its expected value becomes times each factor."""
    least, most = min([1.0, *factors]), max([1.0, *factors])
    return Interval(low=found.low * least, expected=found.expected, high=found.high * most)


def learn_adjustment(ratios: list[float], *, width: Width, evidence: ServingEvidence) -> Adjustment:
    """Learn a deployment's common factor from measured ÷ predicted, shrunk towards 1.

    Deployments differ by what the half-width of the class of evidence leaves beside that of the runs of one deployment,
    which scatter around their common factor.
    """
    if not ratios:
        return Adjustment()
    whole = log(half_width(width, evidence)) / NORMAL_90
    scatter = (log(width.within) / NORMAL_90) ** 2
    between = max(whole**2 - scatter, 1e-4)
    share = between / (between + scatter / len(ratios))
    mean = sum(log(ratio) for ratio in ratios) / len(ratios)
    return Adjustment(factor=exp(share * mean), deviation=sqrt(between * (1.0 - share) + scatter), runs=len(ratios))
