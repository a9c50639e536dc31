"""Learn constants of LLM step times from measured runs, and judge them on runs that were held out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from capplan.core.numbers import FloatArray
from capplan.core.origin import Origin
from capplan.errors import UsageError
from capplan.llm.core.measured import SkippedRun
from capplan.llm.core.search.judged_runs import PreparedRun, judged_metrics, prepare_all
from capplan.llm.core.search.room import Find
from capplan.llm.core.serving.accuracy import JudgedAnswer, ServingValidation
from capplan.llm.core.serving.cases import MeasuredRun, Metric, Serving, ServingCase, answer, width_name
from capplan.llm.core.serving.evidence import Adjustment, ServingEvidence, interval, learn_adjustment
from capplan.llm.core.serving.fit import Observation, full_fit
from capplan.llm.core.serving.learn import (
    HeldOutPredictions,
    LearntRun,
    LearntWidths,
    cross_validate,
    interval_widths,
    learn,
    predict,
)
from capplan.llm.core.serving.priors import PRIOR, default_layout, default_prior
from capplan.llm.core.timing.calibration import LlmCalibration, Width, engine_width
from capplan.llm.core.timing.constants import constants_of

FEWEST_RUNS = 20
FEWEST_OF_DEPLOYMENT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedServing:
    """A calibration, how held-out runs came out, and the rows that could not be used.

    `held_out` maps "none", "gpu", "model" and "family" to the judged answers of runs with that left out.
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
    carried = [item for item in prepared if _is_carried(item.case)]
    learnt = [(item, run) for item in carried for run in _learnt(item)]
    if len(learnt) < FEWEST_RUNS:
        raise UsageError(f"{len(learnt)} measured values can be used; a fit needs at least {FEWEST_RUNS}.")
    rows = [run for _, run in learnt]
    layout = default_layout(run.observation.case for run in rows)
    prior = default_prior(layout)
    calibration = learn(rows, layout=layout, prior=prior, name="capplan llm")
    origin = Origin(made=made, command=command, sources=sources, rows=len(prepared))
    if widths_of is not None:
        found = replace(calibration, widths=widths_of.widths, origin=origin)
        return FittedServing(calibration=found, held_out={}, skipped=tuple(skipped))
    held_out = _hold_out(rows, calibration)
    widths = interval_widths(rows, held_out)
    calibration = replace(calibration, widths=widths.by_name)
    judged = _judge_all(learnt, held_out, widths)
    origin = replace(origin, held_out_errors=_errors(judged))
    return FittedServing(calibration=replace(calibration, origin=origin), held_out=judged, skipped=tuple(skipped))


def _hold_out(rows: Sequence[LearntRun], calibration: LlmCalibration) -> HeldOutPredictions:
    """Predict all runs without their GPU, without their model, and without its family."""
    layout = default_layout(run.observation.case for run in rows)
    prior = default_prior(layout)
    known = full_fit([run.observation for run in rows], layout.pack(calibration), layout=layout)
    return HeldOutPredictions(
        same=predict(rows, layout.view(known.vector)),
        other_gpu=cross_validate(rows, by=lambda run: run.gpu, layout=layout, prior=prior, known=known),
        other_model=cross_validate(rows, by=lambda run: run.model, layout=layout, prior=prior, known=known),
        other_family=cross_validate(rows, by=lambda run: run.family, layout=layout, prior=prior, known=known),
    )


def _judge_all(
    learnt: Sequence[tuple[PreparedRun, LearntRun]], held_out: HeldOutPredictions, widths: LearntWidths
) -> dict[str, ServingValidation]:
    """Judge all runs; the widths for what was held out are learnt without it, too."""
    own = [widths.by_name[engine_width(run.width, run.observation.case.engine)] for _, run in learnt]
    gpu = (held_out.other_gpu, widths.without_gpu, ServingEvidence.OTHER_GPU)
    model = (held_out.other_model, widths.without_model, ServingEvidence.OTHER_MODEL)
    return {
        "none": _judge(learnt, held_out.same, own, ServingEvidence.SAME),
        "gpu": _judge(learnt, *gpu),
        "model": _judge(learnt, *model),
        "family": _judge(learnt, held_out.other_family, widths.without_model, ServingEvidence.OTHER_MODEL),
        "gpu, one run": _after_one_run(learnt, *gpu),
        "model, one run": _after_one_run(learnt, *model),
    }


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
            width=width_name(metric, run.serving, kind=deployment.kind),
        )
        for metric in judged_metrics(run)
        if run.serving not in (Serving.OPEN_LOAD, Serving.STEADY) or metric is not Metric.OUTPUT_TOKENS_PER_S
    ]


_MOST_LOAD = 0.9
"""Share of the highest rate up to which arrivals at a rate are learnt from; above it times grow with the run."""


def _is_carried(case: ServingCase) -> bool:
    """Return True unless requests come faster than about what the replicas carry by the prior."""
    if case.serving is not Serving.OPEN_LOAD:
        return True
    full = answer(replace(case, serving=Serving.OFFLINE), constants_of(PRIOR)).output_tokens_per_s
    return case.rate_per_s * case.demand.output_len < _MOST_LOAD * full


def _judge(
    learnt: Sequence[tuple[PreparedRun, LearntRun]],
    predicted: FloatArray,
    widths: Sequence[Width],
    evidence: ServingEvidence,
) -> ServingValidation:
    answers = [
        _judged(pair, float(value), width, evidence, Adjustment())
        for pair, value, width in zip(learnt, predicted, widths, strict=True)
    ]
    return ServingValidation(answers=tuple(answers), skipped=())


def _after_one_run(
    learnt: Sequence[tuple[PreparedRun, LearntRun]],
    predicted: FloatArray,
    widths: Sequence[Width],
    evidence: ServingEvidence,
) -> ServingValidation:
    """Judge held-out deployments after the middle one of their runs was measured.

    Times to the first token are left out, because a measured run does not adjust them.
    """
    groups: dict[tuple[str, Metric], list[int]] = {}
    for index, (_, run) in enumerate(learnt):
        if run.observation.metric is not Metric.TTFT:
            groups.setdefault((run.deployment, run.observation.metric), []).append(index)
    answers: list[JudgedAnswer] = []
    for members in groups.values():
        if len(members) < FEWEST_OF_DEPLOYMENT:
            continue
        known = members[len(members) // 2]
        ratio = learnt[known][1].observation.value / predicted[known]
        width = widths[known]
        adjustment = learn_adjustment([float(ratio)], width=width, evidence=evidence)
        others = [index for index in members if index != known]
        answers += [_judged(learnt[other], float(predicted[other]), width, evidence, adjustment) for other in others]
    return ServingValidation(answers=tuple(answers), skipped=())


def _judged(
    pair: tuple[PreparedRun, LearntRun], value: float, width: Width, evidence: ServingEvidence, adjustment: Adjustment
) -> JudgedAnswer:
    item, run = pair
    return JudgedAnswer(
        run=item.run,
        metric=run.observation.metric,
        measured=run.observation.value,
        predicted=interval(value, width=width, evidence=evidence, adjustment=adjustment),
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
