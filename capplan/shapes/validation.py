"""The shape of a validation: errors and shares as fractions, times in seconds."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta

from capplan.core.calibrate.measured import SkippedRow
from capplan.core.calibrate.validation import Cell, ErrorStatistics, JudgedStep, LearntPower, Validation
from capplan.shapes.shape import AnswerFigure, Shape, figure, reads

_WORST = 20
_SECONDS = Meta(gt=0)
_Share = Annotated[float, Meta(ge=0, le=1)]
_EnergyErrors = tuple[str, str, Cell]
"""Metric, GPU, and their errors."""
CELL_NAMES: Final = ("gpu", "framework", "torch", "precision", "layout", "task", "model", "batch")
"""What a cell may be named by."""


def _named(name: str) -> AnswerFigure:
    return figure(name, reads(str | None, lambda cell: cell.keys.get(name)), default=UNSET)


def _share(name: str) -> AnswerFigure:
    return figure(name, reads(_Share | None, lambda cell: getattr(cell.statistics, name)))


def _of_all(statistics: ErrorStatistics | None) -> Cell | None:
    """Return errors as those of the cell without a name."""
    return None if statistics is None else Cell(keys={}, statistics=statistics)


def _energy(validation: Validation) -> tuple[_EnergyErrors, ...]:
    return tuple(
        (metric, gpu, Cell(keys={}, statistics=errors))
        for metric, gpus in validation.energy().items()
        for gpu, errors in gpus.items()
    )


# fmt: off
ERRORS: Final = Shape("ErrorDocument", Cell, "Errors of a set of rows as fractions; null where they are undefined. A cell has the columns that `--by` names.", (
    *map(_named, CELL_NAMES),
    figure("n", "statistics.count", Meta(ge=1)),
    figure("mdape", "statistics.median"),
    figure("mape", "statistics.mean"),
    figure("p90", "statistics.p90"),
    figure("bias", "statistics.bias", Meta(gt=0, description="the median of predicted over measured")),
    figure("within_10", "statistics.within_10", Meta(ge=0, le=1)),
    figure("within_25", "statistics.within_25", Meta(ge=0, le=1)),
    _share("coverage"),
    figure("width", "statistics.width"),
    figure("kendall_tau", "statistics.kendall_models"),
    figure("kendall_tau_gpus", "statistics.kendall_gpus"),
    _share("faster_named_right"),
))
WORST_ROW: Final = Shape("WorstRow", JudgedStep, "A row whose prediction is far off.", (
    figure("row", "step.line"),
    figure("file", "step.file"),
    figure("model", "step.model"),
    figure("gpu", "step.gpu"),
    figure("batch", "step.batch"),
    figure("measured_s", "step.latency_s", _SECONDS),
    figure("predicted_s", "estimate.latency_s.expected", _SECONDS),
))
IMPLAUSIBLE_ROW: Final = Shape("ImplausibleRow", JudgedStep, "A row that implies more than the GPU's peak.", (
    figure("row", "step.line"),
    figure("file", "step.file"),
    figure("measured_s", "step.latency_s", _SECONDS),
    figure("bound_s", "estimate.bound_s", _SECONDS),
))
SKIPPED_ROW: Final = Shape("SkippedRowDocument", SkippedRow, "A row that could not be predicted, and why.", (
    figure("row", "line"),
    figure("file"),
    figure("reason"),
))
ENERGY_ERRORS: Final = Shape("EnergyErrorDocument", _EnergyErrors, "Errors of power at the measured time, or of the energy of a sample at the estimated one; `gpu` may be \"all\".", (
    figure("metric", reads(str, lambda row: row[0])),
    figure("gpu", reads(str, lambda row: row[1])),
    figure("errors", ERRORS.at(reads(Cell, lambda row: row[2]))),
))
POWER_FACTOR: Final = Shape("PowerFactorDocument", LearntPower, "By what factor a GPU draws more than the law says; `held_out` is null where one model was measured.", (
    figure("gpu"),
    figure("factor", "card.factor", Meta(gt=0)),
    figure("log_half_width", "card.log_half_width", Meta(ge=0)),
    figure("rows", "card.rows"),
    figure("models", "card.models"),
    figure("held_out", ERRORS.at(reads(Cell | None, lambda learnt: _of_all(learnt.held_out)))),
))
VALIDATION: Final = Shape("ValidationDocument", Validation, "What `capplan validate --format json` writes. Errors and shares are fractions: 0.07 is 7 %. Times in seconds.", (
    figure("cells", ERRORS),
    figure("overall", ERRORS.at(reads(Cell | None, lambda validation: _of_all(validation.overall)))),
    figure("worst", WORST_ROW.at(reads(tuple[JudgedStep, ...], lambda validation: validation.worst(_WORST)))),
    figure("implausible", IMPLAUSIBLE_ROW.at(reads(tuple[JudgedStep, ...], lambda validation: validation.implausible()))),
    figure("skipped", SKIPPED_ROW),
    figure("energy", ENERGY_ERRORS.at(_energy), "where rows state power_w", default=()),
))
# fmt: on


def power_factors_document(cards: Sequence[LearntPower]) -> list[Any]:
    """Return what was learnt of the power of each GPU as documents."""
    return [POWER_FACTOR.document(card) for card in cards]
