"""Plans and simulations of LLM serving as JSON documents. Times in seconds, money in US dollars."""

from dataclasses import asdict
from typing import Any

from capplan.core.llm.serving.deployment_plan import (
    DeploymentFit,
    DeploymentPlan,
    DeploymentRejection,
    TokenLoad,
    front,
)
from capplan.core.llm.serving.load_answer import LoadAnswer, Percentiles
from capplan.core.llm.serving.simulation import Simulation
from capplan.core.numbers import Interval

SCHEMA_VERSION = 1


def plan_document(plan: DeploymentPlan) -> dict[str, Any]:
    """Write a plan as a document; memory in bytes of one GPU."""
    best = {id(fit) for fit in front(plan.fits, plan.load)}
    fits = [_fit(fit, plan.load, on_front=id(fit) in best) for fit in plan.fits]
    return {
        "schema_version": SCHEMA_VERSION,
        "model": {"name": plan.model, "params": plan.params, "active_params": plan.active_params},
        "load": asdict(plan.load),
        "limits": asdict(plan.limits),
        "recommended": fits[0] if fits else None,
        "cheaper_on_weaker_evidence": plan.cheaper.gpu if plan.cheaper else None,
        "fits": fits,
        "rejections": [_rejection(each) for each in plan.rejections],
        "assumptions": list(plan.assumptions),
        "notes": list(plan.notes),
    }


def _fit(fit: DeploymentFit, load: TokenLoad, *, on_front: bool) -> dict[str, Any]:
    sharding, simulated = fit.sharding, fit.simulated
    return {
        "gpu": fit.gpu,
        "gpus": fit.gpus,
        "replicas": fit.replicas,
        "replicas_needed": fit.needed,
        "tp": sharding.tensor,
        "pp": sharding.pipeline,
        "ep": sharding.expert,
        "dp": sharding.data,
        "engine": fit.engine,
        "weights": fit.weights,
        "kv": fit.kv,
        "memory": {
            "weights_bytes": fit.weights_bytes,
            "usable_bytes": fit.usable_bytes,
            "sequences_that_fit": int(fit.sequences_that_fit),
        },
        "ttft_s": _time(fit.ttft_s, simulated.ttft_s if simulated else None),
        "tpot_s": _time(fit.tpot_s, simulated.tpot_s if simulated else None),
        "e2e_s": _time(fit.e2e_s, simulated.e2e_s if simulated else None),
        "output_tokens_per_s": load.output_tokens_per_s,
        "output_tokens_per_s_per_gpu": fit.output_tokens_per_s_per_gpu(load),
        "max_rate_per_s": fit.max_rate_per_s * fit.replicas,
        "max_rate_per_s_per_replica": fit.max_rate_per_s,
        "goodput_fraction": simulated.goodput_fraction if simulated else None,
        "usd_per_hour": fit.usd_per_hour,
        "usd_per_million_output_tokens": fit.usd_per_million_output_tokens(load),
        "rent": asdict(fit.rent) if fit.rent else None,
        "evidence": fit.evidence,
        "holds_at_worst": fit.holds_at_worst,
        "on_front": on_front,
    }


def _time(interval: Interval, simulated: Percentiles | None) -> dict[str, float | None]:
    return {**asdict(interval), "p99": simulated.p99 if simulated else None}


def _rejection(each: DeploymentRejection) -> dict[str, Any]:
    return {
        "gpu": each.gpu,
        "reason": each.reason,
        "tp": each.sharding.tensor if each.sharding else None,
        "weights": each.weights,
    }


def simulation_document(found: Simulation) -> dict[str, Any]:
    """Write simulated loads as a document; rates and tokens are those of one replica."""
    return {
        "schema_version": SCHEMA_VERSION,
        "model": found.model,
        "gpu": found.gpu,
        "gpus": found.gpus,
        "engine": found.engine,
        "sequences_that_fit": int(found.sequences_that_fit),
        "limits": asdict(found.limits),
        "loads": [_answer(each) for each in found.answers],
    }


def _answer(each: LoadAnswer) -> dict[str, Any]:
    return {
        "rate_per_s": each.rate_per_s,
        "requests": each.requests,
        "ttft_s": asdict(each.ttft_s),
        "tpot_s": asdict(each.tpot_s),
        "e2e_s": asdict(each.e2e_s),
        "output_tokens_per_s": each.output_tokens_per_s,
        "goodput_fraction": each.goodput_fraction,
        "keeps_up": each.keeps_up,
    }
