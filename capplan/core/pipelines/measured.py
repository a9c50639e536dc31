"""Measured pipelines beside their estimates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import log

import numpy as np

from capplan.core.calibrate.validation import ErrorStatistics, error_statistics
from capplan.core.gpus.spec import GpuSpec
from capplan.core.numbers import Interval
from capplan.core.origin import Origin
from capplan.core.pipelines.sharing import Degrees


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPipeline:
    """A pipeline that somebody timed.

    Attributes:
        line: the row of its file, from 1.
        pipeline: the words that name it, such as diffusers:Wan-AI/Wan2.1-T2V-14B-Diffusers.
        gpu: the GPU's id.
        degrees: the GPUs that share an item's sequence.
        batch: items made at once.
        settings: the item's parameters.
        latency_s: the time of a batch, end to end. [s]
        weights: the number format of the weights, as the row has it.
        power_w: mean power of all GPUs, without the host; None where it was not read. [W]
        joule_per_item: energy of an item; None where it was not read. [J]
    """

    line: int
    pipeline: str
    gpu: str
    degrees: Degrees
    batch: int
    settings: Mapping[str, int]
    latency_s: float
    weights: str
    power_w: float | None = None
    joule_per_item: float | None = None


class PipelineMetric(StrEnum):
    """What a row is judged by: `POWER` is given the measured time, the others are estimated from the pipeline alone."""

    LATENCY = "latency_s"
    POWER = "power_w"
    POWER_END_TO_END = "power_w_end_to_end"
    JOULES = "joules_per_item"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A measured value and its estimate."""

    measured: float
    estimated: Interval

    @property
    def log_error(self) -> float:
        """The logarithm of estimated over measured."""
        return log(self.estimated.expected / self.measured)

    @property
    def is_covered(self) -> bool:
        """Return True if the measured value lies in the interval."""
        return self.estimated.low <= self.measured <= self.estimated.high


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPipeline:
    """A measured pipeline and its estimate. [s] `energy` is that of power and energy, where they were read. [W, J]"""

    measured: MeasuredPipeline
    latency_s: Interval
    energy: Mapping[PipelineMetric, Judged] = field(default_factory=dict)

    @property
    def log_error(self) -> float:
        """The logarithm of estimated over measured time."""
        return log(self.latency_s.expected / self.measured.latency_s)

    def value(self, metric: PipelineMetric) -> Judged | None:
        """Return what is judged by a metric; None where it was not measured."""
        if metric is PipelineMetric.LATENCY:
            return Judged(measured=self.measured.latency_s, estimated=self.latency_s)
        return self.energy.get(metric)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineCell:
    """Rows that belong together, with their errors by one metric and the share of them that intervals hold."""

    name: tuple[str, ...]
    errors: ErrorStatistics
    coverage: float
    metric: PipelineMetric = PipelineMetric.LATENCY


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineValidation:
    """How far estimates of pipelines lie from measurements.

    Attributes:
        skipped: why others were not, with how many.
        cautions: sentences on what makes rows doubtful.
    """

    rows: tuple[JudgedPipeline, ...]
    skipped: Mapping[str, int]
    cautions: tuple[str, ...] = ()

    @property
    def judged(self) -> tuple[JudgedPipeline, ...]:
        """Return the rows that were judged, as a validation of models calls them."""
        return self.rows

    def cells(self) -> tuple[PipelineCell, ...]:
        """Return the errors of all rows, on one GPU and on several, then by pipeline, GPU and whether several share.

        Each group has a cell for every metric that was measured in it.
        """
        by_name = sorted(self.rows, key=lambda row: (row.measured.pipeline, row.measured.gpu))
        named = [(("all", ""), row) for row in self.rows]
        named += [((row.measured.pipeline, row.measured.gpu), row) for row in by_name]
        groups: dict[tuple[str, ...], list[JudgedPipeline]] = {}
        for name, row in named:
            shared = "one GPU" if row.measured.degrees.gpu_count == 1 else "several GPUs"
            groups.setdefault((*name, shared), []).append(row)
        return tuple(
            cell_of(name, rows, metric)
            for name, rows in groups.items()
            for metric in PipelineMetric
            if any(row.value(metric) for row in rows)
        )


