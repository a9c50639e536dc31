from dataclasses import replace

import numpy as np
import pytest

from capplan.core.gpus.spec import PeakKind
from capplan.core.latency.breakdown import classic_bound
from capplan.core.latency.calibration import prior_calibration
from capplan.core.latency.device import DeviceRates, Unsupported, device_rates
from capplan.core.latency.kernel_time import PeakUse, tile_utilisation
from capplan.core.latency.lookup import architecture_source, calibration_notes
from capplan.core.latency.predict import estimate_latencies
from capplan.core.latency.step import ExecutedStep, in_own_precision
from capplan.core.latency.types import Binding, LatencyEstimate
from capplan.core.trace.types import Affine, Kernel, Op, Operand
from capplan.core.workload import Framework, Precision, Workload
from tests.core.latency.latency_cases import LAWS, gpu, linear_recording
from tests.seen import at_least

FP16 = Workload(precision=Precision.FP16)


def estimate(spec, batches, *, recording=None, workload=FP16) -> tuple[LatencyEstimate, ...]:
    (answer,) = estimate_latencies(
        ExecutedStep.of(recording or linear_recording(), workload), gpus=[spec], batches=batches
    )
    assert not isinstance(answer, Unsupported)
    return answer


def test_the_bound_is_the_roofline_summed_over_kernels():
    # mm: 2 · 128·64 · 4096 · 4096 FLOP = 274.9 GFLOP at 100 TFLOP/s = 2748.8 µs, more than its bytes need.
    # gelu: 2 · (8192 · 4096 · 2 B - 4 MiB that the L2 cache may keep) = 125.8 MB at 1 TB/s = 125.8 µs.
    (found,) = estimate(gpu(), [64])
    assert found.bound_s == pytest.approx(2748.8e-6 + 125.8e-6, rel=1e-3)


def test_shares_of_what_binds_add_up():
    for found in at_least(3, estimate(gpu(), [1, 8, 1024])):
        assert sum(share for _, share in found.share_by_binding) == pytest.approx(1)


def test_a_large_product_is_bound_by_compute_and_a_lone_sample_by_launches():
    small, large = (
        estimate(gpu(), [1, 1024], recording=linear_recording(rows=1, k=256, n=256, repeats=50))[0],
        estimate(gpu(), [1024])[0],
    )
    assert small.bound_by is Binding.LAUNCHES
    assert large.bound_by is Binding.COMPUTE


@pytest.mark.parametrize("field", ["memory_bandwidth_bytes_per_s", "peaks"])
def test_a_faster_card_is_never_slower(field):
    peaks = gpu().peak_flops_per_s
    better = (
        gpu(memory_bandwidth_bytes_per_s=2e12)
        if field != "peaks"
        else gpu(peak_flops_per_s={kind: 2 * rate for kind, rate in peaks.items()})
    )
    batches = [1, 4, 64, 1024]
    for plain, fast in zip(at_least(4, estimate(gpu(), batches)), estimate(better, batches), strict=True):
        assert fast.latency_s.expected <= plain.latency_s.expected


def test_a_step_never_gets_faster_with_the_batch():
    times = [found.latency_s.expected for found in estimate(gpu(), [2**power for power in range(11)])]
    assert times == sorted(times)


@pytest.mark.parametrize("rows", [128, 25, 64])
def test_many_batches_give_what_single_ones_give(rows):
    recording = linear_recording(rows=rows, k=192, n=576)
    together = estimate(gpu(), [*range(1, 40), 128, 1000], recording=recording)
    for found in at_least(41, together):
        alone = estimate(gpu(), [found.batch], recording=recording)[0]
        assert found.latency_s.expected == pytest.approx(alone.latency_s.expected, rel=1e-9)


def test_cuda_graphs_leave_no_host_time():
    recording = linear_recording(rows=1, repeats=100)
    eager = estimate(gpu(), [1], recording=recording)[0]
    graphs = estimate(
        gpu(), [1], recording=recording, workload=Workload(precision=Precision.FP16, framework=Framework.COMPILE_GRAPHS)
    )[0]
    assert graphs.latency_s.expected < eager.latency_s.expected


def test_a_card_without_the_precision_says_what_it_has():
    turing = gpu(compute_capability=(7, 5), peak_flops_per_s={PeakKind.FP32: 8e12, PeakKind.FP16: 65e12})
    (answer,) = estimate_latencies(
        ExecutedStep.of(linear_recording(), Workload(precision=Precision.BF16)), gpus=[turing], batches=[1]
    )
    reason = "how fast round runs bf16 is not known: its spec states fp32, fp16"
    assert answer == Unsupported(reason=reason, lacking="without a known rate for bf16")


def test_no_gpus_give_no_answers():
    assert estimate_latencies(ExecutedStep.of(linear_recording(), FP16), gpus=[], batches=[1]) == ()


def rates(spec, precision, version=(2, 9)) -> DeviceRates:
    found = device_rates(spec, Workload(precision=precision, torch_version=version), LAWS)
    assert isinstance(found, DeviceRates)
    return found


def test_what_a_users_formula_counts_takes_its_time():
    # 1 TFLOP at 100 TFLOP/s: 10 ms at the printed peak; its tensors of 2 · 16 bytes and its launch are nothing beside.
    alone = linear_recording(repeats=1)
    tensor = Operand(dtype="half", shape=(Affine(4), Affine(4)))
    own = Kernel(name="my.op", inputs=(tensor,), outputs=(tensor,), flops=Affine(10**12))
    recording = replace(alone, kernels=(own,), ops=(Op(kernel=0, module=0, reads=(0,), writes=(1,)),))
    (found,) = estimate(gpu(), [1], recording=recording)
    assert found.bound_s == pytest.approx(0.010)
    assert found.latency_s.expected == pytest.approx(found.bound_s, rel=0.2)
    assert found.bound_by is Binding.COMPUTE


