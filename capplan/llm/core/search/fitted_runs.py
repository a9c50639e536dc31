"""Learn constants of LLM step times from measured runs, and judge them on runs that were held out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np
from numpy.typing import NDArray

from capplan.core.numbers import FloatArray
from capplan.core.origin import Origin
from capplan.errors import UsageError
from capplan.llm.core.measured import SkippedRun
from capplan.llm.core.search.judged_runs import PreparedRun, judged_metrics, official_runs, prepare_all
from capplan.llm.core.search.room import Find
from capplan.llm.core.serving.accuracy import JudgedAnswer, ServingValidation
from capplan.llm.core.serving.cases import MeasuredRun, Metric, Serving, ServingCase, answer, width_name
from capplan.llm.core.serving.energy import EnergyMetric
from capplan.llm.core.serving.evidence import ServingEvidence, interval, learn_adjustment
from capplan.llm.core.serving.fit import Observation, Tabulated, fit_constants, followed_fit
from capplan.llm.core.serving.learn import (
    OWN_SPLITS,
    SPLITS,
    HeldOut,
    LearntRun,
    WidthRows,
    evidence_of_run,
    hold_out,
    known_by,
    learn,
)
from capplan.llm.core.serving.priors import PRIOR, default_layout, default_prior, own_prior
from capplan.llm.core.timing.calibration import LlmCalibration, Width, engine_width
from capplan.llm.core.timing.constants import constants_of

FEWEST_RUNS = 20
FEWEST_OF_DEPLOYMENT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedEngine:
    """How far a user's own constants of an engine miss runs that were left out, beside the shipped ones.

    `own` and `shipped` are medians of the absolute logarithm of predicted ÷ measured, by what was left out.
    """

    engine: str
    own: Mapping[str, float]
    shipped: Mapping[str, float]

    @property
    def is_better(self) -> bool:
        """Return True if the own constants miss less without a GPU or a version, and never more."""
        gains = [self.shipped[split] - own for split, own in self.own.items()]
        return bool(gains) and min(gains) >= 0 and max(gains) >= _LEAST_GAIN


_LEAST_GAIN = 0.005
"""Least gain of the median error that own constants are taken for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedServing:
    """A calibration, how held-out runs came out, and the rows that could not be used.

    `held_out` maps "none" and the names of `SPLITS` to the judged answers of runs with that left out. `judged` are the
    engines of own runs, beside the shipped constants.
    """

    calibration: LlmCalibration
    held_out: dict[str, ServingValidation]
    skipped: tuple[SkippedRun, ...]
    judged: tuple[JudgedEngine, ...] = ()


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
    learnt, skipped = _learnable(runs, find)
    rows = [run for _, run in learnt]
    layout = default_layout([run.observation.case for run in rows])
    table = Tabulated.of([run.observation for run in rows], layout=layout, prior=default_prior(layout))
    fit = fit_constants(table)
    calibration = learn(rows, table, fit, name="capplan llm")
    origin = Origin(made=made, command=command, sources=sources, rows=len({id(item) for item, _ in learnt}))
    if widths_of is not None:
        found = replace(calibration, widths=widths_of.widths, origin=origin)
        return FittedServing(calibration=found, held_out={}, skipped=tuple(skipped))
    held_out = {split: hold_out(rows, table, fit, split=split) for split in SPLITS}
    in_sample = table.predict(fit, fit.vector)
    within = np.log(in_sample) - np.log([run.observation.value for run in rows])
    pool = WidthRows.of(rows, held_out, within)
    calibration = replace(calibration, widths=pool.widths(np.ones(pool.errors.size, dtype=bool)))
    answers = [
        _judged(pair, float(value), calibration.widths, evidence_of_run(pair[1], calibration))
        for pair, value in zip(learnt, in_sample, strict=True)
    ]
    judge_in_sample = ServingValidation(answers=tuple(answers), skipped=())
    judged = {"none": judge_in_sample}
    judged |= {split: _judge_split(learnt, held_out[split], pool, split) for split in SPLITS}
    inner: _Within = {
        (pair.run.file, pair.run.line, run.observation.metric): _width_of(run, calibration.widths).within
        for pair, run in learnt
    }
    judged |= {f"{split}, one run": _after_one_run(judged[split], inner) for split in _THEN_MEASURED}
    origin = replace(origin, held_out_errors=_errors(judged))
    return FittedServing(calibration=replace(calibration, origin=origin), held_out=judged, skipped=tuple(skipped))


