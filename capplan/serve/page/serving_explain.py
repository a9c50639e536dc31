"""Where the figures about served language models come from, in lines."""

from capplan.errors import UsageError
from capplan.llm.core.fleet.deployment_plan import DeploymentFit
from capplan.llm.core.fleet.limits import SATURATION
from capplan.llm.core.fleet.token_load import TokenLoad
from capplan.llm.core.memory_answer import MemoryAnswer
from capplan.llm.core.serving.estimate import ServingEstimate, ServingPoint
from capplan.report.render import render
from capplan.report.sections import Format, Section
from capplan.report.text.llm.serving import decode_step, prefill_step
from capplan.serve.page.explain import Explained
from capplan.shapes.llm_memory import llm_memory_document
from capplan.units import format_bytes, format_fraction, format_parameters, format_rate, format_seconds

KINDS = ("ttft", "tpot", "tokens", "memory", "model")
"""Which figures of a replica can be explained."""


def explain_times(kind: str, estimate: ServingEstimate, memory: MemoryAnswer) -> Explained:
    """Return where one figure of a replica comes from."""
    point = estimate.points[-1]
    where = f"{estimate.sharding.gpus} × {estimate.gpu}"
    at = f"{where} at {point.concurrency:,} clients"
    match kind:
        case "ttft":
            return Explained(title=f"Time to first token on {at}", lines=tuple(_ttft(estimate, point)))
        case "tpot":
            return Explained(title=f"Time per output token on {at}", lines=tuple(_tpot(estimate, point)))
        case "tokens":
            return Explained(title=f"Output tokens per second of {at}", lines=tuple(_tokens(estimate, point)))
        case "memory":
            return Explained(title=f"Memory of {where}", lines=tuple(_memory(memory)))
        case "model":
            return Explained(title=f"Work of {estimate.model}", lines=tuple(_model(estimate, memory)))
    raise UsageError(f"explain {kind[:40]!r}: there is no such figure; there are {', '.join(KINDS)}.")


def _ttft(estimate: ServingEstimate, point: ServingPoint) -> list[str]:
    lines = [
        f"mean over {point.concurrency:,} clients that start together and send their next request with their answer: "
        f"{point.ttft_s.to_text(format_seconds)}",
        "A prompt waits for the step that runs, for prompts before it, and where no more sequences fit for an answer "
        "to end. The engine's steps are simulated with the time of each, and fitted constants of the engine add what "
        "clients and servers take.",
        *_queue(point),
        *_basis(estimate, point),
    ]
    return [*lines, "", *render([Section(prefill_step(estimate))], Format.TABLE).splitlines()]


def _tpot(estimate: ServingEstimate, point: ServingPoint) -> list[str]:
    lines = [
        f"(time of a whole answer - time to first token) / (output tokens - 1): {point.tpot_s.to_text(format_seconds)}",
        "A token takes a decode step of all sequences that run, and a share of the steps that process prompts beside.",
        *_queue(point),
        *_basis(estimate, point),
    ]
    return [*lines, "", *render([Section(decode_step(estimate))], Format.TABLE).splitlines()]


def _tokens(estimate: ServingEstimate, point: ServingPoint) -> list[str]:
    rate, gpus = point.output_tokens_per_s, estimate.sharding.gpus
    return [
        f"clients × output tokens / time of a whole answer = {point.concurrency:,} × {estimate.output_len:g} / "
        f"{format_seconds(point.e2e_s)} = {format_rate(rate.expected)}",
        f"from {format_rate(rate.low)} to {format_rate(rate.high)}; {format_rate(rate.expected / gpus)} for each of "
        f"{gpus} GPUs; a user reads {format_rate(1 / point.tpot_s.expected)}",
        *_queue(point),
        *_basis(estimate, point),
    ]


def _queue(point: ServingPoint) -> list[str]:
    if not point.queued:
        return []
    return [f"{point.running:.0f} of {point.concurrency:,} requests are processed at a time; the others wait."]


def _basis(estimate: ServingEstimate, point: ServingPoint) -> list[str]:
    lines = [f"interval at 90 %, by evidence: {point.evidence}; calibration {estimate.calibration}"]
    if estimate.measured_factor is not None:
        lines.append(f"{estimate.measured_runs} measured runs of it change the time by ×{estimate.measured_factor:.3g}")
    return lines


