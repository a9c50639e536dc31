"""A plan as JSON: documented by capplan/schemas/plan.schema.json, units in the names."""

from typing import Any

from capplan.core.memory.fit import usable_memory
from capplan.core.numbers import Interval
from capplan.core.plan.types import Change, Fit, ModelFacts, Plan, Recommendation, Rejection
from capplan.core.workload import Workload
from capplan.version import __version__

SCHEMA_VERSION = 1


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """Encode a plan as a JSON document of base units, fractions from 0 to 1 and intervals as objects."""
    return {
        "schema_version": SCHEMA_VERSION,
        "capplan_version": __version__,
        "model": _model_to_json(plan.model),
        "workload": workload_to_json(plan.workload),
        "limits": {
            "utilization_fraction": plan.limits.utilization_fraction,
            "max_latency_s": plan.limits.max_latency_s,
            "min_throughput_per_s": plan.limits.min_throughput_per_s,
        },
        "job": plan.job and {"samples": plan.job.samples, "epochs": plan.job.epochs},
        "recommended": {each.criterion.value: _recommendation_to_json(each) for each in plan.recommended},
        "shortlist": list(plan.shortlist),
        "changes": [_change_to_json(each) for each in plan.changes],
        "fits": [_fit_to_json(fit, plan.gpu_hours(fit)) for fit in plan.fits],
        "rejections": [_rejection_to_json(rejection) for rejection in plan.rejections],
        "assumptions": list(plan.assumptions),
        "cautions": list(plan.cautions),
        "notes": list(plan.notes),
        "provenance": {
            "target": plan.target,
            "versions": dict(plan.versions),
            "calibration": plan.calibration,
        },
    }


def interval_to_json(interval: Interval) -> dict[str, float]:
    """Format an interval as an object."""
    return {"low": interval.low, "expected": interval.expected, "high": interval.high}


def workload_to_json(workload: Workload) -> dict[str, Any]:
    """Format the conditions of a question."""
    training = workload.training
    return {
        "precision": workload.precision.value,
        "mode": workload.configuration.mode.value,
        "framework": workload.framework.value,
        "layout": workload.layout.value,
        "torch": "{}.{}".format(*workload.torch_version),
        "training": training
        and {
            "optimizer": training.optimizer.value,
            "checkpointing": training.checkpointing,
            "accumulate": training.accumulate,
        },
    }


def _model_to_json(model: ModelFacts) -> dict[str, Any]:
    return {
        "name": model.name,
        "class": model.class_name,
        "params": model.parameter_count,
        "buffers": model.buffer_count,
        "macs_per_sample": model.macs_per_sample,
        "flops_per_sample": model.flops_per_sample,
        "weight_bytes": model.weight_bytes,
        "activation_peak_bytes": model.activation_peak_bytes,
        "traffic_fixed_bytes": model.traffic_fixed_bytes,
        "traffic_bytes_per_sample": model.traffic_bytes_per_sample,
        "input_bytes_per_sample": model.input_bytes_per_sample,
        "uncounted": list(model.uncounted),
    }


def _fit_to_json(fit: Fit, gpu_hours: Interval | None) -> dict[str, Any]:
    latency, throughput = fit.latency.latency_s, fit.latency.throughput_per_s
    memory = fit.memory
    return {
        "gpu": fit.gpu.id,
        "gpu_name": fit.gpu.name,
        "batch": fit.batch,
        "status": fit.status.value,
        "memory": {
            "peak_allocated_bytes": interval_to_json(memory.peak_allocated_bytes),
            "peak_reserved_bytes": interval_to_json(memory.peak_reserved_bytes),
            "total_bytes": interval_to_json(memory.total_bytes),
            "usable_bytes": usable_memory(fit.gpu).expected,
            "usable_is_reported": memory.usable_bytes is not None,
            "parts": {part.name: interval_to_json(part.size_bytes) for part in memory.parts},
        },
        "max_batch": fit.max_batch,
        "recommended_batch": fit.recommended_batch,
        "latency_s": {"bound": fit.latency.bound_s, **interval_to_json(latency)},
        "throughput_per_s": {"bound": fit.latency.samples / fit.latency.bound_s, **interval_to_json(throughput)},
        "bound_by": fit.latency.bound_by.value,
        "share_by_binding": {binding.value: share for binding, share in fit.latency.share_by_binding},
        "host_copy_s": fit.host_copy_s,
        "rent": fit.rent
        and {
            "usd_per_hour": fit.rent.usd_per_hour,
            "provider": fit.rent.provider,
            "region": fit.rent.region,
            "date": fit.rent.date.isoformat(),
        },
        "usd_per_million_samples": fit.usd_per_million_samples,
        "gpu_hours": gpu_hours and interval_to_json(gpu_hours),
        "calibration": fit.latency.calibration,
        "evidence": fit.latency.evidence.value,
        "evidence_reason": fit.latency.evidence_reason,
        "notes": [*memory.notes, *fit.latency.notes],
    }


def _rejection_to_json(rejection: Rejection) -> dict[str, Any]:
    return {
        "gpu": rejection.gpu.id,
        "gpu_name": rejection.gpu.name,
        "batch": rejection.batch,
        "constraint": rejection.constraint.value,
        "reason": f"{rejection.constraint.value}: {rejection.reason}",
        "needed": rejection.needed,
        "available": rejection.available,
        "max_batch": rejection.max_batch,
        "min_gpus": rejection.min_gpus,
    }


def _recommendation_to_json(recommendation: Recommendation) -> dict[str, Any]:
    return {
        "gpu": recommendation.fit.gpu.id,
        "batch": recommendation.fit.batch,
        "reason": recommendation.reason,
        "warning": recommendation.warning,
    }


def _change_to_json(change: Change) -> dict[str, Any]:
    return {
        "name": change.name,
        "option": change.option,
        "gpu": change.after.gpu.id,
        "batch": change.after.batch,
        "latency_s": interval_to_json(change.after.latency.latency_s),
        "total_bytes": interval_to_json(change.after.memory.total_bytes),
        "speedup": change.speedup,
    }
