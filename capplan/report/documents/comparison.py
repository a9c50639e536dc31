"""A comparison as JSON: documented by capplan/schemas/compare.schema.json, units in the names."""

from typing import Any

from capplan.core.memory.types import FitStatus
from capplan.core.plan.comparison import ComparedModel, Comparison, ComparisonRow
from capplan.report.documents.plan import interval_to_json
from capplan.version import __version__

SCHEMA_VERSION = 1


def comparison_to_json(comparison: Comparison) -> dict[str, Any]:
    """Encode a comparison as a JSON document of base units, fractions from 0 to 1 and intervals as objects."""
    workload = comparison.rows[0].workload
    return {
        "schema_version": SCHEMA_VERSION,
        "capplan_version": __version__,
        "models": [_model_to_json(each) for each in comparison.models],
        "conditions": {
            "mode": workload.configuration.mode.value,
            "torch": "{}.{}".format(*workload.torch_version),
            "utilization_fraction": comparison.limits.utilization_fraction,
            "max_latency_s": comparison.limits.max_latency_s,
            "min_throughput_per_s": comparison.limits.min_throughput_per_s,
        },
        "rows": [_row_to_json(each) for each in comparison.rows],
        "notes": list(comparison.notes),
    }


def _model_to_json(model: ComparedModel) -> dict[str, Any]:
    facts = model.facts
    return {
        "name": model.label,
        "target": model.target,
        "class": facts.class_name,
        "params": facts.parameter_count,
        "macs_per_sample": facts.macs_per_sample,
        "flops_per_sample": facts.flops_per_sample,
        "weight_bytes": facts.weight_bytes,
        "uncounted": list(facts.uncounted),
    }


def _row_to_json(row: ComparisonRow) -> dict[str, Any]:
    fit = row.fit
    return {
        "model": row.model,
        "precision": row.workload.precision.value,
        "framework": row.workload.framework.value,
        "layout": row.workload.layout.value,
        "gpu": row.gpu.id,
        "batch": row.batch,
        "status": fit.status.value if fit else FitStatus.DOES_NOT_FIT.value if row.rejection else "failed",
        "reason": row.reason,
        "latency_s": fit and {"bound": fit.latency.bound_s, **interval_to_json(fit.latency.latency_s)},
        "throughput_per_s": fit and interval_to_json(fit.latency.throughput_per_s),
        "gain": row.gain,
        "bound_by": fit and fit.latency.bound_by.value,
        "memory": fit
        and {
            "peak_allocated_bytes": interval_to_json(fit.memory.peak_allocated_bytes),
            "peak_reserved_bytes": interval_to_json(fit.memory.peak_reserved_bytes),
            "total_bytes": interval_to_json(fit.memory.total_bytes),
        },
        "max_batch": fit.max_batch if fit else row.rejection.max_batch if row.rejection else None,
        "usd_per_hour": fit.rent.usd_per_hour if fit and fit.rent else None,
        "usd_per_million_samples": fit and fit.usd_per_million_samples,
        "evidence": fit and fit.latency.evidence.value,
        "evidence_reason": fit and fit.latency.evidence_reason,
    }
