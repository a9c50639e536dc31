"""Interval widths by what was measured, and factors learnt from measured runs."""

from dataclasses import replace
from math import exp, log, sqrt
from typing import Any

import pytest

from capplan.core.numbers import Interval
from capplan.llm.core.serving.evidence import (
    Adjustment,
    AskedCard,
    ServingEvidence,
    deciding,
    interval,
    is_known,
    learn_adjustment,
)
from capplan.llm.core.serving.evidence import (
    evidence_of as evidence_of_card,
)
from capplan.llm.core.serving.priors import PRIOR
from capplan.llm.core.timing.calibration import (
    KernelClass,
    LlmCalibration,
    Novelty,
    Width,
    factor_name,
    pair_name,
    vendor_name,
)

WIDTH = Width(same=1.2, model=1.4, gpu=exp(sqrt(log(1.5) ** 2 - log(1.2) ** 2)), vendor=2.0, within=exp(1.645 * 0.11))
LEANING = Width(same=1.2, above=1.5, below=0.9)
NEW_GPU = ServingEvidence(frozenset({Novelty.GPU}))


def calibration() -> LlmCalibration:
    return LlmCalibration(
        name="test",
        kernels=PRIOR.kernels,
        engines=PRIOR.engines,
        switched=PRIOR.switched,
        host=PRIOR.host,
        device=PRIOR.device,
        measured_gpus=frozenset({pair_name("h100", engine) for engine in ("vllm", "sglang")}),
        measured_pairs=frozenset({pair_name("llama", "vllm")}),
        measured_engines=frozenset({"vllm", "sglang"}),
        measured_segments=frozenset({"data-centre"}),
        measured_vendors=frozenset({vendor_name("NVIDIA", "Hopper", engine) for engine in ("vllm", "sglang")}),
        measured_releases={"Hopper | vllm": ("0.11", "0.26.0")},
        single_streams={"llama.cpp": frozenset({"apple-m2-ultra"})},
        kernel_factors={factor_name(engine, "Hopper", KernelClass.GEMM_16): 1.1 for engine in ("vllm", "sglang")},
    )


def evidence_of(known: LlmCalibration, *, gpu: str, vendor: str, architecture: str, **asked: Any) -> ServingEvidence:
    card = AskedCard(gpu=gpu, vendor=vendor, architecture=architecture, segment=asked.pop("segment", None))
    return evidence_of_card(known, card=card, **asked)


@pytest.mark.parametrize(
    ("model", "gpu", "vendor", "engine", "expected"),
    [
        ("llama", "h100", "NVIDIA", "vllm", set()),
        ("qwen", "h100", "NVIDIA", "vllm", {Novelty.MODEL}),
        ("llama", "h100", "NVIDIA", "sglang", {Novelty.MODEL}),  # served by vLLM alone
        ("llama", "l40s", "NVIDIA", "vllm", {Novelty.GPU}),
        ("qwen", "l40s", "NVIDIA", "vllm", {Novelty.MODEL, Novelty.GPU}),
        ("llama", "mi300x", "AMD", "vllm", {Novelty.GPU, Novelty.VENDOR}),
        ("llama", "h100", "NVIDIA", "tgi", {Novelty.MODEL, Novelty.ARCHITECTURE, Novelty.ENGINE}),
        ("llama", "h100", "NVIDIA", "llama.cpp", {Novelty.MODEL, Novelty.ARCHITECTURE, Novelty.ENGINE}),
        ("llama", "apple-m2-ultra", "Apple", "llama.cpp", {Novelty.MODEL, Novelty.ENGINE}),
    ],
)
def test_evidence_follows_from_what_was_measured(
    model: str, gpu: str, vendor: str, engine: str, expected: set[Novelty]
) -> None:
    found = evidence_of(calibration(), model=model, gpu=gpu, vendor=vendor, engine=engine, architecture="Hopper")
    assert found.novelties == expected
    assert found.is_transferred is bool(expected & {Novelty.VENDOR, Novelty.ENGINE})


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ((0, 26), set()), ((0, 26, 3), {Novelty.RELEASE}), ((0, 27), {Novelty.RELEASE}), ((0, 10, 2), {Novelty.OLDER}),
        ((0, 15), set()),
    ],
)  # fmt: skip
def test_a_release_is_newer_or_older_than_those_that_were_measured(
    release: tuple[int, ...], expected: set[Novelty]
) -> None:
    found = evidence_of(
        calibration(), model="llama", gpu="h100", vendor="NVIDIA", engine="vllm", architecture="Hopper", release=release
    )
    assert found.novelties == expected


def test_a_market_a_generation_or_a_class_of_kernels_that_was_never_measured_counts_as_new() -> None:
    common = {"model": "llama", "vendor": "NVIDIA", "engine": "vllm", "architecture": "Hopper"}
    consumer = evidence_of(calibration(), gpu="rtx-4090", segment="consumer", **common)
    other = evidence_of(calibration(), gpu="l40s", segment="data-centre", kernels={KernelClass.GEMM_16}, **common)
    newer = evidence_of(calibration(), gpu="b200", **{**common, "architecture": "Blackwell"})
    elsewhere = evidence_of(
        calibration(), gpu="h100", kernels={KernelClass.GEMM_16}, **{**common, "architecture": "Blackwell"}
    )
    unusual = evidence_of(calibration(), gpu="h100", segment="data-centre", kernels={KernelClass.STATE}, **common)
    assert consumer.novelties == {Novelty.ARCHITECTURE, Novelty.OWNER}
    assert newer.novelties == {Novelty.ARCHITECTURE}
    assert other.novelties == {Novelty.GPU}
    assert unusual.novelties == {Novelty.FORMAT}
    assert elsewhere.novelties == {Novelty.FORMAT}


