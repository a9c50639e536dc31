"""CPUs as devices: rates, what they cannot run, and that they never stand among GPUs."""

from dataclasses import replace

import numpy as np
import pytest

from capplan.core.assumed import FORK_JOIN_S
from capplan.core.gpus.rate_laws import GUESSED_LAWS
from capplan.core.gpus.spec import GpuSpec, MeasuredRate, Microbenchmark, PeakKind, Quality, Regime, Segment
from capplan.core.latency.calibration import Calibration, prior_calibration
from capplan.core.latency.device import DeviceRates, Unsupported, cpu_rates, device_rates
from capplan.core.latency.kernel_time import PeakUse
from capplan.core.latency.lookup import CPU, CPU_HALF, cpu_part, on_cores
from capplan.core.workload import Framework, Precision, Workload


def cpu(**others: object) -> GpuSpec:
    made = GpuSpec(
        id="cpu-16", name="CPU of 16 cores", vendor="AMD", architecture="x86", architecture_id="x86-avx512-bf16",
        segment=Segment.CPU, memory_bytes=2**37, memory_bandwidth_bytes_per_s=80e9, unit_count=16,
        peak_flops_per_s={PeakKind.FP32: 2.56e12, PeakKind.BF16: 5.12e12, PeakKind.TF32: None},
    )  # fmt: skip
    return replace(made, **others)  # type: ignore[arg-type]


def measured(value: float) -> MeasuredRate:
    return MeasuredRate(value=value, quality=Quality.A, regime=Regime.SUSTAINED)


def rates(spec: GpuSpec, precision: Precision = Precision.FP32) -> DeviceRates:
    found = device_rates(spec, Workload(precision=precision), GUESSED_LAWS)
    assert isinstance(found, DeviceRates)
    return found


def test_a_measured_cpu_sustains_what_was_measured() -> None:
    spec = cpu(measured={Microbenchmark.MATMUL_FP32: measured(1.7e12), Microbenchmark.COPY: measured(52e9)})
    found = rates(spec)
    assert found.peaks_flops_per_s[PeakUse.MATMUL_32] == pytest.approx(1.7e12)
    assert found.bandwidth_bytes_per_s == pytest.approx(52e9)
    assert found.printed_flops_per_s[PeakUse.MATMUL_32] == 2.56e12
    assert found.printed_bandwidth_bytes_per_s == 80e9


def test_an_unmeasured_cpu_sustains_less_than_is_printed() -> None:
    found = rates(cpu(), Precision.BF16)
    assert np.all(found.peaks_flops_per_s[1:] < found.printed_flops_per_s[1:])
    assert found.bandwidth_bytes_per_s < found.printed_bandwidth_bytes_per_s


@pytest.mark.parametrize(
    ("workload", "lacking"),
    [
        (Workload(precision=Precision.FP16), "cannot run fp16"),
        (Workload(precision=Precision.TF32), ""),
        (Workload(framework=Framework.TENSORRT), "cannot run tensorrt"),
        (Workload(framework=Framework.COMPILE), "cannot run compile"),
    ],
)
def test_what_a_cpu_cannot_run_is_said(workload: Workload, lacking: str) -> None:
    found = cpu_rates(cpu(), workload)
    assert isinstance(found, Unsupported)
    assert found.lacking == lacking
    assert "cpu-16" in found.reason


def test_bf16_needs_its_instructions() -> None:
    found = cpu_rates(
        cpu(peak_flops_per_s={PeakKind.FP32: 2.56e12, PeakKind.BF16: None}), Workload(precision=Precision.BF16)
    )
    assert isinstance(found, Unsupported)
    assert found.reason == "cpu-16 has no instructions for bf16"


def test_sixteen_bits_have_a_part_of_their_own() -> None:
    single, half = replace(prior_calibration(), name="single"), replace(prior_calibration(), name="half")
    whole: Calibration = replace(prior_calibration(), parts={CPU: single, CPU_HALF: half})
    in_half = Workload(precision=Precision.BF16)
    with_matrix_unit = cpu(peak_flops_per_s={PeakKind.FP32: 2.56e12, PeakKind.BF16: 41e12})
    assert cpu_part(whole.parts, Workload(), with_matrix_unit) is single
    assert cpu_part(whole.parts, in_half, with_matrix_unit) is half
    assert cpu_part(whole.parts, in_half, cpu()) is single  # twice the fp32 rate: vectors alone
    assert cpu_part({CPU: single}, in_half, with_matrix_unit) is single
    assert cpu_part({}, Workload(), cpu()) is None


def test_more_cores_take_longer_to_begin_and_end_together() -> None:
    part = prior_calibration()
    assert on_cores(part, 1).constants.kernel_s == part.constants.kernel_s
    assert on_cores(part, 16).constants.kernel_s == pytest.approx(part.constants.kernel_s + 4 * FORK_JOIN_S)
    on_four = replace(
        part, constants=replace(part.constants, cores=4)
    )  # what four cores cost was timed with its operators
    assert on_cores(on_four, 4).constants.kernel_s == on_cores(on_four, 2).constants.kernel_s == part.constants.kernel_s
    assert on_cores(on_four, 16).constants.kernel_s == pytest.approx(part.constants.kernel_s + 2 * FORK_JOIN_S)
