"""Make a calibration from measured steps: fit all, then fit again without families and GPUs to learn its errors."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date
from functools import partial

import numpy as np
from numpy.typing import NDArray

from capplan.core.calibrate.dataset import LEVEL_KINDS, FitRows, TimedStep, lay_out
from capplan.core.calibrate.residuals import LatencyFit
from capplan.core.calibrate.validation import ErrorStatistics, error_statistics
from capplan.core.gpus.rate_laws import RateLaws
from capplan.core.latency.calibration import Calibration, IntervalWidth
from capplan.core.latency.lookup import FEW_ROWS, KERNELS, LAUNCHES, MANY_ROWS
from capplan.core.numbers import NORMAL_90, BoolArray, FloatArray, IntArray
from capplan.core.origin import Origin

StringArray = NDArray[np.str_]

OTHERS_90 = 2.02
"""Student's t at 95 %, one side, for 5 degrees of freedom: other GPUs have a few steps each, on other hosts and
software, and may lie further off than the spread of five shows (MI250 left out: 0.78 of the measured time)."""
_UNKNOWN_SPREAD = 0.3
_FEW_ROWS = 8
_REFIT_ITERATIONS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutErrors:
    """log(predicted ÷ measured) of rows whose family, GPU, or both a fit had not seen; nan where not tried.

    `gpu` knows the GPU's own microbenchmarks, `sheet` only its spec sheet.
    """

    family: FloatArray
    gpu: FloatArray
    sheet: FloatArray
    both: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedCalibration:
    """A calibration with the errors that it was judged by."""

    calibration: Calibration
    held_out: HeldOutErrors
    statistics: Mapping[str, ErrorStatistics]


FITS: Mapping[str, Callable[[FitRows], LatencyFit]] = {
    "eager": LatencyFit,
    "compile": partial(LatencyFit, gpu_sd=0.06, deviation_sd={"architecture": 0.05, "torch": 0.07, "precision": 1e-3}),
    "training": partial(LatencyFit, gpu_sd=0.02, deviation_sd={"architecture": 1e-3, "torch": 1e-3, "precision": 1e-3}),
}
"""How far GPUs and versions may deviate: of one or two GPUs, what they share belongs to the classes."""


def fit_rows(steps: Sequence[TimedStep], laws: RateLaws) -> FitRows:
    """Concatenate steps and weight them: a family's weight grows with the square root of its rows."""
    families = np.unique([step.family for step in steps], return_inverse=True)[1]
    weights = np.bincount(families)[families] ** -0.5
    weighed = np.array([step.weight for step in steps]) * weights / weights.mean()
    rows = lay_out(
        steps,
        gpu_names=sorted({step.gpu for step in steps}),
        level_names={kind: sorted({step.levels[kind] for step in steps} - {""}) for kind in LEVEL_KINDS},
        laws=laws,
    )
    return replace(rows, weight=weighed)


def fit_calibration(
    steps: Sequence[TimedStep],
    *,
    name: str,
    made: date,
    command: str,
    sources: Sequence[str],
    laws: RateLaws,
    folds: int = 5,
    serves: str = "eager",
) -> FittedCalibration:
    """Fit a calibration and learn its interval widths from steps held out.

    `serves` says what kind of steps they are: eager inference, "compile" or "training"; `laws` are those that the
    steps were described with.
    Deterministic: the same steps in the same order give the same constants.
    """
    rows = fit_rows(steps, laws)
    make = FITS[serves]
    fit = make(rows)
    best = fit.fit()
    cells = _cells(steps, host_decides=fit.host_decides(best))
    held_out = hold_out(rows, steps, make, start=best, folds=folds)
    statistics = {
        f"{how}: {cell}": error_statistics(errors[chosen])
        for how, errors in ((kind.name, getattr(held_out, kind.name)) for kind in fields(HeldOutErrors))
        for cell in np.unique(cells).tolist()
        if (chosen := (cells == cell) & np.isfinite(errors)).any()
    }
    calibration = replace(
        fit.calibration(best, name=name),
        laws=laws,
        serves=serves,
        widths=interval_widths(
            held_out,
            cells,
            rows.gpu,
            is_cuda=np.array([step.levels["architecture"][0].isdigit() for step in steps]),
            prior_sd=unseen_sd(laws),
        ),
        origin=Origin(
            made=made,
            command=command,
            sources=tuple(sources),
            rows=len(steps),
            held_out_errors={
                cell: {"median": errors.median, "p90": errors.p90, "bias": errors.bias, "rows": float(errors.count)}
                for cell, errors in statistics.items()
            },
        ),
    )
    return FittedCalibration(calibration=calibration, held_out=held_out, statistics=statistics)


def _cells(steps: Sequence[TimedStep], *, host_decides: BoolArray) -> StringArray:
    """Return each step's cell of interval widths; GPUs with few rows, whose factors are uncertain, have their own."""
    rows_by_gpu = Counter(step.gpu for step in steps if step.cell != KERNELS)
    cells = np.array([
        FEW_ROWS if step.cell != KERNELS and rows_by_gpu[step.gpu] < MANY_ROWS else step.cell for step in steps
    ])  # fmt: skip
    return np.where(host_decides, LAUNCHES, cells)


