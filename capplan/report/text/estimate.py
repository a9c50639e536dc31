"""The estimate of a model on GPUs as sections: curve, costliest kernels and modules, advice, every way to run it."""

from collections.abc import Callable, Iterator
from textwrap import wrap
from typing import TypeVar

from capplan.core.gpus.spec import GpuSpec, PeakKind, SourceKind
from capplan.core.latency.advice import ComparedRun, SpeedAdvice, device_batch, knee_batch, saturating_batch
from capplan.core.latency.breakdown import BOUND_RULE, UNIT_NAMES, ClassicBound, KernelShare, StepBreakdown, UnitWork
from capplan.core.latency.calibration import Calibration
from capplan.core.latency.kernel_time import PeakUse
from capplan.core.latency.types import EVIDENCE_WORDS, LatencyEstimate
from capplan.core.plan.estimate import EstimateAnswer, EstimateReport
from capplan.core.workload import precision_label
from capplan.report.sections import (
    Block,
    Column,
    Lines,
    Section,
    Table,
    data,
    figure,
    sentence,
    shape_columns,
    shape_data,
    words,
)
from capplan.shapes.estimate import CURVE_POINT, KERNEL, MODULE, MeteredPoint, metered_curve
from capplan.shapes.plan import ends_words
from capplan.units import (
    format_bytes,
    format_bytes_per_s,
    format_count,
    format_flops,
    format_flops_per_s,
    format_fraction,
    format_rate,
    format_seconds,
)

_BATCHING_HELPS = 1.2
_MOST_LISTED = 5
"""Kernels and modules that are listed where nobody asked for a number."""


_OVER_BOUND = (
    "above 100 % of its bound a kernel's share is not known by itself: measurements of whole models fix the sum over",
    "a chain of convolution, norm, activation and addition, not how it is divided.",
)


def estimate_sections(answer: EstimateAnswer, *, top: int | None, explain: bool) -> list[Section]:
    """Return estimates of one model, one GPU after the other; a CSV has a row per GPU and batch."""
    reports = answer.reports
    batch = reports[0].curve[-1].batch
    points = [(point, report) for report in reports for point in metered_curve(report)]
    return [
        *(
            _section(report, top=_MOST_LISTED if top is None else top, explain=explain, calibration=answer.calibration)
            for report in reports
        ),
        *(
            Section([Lines([f"every way to run it on {gpu} at batch {batch}"]), Table(_RUNS, runs)])
            for gpu, runs in answer.compared.items()
        ),
        Section([Table([*_DATA, *shape_data(CURVE_POINT, points)], points)]),
    ]


def _section(report: EstimateReport, *, top: int, explain: bool, calibration: Calibration | None) -> Section:
    workload, breakdown, last = report.workload, report.breakdown, report.curve[-1]
    precision = precision_label(workload.precision, report.dtype)
    words = (precision, workload.layout, workload.framework, workload.release, report.host)
    conditions = ", ".join(word for word in words if word)
    evidence = f"speed from: {EVIDENCE_WORDS[last.evidence]} ({last.evidence_reason})"
    if energy := report.energy.get(last.batch):
        evidence += f"; power: {energy.evidence}"
    caution = [sentence(report.caution)] if report.caution else []
    title = f"{report.model} · {report.input} on {breakdown.gpu.name}: {conditions}"
    sentences = [sentence for sentence in (_knee_sentence(report), _device_sentence(report)) if sentence]
    curve = metered_curve(report)
    blocks: list[Block] = [
        Lines([title, *caution, *sentences, evidence]),
        Table(shape_columns(CURVE_POINT, curve, item=report.input.unit), curve),
    ]
    blocks += _advice_blocks(report)
    if top:
        kernels, modules = breakdown.kernels[:top], breakdown.modules[:top]
        blocks.append(Lines([f"costliest kernels at batch {breakdown.batch}"]))
        blocks.append(Table(shape_columns(KERNEL, kernels, order=_KERNELS), kernels, is_attached=True))
        if any(kernel.efficiency_fraction > 1 for kernel in kernels):
            blocks.append(Lines(_OVER_BOUND))
        blocks.append(Lines([f"costliest modules at batch {breakdown.batch}"]))
        blocks.append(Table(shape_columns(MODULE, modules, order=_MODULES), modules, is_attached=True))
    if explain:
        blocks.append(Lines(explain_classic_bound(report.classic, breakdown.gpu)))
        blocks.append(Lines(explain_latency(breakdown, last, calibration=calibration)))
    else:
        follows_lines = isinstance(blocks[-1], Lines)
        blocks.append(Lines([f"note: {note}" for note in last.notes], is_attached=follows_lines))
    return Section(blocks)


