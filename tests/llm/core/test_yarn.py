"""Positions stretched by YaRN: as vLLM's documentation and Qwen's model cards state them."""

import json

import pytest

import capplan
from capplan.errors import UsageError
from capplan.llm.core.yarn import override
from capplan.llm.read.sources import find_model


def test_qwen3_has_131072_tokens_and_the_settings_that_vllm_documents() -> None:
    """docs.vllm.ai, "Context Extension", read 2026-11-27: factor 4 of 32,768 positions with the base of 1,000,000."""
    architecture = find_model("qwen3-8b+yarn4").architecture
    assert architecture.max_positions == 131_072
    assert architecture.rotary is not None
    assert json.loads(override("rope_parameters", architecture.rotary)) == {
        "rope_parameters": {
            "factor": 4.0, "original_max_position_embeddings": 32768, "rope_theta": 1_000_000, "rope_type": "yarn",
        }
    }  # fmt: skip


def test_a_request_beyond_the_positions_names_the_model_that_takes_it() -> None:
    with pytest.raises(UsageError, match=r"handles at most 40960 tokens, and 131072 are more.*qwen3-8b\+yarn4"):
        capplan.llm.memory("qwen3-8b", gpu="h100-sxm5-80gb", max_len=131_072)
    assert capplan.llm.memory("qwen3-8b+yarn4", gpu="h100-sxm5-80gb", max_len=131_072).fits


@pytest.mark.parametrize(
    "name",
    [
        "qwen3-8b+yarn", "qwen3-8b+yarnx", "qwen3-8b+yarn4000000000", "qwen3-8b+yarn33", "qwen3-8b+yarn0",
        "qwen3-8b+yarn-4", "qwen3-8b+yarn1e1", "qwen3-8b+yarn\u0664", "qwen3-8b+yarn4+yarn8", "qwen3-8b+YaRNx",
        "qwen3-8b" + "+yarn4" * 20_000, "+yarn" + "9" * 400,
    ],
)  # fmt: skip
def test_what_follows_the_mark_is_one_factor_that_the_paper_shows(name: str) -> None:
    with pytest.raises(UsageError, match="a number from 1 to 32"):
        find_model(name)


def test_the_mark_is_read_in_the_spelling_of_the_paper() -> None:
    assert find_model("Qwen3-8B+YaRN4") == find_model("qwen3-8b+yarn4")


@pytest.mark.parametrize(
    ("name", "why"),
    [("qwen3-8b+yarn1", "40960 tokens already"), ("gemma-3-12b-it+yarn4", "no rotary positions")],
)
def test_a_model_that_cannot_be_stretched_says_so(name: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        find_model(name)


@pytest.mark.parametrize(
    ("engine", "option"),
    [("vllm", "--hf-overrides"), ("sglang", "--json-model-override-args"), ("llama.cpp", "--yarn-orig-ctx 32768")],
)
def test_the_command_of_a_plan_stretches_them_too(engine: str, option: str) -> None:
    plan = capplan.llm.plan(
        "qwen3-8b+yarn4", gpus="h100-sxm5-80gb", input_len=100_000, output_len=500, rate_per_s=0.02, engines=engine
    )
    assert plan.launch is not None
    assert option in plan.launch.command
