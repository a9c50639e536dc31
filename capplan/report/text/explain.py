"""Explain an estimate by its arithmetic, line by line."""

from collections.abc import Iterator
from textwrap import wrap

from capplan.core.gpus.spec import GpuSpec, PeakKind, SourceKind
from capplan.core.latency.breakdown import KernelShare, StepBreakdown
from capplan.core.latency.calibration import Calibration
from capplan.core.latency.roofline import PeakUse
from capplan.core.latency.step_bound import BOUND_RULE, UNIT_NAMES, ClassicBound, UnitWork
from capplan.core.latency.types import LatencyEstimate
from capplan.units import (
    format_bytes,
    format_bytes_per_s,
    format_count,
    format_flops,
    format_flops_per_s,
    format_fraction,
    format_seconds,
)


def explain_latency(found: StepBreakdown, estimate: LatencyEstimate, *, calibration: Calibration | None) -> list[str]:
    """Write out how one estimate comes about, a step a line."""
    rates, gpu = found.rates, found.gpu
    flops = sum(kernel.flops for kernel in found.kernels)
    traffic = sum(kernel.traffic_bytes for kernel in found.kernels)
    half, single = rates.printed_flops_per_s[PeakUse.HALF], rates.printed_flops_per_s[PeakUse.MATMUL_32]
    lines = [
        f"{gpu.name}, batch {found.batch}",
        f"  printed: {format_flops_per_s(float(half))} in 16 bits (fp32 accumulation), "
        f"{format_flops_per_s(float(single))} in 32, {format_bytes_per_s(rates.printed_bandwidth_bytes_per_s)}",
        f"  sustained: {format_flops_per_s(float(rates.peaks_flops_per_s[PeakUse.HALF]))} in 16 bits, "
        f"{format_bytes_per_s(rates.bandwidth_bytes_per_s)} (boost clock, power limit)",
        f"  work: {format_flops(flops)} and {format_bytes(traffic)} in {format_count(found.launches)} kernels, "
        f"{format_count(found.calls)} calls into PyTorch",
        f"  1. bound, by the same rule kernel by kernel, summed: {format_seconds(estimate.bound_s)}",
        f"  2. device, with efficiencies by kernel class and a fixed cost a kernel: {format_seconds(found.device_s)}",
        f"  3. host, {format_count(found.calls)} calls and {format_count(found.launches)} launches: "
        f"{format_seconds(found.host_s)}",
        f"  4. step, the 4-norm of both (the longer decides): {format_seconds(found.step_s)}",
        f"  5. interval at 90 %: {format_seconds(estimate.latency_s.low)} to {format_seconds(estimate.latency_s.high)}",
    ]
    lines += [_kernel_line(kernel) for kernel in found.kernels[:5]]
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
        *(_division(each) for each in bound.work),
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
    rates = {each.flops_per_s for each in bound.work}
    keys = [f"peak.{kind.value}" for kind in PeakKind if gpu.peak(kind) in rates]
    for key in [*keys, "bandwidth"]:
        figure = gpu.figures.get(key)
        if figure is None:
            continue
        named = [source for source in figure.sources if source.kind is not SourceKind.UNVERIFIED] or figure.sources
        read = "; ".join(source.title + (f" ({source.url})" if source.url else "") for source in named[:1])
        yield f"{key} {figure.text}: {read or 'no source'}"
