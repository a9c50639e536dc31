"""Judge predictions of serving runs against anyone's measurements."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from capplan.core.engine_names import find_engine
from capplan.core.numbers import Interval
from capplan.core.power import PowerLaw, PowerNovelty, peak_seconds, step_energy
from capplan.errors import CapplanError, UsageError
from capplan.llm.core.deployment import NamedDeployment, ServingDeployment
from capplan.llm.core.measured import SkippedRun
from capplan.llm.core.search.measured_runs import check_extent, serving_width
from capplan.llm.core.search.replica import case_of_run
from capplan.llm.core.search.room import Find
from capplan.llm.core.serving.accuracy import JudgedAnswer, ServingValidation
from capplan.llm.core.serving.cases import MeasuredRun, Metric, Serving, ServingCase, answer, metric_of
from capplan.llm.core.serving.energy import EnergyMetric, ServedTokens, card_work, serving_energy
from capplan.llm.core.serving.evidence import interval
from capplan.llm.core.serving.service import ServingTimes
from capplan.llm.core.timing.calibration import LlmCalibration
from capplan.llm.core.timing.constants import Constants, constants_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    run: MeasuredRun
    deployment: ServingDeployment
    case: ServingCase


def words_of(run: MeasuredRun) -> NamedDeployment:
    return NamedDeployment(
        model=run.model,
        gpu=run.gpu,
        engine=run.engine,
        sharding=run.sharding,
        weights=run.weights,
        kv=run.kv,
        version=run.version,
        sampling=run.sampling,
        power_limit_w=run.power_limit_w,
    )


def prepare(run: MeasuredRun, find: Find) -> PreparedRun:
    check_extent(run)
    if run.speculation:
        raise UsageError(f"tokens are drafted ({run.speculation}), and nobody states how many of them are accepted")
    deployment = find(words_of(run))
    return PreparedRun(run=run, deployment=deployment, case=case_of_run(run, deployment))


def prepare_all(
    runs: Sequence[MeasuredRun], find: Find, *, qualities: str
) -> tuple[list[PreparedRun], list[SkippedRun]]:
    """Prepare all runs that can be predicted; the others are listed with reasons."""
    prepared: list[PreparedRun] = []
    skipped: list[SkippedRun] = []
    for run in runs:
        if run.quality not in qualities:
            continue
        try:
            prepared.append(prepare(run, find))
        except CapplanError as error:
            skipped.append(_skip(run, str(error)))
    return prepared, skipped


def official_runs(prepared: Sequence[PreparedRun]) -> tuple[list[PreparedRun], list[SkippedRun]]:
    """Part runs by whether the engine's makers build for their GPU: what a community build reaches is its own."""
    reason = "runs a community build of the engine, which says nothing of the official one"
    skipped = [_skip(item.run, reason) for item in prepared if not item.deployment.is_official]
    return [item for item in prepared if item.deployment.is_official], skipped


def _skip(run: MeasuredRun, reason: str) -> SkippedRun:
    return SkippedRun(file=run.file, line=run.line, model=run.model, gpu=run.gpu, reason=reason)


def judged_metrics(run: MeasuredRun) -> tuple[Metric, ...]:
    """Return the metrics of a run that can be judged: of offline runs the tokens per second alone."""
    if run.serving is Serving.OFFLINE:
        return tuple(metric for metric in run.values if metric is Metric.OUTPUT_TOKENS_PER_S)
    return tuple(run.values)


def validate_serving(
    runs: Sequence[MeasuredRun],
    *,
    find: Find,
    calibration: LlmCalibration,
    power_law: PowerLaw | None = None,
    qualities: str = "AB",
    unreadable: Sequence[SkippedRun] = (),
) -> ServingValidation:
    """Predict every run and compare the predictions with the measurements, of time and of power and energy."""
    constants = constants_of(calibration)
    prepared, skipped = prepare_all(runs, find, qualities=qualities)
    answers: list[JudgedAnswer] = []
    for item in prepared:
        try:
            answers += judge(item, calibration, constants)
            if power_law is not None:
                answers += _judge_energy(item, calibration, constants, replace(power_law, cap_w=item.run.power_limit_w))
        except UsageError as error:
            skipped.append(_skip(item.run, str(error)))
    return ServingValidation(answers=tuple(answers), skipped=(*unreadable, *skipped))


