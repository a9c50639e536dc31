"""The whole command `calibrate device` on a stand-in for a CUDA device, whose rates are known."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from capplan.core.gpus.spec import Microbenchmark
from capplan.probe.measure.devices import CudaDevice
from capplan.specs import load_gpus
from capplan.specs.calibration import load_calibration
from tests.cli.conftest import Run
from tests.probe.measure.fake_cuda import KERNEL_S, LAUNCH_S, FakeCuda

L4 = "l4"
"""What the stand-in calls itself."""


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    fake = FakeCuda()
    fake.stand_in(monkeypatch)
    monkeypatch.setattr(CudaDevice, "now_s", lambda _: fake.now_s())
    monkeypatch.setattr(CudaDevice, "check", lambda _: None)
    with fake.factories():
        yield fake


def test_a_cuda_device_is_measured_into_a_calibration_and_a_spec(run: Run, cuda: FakeCuda, tmp_path: Path) -> None:
    result = run("calibrate", "device", "-o", tmp_path / "mine.yaml", "--spec", tmp_path / "specs", "--json")
    assert result.exit_code == 0, result.stderr
    measured = load_gpus(overlays=(tmp_path / "specs",)).find(L4).measured
    # the largest products have 2 * 8192^3 = 1.0995e12 operations: 11 ms at 100 TFLOP/s, beside which 8 us are nothing
    assert measured[Microbenchmark.MATMUL_HALF].value == pytest.approx(100e12, rel=1e-3)
    assert measured[Microbenchmark.MATMUL_TF32].value == pytest.approx(50e12, rel=1e-3)
    assert measured[Microbenchmark.MATMUL_FP32].value == pytest.approx(20e12, rel=1e-3)
    # 1 GiB is read and written: 8.6 ms at 250 GB/s
    assert measured[Microbenchmark.COPY].value == pytest.approx(250e9, rel=1e-3)
    assert measured[Microbenchmark.LAUNCH].value == pytest.approx(KERNEL_S, rel=1e-2)
    assert json.loads(result.stdout)["dispatch_s"] == pytest.approx(LAUNCH_S, rel=1e-2)
    factors = load_calibration(tmp_path / "mine.yaml").gpus[L4]
    # whatever the model expects of an L4's printed rates, half of all that it reached is half of the factor
    slower = cuda.gpus[0]
    slower.flops_per_s = {dtype: rate / 2 for dtype, rate in slower.flops_per_s.items()}
    slower.tf32_flops_per_s /= 2
    assert run("calibrate", "device", "-o", tmp_path / "slow.yaml").exit_code == 0
    slow = load_calibration(tmp_path / "slow.yaml").gpus[L4]
    assert slow.compute == pytest.approx(factors.compute / 2, rel=0.01)
    assert slow.bandwidth == pytest.approx(factors.bandwidth, rel=1e-3)


def test_what_a_cuda_device_lacks_is_left_out(run: Run, cuda: FakeCuda, tmp_path: Path) -> None:
    # no bfloat16, and 2 GiB free: the copy of 1 GiB needs two of them, and an allocator's own
    del cuda.gpus[0].flops_per_s[torch.bfloat16]
    cuda.gpus[0].others_bytes = 7 * 2**30
    result = run("calibrate", "device")
    assert result.exit_code == 0, result.stderr
    assert "fp16, 8192" in result.stdout
    assert "bf16" not in result.stdout
    assert "copy of 256 MiB" in result.stdout
    assert "copy of 1 GiB" not in result.stdout
