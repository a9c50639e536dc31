"""Which device was measured is compared with the one that was planned."""

from types import SimpleNamespace

import pytest

from capplan.app.acceptance.accept import device_mark, timed_kernels
from capplan.app.calibration.cpu import CPU_ID
from capplan.core.calibrate.device import CopySpeed, DeviceBenchmark, MatmulSpeed, microbench_rows
from capplan.core.measurement.acceptance import FindingMark, kernel_findings
from capplan.core.measurement.types import DeviceFacts
from capplan.core.workload import Precision
from capplan.errors import UsageError
from capplan.specs import load_gpus
from capplan.specs.rate_laws import load_rate_laws


@pytest.mark.parametrize(
    ("gpu", "name", "mark"),
    [
        ("l4", "NVIDIA L4", FindingMark.KEPT),
        ("t4", "Tesla T4", FindingMark.REFUSED),
        (None, "AMD EPYC", FindingMark.REMARK),
        (CPU_ID, "AMD EPYC", FindingMark.REMARK),
    ],
)
def test_another_device_is_refused_and_an_unknown_one_remarked(gpu: str | None, name: str, mark: FindingMark) -> None:
    assert device_mark(load_gpus().find("l4"), DeviceFacts(gpu=gpu, name=name, kind="cuda", torch="2.13.0")) is mark


def benchmark(half_flops_per_s: float, copy_bytes_per_s: float) -> DeviceBenchmark:
    """Return what a card reaches in the largest product and the largest copy."""
    product = MatmulSpeed(precision=Precision.BF16, size=8192, latency_s=2 * 8192**3 / half_flops_per_s)
    copied = CopySpeed(size_bytes=2**30, latency_s=2 * 2**30 / copy_bytes_per_s)
    return DeviceBenchmark(
        device="NVIDIA H100 80GB HBM3", torch="2.13.0", matmuls=(product,), copies=(copied,), kernel_s=None,
        dispatch_s=5e-6, context_bytes=None, total_bytes=None, usable_bytes=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("half_flops_per_s", "copy_bytes_per_s", "marks"),
    [
        # published of H100 SXM, from memory: stas00/ml-engineering's mamf-finder and te42kyfo/gpu-benches
        (792.1e12, 2.70e12, [FindingMark.KEPT, FindingMark.KEPT]),
        (350e12, 2.70e12, [FindingMark.REFUSED, FindingMark.KEPT]),  # half of its clock
        (792.1e12, 1.95e12, [FindingMark.KEPT, FindingMark.REFUSED]),  # the memory of an H100 PCIe
    ],
)
def test_products_and_copies_are_held_to_what_such_cards_reach(
    half_flops_per_s: float, copy_bytes_per_s: float, marks: list[FindingMark]
) -> None:
    gpu = load_gpus().find("h100-sxm5-80gb")
    rows = microbench_rows(benchmark(half_flops_per_s, copy_bytes_per_s), gpu=gpu.id, source="this machine")
    findings = tuple(kernel_findings(gpu, load_rate_laws().sustained, rows))
    assert [finding.what for finding in findings] == ["16-bit matrix products", "copies in memory"]
    assert [finding.mark for finding in findings] == marks


def test_a_machine_without_an_accelerator_has_no_kernels_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(UsageError, match="times a GPU, and PyTorch finds none here"):
        timed_kernels(load_gpus().find("l4"))


def test_the_card_that_is_here_is_timed_if_it_is_the_planned_one(monkeypatch: pytest.MonkeyPatch) -> None:
    here = SimpleNamespace(kind="cuda", torch_device="cuda:0")
    monkeypatch.setattr("capplan.probe.measure.devices.open_device", lambda _: here)
    monkeypatch.setattr("capplan.probe.measure.devices.devices_at_hand", lambda: {"cuda:0": "NVIDIA H100 80GB HBM3"})
    answer = SimpleNamespace(benchmark=benchmark(350e12, 2.7e12))
    monkeypatch.setattr("capplan.app.calibration.at_hand.calibrate_device", lambda **_: answer)
    found = timed_kernels(load_gpus().find("h100-sxm5-80gb"))
    assert [finding.mark for finding in found] == [FindingMark.KEPT, FindingMark.REFUSED, FindingMark.KEPT]
    (other,) = timed_kernels(load_gpus().find("l4"))
    assert other.mark is FindingMark.REFUSED
