"""Architectures read from configurations against the totals that publishers state."""

import ast
import json
from pathlib import Path

import pytest

import capplan
from capplan.errors import CapplanError
from capplan.llm.core.kv import stage_cache
from capplan.llm.core.layers import Attention
from capplan.llm.core.model_query import LanguageModel, kv_bytes_per_token
from capplan.llm.core.sharding import Sharding
from capplan.llm.core.tensors import WeightRole, all_tensors, count_active_parameters, count_parameters
from capplan.llm.read.config import traits
from capplan.llm.read.config.parse import parse_config
from capplan.llm.read.config.traits import UnusualModelError
from tests.llm.core import architectures as cases
from tests.seen import at_least

SHARED = Path(__file__).parents[3].parent / "shared" / "data" / "llm" / "configs"


def test_llama_70b_by_its_parts():
    # linear: 80·(8192·8192·2 + 2·8192·1024 + 3·8192·28672); tables: 2·128256·8192; norms: 161·8192
    tensors = list(all_tensors(parse_config(cases.LLAMA_70B, name="llama")))
    linear = sum(t.parameters for t in tensors if t.role in (WeightRole.ATTENTION, WeightRole.MLP))
    norms = sum(t.parameters for t in tensors if t.role is WeightRole.VECTOR)
    assert linear == 68_451_041_280
    assert norms == 1_318_912
    assert sum(t.parameters for t in tensors) == 70_553_706_496


@pytest.mark.parametrize(
    ("config", "total", "active_billions"),
    [
        # totals: safetensors metadata on the models' pages; active: with embedding and output head
        ("DEEPSEEK_V3", 671_026_419_200, 37.55),
        ("MIXTRAL_8X7B", 46_702_792_704, 12.88),
        ("QWEN3_235B", 235_093_634_560, 22.19),
        # OpenAI's model card: 116.83 B, of which 5.13 B are active without the embedding of 0.579 B
        ("GPT_OSS_120B", 116_829_156_672, 5.13 + 0.579),
    ],
)
def test_totals_and_active_parameters_of_experts(config, total, active_billions):
    architecture = parse_config(getattr(cases, config), name=config)
    assert count_parameters(architecture) == total
    assert count_active_parameters(architecture) / 1e9 == pytest.approx(active_billions, rel=1e-3)


def test_gemma_attends_globally_in_every_sixth_layer():
    layers = parse_config(cases.GEMMA_3_27B, name="gemma").layers
    windows = [layer.mixer.window for layer in layers[:7]]
    assert windows == [1024] * 5 + [None, 1024]


