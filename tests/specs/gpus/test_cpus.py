"""CPUs of the database: found by name, never among the GPUs, and own files of the CPU at hand."""

from datetime import date
from pathlib import Path

import pytest

from capplan.core.gpus.spec import GpuSpec, PeakKind, Segment
from capplan.specs import load_gpus
from capplan.specs.gpus.template import render_cpu_sheet


def test_cpus_never_stand_among_gpus() -> None:
    known = load_gpus()
    assert len(known.cpus) >= 10
    assert not any(spec.is_cpu for spec in known.values())
    assert not set(known.cpus) & set(known)
    assert all(spec.is_cpu for spec in known.cpus.values())


@pytest.mark.parametrize("name", ["epyc-9654", "AMD EPYC 9654", "AMD EPYC 9654 96-Core Processor"])
def test_a_cpu_is_found_by_its_names(name: str) -> None:
    found = load_gpus().find(name)
    assert found.id == "epyc-9654"
    assert found.unit_count == 96
    # 96 cores, two 256-bit multiply-adds of 8 fp32 a clock at 3.7 GHz
    assert found.peak(PeakKind.FP32) == pytest.approx(96 * 2 * 2 * 8 * 3.7e9, rel=0.005)
    # twelve channels of 8 bytes at 4800 MT/s
    assert found.memory_bandwidth_bytes_per_s == pytest.approx(12 * 8 * 4.8e9)


def test_amx_takes_sixteen_clocks_for_a_tile_product() -> None:
    found = load_gpus().find("xeon-platinum-8480-plus")
    # 56 cores at 3.8 GHz; a tile product of AMX makes 16 x 16 sums of 32 bf16 products in 16 clocks
    assert found.peak(PeakKind.BF16) == pytest.approx(56 * 3.8e9 * 16 * 16 * 32 * 2 / 16, rel=0.005)


def test_the_file_of_the_cpu_at_hand_reads_back(tmp_path: Path) -> None:
    cpu = GpuSpec(
        id="cpu-at-hand", name='CPU "with" {odd} signs', vendor="Intel", architecture="x86", architecture_id="x86-amx",
        segment=Segment.CPU, memory_bytes=16 * 2**30, memory_bandwidth_bytes_per_s=12.5e9, l2_bytes=32 * 2**20,
        unit_count=2,
        peak_flops_per_s={PeakKind.FP32: 3.2e11, PeakKind.BF16: 2.5e12},
    )  # fmt: skip
    (tmp_path / "cpu-at-hand.yaml").write_text(render_cpu_sheet(cpu, read_on=date(2026, 11, 22)))
    known = load_gpus(overlays=[tmp_path])
    found = known.find("cpu-at-hand")
    assert "cpu-at-hand" not in set(known)
    assert (found.is_cpu, found.unit_count, found.memory_bytes) == (True, 2, 16 * 2**30)
    assert found.peak(PeakKind.FP32) == pytest.approx(3.2e11)
    assert found.peak(PeakKind.BF16) == pytest.approx(2.5e12)


def test_the_file_of_a_cpu_whose_copies_were_slowed_by_others_reads_back(tmp_path: Path) -> None:
    cpu = GpuSpec(
        id="cpu-at-hand", name="A busy CPU", vendor="Intel", architecture="x86", architecture_id="x86-amx",
        memory_bytes=16 * 2**30, memory_bandwidth_bytes_per_s=1.5e9,
        peak_flops_per_s={PeakKind.FP32: 3.2e11, PeakKind.BF16: 2.5e12},
        segment=Segment.CPU, unit_count=2,
    )  # fmt: skip
    (tmp_path / "cpu-at-hand.yaml").write_text(render_cpu_sheet(cpu, read_on=date(2026, 11, 22)))
    found = load_gpus(overlays=[tmp_path]).find("cpu-at-hand")
    # 2.5e12 / 1.5e9 = 1,667 FLOP/byte, above what any CPU's sheet may state
    assert found.ridge_flop_per_byte == pytest.approx(1666.7, rel=1e-3)


def test_a_product_that_passes_the_rate_by_clock_leaves_a_file_that_reads_back(tmp_path: Path) -> None:
    # 188 GFLOP/s were reached in bf16 on cores whose instructions and clock give 166, and so 332 GOP/s in int8
    cpu = GpuSpec(
        id="cpu-at-hand", name="A CPU that turbos", vendor="AMD", architecture="x86", architecture_id="x86-avx512-bf16",
        memory_bytes=16 * 2**30, memory_bandwidth_bytes_per_s=17e9, segment=Segment.CPU, unit_count=1,
        peak_flops_per_s={PeakKind.FP32: 8.7e10, PeakKind.BF16: 1.88e11, PeakKind.INT8: 3.32e11},
    )  # fmt: skip
    (tmp_path / "cpu-at-hand.yaml").write_text(render_cpu_sheet(cpu, read_on=date(2026, 11, 27)))
    assert load_gpus(overlays=[tmp_path]).find("cpu-at-hand").peak(PeakKind.INT8) == pytest.approx(3.32e11)
