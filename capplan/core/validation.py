"""Judge predictions by measurements: errors per cell, interval coverage, ranks, the worst rows."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from capplan.core.accuracy import ErrorStatistics, error_statistics, faster_named_right, kendall_tau
from capplan.core.estimates import LatencyEstimate
from capplan.core.measured import MeasuredStep, SkippedRow

CELL_KEYS = ("gpu", "framework", "torch", "precision", "layout", "task")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedStep:
    """A measured step beside what was predicted."""

    step: MeasuredStep
    estimate: LatencyEstimate

    @property
    def log_error(self) -> float:
        """log(predicted ÷ measured)."""
        return float(np.log(self.estimate.latency_s.expected / self.step.latency_s))

    @property
    def is_covered(self) -> bool:
        """Does the interval hold the measurement?"""
        interval = self.estimate.latency_s
        return interval.low <= self.step.latency_s <= interval.high

    @property
    def beats_bound_fraction(self) -> float:
        """How far the measurement lies below the bound; above 0 it implies more than the peak."""
        return 1 - self.step.latency_s / self.estimate.bound_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Rows that share what `--by` names, and their statistics."""

    keys: Mapping[str, str]
    statistics: ErrorStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """What a file of measurements says of the predictions."""

    cells: tuple[Cell, ...]
    overall: ErrorStatistics | None
    judged: tuple[JudgedStep, ...]
    skipped: tuple[SkippedRow, ...]

    def worst(self, count: int) -> tuple[JudgedStep, ...]:
        """The rows with the largest errors."""
        return tuple(sorted(self.judged, key=lambda row: -abs(row.log_error))[:count])

    def implausible(self) -> tuple[JudgedStep, ...]:
        """Measurements more than half below the bound: units mixed up, or another graph."""
        return tuple(row for row in self.judged if row.beats_bound_fraction > 0.5)


def cell_value(step: MeasuredStep, key: str) -> str:
    """Read one of `CELL_KEYS` or "model" off a step."""
    workload = step.workload
    return {
        "gpu": step.gpu,
        "framework": workload.framework.value,
        "torch": f"{workload.torch_version[0]}.{workload.torch_version[1]}",
        "precision": workload.precision.value,
        "layout": workload.layout.value,
        "task": "infer" if workload.training is None else "train",
        "model": step.model,
        "batch": str(step.batch),
    }[key]


def validate(judged: Sequence[JudgedStep], skipped: Sequence[SkippedRow], *, by: Sequence[str]) -> Validation:
    """Gather judged rows into cells and summarise them."""
    groups: dict[tuple[str, ...], list[JudgedStep]] = defaultdict(list)
    for row in judged:
        groups[tuple(cell_value(row.step, key) for key in by)].append(row)
    cells = [
        Cell(keys=dict(zip(by, values, strict=True)), statistics=summarise(rows)) for values, rows in groups.items()
    ]
    return Validation(
        cells=tuple(sorted(cells, key=lambda cell: tuple(cell.keys.values()))),
        overall=summarise(judged) if judged else None,
        judged=tuple(judged),
        skipped=tuple(sorted(skipped, key=lambda row: row.line)),
    )


def summarise(rows: Sequence[JudgedStep]) -> ErrorStatistics:
    """Errors, coverage, width and ranks of some rows."""
    widths = [
        (row.estimate.latency_s.high - row.estimate.latency_s.low) / 2 / row.estimate.latency_s.expected for row in rows
    ]
    right, pairs = _gpu_pairs(rows)
    return replace(
        error_statistics(np.array([row.log_error for row in rows])),
        coverage=float(np.mean([row.is_covered for row in rows])),
        width=float(np.median(widths)),
        kendall_models=_mean_tau(rows, _on_one_gpu),
        kendall_gpus=_mean_tau(rows, _of_one_model),
        faster_named_right=right / pairs if pairs else None,
    )


def _on_one_gpu(step: MeasuredStep) -> tuple[object, ...]:
    return (step.gpu, step.workload)


def _of_one_model(step: MeasuredStep) -> tuple[object, ...]:
    work = step.workload
    return (step.model, step.input_size, work.precision, work.framework, work.layout, work.training)


def _mean_tau(rows: Iterable[JudgedStep], group: Callable[[MeasuredStep], tuple[object, ...]]) -> float | None:
    """Mean rank correlation of time per sample over groups, by their sizes."""
    taus, sizes = [], []
    for members in _grouped(rows, group):
        tau = kendall_tau(_per_sample_predicted(members), _per_sample_measured(members))
        if tau is not None and len(members) > 2:
            taus.append(tau)
            sizes.append(len(members))
    return float(np.average(taus, weights=sizes)) if taus else None


def _gpu_pairs(rows: Iterable[JudgedStep]) -> tuple[int, int]:
    """Pairs of GPUs under one model, 10 % or more apart per sample, whose order was predicted; and all such pairs."""
    right = pairs = 0
    for members in _grouped(rows, _of_one_model):
        found = faster_named_right(_per_sample_predicted(members), _per_sample_measured(members))
        right, pairs = right + found[0], pairs + found[1]
    return right, pairs


def _grouped(
    rows: Iterable[JudgedStep], group: Callable[[MeasuredStep], tuple[object, ...]]
) -> Iterable[list[JudgedStep]]:
    groups: dict[tuple[object, ...], list[JudgedStep]] = defaultdict(list)
    for row in rows:
        groups[group(row.step)].append(row)
    return groups.values()


def _per_sample_predicted(rows: Sequence[JudgedStep]) -> list[float]:
    return [row.estimate.latency_s.expected / row.step.batch for row in rows]


def _per_sample_measured(rows: Sequence[JudgedStep]) -> list[float]:
    return [row.step.latency_s / row.step.batch for row in rows]
