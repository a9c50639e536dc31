"""What is fitted of training: constants of memory and time, how wide intervals are, and what was measured."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import NormalDist

import numpy as np

from capplan.core.gpus.spec import GpuSpec
from capplan.core.numbers import NORMAL_90, Interval
from capplan.core.origin import Origin
from capplan.llm.core.training.job import TrainingJob
from capplan.llm.core.training.memory import MemoryConstants
from capplan.llm.core.training.step_time import TimeConstants


class TrainingEvidence(StrEnum):
    """How near a job is to measured runs, the nearest first.

    `MEASURED_HERE`: the user's own run. `MEASURED`: runs of this GPU and framework. `TRANSFERRED`: of other GPUs of its
    chip family, or of other frameworks on it. `EXTRAPOLATED`: of other chips only.
    """

    MEASURED_HERE = "measured here"
    MEASURED = "measured"
    TRANSFERRED = "transferred"
    EXTRAPOLATED = "extrapolated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Widths:
    """Half widths of 90 % intervals as factors above 1, by evidence.

    Those of speeds are of dense models, of models with experts, and of adapters on one GPU; `memory` is of peaks. They
    are the 90th percentiles of errors on runs of sources, GPUs or chip families that were left out.
    """

    dense: Mapping[TrainingEvidence, float]
    adapters: Mapping[TrainingEvidence, float]
    experts: Mapping[TrainingEvidence, float]
    memory: Mapping[TrainingEvidence, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCalibration:
    """Everything that is fitted of training.

    `measured_gpus`, `measured_chips` and `measured_frameworks` name what speeds were measured of, `memory_frameworks`
    what peaks were. `peak_ratios` are measured over predicted peaks of runs that were held out: the quantiles from 0 to
    1 in equal steps, by evidence.
    """

    name: str
    memory: MemoryConstants
    time: TimeConstants
    widths: Widths
    measured_gpus: frozenset[str]
    measured_chips: frozenset[str]
    measured_frameworks: frozenset[str]
    memory_frameworks: frozenset[str]
    peak_ratios: Mapping[TrainingEvidence, tuple[float, ...]] = field(default_factory=dict)
    origin: Origin | None = None

    def fit_probability(self, peak_bytes: float, *, usable_bytes: float, evidence: TrainingEvidence) -> float:
        """Return the probability that a job whose peak was predicted runs within a GPU's memory.

        It is the share of held-out runs whose measured peak would be within it at the same error, and never 0 or 1;
        without their quantiles, that of a normal error of the interval's width.

        Args:
            peak_bytes: The expected peak. [bytes]
            usable_bytes: What a process may take. [bytes]
            evidence: How near the job's peak is to measured ones.
        """
        ratios = self.peak_ratios.get(evidence)
        if not ratios:
            return within_probability(usable_bytes / peak_bytes, self.widths.memory[evidence])
        known = float(np.interp(usable_bytes / peak_bytes, ratios, np.linspace(0.0, 1.0, len(ratios))))
        return min(max(known, _LEAST_PROBABILITY), 1.0 - _LEAST_PROBABILITY)

    def evidence(self, *, gpu: GpuSpec, framework: str) -> TrainingEvidence:
        """Classify a job's speed by what was measured.

        Args:
            gpu: The GPU.
            framework: Name of the framework.
        """
        if gpu.design.family not in self.measured_chips and gpu.id not in self.measured_gpus:
            return TrainingEvidence.EXTRAPOLATED
        is_measured = gpu.id in self.measured_gpus and framework in self.measured_frameworks
        return TrainingEvidence.MEASURED if is_measured else TrainingEvidence.TRANSFERRED

    def width(self, job: TrainingJob, evidence: TrainingEvidence) -> float:
        """Return the half width of the interval of a job's speed, as a factor.

        Args:
            job: The job.
            evidence: How near it is to measured runs.
        """
        if job.architecture.is_moe:
            return self.widths.experts[evidence]
        alone = job.is_adapted and job.layout.gpus == 1
        return self.widths.adapters[evidence] if alone else self.widths.dense[evidence]

    def memory_evidence(self, framework: str) -> TrainingEvidence:
        """Classify a job's peak of memory by what was measured.

        Args:
            framework: Name of the framework.
        """
        return TrainingEvidence.MEASURED if framework in self.memory_frameworks else TrainingEvidence.EXTRAPOLATED


_LEAST_PROBABILITY = 0.01
"""The least probability that is stated of either outcome: hundreds of runs, not thousands, were held out."""


def within_probability(room: float, width: float) -> float:
    """Return the probability that a value stays below `room` times its expectation.

    Args:
        room: The limit over the expectation.
        width: The half width of the 90 % interval as a factor, of an error that is normal in its logarithm.
    """
    deviation = math.log(width) / NORMAL_90
    known = NormalDist().cdf(math.log(room) / deviation)
    return min(max(known, _LEAST_PROBABILITY), 1.0 - _LEAST_PROBABILITY)


def around(expected: float, factor: float) -> Interval:
    """Return the interval from a value divided to it multiplied by a factor.

    Args:
        expected: The value.
        factor: The half width, at least 1.
    """
    return Interval(low=expected / factor, expected=expected, high=expected * factor)