def test_the_classic_bound_counts_products_in_fp8():
    # 128 rows of 4096 by 4096 at 200 TFLOP/s: 2 · 128 · 4096² FLOPs
    card = gpu(peak_flops_per_s={**gpu().peak_flops_per_s, PeakKind.FP8: 200e12})
    step = ExecutedStep.of(linear_recording(dtype="float8_e4m3fn"), FP16)
    (work,) = classic_bound(step, rates=rates(card, Precision.FP16), batch=1).work
    assert (work.use, work.flops, work.time_s) == (PeakUse.FP8, 2 * 128 * 4096**2, 2 * 128 * 4096**2 / 200e12)


def test_products_in_fp64_run_on_tensor_cores_where_there_are_any():
    # NVIDIA's A100 datasheet: 9.7 TFLOP/s in fp64, 19.5 on tensor cores.
    peaks = {**gpu().peak_flops_per_s, PeakKind.FP64: 9.7e12, PeakKind.FP64_TENSOR: 19.5e12}
    assert rates(gpu(peak_flops_per_s=peaks), Precision.FP32).printed_flops_per_s[PeakUse.DOUBLE] == 19.5e12


def test_a_model_in_two_formats_has_the_precision_of_most_of_its_arithmetic():
    # One product of 256 · 64² in fp32, which runs once, and one of 128 · 64² in bf16, which runs three times.
    wide, narrow = (linear_recording(rows=rows, k=64, n=64, dtype=dtype) for rows, dtype in MIXED)
    ops = tuple(Op(kernel=kernel, module=0, reads=(0, 1), writes=(2,)) for kernel in (0, 1, 1, 1))
    mixed = replace(wide, kernels=(wide.kernels[0], narrow.kernels[0]), ops=ops)
    assert in_own_precision(mixed, Workload()).precision is Precision.BF16


MIXED = ((256, "float32"), (128, "bfloat16"))


def test_default_fp32_runs_convolutions_alone_in_tf32_since_torch_1_12():
    # torch.backends: cudnn.allow_tf32 is on by default, cuda.matmul.allow_tf32 off since 1.12.
    found = rates(gpu(), Precision.FP32).printed_flops_per_s
    assert (found[PeakUse.CONVOLUTION_32], found[PeakUse.MATMUL_32]) == (50e12, 10e12)
    assert rates(gpu(), Precision.FP32, (1, 9)).printed_flops_per_s[PeakUse.MATMUL_32] == 50e12


def test_ieee_fp32_never_runs_in_tf32():
    found = rates(gpu(), Precision.FP32_IEEE).printed_flops_per_s
    assert (found[PeakUse.CONVOLUTION_32], found[PeakUse.MATMUL_32]) == (10e12, 10e12)


def test_before_ampere_there_is_no_tf32():
    volta = gpu(compute_capability=(7, 0), peak_flops_per_s={PeakKind.FP32: 15e12, PeakKind.FP16: 125e12})
    assert rates(volta, Precision.FP32).printed_flops_per_s[PeakUse.CONVOLUTION_32] == 15e12
    assert isinstance(device_rates(volta, Workload(precision=Precision.TF32), LAWS), Unsupported)


def test_a_power_limit_slows_what_the_full_card_would_do():
    full = gpu(name="NVIDIA RTX Round", compute_capability=(12, 0), tdp_w=600.0)
    capped = gpu(name="NVIDIA RTX Round", compute_capability=(12, 0), tdp_w=60.0, nominal_tdp_w=600.0)
    assert (
        rates(capped, Precision.FP16).peaks_flops_per_s[PeakUse.HALF]
        < rates(full, Precision.FP16).peaks_flops_per_s[PeakUse.HALF]
    )


def utilisation(m, n, units, k=64.0):
    arrays = {
        name: np.array([float(value)]) for name, value in {"m": m, "n": n, "k": k, "units": units, "groups": 1}.items()
    }
    return float(tile_utilisation(**arrays)[0])


def test_one_whole_tile_on_one_multiprocessor_is_full():
    assert utilisation(256, 128, 1) == pytest.approx(1.0)


def test_two_half_tiles_fill_two_multiprocessors():
    # One 256x128 tile leaves the second idle (1/2); two of 128x128 at their speed of 0.95 do better.
    assert utilisation(256, 128, 2) == pytest.approx(0.95)


def test_a_last_wave_of_one_tile_costs_a_whole_wave():
    # 5 tiles of 256x128 on 4 multiprocessors: 1.25 waves take 2, so 0.625; 10 of 128x128: 2.5 take 3, so 0.79;
    # 20 of 128x64 at their speed of 0.82 take 5 whole waves.
    assert utilisation(5 * 256, 128, 4) == pytest.approx(0.82)


def test_an_uncalibrated_estimate_says_so():
    found = estimate(gpu(), [8])[0]
    assert found.calibration is None
    assert "guesses" in found.notes[0]


def test_priors_know_no_architecture():
    assert architecture_source(prior_calibration(), gpu()) is None
    assert calibration_notes(None, gpu(), FP16)


def test_no_interval_reaches_where_no_card_can():
    # 128 rows a sample of 4096 by 4096 are bound by arithmetic; cards run up to 15 % above their printed clock, so
    # that nothing lies more than a sixth below the bound, however wide the interval without a calibration is.
    for found in at_least(3, estimate(gpu(), [8, 64, 512])):
        assert found.latency_s.low >= found.bound_s * 5 / 6 * (1 - 1e-12)
        assert found.latency_s.low <= found.latency_s.expected