def test_tied_embeddings_are_counted_once():
    untied = {**cases.LLAMA_8B, "tie_word_embeddings": False}
    tied = {**cases.LLAMA_8B, "tie_word_embeddings": True}
    saved = count_parameters(parse_config(untied, name="a")) - count_parameters(parse_config(tied, name="b"))
    assert saved == 128256 * 4096


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"compress_ratios": [4, 128]}, "compress_ratios is not understood"),
        ({"o_lora_rank": 1024, "compress_ratios": [4, 7]}, "compress_ratios must hold 0, 4 or 128 for each of the 80"),
        ({"sparse_attention_config": {"sparse_topk_blocks": 16}}, "has no sparse_num_index_heads"),
        ({"linear_attn_config": {"kda_layers": [1]}}, "must number each of the 80 layers once"),
        ({"linear_attn_config": {"kda_layers": "1-3", "full_attn_layers": 7}}, "must be lists"),
        ({"layer_types": ["wavelet_attention"] * 80}, "wavelet_attention"),
        ({"model_type": "llamma"}, "did you mean llama"),
        ({"hidden_size": -1}, "hidden_size"),
        ({"hidden_size": "8192"}, "hidden_size"),
        ({"hidden_size": True}, "hidden_size"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"num_key_value_heads": 7}, "not a multiple"),
        ({"num_attention_heads": 60}, "not a multiple"),
        ({"layer_types": ["full_attention"] * 79}, "80 entries"),
        ({"vocab_size": None}, "vocab_size"),
        (
            {"model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
             "decoder_sparse_step": 1, "mlp_only_layers": 5},
            "mlp_only_layers must be a list of indexes of 80 layers, not 5",
        ),
        (
            {"model_type": "nemotron-nas",
             "block_configs": [{"attention": {"n_heads_in_group": 128}, "ffn": {"ffn_mult": 1}}] * 80},
            "64 query heads are not a multiple of n_heads_in_group 128",
        ),
        (
            {"model_type": "qwen2_5_vl",
             "vision_config": {"hidden_size": 16, "depth": 3, "intermediate_size": 32, "patch_size": 14,
                               "fullatt_block_indexes": [7]}},
            "fullatt_block_indexes must be a list of indexes of 3 layers",
        ),
    ],
)  # fmt: skip
def test_what_no_formula_covers_is_refused_by_name(change, word):
    with pytest.raises(CapplanError, match=word):
        parse_config({**cases.LLAMA_70B, **change}, name="model.json")


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the configurations beside the project")
def test_checked_configurations_give_the_published_totals():
    checked = [row for row in json.loads((SHARED / "index.json").read_text()) if row["checked"]]
    wrong = {}
    for row in checked:
        config = json.loads((SHARED / f"{row['id']}.json").read_text())
        error = count_parameters(parse_config(config, name=row["id"])) / row["params_published"] - 1
        if abs(error) > 0.002:
            wrong[row["id"]] = error
    assert len(checked) > 80
    assert not wrong


QWEN3_NEXT = {
    "model_type": "qwen3_next", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 16,
    "num_key_value_heads": 2, "head_dim": 256, "intermediate_size": 5120, "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512, "num_experts": 512, "num_experts_per_tok": 10, "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128,
    "vocab_size": 151936, "max_position_embeddings": 262144,
}  # fmt: skip
"""Qwen3-Next-80B-A3B as its model card and the defaults of transformers state it."""


def full_attention_layers(config):
    layers = parse_config(config, name="next").layers
    return [index for index, layer in enumerate(layers) if isinstance(layer.mixer, Attention)]


@pytest.mark.parametrize("change", [{"full_attention_interval": 4}, {}])
def test_every_fourth_layer_of_qwen3_next_has_a_cache(change):
    """The card: 12 × (3 × Gated DeltaNet, 1 × gated attention). K and V of 2 heads of 256 in 2 bytes: 2,048 a layer."""
    config = QWEN3_NEXT | change
    assert full_attention_layers(config) == list(range(3, 48, 4))
    model = LanguageModel(architecture=parse_config(config, name="next"), dtype="bf16", quantisation=None, source="")
    assert kv_bytes_per_token(model) == 12 * 2 * 2 * 256 * 2 == 24_576


def catalogued(name):
    entry = json.loads((Path(capplan.__file__).parent / "llm_models" / f"{name}.json").read_text())
    return parse_config(entry["config"], name=name)