def judge(item: PreparedRun, calibration: LlmCalibration, constants: Constants) -> list[JudgedAnswer]:
    """Predict one run and return each of its metrics with an interval."""
    times = answer(item.case, constants)
    deployment = item.deployment
    if item.run.serving is Serving.OPEN_LOAD and times.is_saturated:
        raise UsageError("the load is predicted to be above what the replicas carry, so that times grow with the run.")
    for metric in judged_metrics(item.run):
        if not 0 < metric_of(times, metric) < float("inf"):
            raise UsageError(f"the predicted {metric} is {metric_of(times, metric):g}; the row's load has no answer.")
    evidence = deployment.evidence(calibration)
    return [
        JudgedAnswer(
            run=_resolved(item),
            metric=metric,
            measured=item.run.values[metric],
            predicted=interval(
                metric_of(times, metric),
                width=serving_width(
                    metric, item.run.serving, deployment, calibration, is_finite=item.run.requests is not None
                ),
                evidence=evidence,
            ),
            evidence=str(evidence),
        )
        for metric in judged_metrics(item.run)
    ]


def _resolved(item: PreparedRun) -> MeasuredRun:
    """Return a run with the names that its model, GPU and engine are known by."""
    return replace(
        item.run,
        gpu=item.deployment.gpu.id,
        model=item.deployment.model.architecture.name,
        engine=find_engine(item.run.engine).value,
    )


def _judge_energy(
    item: PreparedRun, calibration: LlmCalibration, constants: Constants, law: PowerLaw
) -> list[JudgedAnswer]:
    """Predict power at the measured step time and batch, and power and energy with the predicted ones."""
    energy, gpu = item.run.energy, item.deployment.gpu
    if energy is None or gpu.tdp_w is None:
        return []
    found: dict[EnergyMetric, tuple[float, Interval]] = {}
    if energy.power_w and energy.running and energy.output_tokens_per_s:
        at_time = _power_at_time_w(item, law, running=energy.running, output_tokens_per_s=energy.output_tokens_per_s)
        found[EnergyMetric.POWER] = energy.power_w, at_time
    if energy.is_timed:
        predicted = _predicted_energy(item, answer(item.case, constants), calibration, law)
        if predicted is not None:
            power_w, joules = predicted
            if energy.power_w:
                found[EnergyMetric.POWER_END_TO_END] = energy.power_w, power_w
            if energy.joules_per_output_token:
                found[EnergyMetric.JOULES] = energy.joules_per_output_token, joules
    evidence = law.evidence(gpu)
    return [
        JudgedAnswer(run=_resolved(item), metric=metric, measured=measured, predicted=predicted, evidence=evidence)
        for metric, (measured, predicted) in found.items()
    ]


def _power_at_time_w(item: PreparedRun, law: PowerLaw, *, running: float, output_tokens_per_s: float) -> Interval:
    run, deployment = item.run, item.deployment
    tokens = ServedTokens(running=running / run.replicas, input_len=run.input_len, output_len=run.output_len)
    work = card_work(
        deployment.kernels, deployment.gpu, run.sharding, tokens, output_tokens_per_s=output_tokens_per_s / run.replicas
    )
    is_stated = run.energy is None or run.energy.is_timed
    novelties = frozenset[PowerNovelty]() if is_stated else frozenset({PowerNovelty.REQUESTS})
    found = step_energy(
        deployment.gpu, peak_seconds(deployment.gpu, work), Interval.exact(work.time_s), law, samples=1.0,
        gpus=run.sharding.gpus * run.replicas, novelties=novelties,
    )  # fmt: skip
    assert found is not None
    return found.power_w


def _predicted_energy(
    item: PreparedRun, times: ServingTimes, calibration: LlmCalibration, law: PowerLaw
) -> tuple[Interval, Interval] | None:
    """Return the power of all replicas [W] and joules per output token [J] at the predicted rate."""
    run, deployment = item.run, item.deployment
    rate = interval(
        times.output_tokens_per_s / run.replicas,
        width=serving_width(Metric.OUTPUT_TOKENS_PER_S, run.serving, deployment, calibration),
        evidence=deployment.evidence(calibration),
    )
    found = serving_energy(
        deployment.kernels,
        deployment.gpu,
        run.sharding,
        ServedTokens(running=times.running, input_len=run.input_len, output_len=run.output_len),
        output_tokens_per_s=rate,
        law=law,
    )
    return None if found is None else (found.power_w * run.replicas, found.joules_per_output_token)
