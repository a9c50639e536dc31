"""An answer about serving memory as JSON: bytes per GPU, tokens and sequences."""

from typing import Any

from capplan.core.llm.memory_answer import Alternative, MemoryAnswer
from capplan.core.llm.model import LanguageModel
from capplan.core.llm.tensors import count_active_parameters, count_parameters
from capplan.version import __version__

SCHEMA_VERSION = 1


def llm_memory_to_json(answer: MemoryAnswer) -> dict[str, Any]:
    """Return an answer as a JSON document; bytes are those of the tightest GPU.

    Args:
        answer: The answer.
    """
    request, stage = answer.request, answer.stage
    deployment = answer.memory.deployment
    return {
        "schema_version": SCHEMA_VERSION,
        "capplan_version": __version__,
        "model": llm_model_to_json(request.model),
        "gpu": request.gpu.id,
        "gpus": request.sharding.gpus,
        "tp": request.sharding.tensor,
        "pp": request.sharding.pipeline,
        "ep": request.sharding.expert,
        "dp": request.sharding.data,
        "engine": request.engine.value,
        "engine_version": None if request.version is None else ".".join(map(str, request.version)),
        "weights": deployment.quantisation.format.name,
        "kv": answer.kv,
        "fits": answer.fits,
        "gpu_bytes": round(deployment.total_bytes),
        "utilization": deployment.fraction,
        "weights_bytes": round(stage.weight_bytes),
        "weights_by_role_bytes": {role.value: round(size) for role, size in stage.weights.by_role},
        "activation_bytes": round(stage.activation_bytes),
        "other_bytes": round(stage.other_bytes),
        "graph_bytes": round(deployment.engine.graph_bytes),
        "kv_pool_bytes": max(0, round(stage.pool_bytes)),
        "kv_pool_interval_bytes": {
            "low": round(answer.pool_interval.low),
            "expected": round(answer.pool_interval.expected),
            "high": round(answer.pool_interval.high),
        },
        "missing_bytes": max(0, round(-stage.pool_bytes)),
        "kv_bytes_per_token": _whole(stage.cache.bytes_per_token),
        "state_bytes_per_sequence": round(stage.cache.state_bytes),
        "block_tokens": stage.block_tokens,
        "kv_tokens": answer.kv_tokens,
        "sequence_tokens": answer.sequence_tokens,
        "kv_bytes_per_sequence": round(stage.cache.sequence_bytes(answer.sequence_tokens, block=stage.block_tokens)),
        "sequences_that_fit": answer.sequences,
        "max_context": answer.max_context,
        "stages": [
            {
                "stage": each.stage,
                "weights_bytes": round(each.weight_bytes),
                "activation_bytes": round(each.activation_bytes),
                "kv_pool_bytes": max(0, round(each.pool_bytes)),
                "kv_tokens": each.tokens,
            }
            for each in answer.memory.stages
        ],
        "alternatives": [_alternative_to_json(each) for each in answer.alternatives],
        "evidence": answer.evidence,
        "source": deployment.engine.source,
        "notes": list(answer.notes),
    }


def llm_model_to_json(model: LanguageModel) -> dict[str, Any]:
    """Return a model's facts as a JSON object.

    Args:
        model: The model.
    """
    architecture = model.architecture
    vision = architecture.vision.parameters if architecture.vision else 0
    return {
        "name": architecture.name,
        "hf_id": model.hf_id,
        "family": architecture.family,
        "params": count_parameters(architecture),
        "active_params": count_active_parameters(architecture),
        "vision_params": vision,
        "layers": len(architecture.layers),
        "hidden_dim": architecture.hidden_dim,
        "vocab_size": architecture.vocab_size,
        "max_positions": architecture.max_positions,
        "checkpoint": model.own_quantisation.format.name,
        "exact_bytes": model.exact_bytes,
        "source": model.source,
        "check": model.check,
    }


def _alternative_to_json(alternative: Alternative) -> dict[str, Any]:
    return {
        "change": alternative.change,
        "fits": alternative.fits,
        "kv_tokens": alternative.kv_tokens,
        "sequences_that_fit": alternative.sequences,
        "weights_bytes": round(alternative.weight_bytes),
        "kv_pool_bytes": round(alternative.pool_bytes),
    }


def _whole(value: float) -> float | int:
    """Return a whole number as an integer: half a byte per token occurs with 4-bit caches."""
    return int(value) if value == int(value) else value
