"""Figures of GPUs as the outside world prints them."""

import pytest

from capplan.core.gpus.spec import PeakKind
from capplan.specs import load_gpus

TERA, GIB = 1e12, 2**30


@pytest.mark.parametrize(
    ("gpu_id", "fp32_tflops", "memory_gb"),
    [
        ("gtx-1080-ti", 11.34, 11),
        ("v100-sxm2-16gb", 15.7, 16),
        ("p100-pcie-16gb", 9.3, 16),
        ("t4", 8.1, 16),
        ("quadro-rtx-6000", 16.3, 24),
    ],
)
def test_the_classic_sizing_table(gpu_id: str, fp32_tflops: float, memory_gb: int) -> None:
    spec = load_gpus()[gpu_id]
    assert spec.peak(PeakKind.FP32) == pytest.approx(fp32_tflops * TERA, rel=0.005)
    assert spec.memory_bytes == memory_gb * GIB
    assert any("common sizing tables" in note for note in spec.notes)


def test_the_classic_table_has_the_founders_edition_of_the_2080_ti() -> None:
    # 14.2 TFLOP/s is printed for the Founders Edition at 1635 MHz; the reference card runs at 1545.
    spec = load_gpus()["rtx-2080-ti"]
    assert spec.memory_bytes == 11 * GIB
    assert spec.boost_clock_hz is not None
    assert spec.peak(PeakKind.FP32) == pytest.approx(14.2 * TERA * spec.boost_clock_hz / 1635e6, rel=0.005)
    assert any("14.2 TFLOP/s" in note and "1635 MHz" in note for note in spec.notes)


@pytest.mark.parametrize(
    ("gpu_id", "kind", "dense_tflops"),
    [  # dense figures of NVIDIA's and AMD's data sheets, as public tables that divide the sparse ones by two agree on
        ("a100-sxm4-80gb", PeakKind.BF16, 312),
        ("a100-sxm4-80gb", PeakKind.TF32, 156),
        ("h100-sxm5-80gb", PeakKind.BF16, 989.4),
        ("h100-sxm5-80gb", PeakKind.FP8, 1979),
        ("h100-pcie-80gb", PeakKind.BF16, 756),
        ("l4", PeakKind.BF16, 121),
        ("l40s", PeakKind.BF16, 362),
        ("mi300x", PeakKind.BF16, 1307),
        ("rtx-5090", PeakKind.BF16, 209.5),
        ("b200-sxm-180gb", PeakKind.FP4, 9000),
    ],
)
def test_peaks_are_dense(gpu_id: str, kind: PeakKind, dense_tflops: float) -> None:
    assert load_gpus()[gpu_id].peak(kind) == pytest.approx(dense_tflops * TERA, rel=0.01)


@pytest.mark.parametrize(
    ("gpu_id", "usable_mib"),
    [  # total_memory of torch on the device, as public logs print it
        ("h100-sxm5-80gb", 81089),
        ("h200-sxm-141gb", 143156),
        ("a10g", 22587),
        ("rtx-3090", 24268),
        ("mi300x", 196592),
    ],
)
def test_usable_memory_is_what_torch_reports(gpu_id: str, usable_mib: int) -> None:
    assert load_gpus()[gpu_id].usable_bytes == usable_mib * 2**20