def _advice_blocks(report: EstimateReport) -> list[Block]:
    """Return what would be faster: other settings, and other GPUs."""
    changes = [_advice_words(advice, report.input.unit) for advice in report.advice if advice.gpu is None]
    others = [_advice_words(advice, report.input.unit) for advice in report.advice if advice.gpu is not None]
    last, knee = report.breakdown.batch, knee_batch(report.curve, gain_fraction=report.gain_fraction)
    smaller = f" (of batch {knee}: ⟨batch⟩ {knee})" if knee != last else ""
    heads = ((f"faster at batch {last}{smaller}", changes), ("on another GPU, with the settings asked for", others))
    found = [words for head, lines in heads if lines for words in (head, *lines)]
    return [Lines(found)] if found else []


def _advice_words(advice: SpeedAdvice, unit: str) -> str:
    return f"  ×{advice.speedup:.2f}  {advice.change}{_cost(advice, unit)}"


def _cost(advice: SpeedAdvice, unit: str) -> str:
    if advice.usd_per_million_samples is None:
        return ""
    now = "" if advice.usd_now is None else f" instead of {advice.usd_now:.3g}"
    return f", {advice.usd_per_million_samples:.3g} USD per million {unit}s{now}"


_KERNELS = ("share_fraction", "time_s", "runs", "name", "class")
_MODULES = ("share_fraction", "time_s", "kernels", "path")
"""Columns that stand in this order, in front of others."""
Value = TypeVar("Value")


def _of_run(value: Callable[[LatencyEstimate], Value]) -> Callable[[ComparedRun], Value | None]:
    """Return what the estimate of a way to run has; None where there is none."""
    return lambda run: None if run.estimate is None else value(run.estimate)


_RUNS: tuple[Column[ComparedRun], ...] = (
    words("framework", lambda run: run.workload.framework.value),
    words("layout", lambda run: run.workload.layout.value),
    words("precision", lambda run: run.workload.precision.value),
    figure("latency", _of_run(lambda estimate: estimate.latency_s.expected), format_seconds),
    figure("90 % within", _of_run(lambda estimate: ends_words(estimate.latency_s))),
    figure("samples/s", _of_run(lambda estimate: estimate.throughput_per_s.expected), format_rate),
    figure("gain", lambda run: run.gain, "×{:.2f}".format),
    words("calibrated", _of_run(lambda estimate: estimate.calibration or "no")),
    words("why not", lambda run: None if run.estimate else run.reason),
)


def _time(value: Callable[[LatencyEstimate], float]) -> Callable[[tuple[MeteredPoint, EstimateReport]], str]:
    """Return a time of a point with six digits. [s]"""
    return lambda row: f"{value(row[0][0]):.6g}"


_DATA: tuple[Column[tuple[MeteredPoint, EstimateReport]], ...] = (
    data("model", lambda row: row[1].model),
    data("gpu", lambda row: row[1].breakdown.gpu.id),
    data("precision", lambda row: row[1].workload.precision.value),
    data("layout", lambda row: row[1].workload.layout.value),
    data("framework", lambda row: row[1].workload.framework.value),
    data("torch", lambda row: ".".join(map(str, row[1].workload.torch_version))),
    data("batch", lambda row: row[0][0].batch),
    data("latency_s", _time(lambda point: point.latency_s.expected)),
    data("latency_low_s", _time(lambda point: point.latency_s.low)),
    data("latency_high_s", _time(lambda point: point.latency_s.high)),
    data("samples_per_s", _time(lambda point: point.throughput_per_s.expected)),
    data("bound_s", _time(lambda point: point.bound_s)),
    data("bound_by", lambda row: row[0][0].bound_by.value),
    data("evidence", lambda row: row[0][0].evidence.value),
)


def _knee_sentence(report: EstimateReport) -> str:
    if len(report.curve) < 2:
        return ""
    knee = knee_batch(report.curve, gain_fraction=report.gain_fraction)
    full = saturating_batch(report.curve)
    gain = report.batching_gain
    helps = f"batching gains ×{gain:.1f}" if gain >= _BATCHING_HELPS else f"batching hardly helps (×{gain:.2f})"
    largest = " (the largest asked for: the knee may lie higher)" if knee == report.curve[-1].batch else ""
    return (
        f"take batch {knee}{largest}: from this knee on doubling gains under {format_fraction(report.gain_fraction)}; "
        f"95 % of the best throughput from batch {full}; {helps}"
    )


def _device_sentence(report: EstimateReport) -> str:
    """Describe up to which batch the host decides, where it does at one of those asked for."""
    first = device_batch(report.curve)
    if first == report.curve[0].batch or report.workload.framework.is_replayed:
        return ""
    if first is None:
        return f"up to batch {report.curve[-1].batch}, the largest asked for, the CPU that launches kernels decides"
    return f"below batch {first} the CPU that launches kernels decides, the GPU from there on"


