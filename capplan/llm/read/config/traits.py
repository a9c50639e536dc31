"""What the configurations of each model family leave unsaid because its implementation fixes it.

A configuration states sizes; whether projections have biases, how many norms a layer has, or which layers use
a sliding window is often written in the model's code alone. This table holds those facts by `model_type`. The
parameter totals that publishers state, and transformers' own models, check it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class QueryKeyNorm(StrEnum):
    """Norms on queries and keys: one scale per element of a head, or one per element of all heads."""

    NONE = "none"
    PER_HEAD = "per head"
    ALL_HEADS = "all heads"


class Windows(StrEnum):
    """Which layers use a sliding window where the configuration does not list them."""

    NONE = "none"
    ALL = "all"
    ALL_BUT_EVERY_NTH = "all but every nth"
    ALTERNATING = "alternating"
    LATE_IF_ENABLED = "from max_window_layers on, if use_sliding_window"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Facts of one family; None where the configuration states them.

    `norms` is the number of norms of width H per layer, each with a bias vector if `norm_bias`. `window_period` is
    the n of `Windows.ALL_BUT_EVERY_NTH`. `extra_positions` are rows of learned positions beyond the longest context.
    `defaults` are values of fields that published configurations leave out.
    """

    qkv_bias: bool | None = None
    output_bias: bool | None = None
    query_key_norm: QueryKeyNorm = QueryKeyNorm.NONE
    norms: int = 2
    norm_bias: bool = False
    gated: bool = True
    mlp_bias: bool | None = None
    tied: bool = False
    final_norm: bool = True
    extra_positions: int = 0
    head_bias: bool = False
    output_gate: bool = False
    windows: Windows = Windows.NONE
    window_period: int = 0
    learned_positions: bool = False
    rotary: bool = True
    defaults: Mapping[str, Any] = field(default_factory=dict)


_PLAIN = Traits(qkv_bias=False, output_bias=False, mlp_bias=False)
_LLAMA = Traits()
_QWEN2 = Traits(qkv_bias=True, output_bias=False, mlp_bias=False, windows=Windows.LATE_IF_ENABLED)
_QWEN3 = Traits(query_key_norm=QueryKeyNorm.PER_HEAD, mlp_bias=False, windows=Windows.LATE_IF_ENABLED)
_QWEN35 = Traits(
    query_key_norm=QueryKeyNorm.PER_HEAD, mlp_bias=False, output_gate=True, defaults={"full_attention_interval": 4}
)
_GEMMA3 = Traits(
    query_key_norm=QueryKeyNorm.PER_HEAD,
    norms=4,
    mlp_bias=False,
    tied=True,
    windows=Windows.ALL_BUT_EVERY_NTH,
    window_period=6,
    defaults={
        "vocab_size": 262208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131072,
    },
)
_LATENT = Traits(mlp_bias=False)

_GPT2 = Traits(
    qkv_bias=True,
    output_bias=True,
    norm_bias=True,
    gated=False,
    mlp_bias=True,
    tied=True,
    learned_positions=True,
    rotary=False,
)

