"""The CPU at hand as a device: its spec, what it reaches, and a calibration of its operators."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from capplan.app.feedback import SILENCE, Feedback
from capplan.core.assumed import CPU_USABLE_SHARE
from capplan.core.calibrate.cpus import fit_cpu
from capplan.core.calibrate.device import DeviceBenchmark, microbench_rows
from capplan.core.calibrate.measured import CPU_AT_HAND
from capplan.core.gpus.spec import GpuArchitecture, GpuSpec, MeasuredRate, Microbenchmark, PeakKind, Segment
from capplan.core.latency.calibration import Calibration
from capplan.core.latency.lookup import CPU, CPU_HALF
from capplan.core.workload import Precision
from capplan.specs import load_gpus
from capplan.specs.calibration import dump_calibration, load_calibration
from capplan.specs.gpus.template import render_cpu_sheet

if TYPE_CHECKING:
    from capplan.probe.measure.facts import CpuFacts

CPU_ID = "cpu"
"""The name of the device in PyTorch."""


Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuAtHand:
    """The CPU at hand: its spec with what it reaches, and the benchmark that measures it."""

    spec: GpuSpec
    benchmark: DeviceBenchmark


def cpu_at_hand(*, overlays: tuple[Path, ...] = (), clock: Clock | None = None) -> CpuAtHand:
    """Time the CPU at hand: matrix products and copies, in a few seconds."""
    from capplan.probe.measure.cpu_operators import benchmark_cpu, undisturbed_clock

    return described(benchmark_cpu(clock=clock or undisturbed_clock()), overlays=overlays)


def described(benchmark: DeviceBenchmark, *, overlays: tuple[Path, ...] = ()) -> CpuAtHand:
    """Return the CPU at hand with the rates of a benchmark, as the database knows it or as the system describes it."""
    from capplan.probe.measure.facts import read_cpu_facts

    known, facts = load_gpus(overlays=overlays), read_cpu_facts()
    rates = {
        row.kind: MeasuredRate(value=row.value, quality=row.quality, regime=row.regime)
        for row in microbench_rows(benchmark, gpu=CPU_ID, source="")
    }
    found = known.find_or_none(facts.name)
    if found is None or not found.is_cpu or found.unit_count != facts.threads:
        found = _described_by_system(facts, known.architectures[facts.architecture_id], rates)
    return CpuAtHand(spec=replace(found, measured={**found.measured, **rates}), benchmark=benchmark)


def _described_by_system(
    facts: "CpuFacts", architecture: GpuArchitecture, rates: dict[Microbenchmark, MeasuredRate]
) -> GpuSpec:
    """Describe a CPU by what the system says; where its clock or operations are not known, peaks are what it reached.

    bf16 is then a format of the CPU only where it is faster than fp32: without instructions for it PyTorch converts.
    """
    kinds = {PeakKind.FP32: Microbenchmark.MATMUL_FP32, PeakKind.BF16: Microbenchmark.MATMUL_HALF}
    reached = {kind: rates[benchmark].value for kind, benchmark in kinds.items() if benchmark in rates}
    per_clock = architecture.operations_per_clock
    peaks: dict[PeakKind, float | None] = {
        kind: max(facts.threads * operations * (facts.clock_hz or 0.0), reached.get(kind, 0.0))
        for kind, operations in per_clock.items()
        if operations
    }
    if not per_clock:
        least = reached.get(PeakKind.FP32, 0.0)
        peaks = {kind: rate for kind, rate in reached.items() if kind is PeakKind.FP32 or rate > least}
    return GpuSpec(
        id=CPU_AT_HAND,
        name=facts.name,
        vendor=architecture.vendor,
        architecture=architecture.name,
        architecture_id=architecture.id,
        segment=Segment.CPU,
        memory_bytes=facts.memory_bytes,
        usable_share=CPU_USABLE_SHARE,
        memory_bandwidth_bytes_per_s=rates[Microbenchmark.COPY].value,
        l2_bytes=facts.cache_bytes,
        unit_count=facts.threads,
        unit_kind=architecture.unit_kind,
        peak_flops_per_s={kind: rate for kind, rate in peaks.items() if rate},
    )


def cpu_calibrations(cpu: CpuAtHand, *, made: date, command: str, feedback: Feedback = SILENCE) -> Calibration:
    """Time about sixty operators on the CPU at hand, and return the shipped calibration with its parts for CPUs
    fitted.
    """
    from capplan.probe.measure.cpu_operators import call_time_s, time_operators, undisturbed_clock

    clock = undisturbed_clock()
    call_s = call_time_s(clock=clock)
    source = f"{cpu.benchmark.device}, {cpu.spec.unit_count} cores, torch {cpu.benchmark.torch}, {made}"
    base = load_calibration()
    parts = dict(base.parts)
    for serves, precision in ((CPU, Precision.FP32), (CPU_HALF, Precision.BF16)):
        if precision is Precision.BF16 and not cpu.spec.peak(PeakKind.BF16):
            continue
        with feedback.progress(f"timing operators in {precision}"):
            timed = time_operators(precision, clock=clock)
        parts[serves] = fit_cpu(
            timed, cpu=cpu.spec, call_s=call_s, made=made, command=command, source=source, serves=serves,
            name=f"CPU operators in {precision}",
        )  # fmt: skip
    return replace(base, parts=parts)


def cpu_calibration_text(calibration: Calibration) -> str:
    """Return the content of one file with the parts for CPUs, fp32 and 16 bits."""
    half = [calibration.parts[CPU_HALF]] if CPU_HALF in calibration.parts else []
    return dump_calibration(calibration.parts[CPU], parts=half)


def ensure_cpu_sheet(cpu: GpuSpec, *, folder: Path, read_on: date) -> None:
    """Write the CPU's own file into a folder of specs, where neither the database nor the folder describes it."""
    path = folder / f"{cpu.id}.yaml"
    if cpu.id in load_gpus().cpus or path.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(render_cpu_sheet(cpu, read_on=read_on))
