"""Bytes of weights against published sizes, logs and hand derivations."""

import pytest

from capplan.core.weights import find_weight_format
from capplan.errors import UnknownNameError
from capplan.llm.core.quantisation import GgufPlace, default_quantisation, gguf_bits
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.tensors import WeightRole, count_parameters, layer_tensors
from capplan.llm.core.weights import EngineLayout, stage_weights
from capplan.llm.read.config.parse import parse_config
from tests.llm.core import architectures as cases

GIB = 1 << 30
PLAIN = EngineLayout()


def weight_bytes(config, weights, *, sharding=None, layout=PLAIN, stage=0):
    architecture = parse_config(config, name="model")
    quantisation = default_quantisation(architecture, find_weight_format(weights))
    found = stage_weights(
        architecture, quantisation=quantisation, sharding=sharding or Sharding(), layout=layout, stage=stage
    )
    return found.total


def test_llama_70b_in_16_and_8_bits():
    # 70,553,706,496 · 2 B = 131.42 GiB; fp8: 68,451,041,280 + 2·(2·128256·8192 + 1,318,912) B = 67.67 GiB
    assert weight_bytes(cases.LLAMA_70B, "bf16") == 70_553_706_496 * 2
    assert weight_bytes(cases.LLAMA_70B, "fp8") == 68_451_041_280 + 2 * (2 * 128256 * 8192 + 1_318_912)
    assert weight_bytes(cases.LLAMA_70B, "fp8") / GIB == pytest.approx(67.67, abs=0.005)


def test_tensor_parallelism_repeats_norms_alone():
    # (67.67 GiB − norms) / 4 + norms, norms 1,318,912 · 2 B
    norms = 1_318_912 * 2
    whole = weight_bytes(cases.LLAMA_70B, "fp8")
    split = weight_bytes(cases.LLAMA_70B, "fp8", sharding=Sharding(tensor=4))
    assert split == (whole - norms) / 4 + norms
    assert split / GIB == pytest.approx(16.92, abs=0.005)


def test_key_value_heads_are_repeated_beyond_their_number():
    # TP16: 8 key-value heads, so each GPU holds one: 2 · 8192 · 128 per layer instead of half of it
    sixteen = Sharding(tensor=16)
    repeated = weight_bytes(cases.LLAMA_70B, "bf16", sharding=sixteen)
    norms = 1_318_912 * 2
    even = (70_553_706_496 * 2 - norms) / 16 + norms
    assert repeated - even == 80 * 2 * 8192 * 64 * 2


@pytest.mark.parametrize(
    ("mix", "billion_bytes"),
    [
        # sizes of published files of Llama-3.1-8B and 70B, whose tokeniser takes 7.8 MB beside the tensors
        ("q8_0", (8.5408, 74.975)),
        ("q6_k", (6.5960, 57.888)),
        ("q5_k_m", (5.7330, 49.950)),
        ("q4_k_m", (4.9207, 42.520)),
        ("q4_k_s", (4.6927, None)),
        ("q3_k_m", (4.0189, 34.267)),
        ("q2_k", (3.1791, 26.375)),
    ],
)
def test_gguf_mixes_give_the_sizes_of_published_files(mix, billion_bytes):
    for config, published in zip((cases.LLAMA_8B, cases.LLAMA_70B), billion_bytes, strict=True):
        if published is not None:
            assert weight_bytes(config, mix) / 1e9 + 0.0078 == pytest.approx(published, rel=5e-4)


def test_iq4_xs_takes_the_bits_that_llamacpp_states():
    # tools/quantize/README.md of llama.cpp, Llama-3.1-8B: 4.4597 bits/weight
    parameters = count_parameters(parse_config(cases.LLAMA_8B, name="model"))
    assert 8 * weight_bytes(cases.LLAMA_8B, "iq4_xs") / parameters == pytest.approx(4.4597, abs=1e-4)


def test_llamacpp_widens_attention_beside_eight_experts():
    # llama_tensor_get_type, n_expert == 8: attn_k and attn_v in Q8_0 (8.5 bits), attn_output in Q5_K (5.5 bits)
    model = parse_config(cases.MIXTRAL_8X7B, name="model")
    place = GgufPlace(layer=9, layer_count=32, query_heads_per_kv_head=4, expert_count=8, tied=False)
    tensors = layer_tensors(model.layers[9], hidden_dim=model.hidden_dim)
    bits = {tensor.name: gguf_bits(tensor, "q4_k_m", place) for tensor in tensors}
    assert [bits[name] for name in ("q", "k", "v", "o")] == [4.5, 8.5, 8.5, 5.5]


