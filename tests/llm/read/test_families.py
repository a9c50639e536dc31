"""Parameters by family against transformers' own models, built small and without memory."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from capplan.llm.core.tensors import count_parameters
from capplan.llm.read.config.parse import parse_config
from capplan.llm.read.config.traits import families

pytestmark = [
    pytest.mark.zoo,
    pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="needs transformers"),
    pytest.mark.filterwarnings("ignore"),
]

SMALL: dict[str, Any] = {
    "hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4,
    "intermediate_size": 384, "vocab_size": 1000, "max_position_embeddings": 512, "pad_token_id": 0,
}  # fmt: skip
MOE = {
    "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 96, "num_local_experts": 8,
    "n_routed_experts": 8,
}  # fmt: skip
LATENT = {
    **MOE, "first_k_dense_replace": 1, "q_lora_rank": 64, "kv_lora_rank": 32, "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16, "v_head_dim": 32, "n_group": 1, "topk_group": 1, "n_shared_experts": 1,
}  # fmt: skip


def published(model: str) -> dict[str, Any]:
    """Return the configuration of a model of the catalogue, whose layers are those of its real size."""
    config = json.loads((Path(__file__).parents[3] / "capplan" / "llm_models" / f"{model}.json").read_text())["config"]
    return {name: value for name, value in config.items() if name not in ("model_type", "torch_dtype")}


GPT = {"n_embd": 256, "n_layer": 6, "n_head": 8}
INDEX = {"index_n_heads": 4, "index_head_dim": 32, "index_topk": 64}
KDA = {"linear_num_heads": 4, "linear_head_dim": 32, "linear_conv_kernel_dim": 4, "mlp_layer_types": None}
MIXED = ["linear_attention", "linear_attention", "full_attention"] * 2
COMPRESSED = {
    **MOE, **INDEX, "head_dim": 64, "q_lora_rank": 32, "o_groups": 2, "o_lora_rank": 16, "num_key_value_heads": 1,
    "sliding_window": 32, "hc_mult": 2, "n_shared_experts": 1, "compress_ratios": [0, 4, 128, 4, 128, 4],
}  # fmt: skip
BLOCKS = {"index_n_heads": 2, "index_head_dim": 32, "index_block_size": 16, "index_topk_blocks": 4}
MAMBA = {"hybrid_override_pattern": "M-M*-E"}

CASES: list[tuple[str, dict[str, Any]]] = [
    *((family, {}) for family in (
        "llama", "mistral", "ministral3", "granite", "qwen2", "qwen3", "qwen3_5_text", "gemma", "gemma2", "gemma3_text",
        "phi", "phi3", "olmo", "olmo2", "olmo3", "starcoder2", "stablelm", "cohere", "cohere2", "gpt_neox", "exaone4",
        "seed_oss", "ernie4_5", "smollm3", "nemotron", "glm", "glm4", "arcee", "falcon", "internlm3", "apertus", "cwm",
        "jais2", "vaultgemma", "gemma4_unified_text",
    )),
    *((family, MOE) for family in (
        "mixtral", "qwen2_moe", "qwen3_moe", "qwen3_next", "qwen3_5_moe_text", "gpt_oss", "minimax_m2", "olmoe",
        "glm4_moe", "phimoe", "granitemoe", "hy_v3", "solar_open", "exaone_moe", "afmoe", "mellum", "flex_olmo",
        "cohere2_moe",
    )),
    *((family, LATENT) for family in ("glm4_moe_lite", "axk1")),
    ("youtu", {name: size for name, size in LATENT.items() if name not in MOE}),
    ("helium", {"head_dim": 32}),
    ("hunyuan_v1_moe", {**MOE, "head_dim": 32}),
    ("ernie4_5_moe", {"moe_num_experts": 8, "moe_k": 2, "moe_intermediate_size": 96, "moe_num_shared_experts": 2}),
    ("cohere2_moe", {**MOE, "first_k_dense_replace": 1, "prefix_dense_intermediate_size": 128}),
    ("kimi_linear", {**LATENT, **KDA, "q_lora_rank": None, "layer_types": MIXED}),
    ("bailing_hybrid", {**LATENT, **KDA, "q_lora_rank": None, "layer_types": MIXED}),
    ("deepseek_v4", COMPRESSED),
    ("gemma4_text", {"hidden_size_per_layer_input": 32, "vocab_size_per_layer_input": 1000}),
    ("gemma4_text", {"hidden_size_per_layer_input": 32, "vocab_size_per_layer_input": 500,
                     "num_kv_shared_layers": 3, "use_double_wide_mlp": True,
                     "layer_types": ["sliding_attention", "full_attention"] * 3}),
    ("granitemoehybrid", {**MOE, "shared_intermediate_size": 128, "mamba_n_heads": 16, "mamba_d_head": 32,
                          "layer_types": ["mamba", "mamba", "attention"] * 2}),
    ("granitemoehybrid", {"num_local_experts": 0, "shared_intermediate_size": 128, "mamba_n_heads": 16,
                          "mamba_d_head": 32, "layer_types": ["mamba", "mamba", "attention"] * 2}),
    ("granitemoehybrid", published("granite-4.0-h-small")),
    ("minimax_m3_vl_text", {**MOE, **BLOCKS, "mlp_layer_types": ["dense"] + ["sparse"] * 5,
                            "layer_types": ["full_attention"] + ["minimax_m3_sparse"] * 5}),
    ("lfm2", {"layer_types": ["conv", "conv", "full_attention"] * 2}),
    ("lfm2", {"full_attn_idxs": [2, 5], "block_auto_adjust_ff_dim": False, "conv_bias": True, "conv_L_cache": 4}),
    ("lfm2_moe", {**MOE, "num_dense_layers": 2, "layer_types": ["conv", "conv", "full_attention"] * 2}),
    ("qwen4_exp_text", {
        **MOE, "head_dim": 32, "shared_expert_intermediate_size": 64, "linear_num_key_heads": 4,
        "linear_num_value_heads": 8, "linear_key_head_dim": 16, "linear_value_head_dim": 16, "hc_count": 4,
        "hc_lowrank": 16, "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 32, "indexer_budget": 64,
        "indexer_compress_ratio": 4, "ple_layer_ids": [2, 5], "ple_embed_dim": 64, "heads_per_ngram": 2,
        "ngram_vocab_size_base": 1000, "make_ngram_vocab_size_divisible_by": 16, "eos_token_id": 1,
    }),
    ("lfm3", {"head_dim": 32}),
    ("lfm3", {"head_dim": 32, "use_sandwich_norm": False, "use_attention_gate": False}),
    ("falcon_h1", {"mamba_n_heads": 16, "mamba_d_head": 32, "mamba_d_ssm": 512}),
    ("falcon_h1", {"mamba_n_heads": 16, "mamba_d_head": 32, "mamba_d_ssm": 512, "mamba_rms_norm": True}),
    ("llama", {"attention_bias": True, "mlp_bias": True}),
    ("hunyuan_v1_dense", {"head_dim": 32}),
    ("gemma4_text", {"hidden_size_per_layer_input": 0}),
    ("llama4_text", {**MOE, "intermediate_size_mlp": 512, "attention_chunk_size": 64}),
    ("granitemoeshared", {**MOE, "shared_intermediate_size": 128}),
    ("glm4_moe", {**MOE, "use_qk_norm": True}),
    ("dots1", {**MOE, "n_shared_experts": 1}),
    ("cohere", {"use_qk_norm": True}),
    ("stablelm", {"use_qkv_bias": True, "use_parallel_residual": True}),
    ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 4}),
    ("falcon", {"multi_query": False, "parallel_attn": False, "bias": True}),
    ("gptj", {**GPT, "rotary_dim": 16}),
    ("gpt2", GPT),
    ("gpt_bigcode", GPT),
    ("opt", {"ffn_dim": 512, "word_embed_proj_dim": 256}),
    ("deepseek_v2", LATENT),
    ("deepseek_v3", LATENT),
    ("deepseek_v32", {**LATENT, **INDEX}),
    ("glm_moe_dsa", {**LATENT, **INDEX}),
    ("nemotron_h", MAMBA),
    ("nemotron_h", {**MAMBA, "moe_latent_size": 64}),
]  # fmt: skip


@pytest.mark.parametrize(("family", "changes"), CASES, ids=[f"{name}-{len(changes)}" for name, changes in CASES])
def test_parameters_are_those_of_transformers(family, changes):
    import torch

    from capplan.probe.foreign.libraries import import_torchvision

    import_torchvision()  # transformers imports it, and its operators may not fit the installed torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(family, **{**SMALL, **changes})
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    # a router's correction bias and Gemma 4's scale per layer are stored, but are buffers
    stored = ("correction_bias", "layer_scalar", "expert_bias", "moe_statics")
    buffers = sum(each.numel() for name, each in model.named_buffers() if name.endswith(stored))
    expected = sum(each.numel() for each in model.parameters()) + buffers
    assert count_parameters(parse_config(config.to_dict(), name=family)) == expected


def test_step_has_other_heads_in_windowed_layers_and_lists_drafting_layers_too():
    import torch
    from transformers.models.step3p7.configuration_step3p7 import Step3p7TextConfig
    from transformers.models.step3p7.modeling_step3p7 import Step3p7TextModel

    published = {
        **SMALL, "model_type": "step3p5", "head_dim": 32, "moe_num_experts": 8, "moe_top_k": 2,
        "moe_intermediate_size": 96, "share_expert_dim": 64, "sliding_window": 32, "num_nextn_predict_layers": 2,
        "layer_types": ["full_attention", "sliding_attention"] * 4, "moe_layers_enum": "2,3,4,5",
        "attention_other_setting": {"num_attention_heads": 12, "num_attention_groups": 4, "head_dim": 32},
        "num_attention_groups": 4,
    }  # fmt: skip
    config = Step3p7TextConfig(**published)
    with torch.device("meta"):
        model = Step3p7TextModel(config)
    corrections = sum(each.numel() for name, each in model.named_buffers() if name.endswith("correction_bias"))
    head = 1000 * 256  # the output head is beside the text model
    expected = sum(each.numel() for each in model.parameters()) + corrections + head
    for stated in (published, config.to_dict()):
        assert count_parameters(parse_config(stated, name="step")) == expected


def test_most_families_are_compared():
    compared = {family for family, _ in CASES}
    assert len(set(families()) & compared) >= 45


@pytest.mark.parametrize(
    "family",
    [
        "mistral3",
        "qwen3_vl",
        "qwen3_5",
        "qwen3_5_moe",
        "qwen4_exp",
        "llava",
        "llava_next",
        "qwen2_vl",
        "qwen2_5_vl",
        "llama4",
    ],
)
def test_image_encoders_are_those_of_transformers(family):
    import torch

    from capplan.probe.foreign.libraries import import_torchvision

    import_torchvision()
    from transformers import AutoConfig, AutoModelForImageTextToText

    default = AutoConfig.for_model(family).to_dict()
    indexer = {"n_heads": 2, "kv_heads": 1, "head_dim": 256, "budget": 64, "compress_ratio": 4}
    chosen = {f"indexer_{name}": value for name, value in indexer.items()} if family == "qwen4_exp" else {}
    default["text_config"] = {"model_type": default["text_config"]["model_type"], **SMALL, **chosen}
    width = "hidden_size" if family == "qwen2_vl" else "out_hidden_size"
    if width == "hidden_size" or width in default["vision_config"]:
        default["vision_config"][width] = SMALL["hidden_size"]
    del default["model_type"]
    config = AutoConfig.for_model(family, **{**default, "tie_word_embeddings": False})
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(config)
    architecture = parse_config(config.to_dict(), name=family)
    assert architecture.vision is not None
    expected = sum(each.numel() for each in model.parameters())
    assert count_parameters(architecture) + architecture.vision.parameters == expected
