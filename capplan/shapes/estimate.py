"""The shape of latency estimates: times in seconds, sizes in bytes, shares as fractions."""

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Meta

from capplan.core.latency.advice import ComparedRun, device_batch, knee_batch, saturating_batch
from capplan.core.latency.breakdown import BOUND_RULE, ClassicBound, KernelShare, ModuleShare
from capplan.core.latency.types import Binding, Evidence, LatencyEstimate
from capplan.core.numbers import Interval
from capplan.core.plan.estimate import EstimateAnswer, EstimateReport
from capplan.core.power import StepEnergy
from capplan.shapes.common import torch_version
from capplan.shapes.plan import ends_words
from capplan.shapes.shape import CSV, Shape, Typed, column, ends_of, figure, reads
from capplan.units import format_flops, format_fraction, format_joules, format_rate, format_seconds, format_watts

if TYPE_CHECKING:
    from capplan.shapes.types import EstimateDocument

MeteredPoint = tuple[LatencyEstimate, StepEnergy | None]
"""The estimate at one batch, and its energy where it was asked for."""
_Asked = tuple[EstimateAnswer, int]
"""The answer, and how many of the costliest kernels and modules are listed."""
_SHARE = Meta(ge=0, le=1)


def _of_point(name: str, kind: Any) -> Typed:
    return reads(kind, lambda point: getattr(point[0], name))


def _of_energy(name: str, kind: Any) -> Typed:
    return reads(kind | None, lambda point: point[1] and getattr(point[1], name))


def _of_last(name: str, kind: Any) -> Typed:
    """Return how a figure is read from the estimate at the largest batch."""
    return reads(kind, lambda report: getattr(report.curve[-1], name))


def metered_curve(report: EstimateReport) -> tuple[MeteredPoint, ...]:
    """Return the estimates at all batches with their energy."""
    return tuple((point, report.energy.get(point.batch)) for point in report.curve)


_BINDING_WORDS = {
    Binding.COMPUTE: "computing",
    Binding.BANDWIDTH: "memory bandwidth",
    Binding.LAUNCHES: "the CPU that launches kernels",
}


def _limited_by(point: MeteredPoint) -> str:
    """Return what most of a batch's time goes to, with its share."""
    binding, share = max(point[0].share_by_binding, key=lambda item: item[1])
    return f"{_BINDING_WORDS[binding]} ({share:.0%})"


_MOST_LISTED = 20
_IN_CACHE = 0.005
"""Below this share of its time a bound says nothing: the data stay in the L2 cache, whose rate nobody prints."""


def _of_bound(efficiency_fraction: float) -> str:
    return "in L2" if efficiency_fraction < _IN_CACHE else format_fraction(efficiency_fraction)


def _costliest(kind: Any, name: str) -> Typed:
    return reads(tuple[kind, ...], lambda report, asked: attrgetter(name)(report.breakdown)[: asked[1]])


