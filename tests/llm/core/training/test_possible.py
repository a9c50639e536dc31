"""What cannot be run is refused with what would do, by the facts of the GPU, the framework and the model."""

from dataclasses import replace

import pytest

from capplan.llm.core.training.frameworks import FRAMEWORKS, find_framework
from capplan.llm.core.training.job import (
    AttentionImplementation,
    Compute,
    TrainingLayout,
    impossible,
    lacking_units,
    shares_layers,
    unknown_attention,
)
from capplan.specs import load_gpus
from tests.llm.core.training.test_laws import job, model

GPUS = load_gpus()


@pytest.mark.parametrize(
    ("gpu", "runs"),
    [
        # by the data sheets: Turing in fp16 alone, bf16 from Ampere, fp8 from Ada and Hopper, MX and NVFP4 from
        # Blackwell; CDNA 3 in fp8, CDNA 4 in MX formats
        ("t4", "fp16 fp32"),
        ("v100-sxm2-32gb", "fp16 fp32"),
        ("a100-sxm4-80gb", "fp16 fp32 bf16 tf32"),
        ("rtx-3090", "fp16 fp32 bf16 tf32"),
        ("rtx-4090", "fp16 fp32 bf16 tf32 fp8"),
        ("h100-sxm5-80gb", "fp16 fp32 bf16 tf32 fp8"),
        ("b200-sxm-180gb", "fp16 fp32 bf16 tf32 fp8 mxfp8 nvfp4"),
        ("mi300x", "fp16 fp32 bf16 tf32 fp8"),
        ("mi355x", "fp16 fp32 bf16 tf32 fp8 mxfp8"),
    ],
)
def test_formats_run_where_the_vendor_says(gpu: str, runs: str) -> None:
    spec = GPUS.find(gpu)
    found = {compute.value for compute in Compute if lacking_units(job(compute=compute), spec) is None}
    assert found == set(runs.split())


def test_a_refused_format_names_one_that_runs() -> None:
    assert impossible(job(), GPUS.find("t4")) == "t4 has no matrix units for bf16; take ⟨precision⟩ fp16"
    fp8 = impossible(job(compute=Compute.FP8), GPUS.find("a100-sxm4-80gb"))
    assert fp8 == "a100-sxm4-80gb has no matrix units for fp8; take ⟨precision⟩ bf16"


@pytest.mark.parametrize("name", [framework.name for framework in FRAMEWORKS])
def test_layers_are_shared_by_the_frameworks_that_a_plan_shares_them_with(name: str) -> None:
    framework = find_framework(name)
    asked = job(framework=framework, layout=TrainingLayout(gpus=8, tensor=8))
    refused = impossible(asked, GPUS.find("h100-sxm5-80gb"))
    assert (refused is None) == shares_layers(framework)
    assert refused is None or "⟨tp⟩ 8" in refused


def test_a_pipeline_is_needed_for_what_is_about_one() -> None:
    gpu = GPUS.find("h100-sxm5-80gb")
    for layout, option in (
        (TrainingLayout(gpus=8, virtual=4), "⟨vp⟩ 4"),
        (TrainingLayout(gpus=8, zero_bubble=True), "⟨zero-bubble⟩"),
    ):
        assert option in str(impossible(job(layout=layout), gpu))
        assert impossible(job(layout=replace(layout, pipeline=2)), gpu) is None


def test_learned_positions_end_a_sequence() -> None:
    gpt = replace(model(), position_rows=1024)
    gpu = GPUS.find("h100-sxm5-80gb")
    assert "1,024 learned positions" in str(impossible(job(architecture=gpt, sequence_tokens=2048), gpu))
    assert impossible(job(architecture=gpt, sequence_tokens=1024), gpu) is None


def test_a_kernel_that_is_asked_for_needs_its_units() -> None:
    assert "flash1" in str(unknown_attention(GPUS.find("v100-sxm2-32gb"), AttentionImplementation.FLASH))
    assert unknown_attention(GPUS.find("v100-sxm2-32gb"), None) is None
    assert unknown_attention(GPUS.find("a100-sxm4-80gb"), AttentionImplementation.FLASH) is None
