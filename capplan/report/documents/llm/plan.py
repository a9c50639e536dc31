"""Plans of LLM serving as JSON documents. Times in seconds, money in US dollars, memory in bytes of one GPU."""

from dataclasses import asdict
from typing import Any

from capplan.core.llm.fleet.deployment_plan import DeploymentFit, DeploymentPlan, DeploymentRejection, front, load_front
from capplan.core.llm.fleet.disaggregated import DisaggregatedFit
from capplan.core.llm.serving.load_curve import LoadPoint
from capplan.core.llm.sharding import Sharding
from capplan.core.llm.simulation.load_answer import Percentiles
from capplan.core.numbers import Interval

SCHEMA_VERSION = 1
MOST_CURVES = 12
"""Deployments whose load curve is written out: the best ones."""


def plan_document(plan: DeploymentPlan) -> dict[str, Any]:
    """Write a plan as a document."""
    best = {id(fit) for fit in front(plan.fits)}
    fits = [_fit(fit, on_front=id(fit) in best, with_curve=index < MOST_CURVES) for index, fit in enumerate(plan.fits)]
    return {
        "schema_version": SCHEMA_VERSION,
        "model": {"name": plan.model, "params": plan.params, "active_params": plan.active_params},
        "load": asdict(plan.load),
        "limits": asdict(plan.limits),
        "recommended": fits[0] if fits else None,
        "cheaper_on_weaker_evidence": plan.cheaper.gpu if plan.cheaper else None,
        "fits": fits,
        "front": [
            {
                "gpu": point.fit.gpu,
                **sharding_fields(point.fit.sharding),
                "engine": point.fit.engine,
                "weights": point.fit.weights,
                "running": point.running,
                "output_tokens_per_s_per_gpu": point.per_gpu,
                "output_tokens_per_s_per_user": point.per_user,
            }
            for point in load_front(plan.fits)
        ],
        "disaggregated": [_disaggregated(each) for each in plan.disaggregated],
        "rejections": [_rejection(each) for each in plan.rejections],
        "advice": plan.advice,
        "assumptions": list(plan.assumptions),
        "notes": list(plan.notes),
    }


def sharding_fields(sharding: Sharding) -> dict[str, int]:
    """Return how the GPUs of a replica share the model, by the usual names."""
    return {"tp": sharding.tensor, "pp": sharding.pipeline, "ep": sharding.expert, "dp": sharding.data}


def _fit(fit: DeploymentFit, *, on_front: bool, with_curve: bool) -> dict[str, Any]:
    simulated, split = fit.simulated, fit.split_usd_per_million
    return {
        "gpu": fit.gpu,
        "gpus": fit.gpus,
        "replicas": fit.replicas,
        "replicas_needed": fit.needed,
        "words": fit.words,
        **sharding_fields(fit.sharding),
        "engine": fit.engine,
        "weights": fit.weights,
        "kv": fit.kv,
        "memory": asdict(fit.memory),
        "ttft_s": _time(fit.ttft_s, simulated.ttft_s if simulated else None),
        "tpot_s": _time(fit.tpot_s, simulated.tpot_s if simulated else None),
        "e2e_s": _time(fit.e2e_s, simulated.e2e_s if simulated else None),
        "itl_s": asdict(simulated.itl_s) if simulated and simulated.itl_s else None,
        "rate_per_s": fit.rate_per_s,
        "running_per_replica": fit.running,
        "batch_limit": fit.batch_limit,
        "output_tokens_per_s": fit.output_tokens_per_s,
        "output_tokens_per_s_per_gpu": fit.output_tokens_per_s_per_gpu,
        "output_tokens_per_s_per_user": fit.output_tokens_per_s_per_user,
        "max_rate_per_s": fit.max_rate_per_s * fit.replicas,
        "max_rate_per_s_per_replica": fit.max_rate_per_s,
        "goodput_fraction": simulated.goodput_fraction if simulated else None,
        "usd_per_hour": fit.usd_per_hour,
        "usd_per_million_output_tokens": fit.usd_per_million_output_tokens,
        "usd_per_million_tokens": fit.usd_per_million_tokens,
        "split_usd_per_million_tokens": None if split is None else {"input": split[0], "output": split[1]},
        "rent": asdict(fit.rent) if fit.rent else None,
        "evidence": fit.evidence,
        "holds_at_worst": fit.holds_at_worst,
        "on_front": on_front,
        "curve": [_point(point, fit) for point in fit.curve] if with_curve else None,
    }


def _point(point: LoadPoint, fit: DeploymentFit) -> dict[str, float]:
    return {
        "running": point.running,
        "rate_per_s": point.rate_per_s,
        "ttft_s": point.ttft_s,
        "tpot_s": point.tpot_s,
        "output_tokens_per_s_per_gpu": point.rate_per_s * fit.output_len / fit.sharding.gpus,
    }


def _time(interval: Interval, simulated: Percentiles | None) -> dict[str, float | None]:
    names = ("p50", "p90", "p95", "p99")
    return {**asdict(interval), **{name: getattr(simulated, name) if simulated else None for name in names}}


def _disaggregated(each: DisaggregatedFit) -> dict[str, Any]:
    return {
        "gpu": each.gpu,
        "gpus": each.gpus,
        "words": each.words,
        "engine": each.engine,
        "weights": each.weights,
        "prefill": {**sharding_fields(each.prefill), "replicas": each.prefill_replicas, "prompt_s": each.prefill_s},
        "decode": {
            **sharding_fields(each.decode),
            "replicas": each.decode_replicas,
            "running": each.decode_running,
        },
        "ratio": each.ratio,
        "transfer_s": each.transfer_s,
        "ttft_s": each.ttft_s,
        "tpot_s": each.tpot_s,
        "e2e_s": each.e2e_s,
        "output_tokens_per_s": each.rate_per_s * each.output_len,
        "usd_per_hour": each.usd_per_hour,
    }


def _rejection(each: DeploymentRejection) -> dict[str, Any]:
    return {
        "gpu": each.gpu,
        "reason": each.reason,
        "obstacle": each.obstacle.value,
        "rescue": each.rescue,
        **sharding_fields(each.sharding),
        "engine": each.engine,
        "weights": each.weights,
        "least_s": each.least_s,
    }