@pytest.mark.parametrize(
    ("weights", "bits"),
    [("fp8_block", 8.002), ("awq", 4.16), ("gptq_g32", 4.6), ("mxfp4", 4.25), ("nvfp4", 4.5), ("int8", 8)],
)
def test_bits_per_weight_include_the_scales(weights, bits):
    assert find_weight_format(weights).bits == pytest.approx(bits, rel=6e-3)


def test_format_names_are_found_however_they_are_typed():
    assert find_weight_format("FP8-Block") is find_weight_format("fp8_block")
    assert find_weight_format("Q4_K_M").gguf == "q4_k_m"
    with pytest.raises(UnknownNameError, match="mxfp4"):
        find_weight_format("mxpf4")


def test_gpt_oss_is_quantised_in_its_experts_alone_and_padded():
    # vLLM 0.19 logs 7.01 GiB per GPU for gpt-oss-20b on two H100
    config = {**cases.GPT_OSS_120B, "num_hidden_layers": 24, "num_local_experts": 32}
    config["layer_types"] = config["layer_types"][:24]
    layout = EngineLayout(vocabulary_padding=64, expert_width_padding=128, expert_hidden_padding=256)
    padded = weight_bytes(config, "mxfp4", sharding=Sharding(tensor=2), layout=layout)
    assert padded / GIB == pytest.approx(7.01, rel=0.015)
    assert padded > 1.05 * weight_bytes(config, "mxfp4", sharding=Sharding(tensor=2))


def test_expert_parallelism_keeps_as_many_bytes_of_experts_as_cutting_them():
    cut = weight_bytes(cases.QWEN3_235B, "bf16", sharding=Sharding(tensor=8))
    whole = weight_bytes(cases.QWEN3_235B, "bf16", sharding=Sharding(tensor=8, expert=8))
    assert whole == pytest.approx(cut, rel=1e-12)


def test_data_parallel_attention_repeats_attention_and_spreads_experts():
    architecture = parse_config(cases.DEEPSEEK_V3, name="model")
    quantisation = default_quantisation(architecture, find_weight_format("bf16"))
    spread = Sharding(data=8, expert=8)
    found = stage_weights(architecture, quantisation=quantisation, sharding=spread, layout=PLAIN)
    one = stage_weights(architecture, quantisation=quantisation, sharding=Sharding(), layout=PLAIN)
    assert found.of(WeightRole.ATTENTION) == one.of(WeightRole.ATTENTION)
    assert found.of(WeightRole.EXPERT) == one.of(WeightRole.EXPERT) / 8


def test_pipeline_stages_add_up_to_the_model():
    stages = [weight_bytes(cases.LLAMA_70B, "bf16", sharding=Sharding(pipeline=3), stage=stage) for stage in range(3)]
    assert sum(stages) == 70_553_706_496 * 2


def test_a_tied_embedding_is_held_by_the_first_and_the_last_stage():
    tied = {**cases.LLAMA_8B, "tie_word_embeddings": True}
    whole = weight_bytes(tied, "bf16")
    stages = [weight_bytes(tied, "bf16", sharding=Sharding(pipeline=2), stage=stage) for stage in range(2)]
    assert sum(stages) - whole == 128256 * 4096 * 2


def test_the_vocabulary_is_padded_to_64_rows_per_gpu():
    # Granite's 49,155 rows become 49,216 on one GPU and 49,280 on two
    config = {**cases.LLAMA_8B, "vocab_size": 49155}
    layout = EngineLayout(vocabulary_padding=64)
    added = weight_bytes(config, "bf16", layout=layout) - weight_bytes(config, "bf16")
    assert added == 2 * (49216 - 49155) * 4096 * 2


def test_rotary_tables_are_counted_where_the_engine_keeps_them():
    # Llama-3.1-8B on vLLM: 131,072 rows of 128 16-bit numbers are 0.031 GiB; logs say 14.99 instead of 14.96 GiB
    layout = EngineLayout(keeps_rope_table=True)
    assert weight_bytes(cases.LLAMA_8B, "bf16", layout=layout) / GIB == pytest.approx(14.99, abs=0.005)
