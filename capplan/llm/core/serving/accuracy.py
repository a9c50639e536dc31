"""How wrong predictions of serving runs are: error, bias, coverage, width and ranks by cell."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from capplan.llm.core.measured import (
    Accuracy,
    JudgedCell,
    JudgedValue,
    SkippedRun,
    judged_cells,
    rank_correlation,
    summarise_errors,
)
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

    @property
    def deployment(self) -> str:
        return self.run.deployment

    def cell_value(self, name: str) -> str:
        if name == "evidence":
            return self.evidence
        if name in ("tp", "pp", "ep", "dp"):
            sharding = self.run.sharding
            sizes = {"tp": sharding.tensor, "pp": sharding.pipeline, "ep": sharding.expert, "dp": sharding.data}
            return str(sizes[name])
        return str(getattr(self.run, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingValidation:
    answers: tuple[JudgedAnswer, ...]
    skipped: tuple[SkippedRun, ...]

    def overall(self) -> dict[Metric | EnergyMetric, Accuracy | None]:
        return {
            metric: accuracy([item for item in self.answers if item.metric is metric])
            for metric in (*Metric, *EnergyMetric)
        }

    def cells(self, by: Sequence[str]) -> tuple[JudgedCell, ...]:
        return judged_cells(self.answers, by)


def accuracy(items: Sequence[JudgedAnswer]) -> Accuracy | None:
    return summarise_errors(items) if items else None


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
    return rank_correlation(measured * np.exp(mended - errors), measured)