@pytest.mark.parametrize(
    ("name", "token_bytes", "state_bytes"),
    [
        # six layers of attention keep keys and values of 8 heads of 64 in 16 bits; the convolutions of the ten (or
        # eighteen) others keep two inputs of 2,048 (1,024) channels
        ("lfm2-1.2b", 6 * 2 * 8 * 64 * 2, 10 * 2048 * 2 * 2),
        ("lfm2-350m", 6 * 2 * 8 * 64 * 2, 10 * 1024 * 2 * 2),
        ("lfm2-8b-a1b", 6 * 2 * 8 * 64 * 2, 18 * 2048 * 2 * 2),
        # 144 KiB a token and 153,206,784 bytes a sequence, states in 16 bits: another tool's test of the published
        # configuration, which derives 3·5120·2 + 4096·256·2 a layer
        ("falcon-h1-34b-instruct", 144 * 1024, 153_206_784),
        # 12 layers with 2 heads of 256 and an index key of 128 (FreeToken's test of the published configuration); the
        # others keep 3 inputs of 2 * 16 * 128 + 48 * 128 channels, and a state of [48, 128, 128]
        ("qwen3.8-flash-next", 12 * (2 * 2 * 256 + 128) * 2, 36 * (10_240 * 3 * 2 + 48 * 128 * 128 * 2)),
        # 36 layers with 2 heads of 64; [1792, 3] inputs and a state of [24, 64, 128] each
        ("falcon-h1-0.5b-instruct", 36 * 2 * 2 * 64 * 2, 36 * (1792 * 3 * 2 + 24 * 64 * 128 * 2)),
    ],
)
def test_caches_and_states_of_hybrid_models_are_those_derived_by_hand(name, token_bytes, state_bytes):
    kept = stage_cache(catalogued(name), sharding=Sharding(), element_bytes=2.0, state_bytes=2.0)
    assert (kept.bytes_per_token, kept.state_bytes) == (token_bytes, state_bytes)


def test_deepseek_v41_shares_rows_and_keeps_tables_of_ngrams():
    """552 B beside 197 B of n-grams in 264 bytes a row (two public readers of the checkpoint); 16 B are active."""
    model = catalogued("deepseek-v4.1-flash")
    tables = sum(tensor.parameters for tensor in all_tensors(model) if tensor.role is WeightRole.NGRAMS)
    assert tables == (384_006_168 + 384_016_682) * 256
    assert count_parameters(model) - tables == pytest.approx(552e9, rel=1e-3)
    assert count_active_parameters(model) - 129_280 * 5120 == pytest.approx(16e9, rel=0.02)  # without the embedding
    # four layers write rows of 584 bytes (`fp8_ds_mla` of vLLM 0.30), three of them one for two tokens, with an index
    # key of 132 bytes each; every layer keeps a window of 128
    cache = stage_cache(model, sharding=Sharding(), element_bytes=1.0)
    assert cache.sequence_bytes(100_000) == 40 * 128 * 584 + 100_000 * (3 / 2 + 1) * (584 + 132)


def test_tables_of_ngrams_lie_where_the_engine_puts_them():
    """About 189 GiB of tables (docs.sglang.io, Engram): SGLang cuts them among the GPUs, vLLM pins them on the host."""
    asked = {"gpu": "b200", "tp": 4, "max_len": 8192}
    on_host, on_gpu = (capplan.llm.memory("deepseek-v4.1-flash", engine=name, **asked) for name in ("vllm", "sglang"))
    moved = on_gpu.stage.weight_bytes - on_host.stage.weight_bytes
    assert moved / 2**30 == pytest.approx(189 / 4, rel=0.005)
    assert any("189 GiB of pinned memory" in note for note in on_host.notes)
    assert on_gpu.stage.host_bytes == 0


def test_windows_of_step_bound_what_a_long_sequence_keeps():
    # 33 layers keep 512 tokens and 12 all: 0.2896 of what 45 full layers would keep at 16,384 tokens, as NVIDIA's
    # aiconfigurator asserts for the published configuration; 8 heads of 128, keys and values in 16 bits
    kept = stage_cache(catalogued("step-3.7-flash"), sharding=Sharding(), element_bytes=2.0)
    assert kept.sequence_bytes(16_384) == (33 * 512 + 12 * 16_384) * 2 * 8 * 128 * 2
    assert {layer.mixer.query_heads for layer in catalogued("step-3.7-flash").layers} == {64, 96}


def test_another_interval_and_a_list_of_layers_are_followed():
    assert full_attention_layers(QWEN3_NEXT | {"full_attention_interval": 6}) == list(range(5, 48, 6))
    kinds = ["full_attention"] + ["linear_attention"] * 47
    assert full_attention_layers(QWEN3_NEXT | {"full_attention_interval": 6, "layer_types": kinds}) == [0]


