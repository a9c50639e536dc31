"""Measured runs of a deployment: which of them are of it, and by what factor it differs from its estimate."""

from collections.abc import Sequence
from dataclasses import replace

from capplan.errors import UsageError
from capplan.llm.core.deployment import ServingDeployment
from capplan.llm.core.search.replica import case_of_run
from capplan.llm.core.serving.asked import MOST_CLIENTS
from capplan.llm.core.serving.cases import MeasuredRun, Metric, Serving, answer, metric_of, width_name
from capplan.llm.core.serving.evidence import Adjustment, learn_adjustment
from capplan.llm.core.timing.calibration import LlmCalibration, Width
from capplan.llm.core.timing.constants import Constants


def runs_of(measured: Sequence[MeasuredRun], deployment: ServingDeployment) -> list[MeasuredRun]:
    """Return the measured runs of a deployment; benchmark files do not name one and are taken to be of it."""
    words = deployment.words
    names = {deployment.model.architecture.name, words.model, deployment.model.hf_id or ""}
    gpus, cap = {deployment.gpu.id, words.gpu}, deployment.machine.cap
    limit_w = deployment.gpu.tdp_w if cap is None else cap.law.cap_w
    return [
        run
        for run in measured
        if not run.model
        or (
            run.model in names
            and run.gpu in gpus
            and run.sharding == words.sharding
            and (None in (run.power_limit_w, limit_w) or run.power_limit_w == limit_w)
        )
    ]


def named_runs_of(measured: Sequence[MeasuredRun], deployment: ServingDeployment) -> list[MeasuredRun]:
    own = deployment.quantisation.format.name
    return [
        run
        for run in runs_of(measured, deployment)
        if run.model and run.engine == deployment.words.engine and run.weights in ("", own, deployment.words.weights)
    ]


def check_runs(measured: Sequence[MeasuredRun], deployment: ServingDeployment) -> None:
    if not measured or runs_of(measured, deployment):
        return
    given, sharding = measured[0], deployment.words.sharding
    raise UsageError(
        f"{given.file} holds no run of {deployment.model.architecture.name} on {sharding.gpus} × {deployment.gpu.id} "
        f"in this parallelism; its first is of {given.model} on {given.gpu}."
    )


LONGEST_TOKENS = 2_000_000
"""Tokens of a request that are stepped through at most, so that one wrong row cannot stop an answer."""


def check_extent(run: MeasuredRun) -> None:
    """Refuse a run that is too large to be stepped through."""
    if (run.clients or 0) > MOST_CLIENTS:
        raise UsageError(f"{run.clients:.0f} clients are more than the {MOST_CLIENTS} that are stepped through.")
    if run.input_len + run.output_len > LONGEST_TOKENS:
        raise UsageError(f"{run.input_len + run.output_len:.0f} tokens a request are more than {LONGEST_TOKENS}.")


def serving_width(
    metric: Metric,
    serving: Serving,
    deployment: ServingDeployment,
    calibration: LlmCalibration,
    *,
    is_finite: bool = False,
) -> Width:
    """Return the interval widths of a metric of a deployment; a rate that has those of a time leans the other way."""
    name = width_name(metric, serving, kind=deployment.kind, is_finite=is_finite)
    width = calibration.width(name, deployment.engine)
    is_turned = metric is Metric.OUTPUT_TOKENS_PER_S and name.startswith(Metric.TPOT)
    return replace(width, above=width.below, below=width.above) if is_turned else width


def time_adjustment(
    runs: Sequence[MeasuredRun], deployment: ServingDeployment, calibration: LlmCalibration, constants: Constants
) -> Adjustment | None:
    """Learn by what factor steps of a deployment take longer than estimated; None without runs that say it."""
    ratios: list[float] = []
    for run in runs:
        check_extent(run)
        predicted = answer(case_of_run(run, deployment), constants)
        if Metric.TPOT in run.values:
            ratios.append(run.values[Metric.TPOT] / metric_of(predicted, Metric.TPOT))
        elif Metric.OUTPUT_TOKENS_PER_S in run.values:
            ratios.append(metric_of(predicted, Metric.OUTPUT_TOKENS_PER_S) / run.values[Metric.OUTPUT_TOKENS_PER_S])
    if not ratios:
        return None
    width = serving_width(Metric.TPOT, Serving.CLOSED_LOOP, deployment, calibration)
    return learn_adjustment(ratios, width=width, evidence=deployment.evidence(calibration))
