"""What GPUs sustain of their printed rates: the power law, and how own measurements weigh in."""

import math
from dataclasses import replace

import pytest

from capplan.core.gpus.rate_laws import (
    SustainedShareLaw,
    copy_share,
    half_share,
    power_law,
    single_share,
    streaming_doubt,
    streaming_share,
)
from capplan.core.gpus.spec import ChipDesign, GpuSpec, MeasuredRate, Microbenchmark, PeakKind, Quality, Regime
from tests.core.latency.latency_cases import LAWS, gpu

SUSTAINED = LAWS.sustained
LAW = SustainedShareLaw(
    clock_consumer=1.1, clock_other=1.0, slope=0.5, capacity_flops_per_joule={"": 1e12}, ceiling={"": 0.8},
    log_sd_consumer=0.1, log_sd_other=0.1, log_sd_unknown=0.2,
)  # fmt: skip


def share(flops_per_s: float, tdp_w: float, *, consumer: bool = False) -> float:
    """The share that the law above gives a GPU of no known family."""
    return math.exp(power_law(LAW, family="", consumer=consumer, flops_per_s=flops_per_s, tdp_w=tdp_w))


def test_without_a_binding_limit_the_clock_and_the_ceiling_remain():
    # 1 TFLOP/s at 100 W is a hundredth of the capacity: (1 + 1e-8)^(-1/8) is 1 to 1e-9.
    assert share(1e12, 100) == pytest.approx(0.8)
    assert share(1e12, 100, consumer=True) == pytest.approx(0.88)


def test_beyond_the_capacity_the_share_falls_with_the_slope():
    # 100 TFLOP/s at 1 W is 100 times the capacity: 0.8 · 100^(-0.5) = 0.08, and at the capacity 0.8 · 2^(-1/8).
    assert share(100e12, 1) == pytest.approx(0.08)
    assert share(1e12, 1) == pytest.approx(0.8 * 2 ** (-0.125))


@pytest.mark.parametrize(("lower", "higher"), [((50e12, 60), (60e12, 60)), ((50e12, 60), (50e12, 80))])
def test_a_higher_printed_rate_or_limit_is_never_slower(lower: tuple[float, float], higher: tuple[float, float]):
    assert higher[0] * share(*higher) >= lower[0] * share(*lower)


def measured(kind: Microbenchmark, value: float, regime: Regime = Regime.SUSTAINED) -> GpuSpec:
    """A GPU of 100 TFLOP/s and 1 TB/s with one microbenchmark."""
    return gpu(measured={kind: MeasuredRate(value=value, quality=Quality.B, regime=regime)})


def test_an_own_measurement_draws_the_share_most_of_the_way():
    model = half_share(gpu(), SUSTAINED).fraction
    own = half_share(measured(Microbenchmark.MATMUL_HALF, 40e12), SUSTAINED)
    assert 0.4 < own.fraction < 0.4 + 0.3 * (model - 0.4)
    assert own.is_own
    assert own.log_sd < half_share(gpu(), SUSTAINED).log_sd


def test_a_gpu_of_no_known_family_is_less_certain():
    unknown = ChipDesign(family="")
    law = replace(SUSTAINED, half=replace(LAW, capacity_flops_per_joule={"": 1e12, "ga100": 1e12}))
    assert half_share(gpu(design=ChipDesign(family="ga100")), law).log_sd == 0.1
    assert half_share(gpu(design=unknown), law).log_sd == 0.2


def test_a_burst_below_print_is_taken_to_fall_further():
    sustained = half_share(measured(Microbenchmark.MATMUL_HALF, 50e12), SUSTAINED).fraction
    burst = half_share(measured(Microbenchmark.MATMUL_HALF, 50e12, Regime.BURST), SUSTAINED)
    assert burst.log_sd > half_share(measured(Microbenchmark.MATMUL_HALF, 50e12), SUSTAINED).log_sd
    # 0.5^1.44 = 0.37 is what a burst of 0.5 stands for: the two meet between the measurement and the model.
    assert half_share(measured(Microbenchmark.MATMUL_HALF, 37e12), SUSTAINED).fraction < burst.fraction
    assert sustained > 0.5