def test_cards_in_machines_of_their_owners_are_less_sure_under_load() -> None:
    common = {"model": "llama", "engine": "vllm", "architecture": "Hopper", "gpu": "h100"}
    for vendor, segment, is_owners in (
        ("NVIDIA", "consumer", True), ("NVIDIA", "workstation", False), ("AMD", "workstation", True),
        ("AMD", "data-centre", False),
    ):  # fmt: skip
        found = evidence_of(calibration(), vendor=vendor, segment=segment, **common)
        assert (Novelty.OWNER in found.novelties) is is_owners
    owner, none = (ServingEvidence(frozenset(found)) for found in ({Novelty.OWNER}, ()))
    assert str(owner) == str(none)  # the model and the GPU were measured: the width alone says that machines differ
    assert Width(same=1.2, owner=1.3).half(owner.novelties) > Width(same=1.2, owner=1.3).half(none.novelties)


def test_one_line_of_a_vendor_says_nothing_of_its_others() -> None:
    # RDNA and CDNA multiply by different instructions (WMMA, MFMA); NVIDIA's generations share theirs
    known = replace(calibration(), measured_vendors=frozenset({vendor_name("AMD", "RDNA4", "vllm")}))
    for architecture, is_new in (("RDNA3.5", False), ("CDNA3", True)):
        found = evidence_of(known, gpu="mi300x", vendor="AMD", architecture=architecture, model="llama", engine="vllm")
        assert (Novelty.VENDOR in found.novelties) == is_new
    assert vendor_name("NVIDIA", "Hopper", "vllm") == vendor_name("NVIDIA", "Ada Lovelace", "vllm")


def test_builds_of_llama_cpp_share_their_kernels() -> None:
    new, old = "llama.cpp", "llama.cpp before 2025"
    assert factor_name(old, "Ampere", KernelClass.GGML_16) == factor_name(new, "Ampere", KernelClass.GGML_16)
    assert PRIOR.engines[new].layer_s < PRIOR.engines[old].layer_s / 2  # graphs of fused kernels
    assert replace(PRIOR.engines[new], layer_s=0.0) == replace(PRIOR.engines[old], layer_s=0.0)


def test_evidence_says_what_was_not_measured() -> None:
    assert str(ServingEvidence()) == "model and GPU measured in other settings"
    assert str(NEW_GPU) == "model measured, GPU not"
    far = ServingEvidence(frozenset({Novelty.MODEL, Novelty.VENDOR, Novelty.RELEASE}))
    assert str(far) == (
        "transferred: nobody measured this model with this engine, GPUs of this vendor and this release of the engine"
    )


def test_less_evidence_gives_a_wider_interval() -> None:
    order = [set(), {Novelty.GPU}, {Novelty.GPU, Novelty.MODEL}, {Novelty.VENDOR, Novelty.MODEL}]
    evidence = [ServingEvidence(frozenset(each)) for each in order]
    found = [interval(1.0, width=WIDTH, evidence=each, adjustment=Adjustment()) for each in evidence]
    highs = [each.high for each in found]
    assert highs == sorted(highs)
    assert highs[:2] == [pytest.approx(1.2), pytest.approx(1.5)]
    assert all(each.low * each.high == pytest.approx(1.0) for each in found)


def test_a_time_whose_interval_says_nothing_is_not_known_and_decides_by_its_expected_value() -> None:
    narrow, wide = Interval(low=0.5, expected=1.0, high=2.0), Interval(low=0.4, expected=1.0, high=2.5)
    assert is_known(narrow)
    assert deciding(narrow) == narrow
    assert not is_known(wide)  # a factor of 6.25
    assert deciding(wide) == Interval(low=1.0, expected=1.0, high=1.0)


def test_one_run_moves_the_prediction_part_of_the_way() -> None:
    learnt = learn_adjustment([1.3], width=WIDTH, evidence=NEW_GPU)
    # between deployments (log 1.5 ÷ 1.645)² − 0.11²; one run scatters by 0.11
    between = (log(1.5) / 1.645) ** 2 - 0.0121
    assert learnt.factor == pytest.approx(exp(between / (between + 0.0121) * log(1.3)))
    assert 1.0 < learnt.factor < 1.3


def test_more_runs_are_believed_more_and_narrow_the_interval() -> None:
    one, ten = (learn_adjustment([1.3] * runs, width=WIDTH, evidence=NEW_GPU) for runs in (1, 10))
    assert one.factor < ten.factor < 1.3
    wide = interval(1.0, width=WIDTH, evidence=NEW_GPU, adjustment=Adjustment())
    narrow = interval(1.0, width=WIDTH, evidence=NEW_GPU, adjustment=ten)
    assert narrow.high / narrow.low < wide.high / wide.low


def test_no_run_changes_nothing() -> None:
    assert learn_adjustment([], width=WIDTH, evidence=ServingEvidence()) == Adjustment()


def test_an_interval_reaches_further_to_the_side_to_which_errors_lean() -> None:
    found = interval(10.0, width=LEANING, evidence=ServingEvidence(), adjustment=Adjustment())
    assert (found.low, found.high) == pytest.approx((10.0 / 1.2**0.9, 10.0 * 1.2**1.5))
    # what measured runs of the deployment leave is alike on both sides
    near = interval(10.0, width=LEANING, evidence=ServingEvidence(), adjustment=Adjustment(deviation=0.01, runs=3))
    assert near.high / 10.0 == pytest.approx(10.0 / near.low) == pytest.approx(exp(1.645 * 0.01), rel=1e-3)
