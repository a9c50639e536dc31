"""Interval widths by what was measured, and factors learnt from measured runs."""

from math import exp, log

import pytest

from capplan.llm.core.serving.evidence import Adjustment, ServingEvidence, evidence_of, interval, learn_adjustment
from capplan.llm.core.serving.priors import PRIOR
from capplan.llm.core.timing.calibration import KernelClass, LlmCalibration, Width, factor_name, pair_name

WIDTH = Width(same=1.2, other_model=1.4, other_gpu=1.5, other_both=1.6, transfer=2.0, within=exp(1.645 * 0.11))


def calibration() -> LlmCalibration:
    return LlmCalibration(
        name="test",
        kernels=PRIOR.kernels,
        engines=PRIOR.engines,
        switched=PRIOR.switched,
        host=PRIOR.host,
        device=PRIOR.device,
        measured_gpus=frozenset({"h100"}),
        measured_pairs=frozenset({pair_name("llama", "vllm")}),
        measured_engines=frozenset({"vllm", "sglang"}),
        measured_segments=frozenset({"data-centre"}),
        single_streams={"llama.cpp": frozenset({"apple-m2-ultra"})},
        kernel_factors={factor_name("vllm", "Hopper", KernelClass.GEMM_16): 1.1},
    )


@pytest.mark.parametrize(
    ("model", "gpu", "vendor", "engine", "expected"),
    [
        ("llama", "h100", "NVIDIA", "vllm", ServingEvidence.SAME),
        ("qwen", "h100", "NVIDIA", "vllm", ServingEvidence.OTHER_MODEL),
        ("llama", "h100", "NVIDIA", "sglang", ServingEvidence.OTHER_MODEL),  # served by vLLM alone
        ("llama", "l40s", "NVIDIA", "vllm", ServingEvidence.OTHER_GPU),
        ("qwen", "l40s", "NVIDIA", "vllm", ServingEvidence.OTHER_BOTH),
        ("llama", "mi300x", "AMD", "vllm", ServingEvidence.TRANSFER),
        ("llama", "h100", "NVIDIA", "tgi", ServingEvidence.TRANSFER),
        ("llama", "h100", "NVIDIA", "llama.cpp", ServingEvidence.STREAMS_ELSEWHERE),
        ("llama", "apple-m2-ultra", "Apple", "llama.cpp", ServingEvidence.STREAMS),
    ],
)
def test_evidence_follows_from_what_was_measured(
    model: str, gpu: str, vendor: str, engine: str, expected: ServingEvidence
) -> None:
    assert (
        evidence_of(calibration(), model=model, gpu=gpu, vendor=vendor, engine=engine, architecture="Hopper")
        is expected
    )


def test_a_market_or_a_class_of_kernels_that_was_never_measured_counts_as_new() -> None:
    common = {"model": "llama", "vendor": "NVIDIA", "engine": "vllm", "architecture": "Hopper"}
    consumer = evidence_of(calibration(), gpu="rtx-4090", segment="consumer", **common)
    other = evidence_of(calibration(), gpu="l40s", segment="data-centre", kernels={KernelClass.GEMM_16}, **common)
    elsewhere = evidence_of(
        calibration(), gpu="h100", kernels={KernelClass.GEMM_16}, **{**common, "architecture": "Blackwell"}
    )
    unusual = evidence_of(calibration(), gpu="h100", segment="data-centre", kernels={KernelClass.STATE}, **common)
    assert consumer is ServingEvidence.TRANSFER
    assert other is ServingEvidence.OTHER_GPU
    assert unusual is ServingEvidence.OTHER_MODEL
    assert elsewhere is ServingEvidence.OTHER_MODEL


def test_less_evidence_gives_a_wider_interval() -> None:
    order = [
        ServingEvidence.SAME,
        ServingEvidence.OTHER_MODEL,
        ServingEvidence.OTHER_GPU,
        ServingEvidence.OTHER_BOTH,
        ServingEvidence.TRANSFER,
    ]
    found = [interval(1.0, width=WIDTH, evidence=each, adjustment=Adjustment()) for each in order]
    assert [each.high for each in found] == [1.2, 1.4, 1.5, 1.6, 2.0]
    assert all(each.low * each.high == pytest.approx(1.0) for each in found)


def test_one_run_moves_the_prediction_part_of_the_way() -> None:
    learnt = learn_adjustment([1.3], width=WIDTH, evidence=ServingEvidence.OTHER_GPU)
    # between deployments (log 1.5 ÷ 1.645)² − 0.11²; one run scatters by 0.11
    between = (log(1.5) / 1.645) ** 2 - 0.0121
    assert learnt.factor == pytest.approx(exp(between / (between + 0.0121) * log(1.3)))
    assert 1.0 < learnt.factor < 1.3


def test_more_runs_are_believed_more_and_narrow_the_interval() -> None:
    one, ten = (learn_adjustment([1.3] * runs, width=WIDTH, evidence=ServingEvidence.OTHER_GPU) for runs in (1, 10))
    assert one.factor < ten.factor < 1.3
    wide = interval(1.0, width=WIDTH, evidence=ServingEvidence.OTHER_GPU, adjustment=Adjustment())
    narrow = interval(1.0, width=WIDTH, evidence=ServingEvidence.OTHER_GPU, adjustment=ten)
    assert narrow.high / narrow.low < wide.high / wide.low


def test_no_run_changes_nothing() -> None:
    assert learn_adjustment([], width=WIDTH, evidence=ServingEvidence.SAME) == Adjustment()