@pytest.mark.parametrize(
    "change",
    [
        {"global_attention_interval": 8},
        {"layer_pattern": "LLG"},
        {"sliding_window": 4096},  # Llama's code has no window
        {"attention_chunk_size": 8192},
        {"kv_compression_ratio": 4, "compress_kv": True},
        {"num_zero_experts": 256},
        {"moe_every": 2},
        {"mamba_layers": [1, 2]},
    ],
)
def test_a_field_that_describes_layers_and_is_not_understood_refuses_the_model(change):
    with pytest.raises(UnusualModelError, match=rf"({'|'.join(change)}) is not understood for the family llama"):
        parse_config(cases.LLAMA_8B | change, name="llama")
    # said to be absent, it refuses nothing
    parse_config(cases.LLAMA_8B | dict.fromkeys(change), name="llama")


def test_fields_that_decide_nothing_are_listed():
    harmless = {
        "attention_dropout": 0.1,
        "router_aux_loss_coef": 0.001,
        "hidden_act": "silu",
        "moe_router_dtype": "fp32",
    }
    ignored = parse_config(cases.LLAMA_8B | harmless, name="llama").ignored_fields
    assert set(harmless) <= set(ignored)
    assert not {"hidden_size", "num_hidden_layers", "vocab_size"} & set(ignored)


def test_a_window_that_is_switched_off_refuses_nothing():
    # SmolLM3 states a window that it does not use, and that every fourth layer has no rotary embedding
    stated = {"sliding_window": 4096, "max_window_layers": 28, "no_rope_layer_interval": 4, "no_rope_layers": [1] * 32}
    config = {**cases.LLAMA_8B, **stated, "model_type": "smollm3"}
    layers = parse_config({**config, "use_sliding_window": False}, name="smol").layers
    assert {layer.mixer.window for layer in layers} == {None}
    with pytest.raises(UnusualModelError, match="window"):
        parse_config({**config, "use_sliding_window": True}, name="smol")


def test_lightning_attention_is_refused_by_its_list_of_layers():
    config = {**cases.LLAMA_8B, "model_type": "minimax_m2", "num_local_experts": 8, "num_experts_per_tok": 2}
    assert parse_config({**config, "attn_type_list": [1] * 32}, name="m2").is_moe
    with pytest.raises(UnusualModelError, match="lightning attention"):
        parse_config({**config, "attn_type_list": [0, 1] * 16}, name="m2")


def test_no_reader_asks_for_a_family_by_name():
    """What a family's code fixes is declared in the tables by model_type, so that a new family is one entry."""
    folder = Path(traits.__file__).parent
    named = {
        f"{path.name}: {node.value}"
        for path in at_least(5, folder.glob("*.py"))
        for compared in ast.walk(ast.parse(path.read_text()))
        if isinstance(compared, ast.Compare)
        for node in ast.walk(compared)
        if isinstance(node, ast.Constant) and node.value in traits.families()
    }
    assert named == set()


@pytest.mark.parametrize(
    ("scaling", "rows"),
    [
        # vLLM's LinearScalingRotaryEmbedding has max_position_embeddings × factor rows, and local layers a table of
        # their own: 131072·8 + 131072
        ({}, 131072 * 9),
        ({"rope_scaling": {"rope_type": "linear", "factor": 4.0}}, 131072 * 5),
        ({"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0}}}, 131072 * 9),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}, "sliding_attention": {}}}, 131072 * 2),
    ],
)
def test_rotary_tables_of_gemma_follow_the_scaling_that_the_configuration_states(scaling, rows):
    text = {**cases.GEMMA_3_27B, "max_position_embeddings": 131072, **scaling}
    config = {"model_type": "gemma3", "text_config": {**text, "model_type": "gemma3_text"}}
    assert parse_config(config, name="gemma").rope_rows == rows
