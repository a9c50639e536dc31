"""Engines and formats on GPUs that they do not run on."""

import pytest

from capplan.core.serving_engines import Engine
from capplan.llm.core.fleet.support import support_problem
from capplan.specs import load_gpus

GPUS = load_gpus()


@pytest.mark.parametrize(
    ("gpu", "engine", "weights", "words"),
    [
        ("v100-sxm2-16gb", Engine.TRTLLM, "fp16", "needs compute capability 8.0"),
        ("v100-sxm2-16gb", Engine.SGLANG, "fp16", "needs compute capability 7.5"),
        ("v100-sxm2-16gb", Engine.VLLM, "mxfp4", "mxfp4 kernels need compute capability 8.0"),
        ("mi300x", Engine.TRTLLM, "bf16", "NVIDIA alone"),
    ],
)
def test_what_does_not_run_is_said(gpu: str, engine: Engine, weights: str, words: str) -> None:
    assert words in (support_problem(GPUS.find(gpu), engine, weights=weights) or "")


@pytest.mark.parametrize(
    ("gpu", "engine", "weights"),
    [
        ("v100-sxm2-16gb", Engine.VLLM, "fp16"),
        ("a100-sxm4-80gb", Engine.VLLM, "mxfp4"),
        ("h100-sxm5-80gb", Engine.TRTLLM, "fp8"),
        ("mi300x", Engine.VLLM, "bf16"),
    ],
)
def test_what_runs_is_not_refused(gpu: str, engine: Engine, weights: str) -> None:
    assert support_problem(GPUS.find(gpu), engine, weights=weights) is None
