"""Turn the metadata of a GGUF file into the fields of a Hugging Face configuration."""

from collections.abc import Mapping
from typing import Any

from capplan.errors import SpecError, UnknownNameError
from capplan.llm.read.config.traits import TRAITS
from capplan.llm.read.headers.gguf import GgufHeader

_FAMILIES = {
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen2moe": "qwen2_moe",
    "qwen3": "qwen3",
    "qwen3moe": "qwen3_moe",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3": "gemma3_text",
    "phi2": "phi",
    "phi3": "phi3",
    "granite": "granite",
    "deepseek2": "deepseek_v3",
    "gpt-oss": "gpt_oss",
    "falcon": "falcon",
    "gptj": "gptj",
    "minimax-m2": "minimax_m2",
    "olmo2": "olmo2",
    "olmoe": "olmoe",
    "command-r": "cohere",
    "cohere2": "cohere2",
    "starcoder2": "starcoder2",
    "stablelm": "stablelm",
    "gptneox": "gpt_neox",
    "seed_oss": "seed_oss",
    "ernie4_5": "ernie4_5",
    "hunyuan-dense": "hunyuan_v1_dense",
    "exaone4": "exaone4",
    "glm4": "glm4",
    "glm4moe": "glm4_moe",
    "smollm3": "smollm3",
    "nemotron": "nemotron",
    "arcee": "arcee",
    "qwen3vl": "qwen3",
    "qwen3vlmoe": "qwen3_moe",
    "dots1": "dots1",
    "granitemoe": "granitemoe",
    "phimoe": "phimoe",
}
_SIZES = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "context_length": "max_position_embeddings",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.value_length": "v_head_dim",
    "feed_forward_length": "intermediate_size",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_count": "n_shared_experts",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "leading_dense_block_count": "first_k_dense_replace",
    "attention.sliding_window": "sliding_window",
    "attention.q_lora_rank": "q_lora_rank",
    "attention.kv_lora_rank": "kv_lora_rank",
    "attention.key_length_mla": "_query_dim",
    "attention.value_length_mla": "_latent_value_dim",
    "rope.dimension_count": "_rope_dim",
    "vocab_size": "vocab_size",
}


_FILE_TYPES = {
    0: "fp32", 1: "fp16", 2: "q4_0", 7: "q8_0", 8: "q5_0", 10: "q2_k", 11: "q3_k_s", 12: "q3_k_m", 14: "q4_k_s",
    15: "q4_k_m", 16: "q5_k_s", 17: "q5_k_m", 18: "q6_k", 30: "iq4_xs", 32: "bf16", 38: "mxfp4",
}  # fmt: skip
"""llama.cpp's numbers of mixes (`llama_ftype`) as weight formats."""


def gguf_weights(header: GgufHeader) -> str | None:
    """Return the weight format that a GGUF file states, None if it is not one of those known here.

    Args:
        header: The header.
    """
    stated = header.metadata.get("general.file_type")
    return _FILE_TYPES.get(stated) if isinstance(stated, int) else None


def gguf_config(header: GgufHeader, *, where: str) -> dict[str, Any]:
    """Return the configuration that a GGUF header states, in Hugging Face's words.

    Args:
        header: The header.
        where: What error messages call the file.

    Raises:
        SpecError: The header names no architecture or per-layer sizes that differ.
        UnknownNameError: The architecture is not one whose layers are known here.
    """
    metadata = header.metadata
    family = metadata.get("general.architecture")
    if not isinstance(family, str):
        raise SpecError(f"{where}: the file has no general.architecture.")
    if family not in _FAMILIES:
        raise UnknownNameError(f"GGUF architecture in {where}:", family, _FAMILIES)
    config = _sizes(metadata, family, where)
    names = {tensor.name: tensor for tensor in header.tensors}
    config["model_type"] = _family(family, config)
    config["tie_word_embeddings"] = "output.weight" not in names
    config.setdefault("vocab_size", metadata.get("tokenizer.ggml.tokens length"))
    if config.get("num_experts") and TRAITS[config["model_type"]].plain_expert_width:
        config["num_local_experts"] = config.pop("num_experts")
        config["intermediate_size"] = config.get("moe_intermediate_size") or config.get("intermediate_size")
    if "kv_lora_rank" in config:
        _latent(config, where)
    config["attention_bias"] = "blk.0.attn_q.bias" in names
    return {key: value for key, value in config.items() if value is not None and not key.startswith("_")}


def _family(family: str, config: Mapping[str, Any]) -> str:
    return "mixtral" if family == "llama" and config.get("num_experts") else _FAMILIES[family]


def _sizes(metadata: Mapping[str, Any], family: str, where: str) -> dict[str, Any]:
    config: dict[str, Any] = {}
    for key, name in _SIZES.items():
        value = metadata.get(f"{family}.{key}")
        if isinstance(value, list):
            if len(set(map(str, value))) != 1:
                raise SpecError(f"{where}: {family}.{key} differs from layer to layer, which is not covered here.")
            value = value[0]
        if value is not None:
            config[name] = value
    return config


def _latent(config: dict[str, Any], where: str) -> None:
    """Derive the head widths of latent attention, which GGUF states for the compressed and for the rebuilt form."""
    query, value, rope = (config.get(name) for name in ("_query_dim", "_latent_value_dim", "_rope_dim"))
    if query is None or value is None or rope is None:
        raise SpecError(f"{where}: the widths of latent attention (key_length_mla, value_length_mla) are missing.")
    config["qk_rope_head_dim"], config["qk_nope_head_dim"], config["v_head_dim"] = rope, query - rope, value
    config["n_routed_experts"] = config.pop("num_experts", None)
    config.pop("head_dim", None)
