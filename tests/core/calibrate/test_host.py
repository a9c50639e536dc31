"""A CPU described by what it reached: bound and estimate follow from its two rates and the cost of a call."""

from datetime import date

import pytest

from capplan.core.calibrate.device import CopySpeed, DeviceBenchmark, MatmulSpeed
from capplan.core.calibrate.host import host_calibration, host_spec
from capplan.core.latency.device import Unsupported
from capplan.core.latency.predict import estimate_latencies
from capplan.core.latency.step import ExecutedStep
from capplan.core.workload import Precision, Workload
from tests.core.latency.latency_cases import linear_recording

MIB = 2**20
FP32 = Workload(precision=Precision.FP32_IEEE)
# 100 GFLOP/s in a product of 1024 rows, 8 GB/s in a copy of 64 MiB that is read and written
BENCHMARK = DeviceBenchmark(
    device="A CPU",
    torch="2.11",
    matmuls=(MatmulSpeed(precision=Precision.FP32_IEEE, size=1024, latency_s=2 * 1024**3 / 100e9),),
    copies=(CopySpeed(size_bytes=64 * MIB, latency_s=2 * 64 * MIB / 8e9),),
    kernel_s=None,
    dispatch_s=5e-6,
    context_bytes=None,
    total_bytes=16 * 2**30,
    usable_bytes=None,
)


def estimated(benchmark: DeviceBenchmark, *, rows: int = 128, repeats: int = 1) -> float:
    spec = host_spec(benchmark, cache_bytes=MIB)
    step = ExecutedStep.of(
        linear_recording(rows=rows, k=1024, n=1024, repeats=repeats, dtype="float32"),
        FP32,
        calibration=host_calibration(benchmark, spec, made=date(2026, 1, 1)),
    )
    (answer,) = estimate_latencies(step, gpus=[spec], batches=[8])
    assert not isinstance(answer, Unsupported)
    assert answer[0].bound_s <= answer[0].latency_s.expected
    assert answer[0].calibration is None  # and so the interval states ignorance
    return answer[0].latency_s.expected


def test_rates_are_those_of_the_largest_product_and_copy() -> None:
    spec = host_spec(BENCHMARK, cache_bytes=MIB)
    assert spec.peak_flops_per_s == {next(iter(spec.peak_flops_per_s)): pytest.approx(100e9)}
    assert spec.memory_bandwidth_bytes_per_s == pytest.approx(8e9)
    assert (spec.l2_bytes, spec.memory_bytes) == (MIB, 16 * 2**30)


def test_a_large_product_takes_about_what_its_rate_says() -> None:
    # 2 · 8 · 128 · 1024 · 1024 FLOP = 2.147 GFLOP at 100 GFLOP/s = 21.5 ms, and a gelu of 4 MiB beside it
    assert estimated(BENCHMARK) == pytest.approx(21.5e-3, rel=0.3)


def test_every_operator_pays_for_its_call() -> None:
    dear = DeviceBenchmark(**{**_fields(BENCHMARK), "dispatch_s": 1e-3})
    # one product and one gelu in each of 10 layers: 20 calls of 0.995 ms more
    more = estimated(dear, rows=1, repeats=10) - estimated(BENCHMARK, rows=1, repeats=10)
    assert more == pytest.approx(20 * 0.995e-3, rel=0.1)


def _fields(benchmark: DeviceBenchmark) -> dict[str, object]:
    return {name: getattr(benchmark, name) for name in DeviceBenchmark.__dataclass_fields__}
