"""What measured runs of serving and training share: how wrong predictions of them are, and rows that are left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from capplan.core.numbers import FloatArray, Interval


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
    metric: StrEnum

    @property
    def deployment(self) -> str:
        """Return the name of what shares most of its errors with others."""
        return ""

    def cell_value(self, name: str) -> str:
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Errors over some answers.

    `mdape` and `p90` are the median and the 90th percentile of the absolute relative error, `bias` the median of
    predicted ÷ measured, `coverage` the share inside the interval, and `width` the median of high ÷ low. `spearman` is
    the rank correlation (None below three), and `within_factor_two` the share between half and twice the measured.
    """

    n: int
    mdape: float
    p90: float
    bias: float
    coverage: float
    width: float
    spearman: float | None
    within_factor_two: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCell:
    """The accuracy of one metric in one cell; `key` maps columns to their values."""

    key: Mapping[str, str]
    metric: StrEnum
    accuracy: Accuracy
    deployments: int


def summarise_errors(values: Sequence[JudgedValue]) -> Accuracy:
    measured = np.array([value.measured for value in values])
    predicted = np.array([value.predicted.expected for value in values])
    ratio = predicted / measured
    errors = np.abs(ratio - 1.0)
    inside = [value.predicted.low <= value.measured <= value.predicted.high for value in values]
    return Accuracy(
        n=len(values),
        mdape=float(np.median(errors)),
        p90=float(np.quantile(errors, 0.9)),
        bias=float(np.median(ratio)),
        coverage=float(np.mean(inside)),
        width=float(np.median([value.predicted.high / value.predicted.low for value in values])),
        spearman=rank_correlation(predicted, measured),
        within_factor_two=float(np.mean((ratio >= 0.5) & (ratio <= 2.0))),
    )


def judged_cells(answers: Sequence[JudgedValue], by: Sequence[str]) -> tuple[JudgedCell, ...]:
    groups: dict[tuple[tuple[str, ...], StrEnum], list[JudgedValue]] = {}
    for item in answers:
        groups.setdefault((tuple(item.cell_value(name) for name in by), item.metric), []).append(item)
    return tuple(
        JudgedCell(
            key=dict(zip(by, values, strict=True)),
            metric=metric,
            accuracy=summarise_errors(items),
            deployments=len({item.deployment for item in items}),
        )
        for (values, metric), items in sorted(groups.items(), key=lambda group: group[0])
    )


def rank_correlation(predicted: FloatArray, measured: FloatArray) -> float | None:
    if measured.size < 3 or np.ptp(measured) == 0 or np.ptp(predicted) == 0:
        return None
    return float(np.corrcoef(_ranks(predicted), _ranks(measured))[0, 1])


def _ranks(values: FloatArray) -> FloatArray:
    """Return ranks from 0, equal values sharing their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts + 1) / 2)[inverse])
