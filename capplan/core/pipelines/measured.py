"""Measured pipelines beside their estimates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from capplan.core.calibrate.accuracy import ErrorStatistics, error_statistics
from capplan.core.numbers import Interval
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


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPipeline:
    """A measured pipeline and its estimate. [s]"""

    measured: MeasuredPipeline
    latency_s: Interval

    @property
    def log_error(self) -> float:
        """The logarithm of estimated over measured."""
        return log(self.latency_s.expected / self.measured.latency_s)

    @property
    def is_covered(self) -> bool:
        """True if the measured time lies in the interval."""
        return self.latency_s.low <= self.measured.latency_s <= self.latency_s.high


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineCell:
    """Rows that belong together, with their errors and the share of them that intervals hold."""

    name: tuple[str, ...]
    errors: ErrorStatistics
    coverage: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineValidation:
    """How far estimates of pipelines lie from measurements.

    Attributes:
        rows: the rows that were judged.
        skipped: why others were not, with how many.
    """

    rows: tuple[JudgedPipeline, ...]
    skipped: Mapping[str, int]

    def cells(self) -> tuple[PipelineCell, ...]:
        """Return the errors of all rows, on one GPU and on several, then by pipeline, GPU and whether several share."""
        groups: dict[tuple[str, ...], list[JudgedPipeline]] = {}
        for row in self.rows:
            shared = "one GPU" if row.measured.degrees.gpu_count == 1 else "several GPUs"
            groups.setdefault(("all", "", shared), []).append(row)
        for row in sorted(self.rows, key=lambda each: (each.measured.pipeline, each.measured.gpu)):
            shared = "one GPU" if row.measured.degrees.gpu_count == 1 else "several GPUs"
            groups.setdefault((row.measured.pipeline, row.measured.gpu, shared), []).append(row)
        return tuple(cell_of(name, rows) for name, rows in groups.items())


def cell_of(name: tuple[str, ...], rows: Sequence[JudgedPipeline]) -> PipelineCell:
    """Return the errors of rows that belong together."""
    errors = error_statistics(np.array([row.log_error for row in rows]))
    covered = sum(row.is_covered for row in rows) / len(rows)
    return PipelineCell(name=name, errors=errors, coverage=covered)