def explain_latency(step: StepBreakdown, estimate: LatencyEstimate, *, calibration: Calibration | None) -> list[str]:
    """Write out how one estimate comes about, a step a line."""
    rates, gpu = step.rates, step.gpu
    flops = sum(kernel.flops for kernel in step.kernels)
    traffic = sum(kernel.traffic_bytes for kernel in step.kernels)
    half, single = rates.printed_flops_per_s[PeakUse.HALF], rates.printed_flops_per_s[PeakUse.MATMUL_32]
    limited = f", {step.slowdown:.2f} times as long under the power limit" if step.slowdown > 1.0 else ""
    lines = [
        f"{gpu.name}, batch {step.batch}",
        f"  printed: {format_flops_per_s(float(half))} in 16 bits (fp32 accumulation), "
        f"{format_flops_per_s(float(single))} in 32, {format_bytes_per_s(rates.printed_bandwidth_bytes_per_s)}",
        f"  sustained: {format_flops_per_s(float(rates.peaks_flops_per_s[PeakUse.HALF]))} in 16 bits, "
        f"{format_bytes_per_s(rates.bandwidth_bytes_per_s)} (boost clock, the GPU's own power limit)",
        f"  work: {format_flops(flops)} and {format_bytes(traffic)} in {format_count(step.launches)} kernels, "
        f"{format_count(step.calls)} calls into PyTorch",
        f"  1. bound, by the same rule kernel by kernel, summed: {format_seconds(estimate.bound_s)}",
        f"  2. device, with efficiencies by kernel class and a fixed cost a kernel: {format_seconds(step.device_s)}"
        f"{', at the clock that the power limit leaves' if limited else ''}",
        f"  3. host, {format_count(step.calls)} calls and {format_count(step.launches)} launches: "
        f"{format_seconds(step.host_s)}",
        f"  4. step, the 4-norm of both (the longer decides): {format_seconds(step.step_s)}{limited}",
        f"  5. interval at 90 %: {format_seconds(estimate.latency_s.low)} to {format_seconds(estimate.latency_s.high)}",
    ]
    lines += [_kernel_line(kernel) for kernel in step.kernels[:5]]
    if calibration is not None and calibration.origin is not None:
        origin = calibration.origin
        lines.append(
            f"  calibration {calibration.name} of {origin.made}: {origin.rows} rows of {', '.join(origin.sources)}"
        )
    lines += [f"  note: {note}" for note in estimate.notes]
    return lines


def _kernel_line(kernel: KernelShare) -> str:
    saved = f", ÷ {kernel.flops / kernel.least_flops:.0f} by Winograd" if kernel.least_flops < kernel.flops else ""
    work = f" ({format_flops(kernel.flops)}{saved})" if kernel.flops else ""
    return (
        f"     {format_seconds(kernel.time_s)} ({format_fraction(kernel.share_fraction)}) {kernel.name} "
        f"[{kernel.label}] {kernel.shapes}, {kernel.calls}×: bound {format_seconds(kernel.bound_s)}{work}, "
        f"{format_fraction(kernel.efficiency_fraction)} of it reached; waits for {kernel.binding}"
    )


def explain_classic_bound(bound: ClassicBound, gpu: GpuSpec) -> list[str]:
    """Write the classic bound out, a division a line, and where its rates were read."""
    longer = "arithmetic" if bound.compute_s > bound.memory_s else "memory"
    lines = [
        *wrap(f"the bound's rule: {BOUND_RULE}.", width=118, subsequent_indent="  "),
        "",
        f"the classic bound on {gpu.name}, by this rule as if the step were one kernel: "
        f"{format_seconds(bound.bound_s)}",
        *(_division(work) for work in bound.work),
        f"  {format_count(bound.traffic_bytes, spaced=True)}B ÷ {format_bytes_per_s(bound.bandwidth_bytes_per_s)} "
        f"= {format_seconds(bound.memory_s)}, of {format_count(bound.operand_bytes, spaced=True)}B of operands the "
        f"rest may stay in an L2 of {format_bytes(bound.l2_bytes)}",
        f"  arithmetic {format_seconds(bound.compute_s)}, memory {format_seconds(bound.memory_s)}: "
        f"{longer} is the longer",
    ]
    return [*lines, *(f"  {line}" for line in _sources(bound, gpu))]


def _division(work: UnitWork) -> str:
    rate = f"{format_flops_per_s(work.flops_per_s)} ({UNIT_NAMES[work.use]})"
    division = f"  {format_flops(work.least_flops)} ÷ {rate} = {format_seconds(work.time_s)}"
    if work.least_flops == work.flops:
        return division
    direct = f"{format_flops(work.flops)} of the direct algorithm would take {format_seconds(work.direct_s)}"
    return f"{division}, all that Winograd's algorithm leaves; the {direct}, which it can beat"


def _sources(bound: ClassicBound, gpu: GpuSpec) -> Iterator[str]:
    rates = {work.flops_per_s for work in bound.work}
    keys = [f"peak.{kind.value}" for kind in PeakKind if gpu.peak(kind) in rates]
    for key in [*keys, "bandwidth"]:
        figure = gpu.figures.get(key)
        if figure is None:
            continue
        named = [source for source in figure.sources if source.kind is not SourceKind.UNVERIFIED] or figure.sources
        read = "; ".join(source.title + (f" ({source.url})" if source.url else "") for source in named[:1])
        yield f"{key} {figure.text}: {read or 'no source'}"
