"""Latency estimates as a typed document: times in seconds, sizes in bytes, shares as fractions."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from capplan.core.latency.advice import ComparedRun, SpeedAdvice, device_batch, knee_batch, saturating_batch
from capplan.core.latency.breakdown import BOUND_RULE, ClassicBound, KernelShare, ModuleShare
from capplan.core.latency.types import Binding, Evidence, LatencyEstimate
from capplan.core.numbers import Bounded, Interval
from capplan.core.plan.estimate import EstimateAnswer, EstimateReport
from capplan.core.power import StepEnergy
from capplan.core.workload import Framework, Layout, Precision

Share = Annotated[float, Meta(ge=0, le=1)]


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """The estimate at one batch."""

    batch: Annotated[int, Meta(ge=1)]
    bound_s: Annotated[float, Meta(gt=0)]
    latency_s: Interval
    throughput_per_s: Interval
    bound_by: Binding
    shares: Annotated[dict[Binding, float], Meta(description="share of the time by what binds it")]
    power_w: Annotated[Interval | UnsetType, Meta(description="mean of all GPUs, without the host")] = UNSET
    joules_per_sample: Interval | UnsetType = UNSET
    power_evidence: str | UnsetType = UNSET


class KernelDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel of a step, in all its runs."""

    name: str
    class_: str = field(name="class")
    operands: str
    runs: int
    time_s: float
    share_fraction: Share
    bound_by: Binding
    efficiency_fraction: float
    flops: float
    least_flops: Annotated[
        float, Meta(description="FLOPs that the bound counts: fewer than flops where Winograd's algorithm may run")
    ]
    bytes: float
    bound_s: float


class ModuleDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One module of the model and the device time of the kernels that it launches itself."""

    path: str
    kernels: int
    time_s: float
    share_fraction: Share
    bound_by: Binding


class ClassicBoundDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The step as one kernel, by the same rule as the bounds of the curve, which are never below it."""

    flops: float
    least_flops: Annotated[
        float, Meta(description="FLOPs that no known algorithm does without: compute_s rests on them")
    ]
    operand_bytes: Annotated[float, Meta(description="all operands, read and written")]
    traffic_bytes: Annotated[float, Meta(description="what must cross the memory bus: memory_s rests on it")]
    compute_s: float
    memory_s: float
    rule: Annotated[str, Meta(description="what a bound is, in words")]


class FrameworkDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One way to run the model, with its gain over the way in question; or why it is impossible."""

    framework: Framework
    layout: Layout
    precision: Precision
    latency_s: Bounded | None
    gain: float | None
    calibration: str | None
    reason: str | None


class GpuEstimateDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The estimate of one model on one GPU."""

    model: str
    gpu: str
    precision: Precision
    layout: Layout
    framework: Framework
    torch: Annotated[str, Meta(pattern=r"^\d+\.\d+$")]
    host: str | None
    curve: Annotated[tuple[CurvePoint, ...], Meta(min_length=1)]
    knee_batch: int | None
    saturating_batch: int | None
    device_batch: int | None
    batching_gain: float
    kernels: tuple[KernelDocument, ...]
    modules: tuple[ModuleDocument, ...]
    classic_bound: ClassicBoundDocument
    advice: tuple[SpeedAdvice, ...]
    calibration: str | None
    evidence: Evidence
    evidence_reason: str
    notes: tuple[str, ...]
    frameworks: tuple[FrameworkDocument, ...] | msgspec.UnsetType = msgspec.UNSET


class EstimateDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `capplan estimate --format json` writes. Times in seconds, sizes in bytes, shares as fractions."""

    estimates: Annotated[tuple[GpuEstimateDocument, ...], Meta(min_length=1)]


def estimate_document(answer: EstimateAnswer, *, top: int) -> EstimateDocument:
    """Return the estimates of a model on several GPUs as a document.

    Args:
        answer: One estimate per GPU.
        top: How many of the costliest kernels and modules to list.
    """
    return EstimateDocument(
        estimates=tuple(
            _estimate(report, top=top, runs=answer.compared.get(report.breakdown.gpu.id)) for report in answer.reports
        )
    )


def _estimate(report: EstimateReport, *, top: int, runs: Sequence[ComparedRun] | None) -> GpuEstimateDocument:
    detail, workload = report.breakdown, report.workload
    return GpuEstimateDocument(
        model=report.model,
        gpu=detail.gpu.id,
        precision=workload.precision,
        layout=workload.layout,
        framework=workload.framework,
        torch=".".join(map(str, workload.torch_version)),
        host=report.host,
        curve=tuple(_point(point, report.energy.get(point.batch)) for point in report.curve),
        knee_batch=knee_batch(report.curve, gain_fraction=report.gain_fraction),
        saturating_batch=saturating_batch(report.curve),
        device_batch=report.curve[0].batch if workload.framework.is_replayed else device_batch(report.curve),
        batching_gain=report.batching_gain,
        kernels=tuple(map(_kernel, detail.kernels[:top])),
        modules=tuple(map(_module, detail.modules[:top])),
        classic_bound=_classic(report.classic),
        advice=report.advice,
        calibration=report.curve[-1].calibration,
        evidence=report.curve[-1].evidence,
        evidence_reason=report.curve[-1].evidence_reason,
        notes=report.curve[-1].notes,
        frameworks=msgspec.UNSET if runs is None else tuple(map(_framework, runs)),
    )


def _point(point: LatencyEstimate, energy: StepEnergy | None) -> CurvePoint:
    return CurvePoint(
        batch=point.batch,
        bound_s=point.bound_s,
        latency_s=point.latency_s,
        throughput_per_s=point.throughput_per_s,
        bound_by=point.bound_by,
        shares=dict(point.share_by_binding),
        power_w=energy.power_w if energy else UNSET,
        joules_per_sample=energy.joules_per_sample if energy else UNSET,
        power_evidence=energy.evidence if energy else UNSET,
    )


def _kernel(kernel: KernelShare) -> KernelDocument:
    return KernelDocument(
        name=kernel.name,
        class_=kernel.label,
        operands=kernel.shapes,
        runs=kernel.calls,
        time_s=kernel.time_s,
        share_fraction=kernel.share_fraction,
        bound_by=kernel.binding,
        efficiency_fraction=kernel.efficiency_fraction,
        flops=kernel.flops,
        least_flops=kernel.least_flops,
        bytes=kernel.traffic_bytes,
        bound_s=kernel.bound_s,
    )


def _module(module: ModuleShare) -> ModuleDocument:
    return ModuleDocument(
        path=module.path,
        kernels=module.calls,
        time_s=module.time_s,
        share_fraction=module.share_fraction,
        bound_by=module.binding,
    )


def _classic(bound: ClassicBound) -> ClassicBoundDocument:
    return ClassicBoundDocument(
        flops=bound.flops,
        least_flops=sum(work.least_flops for work in bound.work),
        operand_bytes=bound.operand_bytes,
        traffic_bytes=bound.traffic_bytes,
        compute_s=bound.compute_s,
        memory_s=bound.memory_s,
        rule=BOUND_RULE,
    )


def _framework(run: ComparedRun) -> FrameworkDocument:
    return FrameworkDocument(
        framework=run.workload.framework,
        layout=run.workload.layout,
        precision=run.workload.precision,
        latency_s=run.estimate.bounded_s if run.estimate else None,
        gain=run.gain,
        calibration=run.estimate.calibration if run.estimate else None,
        reason=run.reason,
    )