def hold_out(
    rows: FitRows, steps: Sequence[TimedStep], make: Callable[[FitRows], LatencyFit], *, start: FloatArray, folds: int
) -> HeldOutErrors:
    """Refit without each fold of families, each GPU, and each GPU with a fold of families, and predict those rows."""
    fold = family_folds([step.family for step in steps], folds)
    none = np.full(len(steps), np.nan)
    family, gpu, sheet, both = none.copy(), none.copy(), none.copy(), none.copy()
    for index in range(folds):
        predict_without(rows, make, fold == index, fold == index, family, start=start)
    is_step = np.array([step.cell.startswith("device") for step in steps])
    for index in np.unique(rows.gpu[is_step]):
        here = rows.gpu == index
        predict_without(rows, make, here, here, gpu, start=start, sheet=sheet)
        if here.sum() >= MANY_ROWS:
            predict_without(rows, make, here | (fold == 0), here & (fold == 0), both, start=start)
    return HeldOutErrors(family=family, gpu=gpu, sheet=sheet, both=both)


def unseen_sd(laws: RateLaws) -> float:
    """Return the log spread of GPUs beyond those that were held out: that of their rates, in rates.yaml.

    Steps wait for arithmetic and for memory alike, so that the spreads of matrix products and of copies on GPUs left
    out, of which many more were timed than steps of GPUs, count alike (docs/evidence/sustained.md).
    """
    return float(np.hypot(laws.sustained.half.log_sd_consumer, laws.sustained.copies.log_sd) / np.sqrt(2))


def interval_widths(
    held_out: HeldOutErrors, cells: StringArray, gpu: IntArray, *, is_cuda: BoolArray, prior_sd: float
) -> dict[str, IntervalWidth]:
    """Return the widths by cell: quantiles of held-out families' errors, and the spread of CUDA GPUs' biases."""
    is_step = np.char.startswith(cells, "device") & is_cuda
    many, few = _biases(held_out.gpu, gpu, is_step)
    many_sheets, few_sheets = _biases(held_out.sheet, gpu, is_step)
    between, sheets = bias_spread(many, prior_sd), bias_spread(many_sheets, prior_sd)
    widths = {}
    for cell in np.unique(cells).tolist():
        below, above, rows = sides(held_out.family[cells == cell])
        widths[cell] = IntervalWidth(
            below=below,
            above=above,
            between_gpus=between,
            between_sheets=max(between, sheets),
            between_others=max(between, bias_spread(few, prior_sd, quantile=OTHERS_90)),
            between_other_sheets=max(between, sheets, bias_spread(few_sheets, prior_sd, quantile=OTHERS_90)),
            rows=rows,
        )
    return widths


def sides(errors: FloatArray) -> tuple[float, float, int]:
    """Return how far measurements lie below and above predictions, each exceeded by 5 %, and the number of errors."""
    found = errors[np.isfinite(errors)]
    if not len(found):
        return _UNKNOWN_SPREAD, _UNKNOWN_SPREAD, 0
    level = min(1.0, 0.95 * (1 + 1 / len(found)))
    return max(0.0, float(np.quantile(found, level))), max(0.0, float(np.quantile(-found, level))), len(found)


def _biases(errors: FloatArray, gpu: IntArray, is_step: BoolArray) -> tuple[list[float], list[float]]:
    """Return the median errors of GPUs with many rows, and of those with few."""
    many: list[float] = []
    few: list[float] = []
    for index in np.unique(gpu):
        here = (gpu == index) & np.isfinite(errors) & is_step
        if here.sum() >= _FEW_ROWS:
            (many if here.sum() >= MANY_ROWS else few).append(float(np.median(errors[here])))
    return many, few


def bias_spread(biases: Sequence[float], prior_sd: float, *, quantile: float = NORMAL_90) -> float:
    """Return the half-width that holds 90 % of GPUs' biases, taken as normal around 0.

    Add one pseudo-GPU with the prior standard deviation, because a handful of GPUs can agree by chance. Student's t
    beside it would count the same uncertainty twice: intervals of GPUs left out then covered 95 to 98 %.
    """
    if not biases:
        return _UNKNOWN_SPREAD
    return quantile * float(np.sqrt(np.mean(np.square([*biases, prior_sd]))))


def predict_without(
    rows: FitRows,
    make: Callable[[FitRows], LatencyFit],
    without: BoolArray,
    asked: BoolArray,
    into: FloatArray,
    *,
    start: FloatArray,
    sheet: FloatArray | None = None,
) -> None:
    """Fit the rows not left out, starting where the full fit ended, and predict those asked.

    The errors go `into` an array over all rows, those without the GPUs' microbenchmarks into `sheet`.
    """
    if not asked.any() or without.all():
        return
    fit = make(rows.select(np.flatnonzero(~without)))
    found = fit.fit(start=_transfer(start, make(rows), fit), iterations=_REFIT_ITERATIONS)
    wanted = rows.select(np.flatnonzero(asked))
    into[asked] = np.log(fit.predicted_s(found, wanted) / wanted.latency_s)
    if sheet is not None:
        sheet[asked] = np.log(fit.predicted_s(found, wanted.without_microbenchmarks()) / wanted.latency_s)


def _transfer(values: FloatArray, source: LatencyFit, target: LatencyFit) -> FloatArray:
    """Copy constants into another fit's columns as its starting point; deviations and GPU factors start at 0."""
    start = np.array(target.columns.mean)
    for name, columns in target.columns.classes.items():
        known = source.columns.classes[name]
        both = (known >= 0) & (columns >= 0)
        start[columns[both]] = values[known[both]]
    for name, column in target.columns.globals.items():
        start[column] = values[source.columns.globals[name]]
    return start


def family_folds(families: Sequence[str], folds: int) -> IntArray:
    """Distribute families over folds, the largest first, each to the smallest fold."""
    names, sizes = np.unique(families, return_counts=True)
    held = np.zeros(folds)
    fold_of: dict[str, int] = {}
    for index in np.argsort(-sizes, kind="stable"):
        fold = int(held.argmin())
        fold_of[str(names[index])] = fold
        held[fold] += sizes[index]
    return np.array([fold_of[family] for family in families])
