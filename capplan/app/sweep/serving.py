"""Rows of served language models: what `capplan llm estimate` says of a replica on every GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from capplan.app.sweep.request import LLM_PREFIX, SweepContext, SweepModel
from capplan.core.gpus.spec import GpuSpec
from capplan.core.memory.fit import usable_memory
from capplan.core.memory.types import FitStatus
from capplan.core.sweep.conditions import ServingConditions, Value
from capplan.core.sweep.grid import Columns
from capplan.core.sweep.schema import PLANNED_COLUMNS, RowStatus
from capplan.errors import CapplanError
from capplan.llm.answer.deployments import Deployments, OversizeError
from capplan.llm.answer.estimate_serving import ServingQuestion, estimate_serving
from capplan.llm.core.deployment import NamedDeployment
from capplan.llm.core.memory import StageMemory
from capplan.llm.core.serving.estimate import ServingEstimate, ServingPoint
from capplan.llm.core.sharding import Sharding
from capplan.specs import Gpus


def served_columns(
    model: SweepModel, conditions: ServingConditions, context: SweepContext, gpus: Sequence[GpuSpec]
) -> Columns:
    """Return a row for each GPU and number of clients.

    Args:
        model: the language model, named `llm:NAME`.
        conditions: how it is served.
        context: the constants of the estimates.
        gpus: the GPUs of one replica each.

    Raises:
        CapplanError: the model cannot be served so on any GPU: an unknown engine or format, too many tokens.
    """
    assert context.llm is not None
    known = Gpus(context.gpus, architectures={}, sheets={})
    law = (
        replace(context.power_law, cap_w=conditions.power_limit_w) if conditions.energy and context.power_law else None
    )
    deployments = Deployments(gpus=known, memory=context.llm.memory, power_law=law)
    found: Columns = {column.name: [] for column in PLANNED_COLUMNS}
    for gpu in gpus:
        asked = {**conditions.asked(), "gpu": gpu.id, "usable_bytes": round(usable_memory(gpu).expected)}
        for row in _rows(_question(model, conditions, gpu), asked, deployments, context):
            for name, values in found.items():
                values.append(row.get(name))
    return found


def _question(model: SweepModel, conditions: ServingConditions, gpu: GpuSpec) -> ServingQuestion:
    return ServingQuestion(
        words=NamedDeployment(
            model=model.request.words.removeprefix(LLM_PREFIX),
            gpu=gpu.id,
            engine=conditions.engine,
            sharding=Sharding(tensor=conditions.tensor),
            weights=conditions.weights,
            kv=conditions.kv,
        ),
        concurrencies=conditions.concurrencies,
        input_len=conditions.input_len,
        output_len=conditions.output_len,
    )


def _rows(
    question: ServingQuestion, asked: Mapping[str, Value], deployments: Deployments, context: SweepContext
) -> list[Mapping[str, Value]]:
    """Return the rows of one GPU; where it cannot serve the model, rows that say why."""
    assert context.llm is not None
    head, law = dict(asked), deployments.power_law
    try:
        estimate = estimate_serving(question, deployments=deployments, calibration=context.llm.times, power_law=law)
        head |= _memory_values(deployments.find(question.words).stage)
    except CapplanError as error:
        does_not_fit = isinstance(error, OversizeError)
        head["status"] = FitStatus.DOES_NOT_FIT.value if does_not_fit else RowStatus.UNSUPPORTED.value
        return [{**head, "fits": False, "reason": str(error), "batch": clients} for clients in question.concurrencies]
    return [{**head, **_point_values(estimate, point), **_energy_values(point)} for point in estimate.points]


def _memory_values(stage: StageMemory) -> dict[str, Value]:
    """Return the memory of the tightest GPU: what an engine holds from its start on, the whole cache among it."""
    pool = max(0.0, stage.pool_bytes)
    return {
        "total_bytes": round(stage.weight_bytes + stage.activation_bytes + stage.other_bytes + pool),
        "weight_bytes": round(stage.weight_bytes),
        "kv_pool_bytes": round(pool),
    }


def _point_values(estimate: ServingEstimate, point: ServingPoint) -> dict[str, Value]:
    return {
        "batch": point.concurrency,
        "precision": estimate.weights,
        "status": FitStatus.FITS.value,
        "fits": True,
        "weights": estimate.weights,
        "kv": estimate.kv,
        "latency_s": point.e2e_s,
        "latency_low_s": _answer_s(point, estimate.output_len, point.output_tokens_per_s.high),
        "latency_high_s": _answer_s(point, estimate.output_len, point.output_tokens_per_s.low),
        "throughput_per_s": point.requests_per_s,
        "ttft_s": point.ttft_s.expected,
        "ttft_low_s": point.ttft_s.low,
        "ttft_high_s": point.ttft_s.high,
        "tpot_s": point.tpot_s.expected,
        "tpot_low_s": point.tpot_s.low,
        "tpot_high_s": point.tpot_s.high,
        "output_tokens_per_s": point.output_tokens_per_s.expected,
        "output_tokens_low_per_s": point.output_tokens_per_s.low,
        "output_tokens_high_per_s": point.output_tokens_per_s.high,
        "max_batch": int(estimate.sequences_that_fit),
        "evidence": point.evidence,
        "calibration": estimate.calibration,
        "model_name": estimate.model,
        "parameters": estimate.params,
    }


def _energy_values(point: ServingPoint) -> dict[str, Value]:
    if point.energy is None:
        return {}
    power, joules = point.energy.power_w, point.energy.joules_per_output_token
    return {
        "power_w": power.expected,
        "power_low_w": power.low,
        "power_high_w": power.high,
        "joules_per_output_token": joules.expected,
        "joules_low_per_output_token": joules.low,
        "joules_high_per_output_token": joules.high,
    }


def _answer_s(point: ServingPoint, output_len: float, tokens_per_s: float) -> float:
    """Return the time of a whole answer at a rate of all clients' tokens, by Little's law. [s]"""
    return point.concurrency * output_len / tokens_per_s
