"""How far predictions lie from measurements: errors, bias, coverage, ranks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capplan.core.roofline import FloatArray


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
    """Kendall's rank correlation (tau-b) of two series; None where either is constant or shorter than 2.

    Kendall: A new measure of rank correlation, Biometrika 1938; ties as in tau-b.
    """
    one, other = np.sign(_differences(predicted)), np.sign(_differences(measured))
    ties = float((one != 0).sum()) * float((other != 0).sum())
    return float((one * other).sum() / np.sqrt(ties)) if ties else None


def faster_named_right(
    predicted: Sequence[float], measured: Sequence[float], *, apart_fraction: float = 0.10
) -> tuple[int, int]:
    """Count pairs whose measured times differ by a fraction or more: (ordered as predicted, all)."""
    truth = _differences(np.log(np.asarray(measured, dtype=float)))
    guess = _differences(np.log(np.asarray(predicted, dtype=float)))
    apart = np.abs(truth) >= np.log1p(apart_fraction)
    return int((np.sign(truth) == np.sign(guess))[apart].sum()), int(apart.sum())


def _differences(values: "Sequence[float] | FloatArray") -> FloatArray:
    """Differences of all pairs, each once."""
    array = np.asarray(values, dtype=np.float64)
    first, second = np.triu_indices(len(array), k=1)
    return np.asarray(array[first] - array[second])
