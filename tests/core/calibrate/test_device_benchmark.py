"""A measured device becomes two factors: modelled over measured time."""

from dataclasses import replace
from datetime import date

import pytest

from capplan.core.calibrate.device import CopySpeed, DeviceBenchmark, MatmulSpeed, calibrated_by, microbench_rows
from capplan.core.gpus.spec import GpuSpec, Microbenchmark, PeakKind
from capplan.core.latency.calibration import Calibration, prior_calibration
from capplan.core.latency.device import Unsupported
from capplan.core.latency.lookup import gpu_evidence, is_known
from capplan.core.latency.types import Evidence
from capplan.core.workload import Precision, Workload

GPU = GpuSpec(
    id="made-up",
    name="Made Up",
    vendor="nvidia",
    architecture="Ada",
    compute_capability=(8, 9),
    memory_bytes=24 * 2**30,
    memory_bandwidth_bytes_per_s=1e12,
    l2_bytes=2**20,
    unit_count=100,
    peak_flops_per_s={PeakKind.FP32: 50e12, PeakKind.FP16: 200e12, PeakKind.BF16: 200e12},
)
MEASURED = DeviceBenchmark(
    device="Made Up",
    torch="2.11.0",
    matmuls=(
        MatmulSpeed(precision=Precision.FP32_IEEE, size=8192, latency_s=30e-3),
        MatmulSpeed(precision=Precision.BF16, size=1024, latency_s=1e-3),
        MatmulSpeed(precision=Precision.BF16, size=4096, latency_s=1.2e-3),
        MatmulSpeed(precision=Precision.BF16, size=8192, latency_s=8e-3),
    ),
    copies=(CopySpeed(size_bytes=2**20, latency_s=1e-6), CopySpeed(size_bytes=2**30, latency_s=2.4e-3)),
    kernel_s=2e-6,
    dispatch_s=5e-6,
    context_bytes=400 * 2**20,
    total_bytes=24 * 2**30,
    usable_bytes=23 * 2**30,
)


def calibrated(benchmark: DeviceBenchmark, base: Calibration | None = None) -> Calibration:
    made = calibrated_by(
        benchmark, gpu=GPU, base=base or prior_calibration(), made=date(2026, 11, 21), command="capplan"
    )
    assert isinstance(made, Calibration)
    return made


def test_rates_by_hand() -> None:
    # 2 · 8192³ = 1.0995e12 operations in 8 ms: 137.4 TFLOP/s. 1 GiB read and written in 2.4 ms: 894.8 GB/s.
    assert MEASURED.matmuls[3].flops_per_s == pytest.approx(137.4e12, rel=1e-3)
    assert MEASURED.copies[1].bytes_per_s == pytest.approx(894.8e9, rel=1e-3)


def test_a_copy_twice_as_slow_halves_the_bandwidth_factor_and_nothing_else() -> None:
    slow = replace(MEASURED, copies=(MEASURED.copies[0], CopySpeed(size_bytes=2**30, latency_s=4.8e-3)))
    before, after = calibrated(MEASURED).gpus["made-up"], calibrated(slow).gpus["made-up"]
    assert after.bandwidth == pytest.approx(before.bandwidth / 2)
    assert after.compute == before.compute


def test_small_and_slow_formats_do_not_count() -> None:
    # Only the two largest bf16 products decide: 4096 and 8192; both twice as fast double the factor.
    first, small, *large = MEASURED.matmuls
    fast = tuple(replace(each, latency_s=each.latency_s / 2) for each in large)
    changed = replace(MEASURED, matmuls=(replace(first, latency_s=99.0), replace(small, latency_s=99.0), *fast))
    before, after = calibrated(MEASURED).gpus["made-up"], calibrated(changed).gpus["made-up"]
    assert after.compute == pytest.approx(2 * before.compute)


def test_single_kernels_are_no_timed_steps() -> None:
    made = replace(calibrated(MEASURED), serves="eager")
    found = gpu_evidence(made, GPU, Workload(precision=Precision.BF16))
    assert (found.evidence, found.reason) == (
        Evidence.MICROBENCHMARKS, "single kernels timed on this GPU, no whole step",
    )  # fmt: skip
    assert not is_known(made, GPU)


def test_a_gpus_old_factors_do_not_leak_into_its_new_ones() -> None:
    once = calibrated(MEASURED)
    assert calibrated(MEASURED, base=once).gpus == once.gpus


def test_the_copy_reaches_a_plausible_share_of_the_printed_bandwidth() -> None:
    # 894.8 of 1000 GB/s were measured. The guesses give a GPU 0.85 of print, its copies 0.85 of that, and a written
    # byte costs a fifth more: 0.895 / (0.85 · 0.85 / 1.1) = 1.36.
    assert 1.2 <= calibrated(MEASURED).gpus["made-up"].bandwidth <= 1.5


def test_a_gpu_without_a_peak_is_told() -> None:
    bare = replace(GPU, peak_flops_per_s={})
    made = calibrated_by(MEASURED, gpu=bare, base=prior_calibration(), made=date(2026, 11, 21), command="capplan")
    assert isinstance(made, Unsupported)


def test_the_largest_runs_become_microbenchmarks() -> None:
    # 137.4 TFLOP/s in bf16 at 8192, 894.8 GB/s of 1 GiB: see the first test.
    rows = {row.kind: row.value for row in microbench_rows(MEASURED, gpu="made-up", source="me")}
    assert rows[Microbenchmark.MATMUL_HALF] == pytest.approx(137.4e12, rel=1e-3)
    assert rows[Microbenchmark.COPY] == pytest.approx(894.8e9, rel=1e-3)
    assert rows[Microbenchmark.LAUNCH] == MEASURED.kernel_s
