"""The shape of a comparison: base units, fractions from 0 to 1, intervals with their ends."""

from typing import Final, Literal

from msgspec import UNSET, Meta

from capplan.core.memory.types import FitStatus
from capplan.core.plan.comparison import ComparedModel, Comparison, ComparisonRow
from capplan.core.plan.types import Fit, ModelFacts
from capplan.shapes.common import SIGNED, torch_version
from capplan.shapes.shape import CSV, Shape, Show, ends_of, figure, itself, reads


def row_status(row: ComparisonRow) -> Literal["fits", "borderline", "does not fit", "failed"]:
    """Return whether a row's model fits, or why it has no figures."""
    if row.fit is not None:
        return "fits" if row.fit.status is FitStatus.FITS else "borderline"
    return "does not fit" if row.rejection else "failed"


def _max_batch(row: ComparisonRow) -> int | None:
    answer = row.fit or row.rejection
    return answer.max_batch if answer else None


def _facts(row: ComparisonRow, comparison: Comparison) -> ModelFacts:
    return next(model.facts for model in comparison.models if model.label == row.model)


_ALL = Show(csv=("expected", "low", "high"))

# fmt: off
COMPARED_MODEL: Final = Shape("ComparedModelDocument", ComparedModel, "One of the models compared.", (
    figure("name", "label"),
    figure("target"),
    figure("class", "facts.class_name"),
    figure("params", "facts.parameter_count"),
    figure("macs_per_sample", "facts.macs_per_sample"),
    figure("flops_per_sample", "facts.flops_per_sample"),
    figure("weight_bytes", "facts.weight_bytes"),
    figure("uncounted", "facts.uncounted"),
))
CONDITIONS: Final = Shape("ComparisonConditions", Comparison, "The conditions that all rows share.", (
    figure("mode", "workload.configuration.mode"),
    figure("torch", reads(str, lambda comparison: torch_version(comparison.workload))),
    figure("host", "host.words"),
    figure("utilization_fraction", "limits.utilization_fraction"),
    figure("max_latency_s", "limits.max_latency_s"),
    figure("min_throughput_per_s", "limits.min_throughput_per_s"),
))
COMPARED_MEMORY: Final = Shape("ComparedMemory", Fit, "Peak memory of one process. [bytes]", (
    figure("peak_allocated_bytes", "memory.peak_allocated_bytes", show=CSV),
    figure("peak_reserved_bytes", "memory.peak_reserved_bytes", show=CSV),
    figure("total_bytes", "memory.total_bytes", show=_ALL),
))
COMPARISON_ROW: Final = Shape("ComparisonRowDocument", ComparisonRow, "One model under one set of conditions on a GPU at a batch; figures are null where it does not fit.", (
    figure("model", show=CSV),
    figure("precision", "workload.precision", show=CSV),
    figure("framework", "workload.framework", show=CSV),
    figure("layout", "workload.layout", show=CSV),
    figure("gpu", "gpu.id", show=CSV),
    figure("batch", show=CSV),
    figure("status", row_status, show=CSV),
    figure("reason", show=CSV),
    figure("params", reads(int, lambda row, comparison: _facts(row, comparison).parameter_count), show=CSV.alone()),
    figure("flops_per_sample", reads(int, lambda row, comparison: _facts(row, comparison).flops_per_sample), show=CSV.alone()),
    figure("latency_s", "fit.latency.bounded_s", show=Show(csv=("bound", "low", "expected", "high"))),
    figure("throughput_per_s", "fit.latency.throughput_per_s", show=CSV),
    figure("gain", meaning="Throughput as a multiple of that of the first row of the same GPU and batch.", show=CSV),
    figure("bound_by", "fit.latency.bound_by", show=CSV),
    figure("memory", COMPARED_MEMORY.at("fit")),
    figure("max_batch", _max_batch, show=CSV),
    figure("usd_per_hour", "fit.rent.usd_per_hour", show=CSV),
    figure("usd_per_million_samples", show=CSV),
    figure("evidence", "fit.latency.evidence", show=CSV),
    figure("evidence_reason", "fit.latency.evidence_reason"),
    figure("power_w", "fit.energy.power_w", "of all GPUs, without their host; --energy",
        Show(csv=tuple(ends_of("power_w").split())).where_known(), default=UNSET),
    figure("joules_per_sample", "fit.energy.joules_per_sample",
        show=Show(csv=tuple(ends_of("joules_per_sample").split())).where_known(), default=UNSET),
    figure("power_evidence", "fit.energy.evidence", show=CSV.where_known(), default=UNSET),
))
COMPARISON: Final = Shape("ComparisonDocument", Comparison, "What `capplan compare --format json` writes. Fractions run from 0 to 1.", (
    *SIGNED,
    figure("models", COMPARED_MODEL, Meta(min_length=1)),
    figure("conditions", CONDITIONS.at(itself(Comparison))),
    figure("rows", COMPARISON_ROW),
    figure("notes"),
    figure("local", "local_cost", "a million samples of the cheapest row in the currency asked for", default=None),
))
# fmt: on
