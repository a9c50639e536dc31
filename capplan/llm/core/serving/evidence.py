"""How sure a prediction is: what was measured of its deployment decides the width of its interval."""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Literal

from capplan.core.numbers import NORMAL_90, Interval
from capplan.llm.core.engines import parse_version
from capplan.llm.core.timing.calibration import KernelClass, LlmCalibration, Novelty, Width, pair_name, vendor_name

_WORDS = {
    Novelty.MODEL: "this model with this engine",
    Novelty.FORMAT: "this format or kind of layer with this engine",
    Novelty.GPU: "this GPU",
    Novelty.ARCHITECTURE: "GPUs of this generation and market",
    Novelty.VENDOR: "GPUs of this vendor",
    Novelty.NETWORK: "an exchange between servers in every layer",
    Novelty.RELEASE: "this release of the engine",
    Novelty.ENGINE: "loads of this engine",
    Novelty.OLDER: "a release of the engine as old as this",
}
_USUAL = {
    frozenset[Novelty](): "model and GPU measured in other settings",
    frozenset({Novelty.MODEL}): "GPU measured, model not",
    frozenset({Novelty.GPU}): "model measured, GPU not",
    frozenset({Novelty.MODEL, Novelty.GPU}): "neither model nor GPU measured",
}
_FAR = frozenset({Novelty.VENDOR, Novelty.NETWORK, Novelty.ENGINE})


@dataclass(frozen=True, slots=True)
class ServingEvidence:
    """What the constants were learnt from, seen from one deployment: what of it was not measured.

    `is_measured_here` says that runs of the deployment itself correct its times.
    """

    novelties: frozenset[Novelty] = frozenset()
    is_measured_here: bool = False

    @property
    def is_transferred(self) -> bool:
        """Return True if no load of the kind was measured."""
        return bool(self.novelties & _FAR)

    def __str__(self) -> str:
        if self.is_measured_here:
            return "calibrated with a measured run of this deployment"
        novelties = self.novelties & set(_WORDS)
        if novelties in _USUAL:
            return _USUAL[novelties]
        words = [_WORDS[novelty] for novelty in Novelty if novelty in novelties]
        listed = " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
        return f"{'transferred' if self.is_transferred else 'extrapolated'}: nobody measured {listed}"


MEASURED_HERE = ServingEvidence(is_measured_here=True)


ModelKind = Literal["dense", "experts", "experts of 4 bits"]
"""Kinds of models whose interval widths differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjustment:
    """A factor learnt from measured runs of the same deployment, and the deviation of its logarithm that remains."""

    factor: float = 1.0
    deviation: float | None = None
    runs: int = 0


_UNADJUSTED = Adjustment()


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCard:
    """The GPU of a question: its id, vendor, generation and market."""

    gpu: str
    vendor: str
    architecture: str
    segment: str | None = None


def evidence_of(
    calibration: LlmCalibration,
    *,
    model: str,
    card: AskedCard,
    engine: str,
    release: tuple[int, ...] | None = None,
    kernels: Set[KernelClass] = frozenset(),
) -> ServingEvidence:
    """Classify a deployment by what was measured.

    A model and a GPU count as measured with the engine that served them alone, a release of it with a generation of
    GPUs. A class of kernels that no run exercised in this engine (a format, linear attention), on this architecture
    where the GPU was measured, is new, too. Of an engine of which single streams of one model were measured alone
    (`single_streams`), the GPUs of these streams count.
    """
    gpu, vendor, architecture, segment = card.gpu, card.vendor, card.architecture, card.segment
    streams = calibration.single_streams.get(engine, frozenset())
    is_under_load = engine in calibration.measured_engines
    run = calibration.timed_kernels.get(engine.split(maxsplit=1)[0], frozenset())
    found = set()
    is_known_gpu = pair_name(gpu, engine) in calibration.measured_gpus or gpu in streams
    if not is_known_gpu:
        same_kind = segment is None or segment in calibration.measured_segments
        generations = {where for _, where in run}
        found.add(Novelty.GPU if architecture in generations and same_kind else Novelty.ARCHITECTURE)
    if vendor_name(vendor, architecture, engine) not in calibration.measured_vendors and is_under_load:
        found.add(Novelty.VENDOR)
    if not is_under_load:
        found.add(Novelty.ENGINE)
    elif segment == "consumer" or (vendor != "NVIDIA" and segment == "workstation"):
        found.add(Novelty.OWNER)
    if is_under_load:
        found |= _outside(release, calibration.measured_releases.get(pair_name(architecture, engine), ()))
    if pair_name(model, engine) not in calibration.measured_pairs:
        found.add(Novelty.MODEL)
    known = {kernel for kernel, where in run if not is_known_gpu or where == architecture}
    if run and not {str(kernel) for kernel in kernels} <= known:
        found.add(Novelty.FORMAT)
    return ServingEvidence(frozenset(found))


def _outside(release: tuple[int, ...] | None, measured: Sequence[str]) -> set[Novelty]:
    if release is None or not measured:
        return set()
    oldest, newest = (parse_version(text) for text in measured)
    if release < oldest:
        return {Novelty.OLDER}
    return {Novelty.RELEASE} if release[: len(newest)] > newest[: len(release)] else set()


def interval(
    value: float, *, width: Width, evidence: ServingEvidence, adjustment: Adjustment = _UNADJUSTED
) -> Interval:
    """Return a value with its 90 % interval: that of measured runs is symmetric in the logarithm."""
    expected = value * adjustment.factor
    factor = width.half(evidence.novelties)
    below, above = factor**width.below, factor**width.above
    if adjustment.deviation is not None:
        scatter = exp(NORMAL_90 * adjustment.deviation)
        below, above = min(below, scatter), min(above, scatter)
    return Interval(low=expected / below, expected=expected, high=expected * above)


MOST_SPREAD = 5.0
"""Upper ÷ lower end of an interval beyond which a time is said to be not known, and its width decides nothing."""


def is_known(time: Interval) -> bool:
    """Return True if an interval is narrow enough to say something."""
    return time.high <= MOST_SPREAD * time.low


def deciding(time: Interval) -> Interval:
    """Return the interval that a limit is held against: the expected value alone where the time is not known."""
    return time if is_known(time) else Interval(low=time.expected, expected=time.expected, high=time.expected)


def not_known_words(time: Interval) -> str:
    return (
        f"TTFT is not known: its 90 % interval spans a factor of {time.high / time.low:.0f}, so that limits are held "
        "against the expected value; measure a run"
    )


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
    whole = log(width.half(evidence.novelties)) / NORMAL_90
    scatter = (log(width.within) / NORMAL_90) ** 2
    between = max(whole**2 - scatter, 1e-4)
    share = between / (between + scatter / len(ratios))
    mean = sum(log(ratio) for ratio in ratios) / len(ratios)
    return Adjustment(factor=exp(share * mean), deviation=sqrt(between * (1.0 - share) + scatter), runs=len(ratios))
