"""How wrong predictions of serving runs are: error, bias, coverage, width and ranks by cell."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from capplan.core.numbers import FloatArray
from capplan.llm.core.measured import ErrorSummary, JudgedValue, SkippedRun, summarise_errors
from capplan.llm.core.serving.cases import MeasuredRun, Metric
from capplan.llm.core.serving.energy import EnergyMetric

CELL_COLUMNS = (
    "gpu", "engine", "model", "version", "weights", "kv", "tp", "pp", "ep", "dp", "serving", "quality", "evidence",
    "publisher", "year",
)  # fmt: skip
"""What cells may be made by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedAnswer(JudgedValue):
    """One measured value of a serving run with its prediction. [s, 1/s, W or J]"""

    run: MeasuredRun
    metric: Metric | EnergyMetric
    evidence: str

    @property
    def error(self) -> float:
        return self.predicted.expected / self.measured - 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy(ErrorSummary):
    """Errors over some answers.

    `spearman` is the rank correlation (None below three answers), and `within_factor_two` the share between half and
    twice the measured.
    """

    spearman: float | None
    within_factor_two: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CellAccuracy:
    """The accuracy of one metric in one cell; `key` maps columns to their values.

    The runs of one of its `deployments` share most of their errors.
    """

    key: Mapping[str, str]
    metric: Metric | EnergyMetric
    accuracy: Accuracy
    deployments: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingValidation:
    answers: tuple[JudgedAnswer, ...]
    skipped: tuple[SkippedRun, ...]

    def overall(self) -> dict[Metric | EnergyMetric, Accuracy | None]:
        return {
            metric: accuracy([item for item in self.answers if item.metric is metric])
            for metric in (*Metric, *EnergyMetric)
        }

    def cells(self, by: Sequence[str]) -> tuple[CellAccuracy, ...]:
        groups: dict[tuple[Metric | EnergyMetric, tuple[str, ...]], list[JudgedAnswer]] = {}
        for item in self.answers:
            groups.setdefault((item.metric, tuple(cell_value(item, name) for name in by)), []).append(item)
        return tuple(
            CellAccuracy(
                key=dict(zip(by, values, strict=True)),
                metric=metric,
                accuracy=found,
                deployments=len({item.run.deployment for item in items}),
            )
            for (metric, values), items in sorted(groups.items(), key=lambda group: (group[0][1], group[0][0]))
            if (found := accuracy(items)) is not None
        )


def cell_value(item: JudgedAnswer, name: str) -> str:
    if name == "evidence":
        return item.evidence
    run = item.run
    if name in ("tp", "pp", "ep", "dp"):
        sharding = run.sharding
        sizes = {"tp": sharding.tensor, "pp": sharding.pipeline, "ep": sharding.expert, "dp": sharding.data}
        return str(sizes[name])
    return str(getattr(run, name))


def accuracy(items: Sequence[JudgedAnswer]) -> Accuracy | None:
    if not items:
        return None
    measured = np.array([item.measured for item in items])
    predicted = np.array([item.predicted.expected for item in items])
    ratio = predicted / measured
    return Accuracy(
        **asdict(summarise_errors(items)),
        spearman=_spearman(predicted, measured),
        within_factor_two=float(np.mean((ratio >= 0.5) & (ratio <= 2.0))),
    )


DECISION_LIMITS_S = (0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1)
"""Limits of the time between tokens within which decisions are counted, from a fast chat to a reader's pace. [s]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """Choices of measured runs by their predictions, and how many broke the limit when they were measured.

    `excess` is the median share by which those exceed it, None where none does. `kept_rate` are the tokens per second
    and GPU of the choices that held, as a share of what the best choices by measurement give.
    """

    choices: int
    broken: int
    excess: float | None
    kept_rate: float

    @property
    def broken_fraction(self) -> float:
        return self.broken / self.choices


def decisions(items: Sequence[JudgedAnswer], *, certainty: float) -> Decisions | None:
    """Count decisions within a limit of the time between tokens, as a plan takes them; None where nothing is decided.

    Of the runs of one model on one kind of GPU with the same requests, whatever the engine, parallelism and clients,
    the one with the most predicted tokens per second and GPU is chosen of those that should keep the limit with the
    certainty. A limit that all runs keep, and a run alone, leave nothing to decide and are left out.
    """
    groups: dict[tuple[str, str, str], list[JudgedAnswer]] = {}
    for item in items:
        run = item.run
        if item.metric is Metric.TPOT and run.clients is not None and run.rate_per_s is None:
            requests = run.energy.task if run.energy else f"{run.input_len:.0f} in, {run.output_len:.0f} out"
            groups.setdefault((run.model, run.gpu, requests), []).append(item)
    excesses: list[float] = []
    choices, kept, best = 0, 0.0, 0.0
    for runs in groups.values():
        for limit_s in DECISION_LIMITS_S:
            possible = [item for item in runs if item.predicted.not_exceeded(certainty) <= limit_s]
            holding = [item for item in runs if item.measured <= limit_s]
            if not possible or len(runs) == 1 or len(holding) == len(runs):
                continue
            chosen = max(possible, key=lambda item: _rate_per_gpu(item, item.predicted.expected))
            choices += 1
            best += max((_rate_per_gpu(item, item.measured) for item in holding), default=0.0)
            if chosen.measured > limit_s:
                excesses.append(chosen.measured / limit_s - 1.0)
            else:
                kept += _rate_per_gpu(chosen, chosen.measured)
    if not choices:
        return None
    return Decisions(
        choices=choices,
        broken=len(excesses),
        excess=float(np.median(excesses)) if excesses else None,
        kept_rate=kept / best if best else 0.0,
    )


def _rate_per_gpu(item: JudgedAnswer, tpot_s: float) -> float:
    run = item.run
    return (run.clients or 0.0) / tpot_s / (run.sharding.gpus * run.replicas)


def rank_correlation_if_known(items: Sequence[JudgedAnswer], shared: Callable[[MeasuredRun], str]) -> float | None:
    """Return the rank correlation if each prediction were mended by the mean error of the other runs that are like it.

    It bounds what a better model can reach that knows no more of a run than what `shared` names, as far as the error
    that such runs have in common is concerned.
    """
    errors = np.log([item.measured / item.predicted.expected for item in items])
    _, inverse, counts = np.unique([shared(item.run) for item in items], return_inverse=True, return_counts=True)
    others = np.bincount(inverse, weights=errors)[inverse] - errors
    mended = np.where(counts[inverse] > 1, others / np.maximum(counts[inverse] - 1, 1), 0.0)
    measured = np.array([item.measured for item in items])
    return _spearman(measured * np.exp(mended - errors), measured)


def _spearman(predicted: FloatArray, measured: FloatArray) -> float | None:
    if measured.size < 3 or np.ptp(measured) == 0 or np.ptp(predicted) == 0:
        return None
    return float(np.corrcoef(_ranks(predicted), _ranks(measured))[0, 1])


def _ranks(values: FloatArray) -> FloatArray:
    """Return ranks from 0, equal values sharing their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts + 1) / 2)[inverse])
