"""A comparison as a typed document: base units, fractions from 0 to 1, intervals as objects."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from capplan.core.gpus.machines import LocalAmount
from capplan.core.latency.types import Binding, Evidence
from capplan.core.memory.types import FitStatus
from capplan.core.numbers import Bounded, Interval
from capplan.core.plan.comparison import ComparedModel, Comparison, ComparisonRow
from capplan.core.plan.types import Fit
from capplan.core.workload import Framework, Host, Layout, Mode, Precision
from capplan.shapes.codec import SCHEMA_VERSION, SignedDocument
from capplan.version import __version__


class ComparedModelDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One of the models compared."""

    name: str
    target: str
    class_name: str = field(name="class")
    params: int
    macs_per_sample: int
    flops_per_sample: int
    weight_bytes: int
    uncounted: tuple[str, ...]


class ComparisonConditions(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions that all rows share."""

    mode: Mode
    torch: str
    host: str
    utilization_fraction: float
    max_latency_s: float | None
    min_throughput_per_s: float | None


class ComparedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Peak memory of one process. [bytes]"""

    peak_allocated_bytes: Interval
    peak_reserved_bytes: Interval
    total_bytes: Interval


class ComparisonRowDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One model under one set of conditions on a GPU at a batch; figures are null where it does not fit."""

    model: str
    precision: Precision
    framework: Framework
    layout: Layout
    gpu: str
    batch: int | None
    status: Literal["fits", "borderline", "does not fit", "failed"]
    reason: str | None
    latency_s: Bounded | None
    throughput_per_s: Interval | None
    gain: Annotated[
        float | None, Meta(description="Throughput as a multiple of that of the first row of the same GPU and batch.")
    ]
    bound_by: Binding | None
    memory: ComparedMemory | None
    max_batch: int | None
    usd_per_hour: float | None
    usd_per_million_samples: float | None
    evidence: Evidence | None
    evidence_reason: str | None
    power_w: Annotated[Interval | UnsetType, Meta(description="of all GPUs, without their host; --energy")] = UNSET
    joules_per_sample: Interval | UnsetType = UNSET
    power_evidence: str | UnsetType = UNSET


class ComparisonDocument(SignedDocument, frozen=True, kw_only=True):
    """What `capplan compare --format json` writes. Fractions run from 0 to 1."""

    models: Annotated[tuple[ComparedModelDocument, ...], Meta(min_length=1)]
    conditions: ComparisonConditions
    rows: tuple[ComparisonRowDocument, ...]
    notes: tuple[str, ...]
    local: Annotated[
        LocalAmount | None, Meta(description="a million samples of the cheapest row in the currency asked for")
    ] = None


def comparison_document(comparison: Comparison) -> ComparisonDocument:
    """Return a comparison as a document.

    Args:
        comparison: Models, number formats and frameworks side by side.
    """
    return ComparisonDocument(
        schema_version=SCHEMA_VERSION,
        capplan_version=__version__,
        models=tuple(map(_model, comparison.models)),
        conditions=_conditions(comparison),
        rows=tuple(map(_row, comparison.rows)),
        notes=comparison.notes,
        local=comparison.local_cost,
    )


def _conditions(comparison: Comparison) -> ComparisonConditions:
    workload, limits = comparison.rows[0].workload, comparison.limits
    return ComparisonConditions(
        mode=workload.configuration.mode,
        torch="{}.{}".format(*workload.torch_version),
        host=(workload.host or Host.SERVER).words,
        utilization_fraction=limits.utilization_fraction,
        max_latency_s=limits.max_latency_s,
        min_throughput_per_s=limits.min_throughput_per_s,
    )


def _model(model: ComparedModel) -> ComparedModelDocument:
    facts = model.facts
    return ComparedModelDocument(
        name=model.label,
        target=model.target,
        class_name=facts.class_name,
        params=facts.parameter_count,
        macs_per_sample=facts.macs_per_sample,
        flops_per_sample=facts.flops_per_sample,
        weight_bytes=facts.weight_bytes,
        uncounted=facts.uncounted,
    )


def _row(row: ComparisonRow) -> ComparisonRowDocument:
    fit = row.fit
    return ComparisonRowDocument(
        model=row.model,
        precision=row.workload.precision,
        framework=row.workload.framework,
        layout=row.workload.layout,
        gpu=row.gpu.id,
        batch=row.batch,
        status=row_status(row),
        reason=row.reason,
        latency_s=fit.latency.bounded_s if fit else None,
        throughput_per_s=fit.latency.throughput_per_s if fit else None,
        gain=row.gain,
        bound_by=fit.latency.bound_by if fit else None,
        memory=_memory(fit) if fit else None,
        max_batch=fit.max_batch if fit else row.rejection.max_batch if row.rejection else None,
        usd_per_hour=fit.rent.usd_per_hour if fit and fit.rent else None,
        usd_per_million_samples=fit.usd_per_million_samples if fit else None,
        evidence=fit.latency.evidence if fit else None,
        evidence_reason=fit.latency.evidence_reason if fit else None,
        power_w=fit.energy.power_w if fit and fit.energy else UNSET,
        joules_per_sample=fit.energy.joules_per_sample if fit and fit.energy else UNSET,
        power_evidence=fit.energy.evidence if fit and fit.energy else UNSET,
    )


def row_status(row: ComparisonRow) -> Literal["fits", "borderline", "does not fit", "failed"]:
    """Return whether a row's model fits, or why it has no figures."""
    if row.fit is not None:
        return "fits" if row.fit.status is FitStatus.FITS else "borderline"
    return "does not fit" if row.rejection else "failed"


def _memory(fit: Fit) -> ComparedMemory:
    return ComparedMemory(
        peak_allocated_bytes=fit.memory.peak_allocated_bytes,
        peak_reserved_bytes=fit.memory.peak_reserved_bytes,
        total_bytes=fit.memory.total_bytes,
    )
