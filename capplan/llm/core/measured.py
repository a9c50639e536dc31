"""What measured runs of serving and training share: how wrong predictions of them are, and rows that are left out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capplan.core.numbers import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedRun:
    """A row that cannot be read or predicted, with the reason."""

    file: str
    line: int
    model: str
    gpu: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedValue:
    measured: float
    predicted: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorSummary:
    """Errors over some values.

    `mdape` and `p90` are the median and the 90th percentile of the absolute relative error, `bias` the median of
    predicted ÷ measured, `coverage` the share inside the interval, and `width` the median of high ÷ low.
    """

    n: int
    mdape: float
    p90: float
    bias: float
    coverage: float
    width: float


def summarise_errors(values: Sequence[JudgedValue]) -> ErrorSummary:
    ratio = np.array([value.predicted.expected / value.measured for value in values])
    errors = np.abs(ratio - 1.0)
    inside = [value.predicted.low <= value.measured <= value.predicted.high for value in values]
    return ErrorSummary(
        n=len(values),
        mdape=float(np.median(errors)),
        p90=float(np.quantile(errors, 0.9)),
        bias=float(np.median(ratio)),
        coverage=float(np.mean(inside)),
        width=float(np.median([value.predicted.high / value.predicted.low for value in values])),
    )