TRAITS: Mapping[str, Traits] = {
    "llama": _LLAMA,
    "mistral": Traits(qkv_bias=False, output_bias=False, mlp_bias=False, windows=Windows.ALL),
    "mixtral": Traits(qkv_bias=False, output_bias=False, mlp_bias=False, windows=Windows.ALL),
    "ministral3": _PLAIN,
    "granite": Traits(tied=True),
    "qwen2": _QWEN2,
    "qwen2_moe": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "qwen3_vl_moe_text": _QWEN3,
    "qwen3_next": _QWEN35,
    "qwen3_5_text": _QWEN35,
    "qwen3_5_moe_text": _QWEN35,
    "gemma": Traits(tied=True, mlp_bias=False, defaults={"head_dim": 256}),
    "gemma2": Traits(tied=True, norms=4, mlp_bias=False, windows=Windows.ALTERNATING, defaults={"head_dim": 256}),
    "gemma3_text": _GEMMA3,
    "gemma4_text": Traits(query_key_norm=QueryKeyNorm.PER_HEAD, norms=4, mlp_bias=False, tied=True),
    "phi": Traits(qkv_bias=True, output_bias=True, norms=1, norm_bias=True, gated=False, mlp_bias=True, head_bias=True),
    "phi3": Traits(qkv_bias=False, output_bias=False, mlp_bias=False, windows=Windows.ALL),
    "gptj": Traits(
        qkv_bias=False, output_bias=False, norms=1, norm_bias=True, gated=False, mlp_bias=True, head_bias=True
    ),
    "falcon": Traits(norms=2, norm_bias=True, gated=False, tied=True, defaults={"max_position_embeddings": 2048}),
    "gpt_oss": Traits(windows=Windows.ALTERNATING, defaults={"attention_bias": True, "sliding_window": 128}),
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
    "deepseek_v32": _LATENT,
    "deepseek_ref": _LATENT,
    "kimi_k2": _LATENT,
    "glm_moe_dsa": _LATENT,
    "llama4_text": Traits(windows=Windows.ALL_BUT_EVERY_NTH, window_period=4),
    "minimax_m2": Traits(qkv_bias=False, output_bias=False, mlp_bias=False, query_key_norm=QueryKeyNorm.ALL_HEADS),
    "olmo": Traits(norms=0, final_norm=False, mlp_bias=False),
    "olmo2": Traits(query_key_norm=QueryKeyNorm.ALL_HEADS, mlp_bias=False),
    "olmo3": Traits(query_key_norm=QueryKeyNorm.ALL_HEADS, mlp_bias=False),
    "olmoe": Traits(query_key_norm=QueryKeyNorm.ALL_HEADS, mlp_bias=False),
    "starcoder2": Traits(norm_bias=True, gated=False, tied=True, windows=Windows.ALL, defaults={"use_bias": True}),
    "stablelm": Traits(output_bias=False, mlp_bias=False, norm_bias=True),
    "cohere": Traits(norms=1, tied=True, mlp_bias=False),
    "cohere2": Traits(norms=1, tied=True, mlp_bias=False, windows=Windows.ALL_BUT_EVERY_NTH, window_period=4),
    "gpt2": _GPT2,
    "gpt_bigcode": _GPT2,
    "gpt_neox": Traits(norm_bias=True, gated=False, mlp_bias=True, defaults={"attention_bias": True}),
    "opt": Traits(
        qkv_bias=True,
        output_bias=True,
        norm_bias=True,
        gated=False,
        mlp_bias=True,
        tied=True,
        learned_positions=True,
        extra_positions=2,
        rotary=False,
    ),
    "exaone4": Traits(
        qkv_bias=False,
        output_bias=False,
        query_key_norm=QueryKeyNorm.PER_HEAD,
        mlp_bias=False,
        windows=Windows.ALL_BUT_EVERY_NTH,
        window_period=4,
    ),
    "seed_oss": Traits(output_bias=False, mlp_bias=False, defaults={"attention_bias": True}),
    "ernie4_5": Traits(tied=True),
    "hunyuan_v1_dense": Traits(query_key_norm=QueryKeyNorm.PER_HEAD, mlp_bias=False),
    "smollm3": _LLAMA,
    "nemotron": Traits(norm_bias=True, gated=False),
    "glm": Traits(output_bias=False, mlp_bias=False, defaults={"attention_bias": True}),
    "glm4": Traits(output_bias=False, norms=4, mlp_bias=False),
    "glm4_moe": Traits(output_bias=False, mlp_bias=False),
    "dots1": Traits(query_key_norm=QueryKeyNorm.PER_HEAD, mlp_bias=False),
    "phimoe": Traits(norm_bias=True, mlp_bias=False, windows=Windows.ALL),
    "granitemoe": Traits(tied=True, mlp_bias=False),
    "granitemoeshared": Traits(tied=True, mlp_bias=False),
    "arcee": Traits(gated=False),
    "internlm3": Traits(output_bias=None, mlp_bias=None),
    "mimo": Traits(qkv_bias=True, output_bias=False, mlp_bias=False, windows=Windows.LATE_IF_ENABLED),
    "mimo_v2_flash": Traits(qkv_bias=False, output_bias=False, mlp_bias=False),
    "nemotron_h": Traits(gated=False, norms=1),
    "nemotron-nas": _PLAIN,
}
"""Families by `model_type` of the (text) configuration."""
