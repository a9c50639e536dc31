"""Describe a CPU as a device of the latency model, by rates that were timed on the machine."""

from dataclasses import replace
from datetime import date

from capplan.core.calibrate.device import DeviceBenchmark, calibrated_by
from capplan.core.gpus.spec import GpuSpec, PeakKind, Segment
from capplan.core.latency.calibration import Calibration, ClassConstants, DeviceFactors
from capplan.core.latency.device import Unsupported
from capplan.core.latency.priors import prior_calibration

CPU_ID = "cpu"
_UNKNOWN_MEMORY_BYTES = 2**33
_SMALLEST_CACHE_BYTES = 2**20


def host_spec(benchmark: DeviceBenchmark, *, cache_bytes: int | None) -> GpuSpec:
    """Describe a CPU by what it reached: the rate of its largest matrix product and of its largest copy.

    A kernel may still beat these rates a little: they are timed, not printed.

    Args:
        benchmark: what was timed on this machine.
        cache_bytes: the last-level cache; None where it is unknown.
    """
    product = max(benchmark.matmuls, key=lambda each: each.flops_per_s)
    copied = max(benchmark.copies, key=lambda each: each.size_bytes)
    return GpuSpec(
        id=CPU_ID,
        name=benchmark.device,
        segment=Segment.CPU,
        vendor="CPU",
        architecture="CPU",
        architecture_id=CPU_ID,
        memory_bytes=benchmark.total_bytes or _UNKNOWN_MEMORY_BYTES,
        memory_bandwidth_bytes_per_s=copied.bytes_per_s,
        l2_bytes=cache_bytes or _SMALLEST_CACHE_BYTES,
        unit_count=1,
        peak_flops_per_s={PeakKind.FP32: product.flops_per_s},
    )


def host_calibration(benchmark: DeviceBenchmark, spec: GpuSpec, *, made: date) -> Calibration:
    """Calibrate the latency model to a CPU: its two rates, and a call's cost for each operator.

    A CPU has no queue: what a call costs passes before each operator, not beside the one before. The efficiencies of
    classes of operators stay engineering guesses, so that the intervals stay those of an uncalibrated device.

    Args:
        benchmark: what was timed on this machine.
        spec: the CPU as `host_spec` describes it.
        made: the day.
    """
    base = prior_calibration()
    constants = replace(base.constants, kernel_s=benchmark.dispatch_s, call_s=0.0, launch_s=0.0)
    base = replace(base, name="this CPU, timed briefly", constants=constants)
    found = calibrated_by(benchmark, gpu=spec, base=base, made=made, command="capplan measure")
    if isinstance(found, Unsupported):
        return base
    factors = found.gpus[CPU_ID]
    classes = {label: _within_rates(each, factors) for label, each in base.classes.items()}
    return replace(found, name=base.name, origin=None, classes=classes)


def _within_rates(constants: ClassConstants, factors: DeviceFactors) -> ClassConstants:
    """Limit the efficiencies of a class of operators so that none exceeds the timed rates, on which the bound rests."""
    return replace(
        constants,
        compute=min(constants.compute, 1 / factors.compute),
        bandwidth=min(constants.bandwidth, 1 / factors.bandwidth),
    )
