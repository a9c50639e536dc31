"""Estimate what clients of a deployment see at each concurrency, with intervals and the evidence behind them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from capplan.core.engine_names import find_engine
from capplan.core.numbers import End
from capplan.core.power import PowerLaw
from capplan.llm.core.deployment import ServingDeployment
from capplan.llm.core.quantisation import half_note
from capplan.llm.core.search.measured_runs import check_runs, runs_of, serving_width, time_adjustment
from capplan.llm.core.serving.asked import drafting_words
from capplan.llm.core.serving.cases import MeasuredRun, Metric, Serving, ServingCase, answer, metric_of
from capplan.llm.core.serving.energy import ServedTokens, serving_energy
from capplan.llm.core.serving.estimate import ServingEstimate, ServingPoint, explain_step
from capplan.llm.core.serving.evidence import (
    MEASURED_HERE,
    Adjustment,
    ServingEvidence,
    interval,
    not_known_words,
    widened,
)
from capplan.llm.core.serving.service import Demand, ServingTimes, drafting_step_s
from capplan.llm.core.tensors import count_active_parameters, count_parameters
from capplan.llm.core.timing.calibration import LlmCalibration
from capplan.llm.core.timing.constants import Constants, constants_of
from capplan.llm.core.timing.engine_rules import DEFAULT_FLAGS, SchedulerFlags
from capplan.llm.core.timing.work import Load


def estimate_serving(
    deployment: ServingDeployment,
    demand: Demand,
    concurrencies: Sequence[int],
    *,
    calibration: LlmCalibration,
    measured: Sequence[MeasuredRun] = (),
    flags: SchedulerFlags = DEFAULT_FLAGS,
    power_law: PowerLaw | None = None,
) -> ServingEstimate:
    constants = constants_of(calibration)
    adjustments = _adjustments(measured, deployment, calibration, constants)
    basis = _Basis(calibration, constants, deployment.evidence(calibration), adjustments, flags, power_law)
    points = tuple(_point(demand, deployment, clients, basis) for clients in concurrencies)
    service = deployment.service(constants, flags=flags)
    decode, prefill = _step_loads(demand, deployment, points[-1])
    architecture, words = deployment.model.architecture, deployment.words
    learnt = adjustments.get(Metric.TPOT)
    return ServingEstimate(
        model=architecture.name,
        params=count_parameters(architecture),
        active_params=count_active_parameters(architecture),
        gpu=deployment.gpu.id,
        engine=find_engine(words.engine).value,
        version=words.version,
        sharding=words.sharding,
        weights=deployment.quantisation.format.name,
        kv=deployment.kv,
        input_len=demand.input_len,
        output_len=demand.output_len,
        sequences_that_fit=demand.capacity,
        points=points,
        decode_parts=explain_step(
            service, decode, drafting_s=float(drafting_step_s(service, demand, decode.decoding)[0])
        ),
        prefill_parts=explain_step(service, prefill, drafting_s=float(service.step(prefill).drafter_s[0])),
        calibration=calibration.name,
        measured_factor=learnt.factor if learnt else None,
        measured_runs=learnt.runs if learnt else 0,
        notes=_notes(demand, deployment, points, adjustments),
    )


@dataclass(frozen=True, slots=True)
class _Basis:
    calibration: LlmCalibration
    constants: Constants
    evidence: ServingEvidence
    adjustments: dict[Metric, Adjustment]
    flags: SchedulerFlags
    power_law: PowerLaw | None


def _point(demand: Demand, deployment: ServingDeployment, clients: int, basis: _Basis) -> ServingPoint:
    case = ServingCase(
        kernels=deployment.kernels, machine=deployment.machine, engine=deployment.engine,
        demand=demand, serving=Serving.CLOSED_LOOP, clients=clients, flags=basis.flags,
        drafter=deployment.drafter,
    )  # fmt: skip
    times, ends = answer(case, basis.constants), _ends_under_cap(case, basis.constants)
    found = {
        metric: widened(
            interval(
                metric_of(times, metric),
                width=serving_width(metric, Serving.CLOSED_LOOP, deployment, basis.calibration),
                evidence=basis.evidence,
                adjustment=basis.adjustments.get(metric, Adjustment()),
            ),
            [metric_of(end, metric) / metric_of(times, metric) for end in ends],
        )
        for metric in Metric
    }
    return ServingPoint(
        concurrency=clients,
        ttft_s=found[Metric.TTFT],
        tpot_s=found[Metric.TPOT],
        output_tokens_per_s=found[Metric.OUTPUT_TOKENS_PER_S],
        requests_per_s=found[Metric.OUTPUT_TOKENS_PER_S].expected / demand.output_len,
        running=times.running,
        evidence=str(MEASURED_HERE if basis.adjustments else basis.evidence),
        energy=serving_energy(
            deployment.kernels,
            deployment.gpu,
            deployment.words.sharding,
            ServedTokens(
                running=times.running,
                input_len=demand.input_len * (1.0 - demand.prefix_fraction),
                output_len=demand.output_len,
                speculation=demand.speculation,
                drafter=deployment.drafter,
            ),
            output_tokens_per_s=found[Metric.OUTPUT_TOKENS_PER_S],
            law=basis.power_law,
        )
        if basis.power_law
        else None,
    )


def _ends_under_cap(case: ServingCase, constants: Constants) -> tuple[ServingTimes, ...]:
    """Return the times at both ends of what a power cap may cost; none where the GPU keeps its limit."""
    cap = case.machine.cap
    if cap is None:
        return ()
    ends = (replace(case.machine, cap=replace(cap, end=end)) for end in (End.LOW, End.HIGH))
    return tuple(answer(replace(case, machine=machine), constants) for machine in ends)


def _adjustments(
    measured: Sequence[MeasuredRun], deployment: ServingDeployment, calibration: LlmCalibration, constants: Constants
) -> dict[Metric, Adjustment]:
    """Learn from the measured runs by what factor this deployment differs.

    Steps with prompts take the same factor, as in a simulation, but TTFT stays as uncertain: queues differ from run to
    run.
    """
    check_runs(measured, deployment)
    learnt = time_adjustment(runs_of(measured, deployment), deployment, calibration, constants)
    if learnt is None:
        return {}
    inverse = Adjustment(factor=1.0 / learnt.factor, deviation=learnt.deviation, runs=learnt.runs)
    first = Adjustment(factor=learnt.factor, runs=learnt.runs)
    return {Metric.TPOT: learnt, Metric.OUTPUT_TOKENS_PER_S: inverse, Metric.TTFT: first}


def _step_loads(demand: Demand, deployment: ServingDeployment, point: ServingPoint) -> tuple[Load, Load]:
    """Return a decode step at the last concurrency, and a step that holds one prompt alone."""
    sharding = deployment.words.sharding
    per_pass = point.running / sharding.data / sharding.pipeline
    context = demand.input_len + demand.output_len / 2
    decode = Load.of(decoding=per_pass, context=context, answered=demand.output_len, drafted=demand.drafted)
    return decode, Load.of(prefilled=demand.input_len, prompts=1.0)


def _notes(
    demand: Demand,
    deployment: ServingDeployment,
    points: Sequence[ServingPoint],
    adjustments: dict[Metric, Adjustment],
) -> tuple[str, ...]:
    burst = (
        "the mean over clients that start together and send ten requests each"
        if demand.counts_burst
        else "the mean of the steady state (⟨first-burst⟩ counts the start, in which all clients send at once)"
    )
    share = demand.prefix_fraction
    prefixes = f"{share:.0%} of each prompt in the prefix cache" if share else "no prefix cache"
    drafted = "no speculation" if demand.speculation is None else "speculation as stated"
    found = [
        f"TPOT is (end-to-end time − TTFT) ÷ (output tokens − 1). TTFT is {burst}.",
        f"KV cache in {deployment.kv}, weights in {deployment.quantisation.format.name}, {prefixes}, {drafted}.",
    ]
    if demand.speculation is not None:
        found.append(f"{drafting_words(demand.speculation.drafter)}.")
    unknown = [point.ttft_s for point in points if not point.ttft_is_known]
    if unknown:
        found.append(f"{not_known_words(unknown[0])}.")
    waiting = [point.concurrency for point in points if point.queued]
    if waiting:
        found.append(f"From {waiting[0]} clients on, requests wait for memory: {points[-1].running:.0f} sequences fit.")
    host = deployment.machine.host
    if host is not None:
        found.append(
            f"{deployment.stage.host_bytes / 2**30:.1f} GiB of weights lie in host memory, read by {host.id} at "
            f"{host.bandwidth_bytes_per_s / 1e9:.0f} GB/s (⟨cpu⟩ names yours), or copied to the GPU for a prompt."
        )
    if deployment.spans_servers or deployment.words.sharding.gpus > max(8, deployment.machine.server_gpus):
        port = deployment.machine.network_bytes_per_s / 2
        assumed = "" if deployment.words.network_bytes_per_s else ", which is assumed; ⟨network⟩ states yours"
        found.append(
            f"Servers of {deployment.machine.server_gpus} GPUs are joined by a network of {port / 1e9:g} GB/s a GPU in "
            f"one direction{assumed}."
        )
    if not deployment.machine.switched and deployment.words.sharding.gpus > 1 and deployment.machine.server_gpus > 1:
        found.append("The GPUs are joined through the host; ⟨link⟩ states the bandwidth of yours.")
    if cap := deployment.machine.cap:
        found.append(f"Times are those under a power limit of {cap.law.cap_w:g} W for each GPU.")
    if note := half_note(deployment.gpu, deployment.quantisation.format.name, deployment.kv):
        found.append(f"{note}.")
    found += [f"{note}." for note in deployment.notes]
    if adjustments:
        learnt = adjustments[Metric.TPOT]
        found.append(f"Measured runs ({learnt.runs}) change TPOT by a factor of {learnt.factor:.3f}.")
    return tuple(found)
