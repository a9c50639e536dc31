"""Judge predictions by measurements: errors, coverage of intervals and ranks by cell, and what they teach of power."""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, log

import numpy as np

from capplan.core.calibrate.measured import MeasuredStep, SkippedRow
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.types import ABOVE_PRINTED_CLOCK, LatencyEstimate
from capplan.core.numbers import FloatArray, Interval
from capplan.core.power import CardPower, PowerLaw

_MOST_RANKED = 3000
"""The longest series of which all pairs are looked at: four and a half million."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorStatistics:
    """Errors of a set of rows, |predicted ÷ measured − 1|, as fractions; `bias` is the median ratio.

    `width` is the median half-width of the interval over the estimate. None where nothing can be said.
    """

    count: int
    median: float
    mean: float
    p90: float
    bias: float
    within_10: float
    within_25: float
    coverage: float | None = None
    width: float | None = None
    kendall_models: float | None = None
    kendall_gpus: float | None = None
    faster_named_right: float | None = None


def error_statistics(log_errors: FloatArray) -> ErrorStatistics:
    """Summarise log(predicted ÷ measured)."""
    errors = np.abs(np.expm1(log_errors))
    return ErrorStatistics(
        count=len(errors),
        median=float(np.median(errors)),
        mean=float(errors.mean()),
        p90=float(np.quantile(errors, 0.9)),
        bias=float(np.exp(np.median(log_errors))),
        within_10=float((errors <= 0.10).mean()),
        within_25=float((errors <= 0.25).mean()),
    )


def kendall_tau(predicted: Sequence[float], measured: Sequence[float]) -> float | None:
    """Compute Kendall's rank correlation (tau-b) of two series; None if either is constant or shorter than 2.

    Kendall: A new measure of rank correlation, Biometrika 1938; ties as in tau-b.
    """
    agreement = apart_predicted = apart_measured = 0
    for first_apart, other in _differences(predicted, measured):
        first, second = np.sign(first_apart), np.sign(other)
        agreement += int((first * second).sum())
        apart_predicted += int(np.count_nonzero(first))
        apart_measured += int(np.count_nonzero(second))
    ties = float(apart_predicted) * float(apart_measured)
    return agreement / float(np.sqrt(ties)) if ties else None


def faster_named_right(
    predicted: Sequence[float], measured: Sequence[float], *, apart_fraction: float = 0.10
) -> tuple[int, int]:
    """Count pairs whose measured times differ by a fraction or more: (ordered as predicted, all)."""
    right = pairs = 0
    for guess, truth in _differences(np.log(np.asarray(predicted)), np.log(np.asarray(measured))):
        apart = np.abs(truth) >= np.log1p(apart_fraction)
        right += int((np.sign(truth) == np.sign(guess))[apart].sum())
        pairs += int(apart.sum())
    return right, pairs


def _differences(
    first: "Sequence[float] | FloatArray", second: "Sequence[float] | FloatArray"
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield the differences of all pairs in two series, each pair once, a row of the triangle at a time.

    Pairs grow with the square: of series longer than `_MOST_RANKED` an evenly spaced choice stands for them.
    """
    every = max(1, -(-len(first) // _MOST_RANKED))
    one, other = np.asarray(first, dtype=np.float64)[::every], np.asarray(second, dtype=np.float64)[::every]
    for index in range(len(one) - 1):
        yield one[index] - one[index + 1 :], other[index] - other[index + 1 :]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedStep:
    """A measured step with its prediction.

    `power_w` is what one GPU is estimated to draw at the measured time, `joules_per_sample` what a sample is estimated
    to take at the estimated one; None where the row states no power. [W, J]
    """

    step: MeasuredStep
    estimate: LatencyEstimate
    power_w: Interval | None = None
    joules_per_sample: Interval | None = None

    @property
    def log_error(self) -> float:
        """log(predicted ÷ measured)."""
        return log(self.estimate.latency_s.expected / self.step.latency_s)

    @property
    def beats_bound_fraction(self) -> float:
        """Return how far the measurement lies below the bound; above 0 it implies more than the peak."""
        return 1 - self.step.latency_s / self.estimate.bound_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Rows that share what `--by` names, and their statistics."""

    keys: Mapping[str, str]
    statistics: ErrorStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """Judged rows of a file of measurements, with the statistics of their cells."""

    cells: tuple[Cell, ...]
    overall: ErrorStatistics | None
    judged: tuple[JudgedStep, ...]
    skipped: tuple[SkippedRow, ...]

    def energy(self) -> dict[str, dict[str, ErrorStatistics]]:
        """Return the errors of power and energy by metric and GPU, "all" for all; empty where no row states power."""
        found: dict[str, dict[str, ErrorStatistics]] = {}
        powers = [(row.step, row.step.power_w, row.power_w) for row in self.judged]
        energies = [
            (
                row.step,
                row.step.power_w and row.step.power_w * row.step.latency_s / row.step.batch,
                row.joules_per_sample,
            )
            for row in self.judged
        ]
        for metric, stated in (("power_w", powers), ("joules_per_sample", energies)):
            pairs = [(step.gpu, measured, estimate) for step, measured, estimate in stated if measured and estimate]
            gpus = sorted({gpu for gpu, _, _ in pairs})
            for name, members in (*((gpu, {gpu}) for gpu in gpus), *((("all", set(gpus)),) if gpus else ())):
                mine = [(measured, estimate) for gpu, measured, estimate in pairs if gpu in members]
                held = [estimate.low <= measured <= estimate.high for measured, estimate in mine]
                widths = [(estimate.high - estimate.low) / 2 / estimate.expected for _, estimate in mine]
                logs = np.array([log(estimate.expected / measured) for measured, estimate in mine])
                found.setdefault(metric, {})[name] = replace(
                    error_statistics(logs), coverage=float(np.mean(held)), width=float(np.median(widths))
                )
        return found

    def worst(self, count: int) -> tuple[JudgedStep, ...]:
        return tuple(heapq.nlargest(count, self.judged, key=lambda row: abs(row.log_error)))

    def implausible(self) -> tuple[JudgedStep, ...]:
        """Return measurements that imply more than the peak: wrong units, another graph, or another algorithm.

        A sixth below the bound and more: cards run up to 15 % above the clocks that their peaks are printed for.
        """
        return tuple(row for row in self.judged if row.beats_bound_fraction > ABOVE_PRINTED_CLOCK)


_CELL_VALUES: Mapping[str, Callable[[MeasuredStep], str]] = {
    "gpu": lambda step: step.gpu,
    "framework": lambda step: step.workload.framework.value,
    "torch": lambda step: "{}.{}".format(*step.workload.torch_version),
    "precision": lambda step: step.workload.precision.value,
    "layout": lambda step: step.workload.layout.value,
    "task": lambda step: "infer" if step.workload.training is None else "train",
    "model": lambda step: step.model,
    "batch": lambda step: str(step.batch),
}


def cell_value(step: MeasuredStep, key: str) -> str:
    """Read one of `CELL_KEYS`, "model" or "batch" off a step."""
    return _CELL_VALUES[key](step)


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
        skipped=tuple(sorted(skipped, key=lambda row: (row.file, row.line))),
    )


def summarise(rows: Sequence[JudgedStep]) -> ErrorStatistics:
    """Compute errors, coverage, width and ranks of some rows."""
    measured = np.array([row.step.latency_s for row in rows])
    intervals = [row.estimate.latency_s for row in rows]
    ends = np.array([(interval.low, interval.expected, interval.high) for interval in intervals])
    low, expected, high = ends.T
    right, pairs = _gpu_pairs(rows)
    return replace(
        error_statistics(np.log(expected / measured)),
        coverage=float(np.mean((low <= measured) & (measured <= high))),
        width=float(np.median((high - low) / 2 / expected)),
        kendall_models=_mean_tau(rows, lambda step: (step.gpu, step.workload)),
        kendall_gpus=_mean_tau(rows, _of_one_model),
        faster_named_right=right / pairs if pairs else None,
    )


def _of_one_model(step: MeasuredStep) -> tuple[object, ...]:
    work = step.workload
    return (step.model, step.input_size, work.precision, work.framework, work.layout, work.training)


def _mean_tau(rows: Iterable[JudgedStep], group: Callable[[MeasuredStep], tuple[object, ...]]) -> float | None:
    """Return the mean rank correlation of time per sample over groups, weighted by their sizes."""
    taus, sizes = [], []
    for members in _grouped(rows, group):
        tau = kendall_tau(_per_sample_predicted(members), _per_sample_measured(members))
        if tau is not None and len(members) > 2:
            taus.append(tau)
            sizes.append(len(members))
    return float(np.average(taus, weights=sizes)) if taus else None


def _gpu_pairs(rows: Iterable[JudgedStep]) -> tuple[int, int]:
    """Count pairs of GPUs under one model, 10 % or more apart per sample: (ordered as predicted, all)."""
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


FEWEST_ROWS = 3
"""Rows of a GPU below which nothing is learnt of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntPower:
    """A GPU's factor, and the errors of rows whose model was left out; None where only one model was measured."""

    gpu: str
    card: CardPower
    held_out: ErrorStatistics | None


def learn_power(rows: Sequence[JudgedStep], law: PowerLaw, gpus: Mapping[str, GpuSpec]) -> tuple[LearntPower, ...]:
    """Return the factors of GPUs that enough rows state the power of.

    The factor is the geometric mean of measured over estimated power, each model with the same weight, because batches
    of one model err together. The 90 % interval is that of rows whose model was left out (split conformal: of fewer
    than nine rows, the largest error), and never narrower than that of an architecture that was measured with many
    models. With one model, which leaves nothing to judge by, it is that of the law.
    """
    by_gpu: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.step.power_w and row.power_w:
            log_ratio = log(row.step.power_w / row.power_w.expected)
            by_gpu[gpus[row.step.gpu].id][row.step.model].append(log_ratio)
    specs = {gpu.id: gpu for gpu in gpus.values()}
    counted = {name: models for name, models in by_gpu.items() if sum(map(len, models.values())) >= FEWEST_ROWS}
    return tuple(_learnt(specs[name], list(models.values()), law) for name, models in sorted(counted.items()))


def _learnt(gpu: GpuSpec, models: Sequence[Sequence[float]], law: PowerLaw) -> LearntPower:
    means = np.array([np.mean(model) for model in models])
    half_width, held_out = law.of(gpu).log_half_width, None
    if len(models) > 1:
        others = (means.sum() - means) / (len(means) - 1)
        errors = np.concatenate([mean - np.array(model) for mean, model in zip(others, models, strict=True)])
        held_out = error_statistics(errors)
        place = min(len(errors), ceil(0.9 * (len(errors) + 1))) - 1  # nine of ten further rows stay within that error
        measured = [constants.log_half_width for constants in law.architectures.values()]
        half_width = max(float(np.sort(np.abs(errors))[place]), *measured)
    return LearntPower(
        gpu=gpu.id,
        card=CardPower(
            factor=exp(float(means.mean())),
            log_half_width=half_width,
            rows=sum(map(len, models)),
            models=len(models),
        ),
        held_out=held_out,
    )
