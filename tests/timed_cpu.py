"""The rates of a CPU as if they had been timed, so that runs of `measure` in tests do not spend a second on them."""

import pytest

from capplan.core.calibrate.device import CopySpeed, DeviceBenchmark, MatmulSpeed
from capplan.core.workload import Precision

BENCHMARK = DeviceBenchmark(
    device="A CPU",
    torch="2.11",
    matmuls=(MatmulSpeed(precision=Precision.FP32_IEEE, size=1024, latency_s=0.02),),
    copies=(CopySpeed(size_bytes=2**27, latency_s=0.03),),
    kernel_s=None,
    dispatch_s=5e-6,
    context_bytes=None,
    total_bytes=2**34,
    usable_bytes=None,
)


@pytest.fixture(autouse=True)
def timed_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the CPU's rates as timed."""
    monkeypatch.setattr("capplan.probe.measure.cpu_operators.benchmark_cpu", lambda **_: BENCHMARK)
