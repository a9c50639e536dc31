"""A memory answer as JSON: base units, intervals as objects."""

from typing import Any

from capplan.core.memory.advice import Advice
from capplan.core.memory.sharding import RankMemory
from capplan.core.memory.summary import GpuMemory, MemoryAnswer
from capplan.core.memory.types import MemoryEstimate, MemoryPart
from capplan.report.documents.plan import interval_to_json, workload_to_json
from capplan.version import __version__

SCHEMA_VERSION = 1


def memory_to_json(answer: MemoryAnswer) -> dict[str, Any]:
    """Encode an answer as a JSON document; the figures without a GPU's name are for the first GPU, or for none."""
    estimate = answer.estimate
    rule = answer.rule_of_thumb
    return {
        "schema_version": SCHEMA_VERSION,
        "capplan_version": __version__,
        "model": answer.name,
        "target": answer.target,
        "workload": workload_to_json(answer.workload),
        "batch": estimate.batch,
        **_estimate_to_json(estimate),
        "largest_tensors": [
            {"label": each.label, "shape": list(each.shape), "dtype": each.dtype or None, "size_bytes": each.size_bytes}
            for each in estimate.largest
        ],
        "live_peak_terms": [
            {"constant_bytes": term.constant, "per_sample_bytes": term.per_sample} for term in answer.peak_terms
        ],
        "max_batch": {each.gpu.id: each.max_batch for each in answer.gpus},
        "gpus": [_gpu_to_json(each) for each in answer.gpus],
        "ranks": [_rank_to_json(each) for each in answer.ranks],
        "advice": [_advice_to_json(each) for each in answer.advice],
        "inference_mode_saves_bytes": answer.inference_mode_saves_bytes,
        "index_limit_batch": answer.index_limit_batch,
        "rule_of_thumb": {
            "input_bytes": rule.input_bytes,
            "output_bytes": rule.output_bytes,
            "parameter_bytes": rule.parameter_bytes,
            "filled_fraction": rule.filled_fraction,
            "total_bytes": rule.total_bytes,
        },
        "notes": list(answer.notes),
    }


def _estimate_to_json(estimate: MemoryEstimate) -> dict[str, Any]:
    return {
        "peak_allocated_bytes": interval_to_json(estimate.peak_allocated_bytes),
        "peak_reserved_bytes": interval_to_json(estimate.peak_reserved_bytes),
        "total_bytes": interval_to_json(estimate.total_bytes),
        "parts": [_part_to_json(part) for part in (*estimate.parts, estimate.slack, estimate.context)],
        "peak_op": estimate.peak_op,
        "peak_module": estimate.peak_module,
    }


def _part_to_json(part: MemoryPart) -> dict[str, Any]:
    return {"name": part.name, "size_bytes": interval_to_json(part.size_bytes), "origin": part.origin}


def _gpu_to_json(answer: GpuMemory) -> dict[str, Any]:
    return {
        "gpu": answer.gpu.id,
        "status": answer.status.value,
        "available_bytes": answer.available_bytes,
        "max_batch": answer.max_batch,
        "min_gpus": answer.min_gpus,
        **_estimate_to_json(answer.estimate),
        "advice": [_advice_to_json(each) for each in answer.advice],
        "notes": list(answer.estimate.notes),
    }


def _rank_to_json(rank: RankMemory) -> dict[str, Any]:
    return {
        "sharding": rank.sharding.value,
        "gpus": rank.gpus,
        "batch_per_gpu": rank.batch,
        "total_bytes": interval_to_json(rank.total_bytes),
        "parts": [_part_to_json(part) for part in rank.parts],
    }


def _advice_to_json(advice: Advice) -> dict[str, Any]:
    return {
        "change": advice.change,
        "batch": advice.batch,
        "total_bytes": interval_to_json(advice.total_bytes),
        "saved_bytes": advice.saved_bytes,
        "status": advice.status.value if advice.status else None,
    }
