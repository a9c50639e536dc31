"""The KV cache against hand derivations and what vLLM logs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.core.engine_names import Engine
from capplan.llm.core.kv import (
    PagedPool,
    kv_element_bytes,
    stage_cache,
    state_element_bytes,
    uniform_tokens,
)
from capplan.llm.core.memory_answer import StatedDeployment, answer_memory
from capplan.llm.core.sharding import Sharding
from capplan.llm.read.calibrations import load_llm_memory
from capplan.llm.read.catalogue import load_catalogue
from capplan.llm.read.config.parse import parse_config
from capplan.specs import load_gpus
from tests.llm.core import architectures as cases

GIB = 1 << 30
ONE = Sharding()


def cache(config, *, sharding=ONE, kv="bf16", stage=0):
    architecture = parse_config(config, name="model")
    return stage_cache(architecture, sharding=sharding, element_bytes=kv_element_bytes(kv), stage=stage)


@pytest.mark.parametrize(
    ("config", "kv", "tensor", "size_bytes"),
    [
        # layers · key-value heads · (key + value width) · bytes
        (cases.LLAMA_70B, "bf16", 1, 80 * 8 * 256 * 2),
        (cases.LLAMA_70B, "fp8", 1, 163_840),
        (cases.LLAMA_70B, "fp8", 4, 40_960),
        (cases.LLAMA_70B, "fp8", 16, 20_480),  # a GPU keeps at least one head
        (cases.LLAMA_8B, "bf16", 1, 131_072),
        (cases.MIXTRAL_8X7B, "bf16", 1, 131_072),
        (cases.DEEPSEEK_V3, "bf16", 1, 70_272),  # 61 · (512 + 64) · 2
        (cases.DEEPSEEK_V3, "bf16", 8, 70_272),  # latent rows are whole on every GPU
        (cases.GPT_OSS_120B, "bf16", 1, 73_728),
        (cases.GEMMA_3_27B, "bf16", 1, 507_904),
        (cases.LLAMA_8B, "q8_0", 1, 131_072 / 2 * 1.0625),
    ],
)
def test_bytes_per_token(config, kv, tensor, size_bytes):
    assert cache(config, sharding=Sharding(tensor=tensor), kv=kv).bytes_per_token == size_bytes


def test_windows_bound_what_a_sequence_keeps():
    # gpt-oss-120b: 18 full layers keep 32,768 tokens, 18 keep 128, 2,048 bytes each: 1.129 GiB, not 2.25
    found = cache(cases.GPT_OSS_120B).sequence_bytes(32_768)
    assert found == 18 * 2048 * (32_768 + 128)
    assert found / GIB == pytest.approx(1.129, abs=5e-4)


def test_pipeline_stages_share_the_layers():
    halves = [cache(cases.DEEPSEEK_V3, sharding=Sharding(pipeline=2), stage=stage) for stage in range(2)]
    assert [len(each.layers) for each in halves] == [31, 30]


@pytest.mark.parametrize(
    ("config", "gib", "tokens"),
    [
        # start-up logs of vLLM 0.19 on an H100 at 95 %: "KV cache memory" and "GPU KV cache size"
        (cases.LLAMA_8B, 58.11, 476_016),
        (cases.GEMMA_3_27B, 19.53, 36_560),
    ],
)
def test_tokens_of_a_pool_are_those_that_vllm_logs(config, gib, tokens):
    assert PagedPool(cache(config)).tokens(gib * GIB) == pytest.approx(tokens, rel=1e-4)


def test_gemma_pages_are_padded_to_groups_of_ten_layers():
    # 52 sliding layers become 6 groups of 10, 10 global ones a seventh; vLLM logs 4.46 sequences of 8,192 at start,
    # when sliding layers are still full: 15,997 pages over 7 · 512 and one more per sliding group
    pool = PagedPool(cache(cases.GEMMA_3_27B))
    assert pool.group_size == 10
    assert len(pool.groups) == 7
    assert pool.pages(19.53 * GIB) == pytest.approx(15_997, abs=3)
    # later: 512 pages of the global group and 64 + 1 of each sliding one
    assert pool.sequence_pages(8192) == 512 + 6 * 65


QWEN3_NEXT = {
    **cases.QWEN3_14B, "model_type": "qwen3_next", "num_hidden_layers": 4, "num_attention_heads": 16,
    "num_key_value_heads": 2, "head_dim": 256, "layer_types": ["linear_attention"] * 3 + ["full_attention"],
    "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
}  # fmt: skip


def test_linear_attention_keeps_a_state_and_enlarges_the_blocks():
    config = QWEN3_NEXT
    found = cache(config)
    state = 32 * 128 * 128 * 4 + 3 * (2 * 16 * 128 + 32 * 128) * 2  # fp32 state and three 16-bit inputs
    assert found.state_bytes == 3 * state
    assert found.bytes_per_token == 2 * 512 * 2
    assert cache(config, sharding=Sharding(tensor=2)).state_bytes == 3 * state / 2
    pool = PagedPool(found)
    assert pool.block_tokens % 16 == 0
    assert pool.block_tokens * 2048 >= state > (pool.block_tokens - 16) * 2048


@pytest.mark.parametrize(
    ("family", "stated", "engine", "version", "size_bytes"),
    [
        # vLLM 0.33: auto is the model's 16 bits, Nemotron-H's 32 bits, Qwen3.5's what mamba_ssm_dtype says
        (QWEN3_NEXT, {}, Engine.VLLM, None, 2.0),
        (QWEN3_NEXT, {"mamba_ssm_dtype": "float32"}, Engine.VLLM, None, 4.0),
        (cases.NEMOTRON_LAYER, {}, Engine.VLLM, None, 4.0),
        (cases.NEMOTRON_LAYER, {"mamba_ssm_cache_dtype": "float16"}, Engine.VLLM, None, 2.0),
        (cases.NEMOTRON_LAYER, {}, Engine.VLLM, (0, 11), 2.0),
        (QWEN3_NEXT, {}, Engine.SGLANG, None, 4.0),
    ],
)
def test_an_engine_keeps_states_in_the_bits_of_the_configuration(family, stated, engine, version, size_bytes):
    architecture = parse_config({**family, **stated}, name="model")
    assert state_element_bytes(architecture, engine, version=version) == size_bytes


@given(tokens=st.integers(1, 200_000), more=st.integers(0, 10_000))
def test_a_longer_sequence_never_keeps_less(tokens, more):
    found = cache(cases.GEMMA_3_27B)
    assert found.sequence_bytes(tokens + more, block=16) >= found.sequence_bytes(tokens, block=16)


def test_uniform_blocks_are_rounded_down():
    assert uniform_tokens(cache(cases.LLAMA_8B), 131_072 * 100, block=32) == 96


@pytest.mark.parametrize("kv", ["int8_per_token_head", "fp8_per_token_head"])
def test_scales_of_a_cache_in_8_bits_a_head_lie_in_its_pages(kv: str) -> None:
    # vLLM's AttentionSpec.page_size_bytes: 2 · heads · (dim · 1 byte + 4 bytes) a token and layer; Qwen3-8B has 36
    # layers of 8 heads of 128
    request = StatedDeployment(model=load_catalogue()["qwen3-8b"], gpu=load_gpus().find("rtx-3090"), kv=kv)
    answer = answer_memory(request, load_llm_memory(), alternatives=False)
    assert answer.stage.cache.bytes_per_token == 36 * 2 * 8 * (128 + 4)


def test_a_cache_with_few_state_blocks_names_the_sequences_that_vllm_starts_with() -> None:
    # vllm-project/recipes#831: Qwen3.5 models stop on one 96 GB card at the default of 1,024 sequences (939, 1,011 and
    # 556 blocks). A state of 32 · 128 · 128 numbers of 32 bits and 8192 · 3 of the convolution in 16, 2,146,304 bytes,
    # makes blocks of 1,056 tokens of 2 · 2 · 256 · 2 bytes, in groups of ten layers: 20 GiB ÷ (10 · 1056 · 2048) = 992.
    model = load_catalogue()["qwen3.5-35b-a3b"]
    gpu = load_gpus().find("rtx-pro-6000-blackwell-server")
    request = StatedDeployment(model=model, gpu=gpu, weights="fp8", pool_bytes=20 * 2**30)
    answer = answer_memory(request, load_llm_memory(), alternatives=False)
    blocks = answer.stage.state_blocks
    assert blocks == 992
    assert any(f"state ⟨max-num-seqs⟩ {blocks}" in note for note in answer.notes)
    few = answer_memory(replace(request, max_sequences=8), load_llm_memory())
    assert not any("⟨max-num-seqs⟩" in note for note in few.notes)
