"""Learn constants of LLM step times from measured runs, and judge them on runs that were held out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np

from capplan.core.numbers import FloatArray
from capplan.core.origin import Origin
from capplan.errors import UsageError
from capplan.llm.core.measured import SkippedRun
from capplan.llm.core.search.judged_runs import PreparedRun, judged_metrics, official_runs, prepare_all
from capplan.llm.core.search.room import Find
from capplan.llm.core.serving.accuracy import JudgedAnswer, ServingValidation
from capplan.llm.core.serving.cases import MeasuredRun, Metric, Serving, ServingCase, answer, width_name
from capplan.llm.core.serving.energy import EnergyMetric
from capplan.llm.core.serving.evidence import Adjustment, ServingEvidence, interval, learn_adjustment
from capplan.llm.core.serving.fit import Observation, Tabulated, fit_constants
from capplan.llm.core.serving.learn import SPLITS, HeldOut, LearntRun, WidthRows, evidence_of_run, hold_out, learn
from capplan.llm.core.serving.priors import PRIOR, default_layout, default_prior
from capplan.llm.core.timing.calibration import LlmCalibration, Width, engine_width
from capplan.llm.core.timing.constants import constants_of

FEWEST_RUNS = 20
FEWEST_OF_DEPLOYMENT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedServing:
    """A calibration, how held-out runs came out, and the rows that could not be used.

    `held_out` maps "none" and the names of `SPLITS` to the judged answers of runs with that left out.
    """

    calibration: LlmCalibration
    held_out: dict[str, ServingValidation]
    skipped: tuple[SkippedRun, ...]


def fit_serving(
    runs: Sequence[MeasuredRun],
    *,
    find: Find,
    made: date,
    command: str,
    sources: tuple[str, ...],
    widths_of: LlmCalibration | None,
) -> FittedServing:
    """Learn constants from runs of quality A and B."""
    prepared, skipped = prepare_all(runs, find, qualities="AB")
    prepared, unofficial = official_runs(prepared)
    skipped += unofficial
    carried = [item for item in prepared if _is_carried(item.case)]
    learnt = [(item, run) for item in carried for run in _learnt(item)]
    if len(learnt) < FEWEST_RUNS:
        raise UsageError(f"{len(learnt)} measured values can be used; a fit needs at least {FEWEST_RUNS}.")
    rows = [run for _, run in learnt]
    layout = default_layout(run.observation.case for run in rows)
    table = Tabulated.of([run.observation for run in rows], layout=layout, prior=default_prior(layout))
    fit = fit_constants(table)
    calibration = learn(rows, table, fit, name="capplan llm")
    origin = Origin(made=made, command=command, sources=sources, rows=len(prepared))
    if widths_of is not None:
        found = replace(calibration, widths=widths_of.widths, origin=origin)
        return FittedServing(calibration=found, held_out={}, skipped=tuple(skipped))
    held_out = {split: hold_out(rows, table, fit, split=split) for split in SPLITS}
    in_sample = table.predict(fit, fit.vector)
    within = np.log(in_sample) - np.log([run.observation.value for run in rows])
    pool = WidthRows.of(rows, held_out, within)
    calibration = replace(calibration, widths=pool.widths(np.ones(pool.errors.size, dtype=bool)))
    judged = {"none": _judge_in_sample(learnt, in_sample, calibration)}
    judged |= {split: _judge_split(learnt, held_out[split], pool, split) for split in SPLITS}
    inner = _within(learnt, calibration.widths)
    judged |= {f"{split}, one run": _after_one_run(judged[split], inner) for split in _THEN_MEASURED}
    origin = replace(origin, held_out_errors=_errors(judged))
    return FittedServing(calibration=replace(calibration, origin=origin), held_out=judged, skipped=tuple(skipped))


_THEN_MEASURED = ("gpu", "family")
_MOST_FOLDS = 2
"""Parts into which the groups of a split are divided; each is judged by widths that are learnt from the others."""


def _judge_in_sample(
    learnt: Sequence[tuple[PreparedRun, LearntRun]], predicted: FloatArray, calibration: LlmCalibration
) -> ServingValidation:
    answers = [
        _judged(pair, float(value), calibration.widths, evidence_of_run(pair[1], calibration))
        for pair, value in zip(learnt, predicted, strict=True)
    ]
    return ServingValidation(answers=tuple(answers), skipped=())


def _judge_split(
    learnt: Sequence[tuple[PreparedRun, LearntRun]], found: HeldOut, pool: WidthRows, split: str
) -> ServingValidation:
    """Judge the runs of a split by widths that are learnt without their own groups."""
    groups = np.unique(found.group)
    folds = min(_MOST_FOLDS, max(len(groups), 1))
    answers: list[JudgedAnswer] = []
    for fold in range(folds):
        mine = np.isin(found.group, groups[fold::folds])
        widths = pool.widths(~((pool.split == split) & np.isin(pool.group, groups[fold::folds])))
        part = found.where(mine)
        for row, error, evidence in zip(part.rows, part.errors, part.evidence, strict=True):
            value = learnt[row][1].observation.value * float(np.exp(error))
            answers.append(_judged(learnt[row], value, widths, evidence))
    return ServingValidation(answers=tuple(answers), skipped=())


def _learnt(item: PreparedRun) -> list[LearntRun]:
    run, deployment = item.run, item.deployment
    return [
        LearntRun(
            observation=Observation(case=item.case, metric=metric, value=run.values[metric], block=run.block),
            gpu=deployment.gpu.id,
            model=deployment.model.architecture.name,
            family=deployment.model.architecture.family,
            deployment=run.deployment,
            segment=str(deployment.gpu.segment or ""),
            vendor=deployment.gpu.vendor,
            release=run.version,
            publisher=run.publisher,
            year=run.year,
            width=width_name(metric, run.serving, kind=deployment.kind),
        )
        for metric in judged_metrics(run)
        if run.serving in (Serving.OFFLINE, Serving.FIXED_BATCH) or metric is not Metric.OUTPUT_TOKENS_PER_S
    ]


_MOST_LOAD = 0.9
"""Share of the highest rate up to which arrivals at a rate are learnt from; above it times grow with the run."""


def _is_carried(case: ServingCase) -> bool:
    """Return True unless a static batch does not fit, or requests come faster than the replicas carry by the prior."""
    if case.serving is Serving.FIXED_BATCH:
        return case.clients / case.replicas <= case.demand.capacity
    if case.serving is not Serving.OPEN_LOAD:
        return True
    full = answer(replace(case, serving=Serving.OFFLINE), constants_of(PRIOR)).output_tokens_per_s
    return case.rate_per_s * case.demand.output_len < _MOST_LOAD * full


_Within = Mapping[tuple[str, int, Metric | EnergyMetric], float]


def _within(learnt: Sequence[tuple[PreparedRun, LearntRun]], widths: Mapping[str, Width]) -> _Within:
    """Return the half-width around the mean of its deployment, by file, line and metric of a run."""
    return {
        (pair.run.file, pair.run.line, run.observation.metric): _width_of(run, widths).within for pair, run in learnt
    }


def _width_of(run: LearntRun, widths: Mapping[str, Width]) -> Width:
    return widths.get(engine_width(run.width, run.engine), widths[run.width])


def _after_one_run(held_out: ServingValidation, within: _Within) -> ServingValidation:
    """Judge held-out deployments after the middle one of their runs was measured.

    Times to the first token are left out, because a measured run does not adjust them.
    """
    groups: dict[tuple[str, Metric | EnergyMetric], list[JudgedAnswer]] = {}
    for item in held_out.answers:
        if item.metric is not Metric.TTFT:
            groups.setdefault((item.run.deployment, item.metric), []).append(item)
    answers: list[JudgedAnswer] = []
    for members in groups.values():
        if len(members) < FEWEST_OF_DEPLOYMENT:
            continue
        known = members[len(members) // 2]
        ratio = known.measured / known.predicted.expected
        width = Width(
            same=known.predicted.high / known.predicted.expected,
            within=within[known.run.file, known.run.line, known.metric],
        )
        adjustment = learn_adjustment([ratio], width=width, evidence=ServingEvidence())
        answers += [
            replace(
                other,
                predicted=interval(
                    other.predicted.expected, width=width, evidence=ServingEvidence(), adjustment=adjustment
                ),
            )
            for other in members
            if other is not known
        ]
    return ServingValidation(answers=tuple(answers), skipped=())


def _judged(
    pair: tuple[PreparedRun, LearntRun], value: float, widths: Mapping[str, Width], evidence: ServingEvidence
) -> JudgedAnswer:
    item, run = pair
    return JudgedAnswer(
        run=item.run,
        metric=run.observation.metric,
        measured=run.observation.value,
        predicted=interval(value, width=_width_of(run, widths), evidence=evidence, adjustment=Adjustment()),
        evidence=str(evidence),
    )


def _errors(judged: dict[str, ServingValidation]) -> dict[str, dict[str, float]]:
    found = {}
    for name, validation in judged.items():
        for metric, accuracy in validation.overall().items():
            if accuracy is not None:
                found[f"{name}: {metric}"] = {
                    "median": accuracy.mdape,
                    "p90": accuracy.p90,
                    "bias": accuracy.bias,
                    "coverage": accuracy.coverage,
                    "rows": float(accuracy.n),
                }
    return found