def _memory(answer: MemoryAnswer) -> list[str]:
    held = llm_memory_document(answer)
    pool = held.kv_pool_interval_bytes
    parts = {
        "weights": held.weights_bytes,
        "activations": held.activation_bytes,
        "context, libraries and buffers": held.other_bytes,
        "KV cache": held.kv_pool_bytes,
    }
    return [
        *(f"{format_bytes(size):>10}  {name}" for name, size in parts.items() if size),
        f"{format_bytes(held.gpu_bytes):>10}  of one GPU, of which the engine takes {held.utilization:.0%}",
        f"cache: {format_bytes(pool.low)} to {format_bytes(pool.high)} at 90 %, by evidence: {held.evidence}",
        f"a token takes {format_bytes(held.kv_bytes_per_token)}, a sequence of {held.sequence_tokens:,} tokens "
        f"{format_bytes(held.kv_bytes_per_sequence)}; {held.sequences_that_fit:,} fit in {held.gpus} GPUs",
        f"source: {held.source}",
        *(f"note: {note}" for note in held.notes),
    ]


def _model(estimate: ServingEstimate, answer: MemoryAnswer) -> list[str]:
    model = llm_memory_document(answer).model
    return [
        f"{format_parameters(estimate.params)} parameters, {format_parameters(estimate.active_params)} of which one "
        f"token passes, in {model.layers} layers of width {model.hidden_dim:,}",
        f"weights in {estimate.weights}, cache in {estimate.kv}; read from {model.source}",
    ]


def explain_fit(fit: DeploymentFit, load: TokenLoad) -> list[str]:
    """Return where the figures of a deployment come from."""
    share = fit.rate_per_s / fit.replicas
    spare = fit.replicas - fit.needed
    clients = f"{load.rate_per_s:g} requests/s" if load.rate_per_s is not None else f"{load.concurrency:g} clients"
    lines = [
        f"replicas: {clients} / {format_rate(fit.max_rate_per_s)} requests/s that one carries within the limits "
        f"and up to {format_fraction(SATURATION)} of the rate at which it is full: {fit.needed} needed"
        f"{f', {spare} more for redundancy' if spare else ''}",
        f"{fit.words}; each replica gets {format_rate(share)} requests/s and processes {fit.running:.1f} at a time",
        f"TTFT {fit.ttft_s.to_text(format_seconds)}",
        f"TPOT {fit.tpot_s.to_text(format_seconds)}",
        f"whole answer {fit.e2e_s.to_text(format_seconds)}",
    ]
    if fit.simulated is not None:
        seen = fit.simulated
        lines.append(
            f"simulated, request by request ({seen.requests:,}): TTFT p50 {format_seconds(seen.ttft_s.p50)}, p99 "
            f"{format_seconds(seen.ttft_s.p99)}; TPOT p50 {format_seconds(seen.tpot_s.p50)}, p99 "
            f"{format_seconds(seen.tpot_s.p99)}; {format_fraction(seen.busy_fraction)} of the time busy"
        )
    worst = "hold" if fit.holds_at_worst else "do not hold"
    lines += [
        f"evidence: {fit.evidence}; at the far ends of the intervals the limits {worst}",
        *_fit_memory(fit),
        *_fit_money(fit),
    ]
    return lines


def _fit_memory(fit: DeploymentFit) -> list[str]:
    held = fit.memory
    usable = "" if held.usable_bytes is None else f" of {format_bytes(held.usable_bytes)} usable"
    return [
        f"one GPU: weights {format_bytes(held.weights_bytes)}, activations {format_bytes(held.activation_bytes)}, "
        f"context and libraries {format_bytes(held.other_bytes)}, KV cache {format_bytes(held.kv_pool_bytes)}{usable}",
        f"a token takes {format_bytes(held.kv_bytes_per_token)} of cache; {held.sequences_that_fit:,} sequences of "
        f"{fit.input_len + fit.output_len:,.0f} tokens fit in a replica",
    ]


def _fit_money(fit: DeploymentFit) -> list[str]:
    rent, hourly = fit.rent, fit.usd_per_hour
    if rent is None or hourly is None:
        return ["price unknown: no dated on-demand offer of this GPU holds the fleet."]
    per_output = fit.usd_per_million_output_tokens or 0.0
    return [
        f"{fit.machines} × {rent.machine_words} × {rent.usd_per_machine_hour:.4g} USD/h "
        f"({rent.date}, {rent.known_by}) = {hourly:,.2f} USD/h",
        f"{hourly:,.2f} USD/h / 3600 s / {format_rate(fit.output_tokens_per_s)} output tokens/s × 10⁶ = "
        f"{per_output:.3g} USD per million output tokens, prompts included",
    ]