def cell_of(
    name: tuple[str, ...], rows: Sequence[JudgedPipeline], metric: PipelineMetric = PipelineMetric.LATENCY
) -> PipelineCell:
    """Return the errors of rows that belong together, of those in which the metric was measured."""
    values = [value for row in rows if (value := row.value(metric)) is not None]
    errors = error_statistics(np.array([value.log_error for value in values]))
    covered = sum(value.is_covered for value in values) / len(values)
    return PipelineCell(name=name, errors=errors, coverage=covered, metric=metric)


ATTENTION, PRODUCTS, CONVOLUTIONS, OTHERS = "attention", "products", "convolutions", "others"
GROUPS = (ATTENTION, PRODUCTS, CONVOLUTIONS, OTHERS)
"""Groups of kernels whose times a calibration of pipelines corrects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceLaws:
    """What several GPUs that share a sequence spend beside their part of the work.

    Attributes:
        ulysses_share: the share of a link that all-to-all exchanges of queries, keys, values and results reach.
        ring_share: the same of the exchange of keys and values around a ring, where it is not hidden.
        ulysses_host_s: what a host spends on an attention layer's all-to-alls. [s]
        ring_host_s: what it spends on a step of the ring. [s]
        layer_host_s: what the engine's own layers add to a host's time of each attention layer. [s]
    """

    ulysses_share: float = 0.5
    ring_share: float = 0.5
    ulysses_host_s: float = 1e-4
    ring_host_s: float = 1e-4
    layer_host_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineWidth:
    """How far a measured pipeline may lie from its estimate, in logs: 90 % half-widths of what was held out.

    Attributes:
        models: of whole models, on a GPU with measured pipelines.
        gpus: of whole GPUs, added in square on one without.
        shared: of models whose sequence several GPUs share.
        unlike: of whole models on a GPU of another kind of chip than those with measured pipelines: at least so much.
            `benchmarks/stable_diffusion.py` measures it.
        memory: of what a process holds beside weights, added at both ends of its interval; of the same benchmark.
    """

    models: float = 0.35
    gpus: float = 0.35
    shared: float = 0.5
    unlike: float = 0.0
    memory: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFactors:
    """Factors on the time of groups of kernels on a GPU, and its compute capability, which names its kind of chip."""

    capability: tuple[int, int]
    by_group: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineCalibration:
    """What remains of measured pipelines once their kernels are estimated one by one.

    Attributes:
        name: what intervals are attributed to.
        gpus: factors on the time of groups of kernels on GPUs with measured pipelines, by id.
        host: a factor on the host's time.
        sequence: what sharing a sequence costs.
        width: how far estimates may lie off.
        origin: what it was made from; None where nothing was fitted.
    """

    name: str = "none"
    origin: Origin | None = None
    host: float = 1.0
    gpus: Mapping[str, GroupFactors] = field(default_factory=dict)
    sequence: SequenceLaws = field(default_factory=SequenceLaws)
    width: PipelineWidth = field(default_factory=PipelineWidth)

    def factors_on(self, gpu: GpuSpec) -> Mapping[str, float]:
        """Return the factors on the groups of kernels on a GPU: its own, else those of its chips, else none.

        They do not carry over to other architectures: those of H100 make a B200's pipelines no better, and the factors
        of both make those of Ampere worse.
        """
        if gpu.id in self.gpus:
            return self.gpus[gpu.id].by_group
        return next(
            (factors.by_group for factors in self.gpus.values() if factors.capability == gpu.compute_capability), {}
        )

    def half_width(self, gpu: GpuSpec, *, is_shared: bool) -> float:
        """Return how far a pipeline may lie from its estimate on a GPU, in logs."""
        own = self.width.shared if is_shared else self.width.models
        if gpu.id in self.gpus:
            return own
        elsewhere = float(np.hypot(own, self.width.gpus))
        return elsewhere if self.factors_on(gpu) else max(elsewhere, self.width.unlike)


UNCALIBRATED = PipelineCalibration()
