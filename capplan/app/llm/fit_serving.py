"""Learn the constants of LLM step times from measured runs, and judge them by runs that were held out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from capplan.app.llm.deployments import Deployments
from capplan.app.llm.validate_serving import PreparedRun, judged_metrics, prepare_all, width_name
from capplan.core.llm.serving.accuracy import JudgedAnswer, ServingValidation
from capplan.core.llm.serving.cases import Serving
from capplan.core.llm.serving.evidence import Adjustment, Evidence, interval
from capplan.core.llm.serving.fit import Observation
from capplan.core.llm.serving.learn import (
    HeldOut,
    LearntRun,
    cross_validate,
    interval_widths,
    learn,
    predict,
    with_widths,
)
from capplan.core.llm.serving.priors import default_layout, default_prior
from capplan.core.llm.serving.runs import MeasuredRun, SkippedRun
from capplan.core.llm.timing.calibration import LlmCalibration, Origin
from capplan.core.numbers import FloatArray
from capplan.errors import UsageError

FEWEST_RUNS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedServing:
    """A calibration, how held-out runs came out, and the rows that could not be used.

    `held_out` maps "gpu" and "family" to the judged answers of runs whose GPU or model family was left out.
    """

    calibration: LlmCalibration
    held_out: dict[str, ServingValidation]
    skipped: tuple[SkippedRun, ...]


def fit_serving(
    runs: Sequence[MeasuredRun],
    *,
    deployments: Deployments,
    made: date,
    command: str,
    sources: tuple[str, ...],
    widths_of: LlmCalibration | None,
) -> FittedServing:
    """Learn constants from runs of quality A and B.

    Args:
        runs: What was measured.
        deployments: Where deployments are found.
        made: The day, for the origin.
        command: The command line, for the origin.
        sources: Names of the files, for the origin.
        widths_of: A calibration whose interval widths are kept; None to learn them by leaving out GPUs and families.

    Raises:
        UsageError: There are too few runs to learn from.
    """
    prepared, skipped = prepare_all(runs, deployments, qualities="AB")
    learnt = [(item, run) for item in prepared for run in _learnt(item)]
    if len(learnt) < FEWEST_RUNS:
        raise UsageError(f"{len(learnt)} measured values can be used; a fit needs at least {FEWEST_RUNS}.")
    layout = default_layout()
    prior = default_prior(layout)
    rows = [run for _, run in learnt]
    calibration = learn(rows, layout=layout, prior=prior, name="capplan llm")
    origin = Origin(made=made, command=command, sources=sources, rows=len(prepared))
    if widths_of is not None:
        found = replace(calibration, widths=widths_of.widths, origin=origin)
        return FittedServing(calibration=found, held_out={}, skipped=tuple(skipped))
    start = layout.pack(calibration)
    held_out = HeldOut(
        same=predict(rows, layout.view(start)),
        other_gpu=cross_validate(rows, by=lambda run: run.gpu, layout=layout, prior=prior, start=start),
        other_model=cross_validate(rows, by=lambda run: run.family, layout=layout, prior=prior, start=start),
    )
    calibration = with_widths(calibration, interval_widths(rows, held_out))
    judged = {
        name: _judge(learnt, predicted, calibration, evidence)
        for name, predicted, evidence in (
            ("none", held_out.same, Evidence.SAME),
            ("gpu", held_out.other_gpu, Evidence.OTHER_GPU),
            ("family", held_out.other_model, Evidence.OTHER_MODEL),
        )
    }
    origin = replace(origin, held_out_errors=_errors(judged))
    return FittedServing(calibration=replace(calibration, origin=origin), held_out=judged, skipped=tuple(skipped))


def _learnt(item: PreparedRun) -> list[LearntRun]:
    run, deployment = item.run, item.deployment
    return [
        LearntRun(
            observation=Observation(case=item.case, metric=metric, value=run.values[metric], block=run.block),
            gpu=deployment.gpu.id,
            model=deployment.model.architecture.name,
            family=deployment.model.architecture.family,
            width=width_name(metric, run.serving),
        )
        for metric in judged_metrics(run)
        if run.serving is not Serving.OPEN_LOAD
    ]


def _judge(
    learnt: Sequence[tuple[PreparedRun, LearntRun]],
    predicted: FloatArray,
    calibration: LlmCalibration,
    evidence: Evidence,
) -> ServingValidation:
    answers = [
        JudgedAnswer(
            run=item.run,
            metric=run.observation.metric,
            measured=run.observation.value,
            predicted=interval(
                float(value), width=calibration.widths[run.width], evidence=evidence, adjustment=Adjustment()
            ),
            evidence=str(evidence),
        )
        for (item, run), value in zip(learnt, predicted, strict=True)
    ]
    return ServingValidation(answers=tuple(answers), skipped=())


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
