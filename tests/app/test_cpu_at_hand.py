"""The CPU at hand as a device: one whose instructions nobody knows has the peaks that its products reached."""

from dataclasses import replace

import pytest

from capplan.app.calibration.cpu import described
from capplan.core.calibrate.device import MatmulSpeed
from capplan.core.gpus.spec import PeakKind
from capplan.core.workload import Precision
from capplan.probe.measure.facts import CpuFacts
from tests.timed_cpu import BENCHMARK

GRAVITON = CpuFacts(
    name="Arm Neoverse-V1", architecture_id="cpu-other", threads=8, clock_hz=None, cache_bytes=32 * 2**20,
    memory_bytes=16 * 2**30,
)  # fmt: skip
FP32 = 2 * 1024**3 / 0.02
"""A product of 1024 rows in 20 ms. [FLOP/s]"""


@pytest.mark.parametrize(("half_s", "bf16"), [(0.005, 4 * FP32), (0.1, None)])
def test_an_arm_cpu_has_the_peaks_that_it_reached(
    monkeypatch: pytest.MonkeyPatch, half_s: float, bf16: float | None
) -> None:
    half = MatmulSpeed(precision=Precision.BF16, size=1024, latency_s=half_s)
    monkeypatch.setattr("capplan.probe.measure.facts.read_cpu_facts", lambda: GRAVITON)
    found = described(replace(BENCHMARK, matmuls=(*BENCHMARK.matmuls, half))).spec
    assert (found.name, found.vendor, found.is_cpu) == ("Arm Neoverse-V1", "not known", True)
    assert found.peak(PeakKind.FP32) == pytest.approx(FP32)
    assert found.peak(PeakKind.BF16) == (None if bf16 is None else pytest.approx(bf16))
    assert found.peak(PeakKind.INT8) is None