# fmt: off
CURVE_POINT: Final = Shape("CurvePoint", MeteredPoint, "The estimate at one batch.", (
    figure("batch", _of_point("batch", int), Meta(ge=1), column("batch")),
    figure("bound_s", _of_point("bound_s", float), Meta(gt=0)),
    figure("latency_s", _of_point("latency_s", Interval), show=column("per batch", format_seconds)),
    figure("latency_ends", reads(str, lambda point: ends_words(point[0].latency_s)), show=column("90 % within").right().alone()),
    figure("throughput_per_s", _of_point("throughput_per_s", Interval), show=column("{item}s/s", format_rate)),
    figure("least_s", _of_point("bound_s", float), show=column("bound", format_seconds).alone()),
    figure("bound_by", _of_point("bound_by", Binding)),
    figure("shares", _of_point("shares", dict[Binding, float]), "share of the time by what binds it"),
    figure("power_w", _of_energy("power_w", Interval), "mean of all GPUs, without the host",
        column("power", format_watts, csv=ends_of("power_w")).where_known(), default=UNSET),
    figure("joules_per_sample", _of_energy("joules_per_sample", Interval),
        show=column("J/sample", format_joules, csv=ends_of("joules_per_sample")).where_known(), default=UNSET),
    figure("power_evidence", _of_energy("evidence", str), show=CSV.where_known(), default=UNSET),
    figure("limited_by", _limited_by, show=column("limited by").alone()),
))
KERNEL: Final = Shape("KernelDocument", KernelShare, "One kernel of a step, in all its runs.", (
    figure("name", show=column("kernel")),
    figure("class", "label", show=column("class", rank=1)),
    figure("operands", "shapes"),
    figure("runs", "calls", show=column("runs", rank=1)),
    figure("time_s", show=column("time", format_seconds)),
    figure("share_fraction", meaning=_SHARE, show=column("share", format_fraction)),
    figure("bound_by", "binding", show=column("bound by")),
    figure("efficiency_fraction", show=column("of bound", _of_bound)),
    figure("work", reads(str, lambda kernel: kernel.shapes + (f" ({format_flops(kernel.flops)})" if kernel.flops else "")),
        show=column("operands").alone()),
    figure("flops"),
    figure("least_flops", meaning="FLOPs that the bound counts: fewer than flops where Winograd's algorithm may run"),
    figure("bytes", "traffic_bytes"),
    figure("bound_s"),
))
MODULE: Final = Shape("ModuleDocument", ModuleShare, "One module of the model and the device time of the kernels that it launches itself.", (
    figure("path", show=column("module")),
    figure("kernels", "calls", show=column("kernels")),
    figure("time_s", show=column("time", format_seconds)),
    figure("share_fraction", meaning=_SHARE, show=column("share", format_fraction)),
    figure("bound_by", "binding", show=column("bound by")),
))
CLASSIC_BOUND: Final = Shape("ClassicBoundDocument", ClassicBound, "The step as one kernel, by the same rule as the bounds of the curve, which are never below it.", (
    figure("flops"),
    figure("least_flops", reads(float, lambda bound: sum(work.least_flops for work in bound.work)),
        "FLOPs that no known algorithm does without: compute_s rests on them"),
    figure("operand_bytes", meaning="all operands, read and written"),
    figure("traffic_bytes", meaning="what must cross the memory bus: memory_s rests on it"),
    figure("compute_s"),
    figure("memory_s"),
    figure("rule", reads(str, lambda _: BOUND_RULE), "what a bound is, in words"),
))
FRAMEWORK: Final = Shape("FrameworkDocument", ComparedRun, "One way to run the model, with its gain over the way in question; or why it is impossible.", (
    figure("framework", "workload.framework"),
    figure("layout", "workload.layout"),
    figure("precision", "workload.precision"),
    figure("latency_s", "estimate.bounded_s"),
    figure("gain"),
    figure("calibration", "estimate.calibration"),
    figure("reason"),
))
GPU_ESTIMATE: Final = Shape("GpuEstimateDocument", EstimateReport, "The estimate of one model on one GPU.", (
    figure("model"),
    figure("gpu", "breakdown.gpu.id"),
    figure("precision", "workload.precision"),
    figure("layout", "workload.layout"),
    figure("framework", "workload.framework"),
    figure("torch", reads(str, lambda report: torch_version(report.workload)), Meta(pattern=r"^\d+\.\d+$")),
    figure("host"),
    figure("curve", CURVE_POINT.at(metered_curve), Meta(min_length=1)),
    figure("knee_batch", reads(int | None, lambda report: knee_batch(report.curve, gain_fraction=report.gain_fraction))),
    figure("saturating_batch", reads(int | None, lambda report: saturating_batch(report.curve))),
    figure("device_batch", reads(int | None, lambda report: report.curve[0].batch if report.workload.framework.is_replayed else device_batch(report.curve))),
    figure("batching_gain"),
    figure("kernels", KERNEL.at(_costliest(KernelShare, "kernels"))),
    figure("modules", MODULE.at(_costliest(ModuleShare, "modules"))),
    figure("classic_bound", CLASSIC_BOUND.at("classic")),
    figure("advice"),
    figure("calibration", _of_last("calibration", str | None)),
    figure("evidence", _of_last("evidence", Evidence)),
    figure("evidence_reason", _of_last("evidence_reason", str)),
    figure("notes", _of_last("notes", tuple[str, ...])),
    figure("frameworks", FRAMEWORK.at(reads(tuple[ComparedRun, ...] | None, lambda report, asked: asked[0].compared.get(report.breakdown.gpu.id))), default=UNSET),
))
ESTIMATE: Final = Shape("EstimateDocument", EstimateAnswer, "What `capplan estimate --format json` writes. Times in seconds, sizes in bytes, shares as fractions.", (
    figure("estimates", GPU_ESTIMATE.at("reports"), Meta(min_length=1)),
))
# fmt: on


def estimate_document(answer: EstimateAnswer, *, top: int | None) -> "EstimateDocument":
    """Return the estimates of a model on several GPUs, with the `top` costliest kernels and modules, as a document."""
    document: EstimateDocument = ESTIMATE.document(answer, (answer, _MOST_LISTED if top is None else top))
    return document
