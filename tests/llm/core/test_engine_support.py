"""Engines, versions and formats on GPUs that they do not run on, by the engines' own tables of hardware."""

import pytest

from capplan.core.engine_names import Engine
from capplan.errors import UsageError
from capplan.llm.core.memory_answer import StatedDeployment, answer_memory
from capplan.llm.read.calibrations import load_engine_support, load_llm_memory
from capplan.llm.read.sources import find_model
from capplan.specs import load_gpus
from tests.seen import at_least

GPUS = load_gpus()
SUPPORT = load_engine_support()


@pytest.mark.parametrize(
    ("gpu", "engine", "version", "weights", "words"),
    [
        ("v100-sxm2-16gb", Engine.TRTLLM, None, "fp16", "does not run on v100-sxm2-16gb (Volta); use llama.cpp"),
        ("v100-sxm2-16gb", Engine.SGLANG, None, "fp16", "does not run on"),
        ("v100-sxm2-16gb", Engine.VLLM, None, "fp16", "before version 0.11 alone"),
        ("v100-sxm2-16gb", Engine.VLLM, (0, 11), "fp16", "before version 0.11 alone"),
        ("t4", Engine.VLLM, None, "mxfp4", "no mxfp4 kernels for t4"),
        ("h100-sxm5-80gb", Engine.TRTLLM, None, "nvfp4", "no nvfp4 kernels"),
        ("b200-sxm-180gb", Engine.TRTLLM, (0, 16), "fp8", "from version 0.17 on, not in 0.16"),
        ("mi300x", Engine.TRTLLM, None, "bf16", "use vllm, sglang or llama.cpp"),
        ("apple-m4-max", Engine.VLLM, None, "bf16", "use llama.cpp"),
        ("tpu-v5e", Engine.LLAMACPP, None, "q8_0", "use vllm"),
        ("gaudi-3", Engine.LLAMACPP, None, "q8_0", "use vllm"),
    ],
)
def test_what_does_not_run_is_said(
    gpu: str, engine: Engine, version: tuple[int, ...] | None, weights: str, words: str
) -> None:
    assert words in (SUPPORT.problem(GPUS.find(gpu), engine, version=version, weights=weights) or "")


@pytest.mark.parametrize(
    ("gpu", "engine", "version", "weights"),
    [
        ("v100-sxm2-16gb", Engine.VLLM, (0, 10), "fp16"),
        ("v100-sxm2-16gb", Engine.LLAMACPP, None, "q8_0"),
        ("t4", Engine.VLLM, None, "awq"),
        ("a100-sxm4-80gb", Engine.VLLM, None, "mxfp4"),
        ("h100-sxm5-80gb", Engine.TRTLLM, (0, 5), "fp8"),
        ("b200-sxm-180gb", Engine.TRTLLM, None, "nvfp4"),
        ("mi300x", Engine.VLLM, None, "bf16"),
        ("apple-m4-max", Engine.LLAMACPP, None, "q4_k_m"),
    ],
)
def test_what_runs_is_not_refused(gpu: str, engine: Engine, version: tuple[int, ...] | None, weights: str) -> None:
    assert SUPPORT.problem(GPUS.find(gpu), engine, version=version, weights=weights) is None


def test_every_gpu_of_the_database_is_known_to_the_table() -> None:
    for gpu in at_least(100, GPUS.values()):
        capability = gpu.compute_capability
        family = gpu.architecture if capability is None else ".".join(map(str, capability))
        assert family in SUPPORT.hardware, gpu.id


def test_the_memory_of_a_deployment_that_does_not_run_is_refused() -> None:
    request = StatedDeployment(model=find_model("llama-3.1-8b-instruct"), gpu=GPUS.find("apple-m4-max"))
    with pytest.raises(UsageError, match=r"vllm does not run on apple-m4-max \(Apple's GPUs\); use llama.cpp."):
        answer_memory(request, load_llm_memory())
