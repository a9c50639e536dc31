"""Measured training runs, what is fitted to them, and how wrong predictions of them are."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import NormalDist

import numpy as np

from capplan.core.gpus.spec import GpuSpec
from capplan.core.numbers import NORMAL_90, Interval
from capplan.core.origin import Origin
from capplan.llm.core.measured import JudgedCell, JudgedValue, SkippedRun, judged_cells
from capplan.llm.core.training.frameworks import FRAMEWORKS, TrainingFramework
from capplan.llm.core.training.job import Method, TrainingJob
from capplan.llm.core.training.memory import MemoryConstants, MemoryScope
from capplan.llm.core.training.step_time import TimeConstants


class TrainingEvidence(StrEnum):
    """How near a job is to measured runs, the nearest first.

    `MEASURED_HERE`: the user's own run. `MEASURED`: runs of this GPU, and of this framework. `TRANSFERRED`: of other
    GPUs of its chip family, and of the framework. `EXTRAPOLATED`: of either. `FAR`: of neither, or of other vendors
    only. Of peaks of memory, the framework counts, then others that share its kernels, and the vendor.
    """

    MEASURED_HERE = "measured here"
    MEASURED = "measured"
    TRANSFERRED = "transferred"
    EXTRAPOLATED = "extrapolated"
    FAR = "far"


@dataclass(frozen=True, slots=True, kw_only=True)
class Widths:
    """Half widths of 90 % intervals as factors above 1, by evidence.

    Those of speeds are of dense models, of models with experts, and of adapters on one GPU; `memory` is of peaks, of
    which `memory_bytes` are as uncertain however small a model is: buffers, workspaces and blocks that the allocator
    keeps. They are the 90th percentiles of errors on runs that were as far from all others, because their source, GPU,
    generation of chips, framework or year was left out.
    """

    dense: Mapping[TrainingEvidence, float]
    adapters: Mapping[TrainingEvidence, float]
    experts: Mapping[TrainingEvidence, float]
    memory: Mapping[TrainingEvidence, float]
    memory_bytes: float = 0.0

    def around_peak(self, peak_bytes: float, evidence: TrainingEvidence) -> Interval:
        """Return the interval of a peak of memory: a share of it and a constant, independent of each other. [bytes]"""
        return Interval.around(peak_bytes, self.peak_factor(peak_bytes, evidence))

    def peak_factor(self, peak_bytes: float, evidence: TrainingEvidence) -> float:
        return 1.0 + math.hypot(self.memory[evidence] - 1.0, self.memory_bytes / peak_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCalibration:
    """Everything that is fitted of training.

    `measured_gpus`, `measured_chips`, `measured_vendors` and `measured_frameworks` name what speeds were measured of,
    `memory_frameworks` and `memory_vendors` what peaks were. `peak_ratios` are measured over predicted peaks of runs
    that were held out: the quantiles from 0 to 1 in equal steps, by evidence. `campaign` is what published campaigns
    took over the time of their steps alone.
    """

    name: str
    origin: Origin | None = None
    memory: MemoryConstants
    time: TimeConstants
    widths: Widths
    campaign: Interval
    measured_gpus: frozenset[str]
    measured_chips: frozenset[str]
    measured_vendors: frozenset[str]
    measured_frameworks: frozenset[str]
    memory_frameworks: frozenset[str]
    memory_vendors: frozenset[str]
    peak_ratios: Mapping[TrainingEvidence, tuple[float, ...]] = field(default_factory=dict)

    def fit_probability(self, peak_bytes: float, *, usable_bytes: float, evidence: TrainingEvidence) -> float:
        """Return the probability that a job whose peak was predicted runs within a GPU's memory.

        It is the share of held-out runs whose measured peak would be within it at the same error, and never 0 or 1;
        without their quantiles, that of a normal error of the interval's width. Their errors are as much wider as the
        interval of this peak is.
        """
        ratios, factor = self.peak_ratios.get(evidence), self.widths.peak_factor(peak_bytes, evidence)
        if not ratios:
            return within_probability(usable_bytes / peak_bytes, factor)
        room = (usable_bytes / peak_bytes) ** (math.log(self.widths.memory[evidence]) / math.log(factor))
        known = float(np.interp(room, ratios, np.linspace(0.0, 1.0, len(ratios))))
        return min(max(known, _LEAST_PROBABILITY), 1.0 - _LEAST_PROBABILITY)

    def evidence(self, *, gpu: GpuSpec, framework: str) -> TrainingEvidence:
        knows_gpu = gpu.id in self.measured_gpus
        knows_chip = knows_gpu or gpu.design.family in self.measured_chips
        knows_framework = framework in self.measured_frameworks
        if gpu.vendor not in self.measured_vendors or not (knows_chip or knows_framework):
            return TrainingEvidence.FAR
        if not (knows_chip and knows_framework):
            return TrainingEvidence.EXTRAPOLATED
        return TrainingEvidence.MEASURED if knows_gpu else TrainingEvidence.TRANSFERRED

    def width(self, job: TrainingJob, evidence: TrainingEvidence) -> float:
        if job.architecture.is_moe:
            return self.widths.experts[evidence]
        alone = job.is_adapted and job.layout.gpus == 1
        return self.widths.adapters[evidence] if alone else self.widths.dense[evidence]

    def memory_evidence(self, *, gpu: GpuSpec, framework: TrainingFramework) -> TrainingEvidence:
        if gpu.vendor not in self.memory_vendors:
            return TrainingEvidence.FAR
        if framework.name in self.memory_frameworks:
            return TrainingEvidence.MEASURED
        families = {known.family for known in FRAMEWORKS if known.name in self.memory_frameworks}
        return TrainingEvidence.TRANSFERRED if framework.family in families else TrainingEvidence.EXTRAPOLATED


_LEAST_PROBABILITY = 0.01
"""The least probability that is stated of either outcome: hundreds of runs, not thousands, were held out."""


def within_probability(room: float, width: float) -> float:
    """Return the probability that a value stays below `room` times its expectation."""
    deviation = math.log(width) / NORMAL_90
    known = NormalDist().cdf(math.log(room) / deviation)
    return min(max(known, _LEAST_PROBABILITY), 1.0 - _LEAST_PROBABILITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTraining:
    """One measured run.

    `recompute_is_stated` is False where the source does not say what is computed again: the least that fits is then
    assumed. `month` is YYYY-MM, or a year alone, empty where it is not known. `tokens_per_s` is per GPU. `peak_bytes`
    is the peak of a kind, None where none was read. `ran_out` says that the run ended out of memory.
    `network_bytes_per_s` is one GPU's share of its node's network, one direction.
    """

    job: TrainingJob
    gpu: str
    model: str
    source: str
    framework: str
    quality: str
    line: int
    row: str
    recompute_is_stated: bool
    month: str
    tokens_per_s: float | None
    peak_bytes: float | None
    peak_kind: MemoryScope
    ran_out: bool
    network_bytes_per_s: float | None


CELL_COLUMNS = ("source", "framework", "gpu", "model", "method", "compute", "quality", "evidence", "kind")
"""What cells may be made by."""


class TrainingMetric(StrEnum):
    """What is judged of a training run."""

    TOKENS_PER_S = "tokens_per_s_per_gpu"
    PEAK_BYTES = "peak_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTraining(JudgedValue):
    """One measured value of a training run with its prediction."""

    run: MeasuredTraining
    metric: TrainingMetric
    evidence: TrainingEvidence

    def cell_value(self, name: str) -> str:
        match name:
            case "method":
                return self.run.job.method.value
            case "compute":
                return self.run.job.compute.value
            case "evidence":
                return str(self.evidence)
            case "kind":
                return kind_of(self.run)
            case _:
                return str(getattr(self.run, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedFit:
    """A run that is known to have fitted or to have run out of memory, and whether it was predicted to fit."""

    run: MeasuredTraining
    predicted_fits: bool
    fit_probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRanking:
    """One job that was measured in several layouts, and the layout that a prediction chooses.

    `regret` is how much longer the chosen layout's step takes than the fastest measured one's, as a fraction of it, and
    `chance` the mean of that over all layouts, as of one drawn by chance.
    """

    source: str
    model: str
    gpu: str
    gpus: int
    layouts: int
    regret: float
    chance: float


def rank_layouts(runs: Sequence[MeasuredTraining], predicted: Sequence[float]) -> list[JobRanking]:
    """Judge the choice among layouts of every job that was measured in at least two.

    A job is a model of one source on as many GPUs of a kind, with the same batch, sequences, formats and method. A
    layout is how GPUs share it, its micro-batch and what it computes again; the median of its runs counts.
    """
    jobs: dict[object, dict[object, list[int]]] = {}
    for index, run in enumerate(runs):
        job = run.job
        asked = (
            run.source, job.architecture, run.gpu, job.layout.gpus, job.sequence_tokens, job.compute, job.method,
            job.global_batch, job.framework.name, job.attention,
        )  # fmt: skip
        layout = (job.layout, job.micro_batch, job.recompute if run.recompute_is_stated else None)
        jobs.setdefault(asked, {}).setdefault(layout, []).append(index)
    found = []
    for layouts in jobs.values():
        if len(layouts) < 2:
            continue
        measured = np.array(
            [np.median([runs[index].tokens_per_s for index in indices]) for indices in layouts.values()]
        )
        expected = [np.median([predicted[index] for index in indices]) for indices in layouts.values()]
        losses = measured.max() / measured - 1
        first = runs[next(iter(layouts.values()))[0]]
        found.append(
            JobRanking(
                source=first.source,
                model=first.model,
                gpu=first.gpu,
                gpus=first.job.layout.gpus,
                layouts=len(layouts),
                regret=float(losses[int(np.argmax(expected))]),
                chance=float(losses.mean()),
            )
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingValidation:
    """All judged answers, verdicts on memory, and the rows that could not be predicted."""

    answers: tuple[JudgedTraining, ...]
    fits: tuple[JudgedFit, ...]
    skipped: tuple[SkippedRun, ...]

    def cells(self, by: Sequence[str]) -> tuple[JudgedCell, ...]:
        return judged_cells(self.answers, by)

    @property
    def ran_out(self) -> tuple[int, int]:
        """Return how many runs that ran out of memory were predicted not to fit, and how many there are."""
        runs = [item for item in self.fits if item.run.ran_out]
        return sum(not item.predicted_fits for item in runs), len(runs)

    @property
    def rankings(self) -> tuple[JobRanking, ...]:
        """Return the jobs that were measured in several layouts, with the choice that predictions make."""
        answers = [item for item in self.answers if item.metric is TrainingMetric.TOKENS_PER_S]
        return tuple(rank_layouts([item.run for item in answers], [item.predicted.expected for item in answers]))

    @property
    def fitted(self) -> tuple[int, int]:
        """Return how many runs that fitted were predicted to fit, and how many there are."""
        runs = [item for item in self.fits if not item.run.ran_out]
        return sum(item.predicted_fits for item in runs), len(runs)


def kind_of(run: MeasuredTraining) -> str:
    """Return the kind of a run that its accuracy depends on: dense or experts, and fine-tuning on one GPU."""
    kind = "experts" if run.job.architecture.is_moe else "dense"
    single = run.job.layout.gpus == 1 and (run.job.method is not Method.FULL)
    return f"{kind}, adapters on one GPU" if single else kind
