"""The estimate of a model on a GPU as text."""

from collections.abc import Sequence

from capplan.core.latency.calibration import Calibration
from capplan.core.latency.choices.advice import Advice
from capplan.core.latency.choices.knee import device_batch, knee_batch, saturating_batch
from capplan.report.estimates import EstimateReport
from capplan.report.table import render_csv, render_markdown, render_text, table
from capplan.report.text.answer import EVIDENCE_WORDS
from capplan.report.text.explain import explain_classic_bound, explain_latency
from capplan.units import format_flops, format_fraction, format_rate, format_seconds

_BATCHING_HELPS = 1.2


_OVER_BOUND = (
    "above 100 % of its bound a kernel's share is not known by itself: measurements of whole models fix the sum over\n"
    "a chain of convolution, norm, activation and addition, not how it is divided.\n"
)


def estimate_text(
    report: EstimateReport, *, top: int, explain: bool, calibration: Calibration | None, markdown: bool
) -> str:
    """Write an estimate as tables with the sentences that go with them."""
    render = render_markdown if markdown else render_text
    workload = report.workload
    lines = [
        f"{report.model} on {report.breakdown.gpu.name}: {workload.precision}, {workload.layout}, {workload.framework},"
        f" {workload.release}",
        f"evidence: {EVIDENCE_WORDS[report.curve[-1].evidence]} ({report.curve[-1].evidence_reason})",
        "",
        render(table("batch>|latency>|90 % from>|to>|samples/s>|bound>|compute>|bandwidth>|launches>", _curve(report))),
        *filter(None, [_knee_sentence(report), _device_sentence(report)]),
    ]
    if top:
        lines += ["", f"costliest kernels at batch {report.breakdown.batch}"]
        lines.append(
            render(table("share>|time>|?runs>|kernel|?class|bound by|of bound>|operands", _kernels(report, top)))
        )
        if any(kernel.efficiency_fraction > 1 for kernel in report.breakdown.kernels[:top]):
            lines.append(_OVER_BOUND)
        lines += ["", f"costliest modules at batch {report.breakdown.batch}"]
        lines.append(render(table("share>|time>|kernels>|module|bound by", _modules(report, top))))
    if report.advice:
        lines += ["", f"what would help at batch {report.breakdown.batch}"]
        lines += [f"  ×{advice.speedup:.2f}  {advice.change}{_cost(advice)}" for advice in report.advice]
    if explain:
        lines += ["", *explain_classic_bound(report.classic, report.breakdown.gpu)]
        lines += ["", *explain_latency(report.breakdown, report.curve[-1], calibration=calibration)]
    else:
        lines += [f"note: {note}" for note in report.curve[-1].notes]
    return "\n".join(lines) + "\n"


def _cost(advice: Advice) -> str:
    if advice.usd_per_million_samples is None:
        return ""
    now = "" if advice.usd_now is None else f" instead of {advice.usd_now:.3g}"
    return f", USD {advice.usd_per_million_samples:.3g} per million samples{now}"


def estimate_csv(reports: Sequence[EstimateReport]) -> str:
    """Write the curves for a sheet: a row per GPU and batch, times in seconds."""
    heads = (
        "model", "gpu", "precision", "layout", "framework", "torch", "batch", "latency_s", "latency_low_s",
        "latency_high_s", "samples_per_s", "bound_s", "bound_by", "evidence",
    )  # fmt: skip
    rows = [
        (
            report.model,
            report.breakdown.gpu.id,
            report.workload.precision.value,
            report.workload.layout.value,
            report.workload.framework.value,
            ".".join(map(str, report.workload.torch_version)),
            str(point.batch),
            *(f"{time_s:.6g}" for time_s in (point.latency_s.expected, point.latency_s.low, point.latency_s.high)),
            f"{point.throughput_per_s.expected:.6g}",
            f"{point.bound_s:.6g}",
            point.bound_by.value,
            point.evidence.value,
        )
        for report in reports
        for point in report.curve
    ]
    return render_csv(table("|".join(heads), rows))


def _curve(report: EstimateReport) -> Sequence[Sequence[str]]:
    return [
        (
            str(point.batch),
            format_seconds(point.latency_s.expected),
            format_seconds(point.latency_s.low),
            format_seconds(point.latency_s.high),
            format_rate(point.throughput_per_s.expected),
            format_seconds(point.bound_s),
            *(format_fraction(share) for _, share in point.share_by_binding),
        )
        for point in report.curve
    ]


def _knee_sentence(report: EstimateReport) -> str:
    if len(report.curve) < 2:
        return ""
    knee = knee_batch(report.curve, gain_fraction=report.gain_fraction)
    full = saturating_batch(report.curve)
    gain = report.batching_gain
    helps = f"batching gains ×{gain:.1f}" if gain >= _BATCHING_HELPS else f"batching hardly helps (×{gain:.2f})"
    largest = " (the largest asked for: the knee may lie higher)" if knee == report.curve[-1].batch else ""
    return (
        f"knee at batch {knee}{largest}: from there doubling gains under {format_fraction(report.gain_fraction)}; "
        f"95 % of the best throughput from batch {full}; {helps}"
    )


def _device_sentence(report: EstimateReport) -> str:
    """Describe up to which batch the host decides, where it does at one of those asked for."""
    first = device_batch(report.curve)
    if first == report.curve[0].batch or report.workload.framework.is_replayed:
        return ""
    if first is None:
        return f"the host's launches decide up to batch {report.curve[-1].batch}, the largest asked for"
    return f"the host's launches decide below batch {first}, the device from there on"


def _kernels(report: EstimateReport, top: int) -> Sequence[Sequence[str]]:
    return [
        (
            format_fraction(kernel.share_fraction),
            format_seconds(kernel.time_s),
            str(kernel.calls),
            kernel.name,
            kernel.label,
            kernel.binding.value,
            format_fraction(kernel.efficiency_fraction),
            kernel.shapes + (f" ({format_flops(kernel.flops)})" if kernel.flops else ""),
        )
        for kernel in report.breakdown.kernels[:top]
    ]


def _modules(report: EstimateReport, top: int) -> Sequence[Sequence[str]]:
    return [
        (
            format_fraction(module.share_fraction),
            format_seconds(module.time_s),
            str(module.calls),
            module.path,
            module.binding.value,
        )
        for module in report.breakdown.modules[:top]
    ]