def _learnable(runs: Sequence[MeasuredRun], find: Find) -> tuple[list[tuple[PreparedRun, LearntRun]], list[SkippedRun]]:
    """Return what can be learnt from runs of quality A and B, and the runs that are left out."""
    prepared, skipped = prepare_all(runs, find, qualities="AB")
    prepared, unofficial = official_runs(prepared)
    learnt = [(item, run) for item in prepared if _is_carried(item.case) for run in _learnt(item)]
    if len(learnt) < FEWEST_RUNS:
        raise UsageError(f"{len(learnt)} measured values can be used; a fit needs at least {FEWEST_RUNS}.")
    return learnt, [*skipped, *unofficial]


def fit_own(runs: Sequence[MeasuredRun], *, find: Find, shipped: LlmCalibration, origin: Origin) -> FittedServing:
    """Learn constants of engines from own runs; take those that miss runs of unseen GPUs and versions less."""
    learnt, skipped = _learnable(runs, find)
    rows = [run for _, run in learnt]
    layout = default_layout([run.observation.case for run in rows])
    table = Tabulated.of([run.observation for run in rows], layout=layout, prior=own_prior(layout, shipped))
    before = followed_fit(table, table.prior.mean)
    observed = np.log([run.observation.value for run in rows])
    known = np.abs(np.log(table.predict(before, before.vector)) - observed)
    fit = fit_constants(table)
    engines = np.array([run.engine for run in rows])
    held = {split: hold_out(rows, table, fit, split=split) for split in OWN_SPLITS}
    judged = tuple(_judged_engine(str(name), engines, held, known) for name in np.unique(engines))
    better = {item.engine for item in judged if item.is_better}
    if not better:
        raise UsageError(f"keep the shipped constants: {'; '.join(map(judgement, judged))}.")
    found = learn(rows, table, fit, name=shipped.name)
    own = known_by([run for run in rows if run.engine in better], shipped)
    return FittedServing(
        held_out={},
        calibration=replace(
            shipped,
            engines={**shipped.engines, **{name: found.engines[name] for name in better}},
            kernel_factors={
                **shipped.kernel_factors,
                **{name: size for name, size in found.kernel_factors.items() if name.split(" | ")[1] in better},
            },
            measured_gpus=shipped.measured_gpus | own.measured_gpus,
            measured_pairs=shipped.measured_pairs | own.measured_pairs,
            origin=replace(origin, rows=len({id(item) for item, _ in learnt})),
        ),
        judged=judged,
        skipped=tuple(skipped),
    )


def _judged_engine(
    engine: str, engines: NDArray[np.str_], held: Mapping[str, HeldOut], known: FloatArray
) -> JudgedEngine:
    own, shipped = {}, {}
    for split, found in held.items():
        mine = engines[found.rows] == engine
        if mine.any():
            own[split] = float(np.median(np.abs(found.errors[mine])))
            shipped[split] = float(np.median(known[found.rows[mine]]))
    return JudgedEngine(engine=engine, own=own, shipped=shipped)


def judgement(judged: JudgedEngine) -> str:
    """Return how an engine's own constants were judged, in a sentence without its stop."""
    if not judged.own:
        return f"{judged.engine}: its runs are of one GPU and one version, so that none can be left out"
    parts = [
        f"{np.expm1(own):.1%} without each {split} (shipped {np.expm1(judged.shipped[split]):.1%})"
        for split, own in judged.own.items()
    ]
    return f"{judged.engine}: median error {' and '.join(parts)}, {'taken' if judged.is_better else 'not taken'}"


_THEN_MEASURED = ("gpu", "family")
_MOST_FOLDS = 2
"""Parts into which the groups of a split are divided; each is judged by widths that are learnt from the others."""


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
            same=float(np.sqrt(known.predicted.high / known.predicted.low)),
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
        predicted=interval(value, width=_width_of(run, widths), evidence=evidence),
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
