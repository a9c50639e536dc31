"""How far predictions lie from measurements: errors, bias, coverage, ranks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from capplan.core.numbers import FloatArray

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
    for one, other in _differences(predicted, measured):
        first, second = np.sign(one), np.sign(other)
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
