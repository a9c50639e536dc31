"""The rules tell the wrong figures of public tables from the right ones."""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from capplan.core.gpus.spec import GpuSpec, MeasuredRate, Microbenchmark, PeakKind, Quality, Regime
from capplan.specs import Gpus
from capplan.specs.gpus.rules import contradictions, shortcomings
from capplan.specs.gpus.sheets import Exemption

TODAY = date(2026, 11, 21)


def found(gpus: Gpus, spec: GpuSpec) -> dict[str, str]:
    problems = contradictions(spec, gpus.architectures[spec.architecture_id], gpus.sheets[spec.id])
    return {problem.key: problem.message for problem in problems}


def with_peak(spec: GpuSpec, **peaks_tflops: float) -> GpuSpec:
    peaks = {PeakKind(kind): rate * 1e12 for kind, rate in peaks_tflops.items()}
    return replace(spec, peak_flops_per_s={**spec.peak_flops_per_s, **peaks})


@pytest.mark.parametrize(
    ("gpu_id", "wrong", "key"),
    [  # errors that public tables carry: sparse rates, the double data rate counted twice, a neighbour's figures
        ("h100-sxm5-80gb", {"bf16": 1979}, "peak.bf16"),
        ("h100-sxm5-80gb", {"tf32": 156}, "peak.tf32"),
        ("l4", {"bf16": 242}, "peak.bf16"),
        ("l4", {"fp8": 485}, "peak.fp8"),
        ("rtx-4090", {"bf16": 330.3}, "peak.bf16"),
        ("rtx-4090", {"bf16": 82.6}, "peak.bf16"),
        ("rtx-a6000", {"bf16": 38.7}, "peak.bf16"),
        ("a10g", {"bf16": 125}, "peak.bf16"),
        ("mi210", {"int8": 362}, "peak.int8"),
        ("a10", {"fp64": 0.976}, "peak.fp64"),
        ("mi300x", {"fp32": 81.7}, "peak.fp32"),
        ("gb200-186gb", {"bf16": 4500}, "peak.bf16"),
    ],
)
def test_a_wrong_peak_is_found(gpus: Gpus, gpu_id: str, wrong: dict[str, float], key: str) -> None:
    assert not found(gpus, gpus[gpu_id])
    assert key in found(gpus, with_peak(gpus[gpu_id], **wrong))


def test_twice_the_formula_is_told_to_be_sparse(gpus: Gpus) -> None:
    message = found(gpus, with_peak(gpus["h100-sxm5-80gb"], bf16=1979))["peak.bf16"]
    assert "structured sparsity" in message
    assert "write the dense 990 TFLOP/s" in message


@pytest.mark.parametrize(
    ("gpu_id", "wrong", "key"),
    [
        ("p40", {"memory_bandwidth_bytes_per_s": 694e9}, "bandwidth"),
        ("mi300x", {"memory_bandwidth_bytes_per_s": 10.3e12}, "bandwidth"),
        ("l4", {"memory_bandwidth_bytes_per_s": 3350e9}, "bandwidth"),
        ("arc-a770-16gb", {"memory_bandwidth_bytes_per_s": 512e9}, "bandwidth"),
        ("a10g", {"unit_count": 72}, "peak.fp32"),
        ("t4", {"memory_bits_per_s_per_pin": 30e9}, "memory_data_rate"),
        ("h200-sxm-141gb", {"usable_bytes": 141 * 2**30 + 1}, "usable"),
        ("a10g", {"usable_bytes": 23_500 * 2**20}, "usable"),
        ("rtx-pro-6000-blackwell-max-q", {"tdp_w": 600.0}, "tdp"),
    ],
)
def test_a_wrong_figure_is_found(gpus: Gpus, gpu_id: str, wrong: dict[str, Any], key: str) -> None:
    assert key in found(gpus, replace(gpus[gpu_id], **wrong))


@pytest.mark.parametrize(
    ("gpu_id", "kind", "rate", "said"),
    [  # printed are 165.2 TFLOP/s and 1008 GB/s, and in fp32 5.704 TFLOP/s
        ("rtx-4090", "matmul-half", 158.4e12, None),
        ("rtx-4090", "matmul-half", 180e12, "180 TFLOP/s is above the printed 165 TFLOP/s"),
        ("rtx-4090", "copy", 2016e9, "is above the printed 1.01 TB/s"),
        ("p4", "matmul-half", 4.8e12, None),  # PyTorch computes 16-bit products in fp32 there
        ("p4", "matmul-half", 5.8e12, "5.80 TFLOP/s is above the printed 5.70 TFLOP/s"),
    ],
)
def test_a_measured_rate_above_the_printed_one_needs_a_reason(
    gpus: Gpus, gpu_id: str, kind: str, rate: float, said: str | None
) -> None:
    measured = MeasuredRate(value=rate, quality=Quality.A, regime=Regime.SUSTAINED)
    spec = replace(gpus[gpu_id], measured={Microbenchmark(kind): measured})
    sheet = replace(gpus.sheets[gpu_id], exemptions=())
    found_problems = shortcomings(spec, gpus.architectures[spec.architecture_id], sheet, today=TODAY)
    told = {problem.key: problem.message for problem in found_problems}.get(f"measured.{kind}")
    assert (said is None and told is None) or said in told
    reason = Exemption(rule="measured", keys=(f"measured.{kind}",), reason="clocked higher")
    excused = shortcomings(
        spec, gpus.architectures[spec.architecture_id], replace(sheet, exemptions=(reason,)), today=TODAY
    )
    assert f"measured.{kind}" not in {problem.key for problem in excused}
    assert f"measured.{kind}" not in found(gpus, spec)  # its owner may plan with it


def test_a_published_file_must_be_checkable(gpus: Gpus) -> None:
    spec = replace(gpus["t4"], boost_clock_hz=None, release_date=date(2030, 1, 1))
    sheet, architecture = gpus.sheets["t4"], gpus.architectures["turing"]
    told = {problem.key: problem.message for problem in shortcomings(spec, architecture, sheet, today=TODAY)}
    assert "cannot be checked without units, clock" in told["peak.fp16"]
    assert told["released"] == "2030-01-01 is yet to come"


def test_an_idle_exemption_is_refused(gpus: Gpus) -> None:
    sheet = replace(gpus.sheets["t4"], exemptions=gpus.sheets["titan-v"].exemptions)
    told = shortcomings(gpus["t4"], gpus.architectures["turing"], sheet, today=TODAY)
    assert [problem.key for problem in told] == ["exemptions", "exemptions"]
    assert "keeps the rule formula; drop the exemption" in told[0].message
