"""A validation as a typed document: errors and shares as fractions, times in seconds."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from capplan.core.calibrate.measured import SkippedRow
from capplan.core.calibrate.validation import ErrorStatistics, JudgedStep, LearntPower, Validation

_WORST = 20

Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(gt=0)]


class ErrorDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Errors of a set of rows as fractions; null where they are undefined. A cell has the columns that `--by` names."""

    gpu: str | UnsetType = UNSET
    framework: str | UnsetType = UNSET
    torch: str | UnsetType = UNSET
    precision: str | UnsetType = UNSET
    layout: str | UnsetType = UNSET
    task: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    batch: str | UnsetType = UNSET
    n: Annotated[int, Meta(ge=1)]
    mdape: float
    mape: float
    p90: float
    bias: Annotated[float, Meta(gt=0, description="the median of predicted over measured")]
    within_10: Share
    within_25: Share
    coverage: Share | None
    width: float | None
    kendall_tau: float | None
    kendall_tau_gpus: float | None
    faster_named_right: Share | None


class WorstRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row whose prediction is far off."""

    row: int
    file: str
    model: str
    gpu: str
    batch: int
    measured_s: Seconds
    predicted_s: Seconds


class ImplausibleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row that implies more than the GPU's peak."""

    row: int
    file: str
    measured_s: Seconds
    bound_s: Seconds


class SkippedRowDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A row that could not be predicted, and why."""

    row: int
    file: str
    reason: str


class EnergyErrorDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Errors of power at the measured time, or of the energy of a sample at the estimated one; `gpu` may be "all"."""

    metric: str
    gpu: str
    errors: ErrorDocument


class PowerFactorDocument(msgspec.Struct, frozen=True, kw_only=True):
    """By what factor a GPU draws more than the law says; `held_out` is null where one model was measured."""

    gpu: str
    factor: Annotated[float, Meta(gt=0)]
    log_half_width: Annotated[float, Meta(ge=0)]
    rows: int
    models: int
    held_out: ErrorDocument | None


def power_factors_document(cards: Sequence[LearntPower]) -> list[PowerFactorDocument]:
    """Return what was learnt of the power of each GPU."""
    return [_power_factor(card) for card in cards]


def _power_factor(found: LearntPower) -> PowerFactorDocument:
    """Return what was learnt of one GPU's power."""
    return PowerFactorDocument(
        gpu=found.gpu,
        factor=found.card.factor,
        log_half_width=found.card.log_half_width,
        rows=found.card.rows,
        models=found.card.models,
        held_out=ErrorDocument(**error_columns(found.held_out)) if found.held_out else None,
    )


class ValidationDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `capplan validate --format json` writes. Errors and shares are fractions: 0.07 is 7 %. Times in seconds."""

    cells: tuple[ErrorDocument, ...]
    overall: ErrorDocument | None
    worst: tuple[WorstRow, ...]
    implausible: tuple[ImplausibleRow, ...]
    skipped: tuple[SkippedRowDocument, ...]
    energy: Annotated[tuple[EnergyErrorDocument, ...], Meta(description="where rows state power_w")] = ()


def validation_document(found: Validation) -> ValidationDocument:
    """Return a validation as a document.

    Args:
        found: The judged rows, their cells, and the rows that were skipped.
    """
    return ValidationDocument(
        cells=tuple(ErrorDocument(**_columns(cell.keys), **error_columns(cell.statistics)) for cell in found.cells),
        overall=ErrorDocument(**error_columns(found.overall)) if found.overall else None,
        worst=tuple(map(_worst, found.worst(_WORST))),
        implausible=tuple(map(_implausible, found.implausible())),
        skipped=tuple(map(_skipped, found.skipped)),
        energy=tuple(
            EnergyErrorDocument(metric=metric, gpu=gpu, errors=ErrorDocument(**error_columns(errors)))
            for metric, gpus in found.energy().items()
            for gpu, errors in gpus.items()
        ),
    )


def error_columns(found: ErrorStatistics) -> dict[str, Any]:
    """Return statistics by the names that documents and CSV files use.

    Args:
        found: The statistics of a cell.
    """
    return {
        "n": found.count,
        "mdape": found.median,
        "mape": found.mean,
        "p90": found.p90,
        "bias": found.bias,
        "within_10": found.within_10,
        "within_25": found.within_25,
        "coverage": found.coverage,
        "width": found.width,
        "kendall_tau": found.kendall_models,
        "kendall_tau_gpus": found.kendall_gpus,
        "faster_named_right": found.faster_named_right,
    }


def _columns(keys: Mapping[str, str]) -> dict[str, Any]:
    return dict(keys)


def _worst(row: JudgedStep) -> WorstRow:
    return WorstRow(
        row=row.step.line,
        file=row.step.file,
        model=row.step.model,
        gpu=row.step.gpu,
        batch=row.step.batch,
        measured_s=row.step.latency_s,
        predicted_s=row.estimate.latency_s.expected,
    )


def _implausible(row: JudgedStep) -> ImplausibleRow:
    return ImplausibleRow(
        row=row.step.line, file=row.step.file, measured_s=row.step.latency_s, bound_s=row.estimate.bound_s
    )


def _skipped(row: SkippedRow) -> SkippedRowDocument:
    return SkippedRowDocument(row=row.line, file=row.file, reason=row.reason)
