"""Serving memory against start-up logs of vLLM and the oracles of the study."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capplan.core.engine_names import Engine
from capplan.core.gpus.spec import GpuSpec, PeakKind
from capplan.core.weights import find_weight_format
from capplan.errors import UsageError
from capplan.llm.core.engines import sglang_static_fraction, vllm_step_limits
from capplan.llm.core.memory_answer import StatedDeployment, answer_memory, default_kv
from capplan.llm.core.model_query import LanguageModel
from capplan.llm.core.quantisation import default_quantisation
from capplan.llm.core.serving.asked import Drafter
from capplan.llm.core.sharding import HostOffload, Sharding
from capplan.llm.core.weights import EngineLayout, draft_bytes
from capplan.llm.read.calibrations import load_engine_support
from capplan.llm.read.config.parse import parse_config
from tests.llm.core import architectures as cases
from tests.llm.core.memory_cases import CONSTANTS, GIB, H100_BYTES

H100 = GpuSpec(
    id="h100",
    name="H100",
    vendor="NVIDIA",
    architecture="Hopper",
    memory_bytes=80 * GIB,
    usable_bytes=round(H100_BYTES),
    memory_bandwidth_bytes_per_s=3.35e12,
    compute_capability=(9, 0),
    form_factor="SXM5",
    nvlink_bytes_per_s=900e9,
    peak_flops_per_s={PeakKind.BF16: 989e12, PeakKind.FP8: 1979e12, PeakKind.INT8: 1979e12, PeakKind.FP4: None},
)


def answer(config, **changes):
    model = LanguageModel(
        architecture=parse_config(config, name="model"), dtype="bf16", quantisation=None, source="test"
    )
    return answer_memory(StatedDeployment(model=model, gpu=H100, **changes), CONSTANTS)


def test_llama_70b_fp8_on_four_h100():
    # 0.9 · 79.19 = 71.27; weights 16.92, activations 1.94, other 2.15 → 50.26 GiB, 40,960 B a token
    found = answer(cases.LLAMA_70B, weights="fp8", kv="fp8", sharding=Sharding(tensor=4), sequence_tokens=8192)
    assert found.stage.weight_bytes / GIB == pytest.approx(16.92, abs=0.04)
    assert found.stage.activation_bytes / GIB == pytest.approx(1.94, abs=0.01)
    assert found.stage.pool_bytes / GIB == pytest.approx(50.26, rel=2e-3)
    assert found.kv_tokens == pytest.approx(1_317_600, rel=2e-3)
    assert found.sequences == 160
    in_16_bits = answer(cases.LLAMA_70B, weights="fp8", sharding=Sharding(tensor=4))
    assert in_16_bits.kv_tokens == pytest.approx(658_800, rel=2e-3)


def test_llama_70b_fp8_on_two_h100():
    found = answer(cases.LLAMA_70B, weights="fp8", kv="fp8", sharding=Sharding(tensor=2))
    assert found.stage.pool_bytes / GIB == pytest.approx(33.4, rel=2e-3)
    assert found.kv_tokens == pytest.approx(438_100, rel=2e-3)


def test_llama_70b_on_one_h100_fits_in_8_bits_alone():
    assert not answer(cases.LLAMA_70B, weights="bf16").fits
    found = answer(cases.LLAMA_70B, weights="fp8", kv="fp8", sequence_tokens=8192)
    assert found.fits
    # 1.41 GiB and 9,240 tokens by the study, which leaves out the rotary table of 0.03 GiB
    assert found.stage.pool_bytes / GIB == pytest.approx(1.41 - 0.03, abs=0.02)


@pytest.mark.parametrize(
    ("config", "weights_gib", "pool_gib", "tokens"),
    [
        # vLLM 0.19 on an H100 at 95 %: start-up logs; Mistral Small 3.1's (44.76 and 28.19 GiB) without its image
        # encoder of 0.82 GiB and the 0.1 GiB of activations that it adds
        (cases.LLAMA_8B, 14.99, 58.11, 476_016),
        ({**cases.LLAMA_8B, "model_type": "mistral", "hidden_size": 5120, "num_hidden_layers": 40, "head_dim": 128,
          "num_attention_heads": 32, "intermediate_size": 32768, "vocab_size": 131072}, 43.94, 29.11, 190_700),
    ],
)  # fmt: skip
def test_start_up_logs_at_95_percent(config, weights_gib, pool_gib, tokens):
    found = answer(config, fraction=0.95)
    assert found.stage.weight_bytes / GIB == pytest.approx(weights_gib, rel=2e-3)
    assert found.stage.pool_bytes / GIB == pytest.approx(pool_gib, rel=5e-3)
    assert found.kv_tokens == pytest.approx(tokens, rel=5e-3)


def test_a_known_pool_gives_exact_tokens():
    found = answer(cases.LLAMA_8B, pool_bytes=28.19 * GIB)
    assert found.kv_tokens == int(28.19 * GIB / (131_072 * 16)) * 16
    assert found.alternatives == ()


def test_the_parts_add_up_to_the_budget():
    found = answer(cases.QWEN3_14B).stage
    parts = found.weight_bytes + found.activation_bytes + found.other_bytes + found.pool_bytes
    assert parts == pytest.approx(0.9 * H100.expected_usable_bytes)


def test_longest_context_is_bounded_by_the_model_and_by_memory():
    assert answer(cases.LLAMA_8B).max_context == 131_072
    tight = answer(cases.LLAMA_70B, weights="fp8", kv="fp8", sequence_tokens=1024)
    assert tight.max_context == tight.kv_tokens


def test_attention_data_parallelism_counts_the_sequences_of_all_ranks():
    one = answer(cases.DEEPSEEK_V3, weights="awq", sharding=Sharding(data=8, expert=8), sequence_tokens=8192)
    assert one.sequences == 8 * one.stage.sequences(8192)


def test_engines_divide_differently():
    # SGLang: weights and cache are the static share; TensorRT-LLM: 90 % of what is free
    static = answer(cases.LLAMA_8B, engine=Engine.SGLANG, fraction=0.85).stage
    assert static.weight_bytes + static.pool_bytes == pytest.approx(0.85 * H100.expected_usable_bytes)
    free = answer(cases.LLAMA_8B, engine=Engine.TRTLLM).stage
    left = H100.expected_usable_bytes - free.weight_bytes - free.activation_bytes - free.other_bytes
    assert free.pool_bytes == pytest.approx(0.9 * left)


def test_defaults_that_depend_on_the_gpu():
    # SGLang reserves 10 GiB of 80; vLLM steps 8,192 tokens on an H100 and 2,048 on an A100 or a 24 GiB card
    fraction = sglang_static_fraction(total_bytes=80 * GIB, tensor=1, pipeline=1, data=1)
    assert fraction == pytest.approx(1 - 12.5 / 80, abs=0.035)
    assert vllm_step_limits("h100-sxm5-80gb", total_bytes=79 * GIB) == (8192, 1024)
    assert vllm_step_limits("a100-sxm4-80gb", total_bytes=79 * GIB) == (2048, 256)
    assert vllm_step_limits("l4", total_bytes=24 * GIB) == (2048, 256)


def test_alternatives_are_what_asking_for_them_gives():
    found = answer(cases.LLAMA_70B, weights="fp8", sharding=Sharding(tensor=2), sequence_tokens=8192)
    by_change = {each.change: each for each in found.alternatives}
    narrow = answer(cases.LLAMA_70B, weights="fp8", kv="fp8", sharding=Sharding(tensor=2), sequence_tokens=8192)
    assert by_change["⟨kv⟩ fp8"].kv_tokens == narrow.kv_tokens
    assert by_change["⟨max-len⟩ 4096"].sequences > found.sequences
    assert by_change["⟨tp⟩ 4"].weight_bytes < found.stage.weight_bytes


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sequence_tokens": 200_000}, "at most 131072 tokens"),
        ({"sharding": Sharding(tensor=3)}, "⟨tp⟩ 3 is not possible"),
        ({"engine": Engine.LLAMACPP, "sharding": Sharding(tensor=2, pipeline=2)}, "use ⟨pp⟩ 4"),
        ({"fraction": 1.5}, "⟨utilization⟩"),
        ({"sequence_tokens": 0}, "⟨max-len⟩"),
    ],
)
def test_what_is_not_possible_is_one_sentence(changes, words):
    with pytest.raises(UsageError, match=words) as caught:
        answer(cases.LLAMA_70B, **changes)
    assert "\n" not in str(caught.value)


def test_the_stage_with_the_output_head_decides():
    # vLLM 0.19, Llama-3.1-8B on two stages: 66.54 GiB on the first, and 1,075,312 tokens by the fuller second one
    found = answer(cases.LLAMA_8B, sharding=Sharding(pipeline=2), fraction=0.95)
    assert found.memory.stages[0].pool_bytes / GIB == pytest.approx(66.54, rel=2e-3)
    assert found.stage.stage == 1
    assert found.kv_tokens == pytest.approx(1_075_312, rel=3e-3)


def test_bytes_of_a_file_replace_the_formula():
    model = LanguageModel(
        architecture=parse_config(cases.LLAMA_8B, name="model"), dtype="bf16", quantisation=None, source="test"
    )
    exact = replace(model, exact_bytes=17_000_000_000)
    found = answer_memory(StatedDeployment(model=exact, gpu=H100, engine=Engine.TRTLLM), CONSTANTS)
    assert found.stage.weight_bytes == pytest.approx(17_000_000_000)
    other = answer_memory(StatedDeployment(model=exact, gpu=H100, engine=Engine.TRTLLM, weights="fp8"), CONSTANTS)
    assert other.stage.weight_bytes < 10_000_000_000


def test_sglang_counts_ranks_of_attention_and_larger_graphs():
    # server_args.py of SGLang 0.5.5 in MiB. H200, --tp-size 8 --dp-size 8 --enable-dp-attention: 512 + 1.5 · 8192
    # + 2 · 512 + 8/8 · 1024 + (3 + 1.5) · 512 · 8 = 33,280 of 144,384
    ranks = sglang_static_fraction(total_bytes=141 * GIB, tensor=1, pipeline=1, data=8)
    assert ranks == pytest.approx(1 - 33_280 / 144_384, abs=5e-4)
    # B200, alone: 512 + 1.5 · 16384 + 2 · 512 + 128 = 26,240 of 184,320
    alone = sglang_static_fraction(total_bytes=180 * GIB, tensor=1, pipeline=1, data=1)
    assert alone == pytest.approx(1 - 26_240 / 184_320, abs=5e-4)
    # 16 GiB, --tp-size 4: 512 + 1.5 · 2048 + 2 · 8 + 512 = 4,112 of 16,384
    small = sglang_static_fraction(total_bytes=16 * GIB, tensor=4, pipeline=1, data=1)
    assert small == pytest.approx(1 - 4_112 / 16_384, abs=5e-4)


def test_sglang_reserves_for_graphs_of_prompts_and_larger_steps_by_release():
    # arg_groups/memory_hook.py at 031ed82 in MiB. RTX 5090 (32 GiB), alone: 512 + 1.5 · 4096 + 2 · 48 + 128, and 8 for
    # each of the 51 lengths from 4 to 4096 that 0.5.19 is seen to capture: 7,288 of 32,768
    newest = {"tensor": 1, "pipeline": 1, "data": 1, "prompt_graphs": True, "larger_steps": True}
    small = sglang_static_fraction(total_bytes=32 * GIB, **newest)
    assert small == pytest.approx(1 - 7_288 / 32_768, abs=5e-4)
    # A100 40 GB, latent attention: 512 + 1.5 · 4096 + 2 · 32 + 128 + 1.5 · 1024 = 8,384 of 40,960
    latent = sglang_static_fraction(total_bytes=40 * GIB, **newest, latent=True)
    assert latent == pytest.approx(1 - 8_384 / 40_960, abs=5e-4)
    facts = [load_engine_support().facts(Engine.SGLANG, version) for version in ((0, 5, 9), (0, 5, 13), None)]
    assert [each.prompt_graphs for each in facts] == [False, True, True]
    assert [each.larger_steps for each in facts] == [False, False, True]


def test_the_stage_with_most_whole_sequences_limits_their_number():
    # 62 layers in 8 stages: 7, 8, ..., 8, 7. Every sixth layer keeps all tokens: layers 23 and 29 share the fourth
    # stage, whose sequences of 131,072 tokens take 16 heads · 256 elements · 2 bytes · (2 · 131,072 + 6 · 1,024).
    found = answer(
        cases.GEMMA_3_27B, engine=Engine.TRTLLM, fraction=0.85, sharding=Sharding(pipeline=8), sequence_tokens=131_072
    )
    fourth = found.memory.stages[3].pool_bytes / (16 * 256 * 2 * (2 * 131_072 + 6 * 1024))
    assert found.sequences == int(fourth)
    assert found.sequences < 0.6 * found.stage.sequences(131_072)  # the stage with the smallest pool


def test_memory_sets_no_limit_where_no_layer_on_the_gpu_keeps_anything():
    # the last layer of a Nemotron-H is an MLP alone, and the other layers lie in host memory with their states
    config = {**cases.NEMOTRON_LAYER, "num_hidden_layers": 2, "hybrid_override_pattern": "M-"}
    kept = answer(config, engine=Engine.LLAMACPP, sharding=Sharding(offload=HostOffload(gpu_layers=1)))
    assert not kept.stage.cache.layers
    assert kept.fits


@pytest.mark.parametrize(
    ("weights", "engine", "kv"),
    [
        (None, Engine.VLLM, "fp8"),
        ("fp8", Engine.SGLANG, "fp8"),
        ("awq", Engine.VLLM, "bf16"),
        (None, Engine.LLAMACPP, "fp16"),
    ],
)
def test_the_cache_follows_the_checkpoint(weights, engine, kv):
    # vLLM reads `kv_cache_scheme`, SGLang's `configure_kv_cache_dtype` `kv_cache_quant_algo`: "auto" is then fp8
    architecture = parse_config(cases.LLAMA_8B, name="model")
    own = default_quantisation(architecture, find_weight_format("fp8"))
    model = LanguageModel(
        architecture=architecture, dtype="bf16", quantisation=own, source="test", declares_fp8_cache=True
    )
    assert default_kv(model, model.stored_as(weights), engine, H100) == kv


@settings(max_examples=20)
@given(pool=st.integers(0, 1 << 36))
def test_the_longest_sequence_fits_and_one_token_more_does_not(pool):
    found = answer(cases.GPT_OSS_120B, engine=Engine.TRTLLM, pool_bytes=float(pool))
    longest, cache, block = found.max_context, found.stage.cache, found.stage.block_tokens
    assert longest == 0 or cache.sequence_bytes(longest, block=block) <= pool
    assert longest == 131_072 or cache.sequence_bytes(longest + 1, block=block) > pool


@pytest.mark.parametrize(
    ("config", "published_b"),
    [
        # README_WEIGHTS of DeepSeek-V3: 11.5 B of its module for multi-token prediction, without embedding and head
        (cases.DEEPSEEK_V3, 11.5),
        # README of EAGLE: 0.25 B for Llama 3 8B, 0.99 B for 70B
        (cases.LLAMA_8B, 0.25),
        (cases.LLAMA_70B, 0.99),
    ],
)
def test_what_drafts_has_the_published_parameters(config, published_b):
    architecture = parse_config(config, name="model")
    found = draft_bytes(
        architecture,
        quantisation=default_quantisation(architecture, find_weight_format("bf16")),
        sharding=Sharding(),
        layout=EngineLayout(),
    )
    assert found / 2e9 == pytest.approx(published_b, rel=0.01)


def test_what_drafts_takes_weights_and_the_cache_of_a_layer():
    # Llama 3.1 8B on one H100: 0.2517 B parameters more in 16 bits, and 33 layers of 4,096 bytes a token instead of 32
    plain, drafting = (answer(cases.LLAMA_8B, drafter=drafter).stage for drafter in (None, Drafter()))
    assert drafting.weight_bytes - plain.weight_bytes == pytest.approx(2 * 0.251666432e9)
    assert drafting.cache.bytes_per_token == plain.cache.bytes_per_token * 33 / 32
    last = answer(cases.LLAMA_8B, drafter=Drafter(), sharding=Sharding(pipeline=2)).memory.stages
    assert [len(stage.cache.layers) for stage in last] == [16, 17]