def test_own_measurements_can_be_left_aside():
    timed = measured(Microbenchmark.MATMUL_FP32, 3e12)
    assert single_share(timed, SUSTAINED, use_own=False) == single_share(gpu(), SUSTAINED)
    assert single_share(timed, SUSTAINED).fraction < single_share(gpu(), SUSTAINED).fraction


def test_a_power_limit_does_not_touch_the_bandwidth():
    assert copy_share(gpu(tdp_w=100.0), SUSTAINED).fraction == copy_share(gpu(tdp_w=700.0), SUSTAINED).fraction


def test_matrix_cores_count_for_fp32_products():
    # Half of the matrix cores' printed rate was measured, which is all of the vector rate.
    both = {**gpu().peak_flops_per_s, PeakKind.FP32: 20e12, PeakKind.FP32_MATRIX: 40e12}
    timed = MeasuredRate(value=20e12, quality=Quality.A, regime=Regime.SUSTAINED)
    found = single_share(gpu(peak_flops_per_s=both, measured={Microbenchmark.MATMUL_FP32: timed}), SUSTAINED)
    assert found.fraction < 0.7


def test_bandwidth_per_multiprocessor_and_clock_costs_streaming() -> None:
    # 936 GB/s over 82 multiprocessors at 1.695 GHz are 6.73 bytes per clock (RTX 3090), 1008 over 128 at 2.52 are 3.13
    # (RTX 4090): at 0.025 a byte, (1 + 0.025 · 4.5) / (1 + 0.025 · 6.73) = 0.952, and 1.032.
    wide = replace(gpu(), memory_bandwidth_bytes_per_s=936e9, unit_count=82, boost_clock_hz=1.695e9)
    narrow = replace(gpu(), memory_bandwidth_bytes_per_s=1008e9, unit_count=128, boost_clock_hz=2.52e9)
    assert streaming_share(wide, LAWS.streaming, in_half=True) == pytest.approx(0.952, abs=0.001)
    assert streaming_share(narrow, LAWS.streaming, in_half=True) == pytest.approx(1.032, abs=0.001)
    # Four elements of 32 bits are twice as many bytes under way: half the cost.
    expected = (1 + 0.0125 * 4.5) / (1 + 0.0125 * 6.73)
    assert streaming_share(wide, LAWS.streaming, in_half=False) == pytest.approx(expected, abs=0.001)
    assert streaming_share(replace(wide, unit_count=None), LAWS.streaming, in_half=True) == 1


def test_streaming_is_in_doubt_beyond_the_most_demand_that_was_timed() -> None:
    # 4.8 TB/s over 132 multiprocessors at 1.98 GHz are 18.37 bytes per clock (H200). Where 16 was the most that was
    # timed, the law slows by (1 + 0.025 · 18.37) / (1 + 0.025 · 16) = 1.0423 beyond it, 0.0414 in logs.
    h200 = replace(gpu(), memory_bandwidth_bytes_per_s=4.8e12, unit_count=132, boost_clock_hz=1.98e9)
    cost = replace(LAWS.streaming, most_demand=16.0)
    assert streaming_doubt(h200, cost, in_half=True) == pytest.approx(0.0414, abs=1e-4)
    assert streaming_doubt(h200, replace(cost, most_demand=20.0), in_half=True) == 0
    # A unit that takes 745 bytes a clock (Gaudi 2) is no multiprocessor: the law says nothing of it.
    gaudi = replace(gpu(), memory_bandwidth_bytes_per_s=2.46e12, unit_count=2, boost_clock_hz=1.65e9)
    assert streaming_doubt(gaudi, cost, in_half=True) == 0
    assert streaming_share(gaudi, cost, in_half=True) == 1
