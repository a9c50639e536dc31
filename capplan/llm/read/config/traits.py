"""What configurations of each model family leave unsaid, and families that no formula covers, refused by name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from capplan.errors import CapplanError
from capplan.llm.read.config.fields import Fields


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


class KvHeads(StrEnum):
    """How many key-value heads a layer has where the configuration's own field does not decide."""

    STATED = "stated"
    ALL = "as many as query heads"
    ONE_IF_MULTI_QUERY = "one where multi_query (true by default) holds, else as many as query heads"


class LayerLayout(StrEnum):
    """How the configuration lays out its layers."""

    UNIFORM = "a mixer and an MLP in each of num_hidden_layers"
    PATTERN = "a mixer or an MLP in each, as a pattern states"
    BLOCKS = "sizes of every block"


MLP_WIDTHS = ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "dense_intermediate_size")
_OWN_MLP_WIDTHS = ("ffn_hidden_size", "n_inner")
"""Where other fields that such a configuration states are not read by its model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Facts of one family; None where the configuration states them.

    `norms` is the number of norms of width H per layer, each with a bias vector if `norm_bias`. `window_period` is
    the n of `Windows.ALL_BUT_EVERY_NTH`. `extra_positions` are rows of learned positions beyond the longest context.
    `defaults` are values of fields that published configurations leave out.

    `query_key_norm_default` is the value of `use_qk_norm` where it is not stated, None where norms do not depend on it.
    `parallel_flag` names the field, and its default, by which attention and MLP run side by side behind one norm.
    `mlp_widths` are the fields that may state the MLP's width. `sinks` says that heads have attention sinks,
    `expert_bias` that experts have biases, `plain_expert_width` that they are `intermediate_size` wide, `router_bias`
    that the router has a correction per expert, `one_shared_expert` that one expert as wide as the others is shared.
    `chunked` says that windows are blocks of `attention_chunk_size`, `local_rope` that local layers have a rotary
    table of their own. `layer_scalars` counts learned numbers per layer, `expert_norms` norms of layers with
    experts beyond the others'. `head_gate` says that latent attention has a
    gate per head, `joins_streams` that residual streams are joined by learned weights, `full_rank_gates` that Kimi's
    delta attention projects its gates directly.
    `own_code` says that engines run code of the checkpoint's repository: vLLM's tests (tests/models/registry.py at
    0008d35, read 2026-11-27) load the family so, and transformers 5.23 has no class of it.
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
    layout: LayerLayout = LayerLayout.UNIFORM
    kv_heads: KvHeads = KvHeads.STATED
    query_key_norm_default: bool | None = None
    parallel_flag: tuple[str, bool] | None = None
    mlp_widths: tuple[str, ...] = MLP_WIDTHS
    sinks: bool = False
    expert_bias: bool = False
    plain_expert_width: bool = False
    router_bias: bool = False
    one_shared_expert: bool = False
    chunked: bool = False
    local_rope: bool = False
    layer_scalars: int = 0
    expert_norms: int = 0
    head_gate: bool = False
    joins_streams: bool = False
    full_rank_gates: bool = False
    own_code: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)


_PLAIN = Traits(qkv_bias=False, output_bias=False, mlp_bias=False)
_LLAMA = Traits()
_QWEN2 = Traits(qkv_bias=True, output_bias=False, mlp_bias=False, windows=Windows.LATE_IF_ENABLED)
_QWEN3 = Traits(query_key_norm=QueryKeyNorm.PER_HEAD, mlp_bias=False, windows=Windows.LATE_IF_ENABLED)
_QWEN35 = Traits(
    query_key_norm=QueryKeyNorm.PER_HEAD, mlp_bias=False, output_gate=True, defaults={"full_attention_interval": 4}
)
_GEMMA3 = Traits(
    local_rope=True, query_key_norm=QueryKeyNorm.PER_HEAD, norms=4, mlp_bias=False, tied=True,
    windows=Windows.ALL_BUT_EVERY_NTH, window_period=6,
    defaults={
        "vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "max_position_embeddings": 131072,
    },
)  # fmt: skip
_GEMMA4 = Traits(
    query_key_norm=QueryKeyNorm.PER_HEAD, norms=4, mlp_bias=False, tied=True, local_rope=True, layer_scalars=1,
)  # fmt: skip
_MINIMAX_M3 = Traits(
    qkv_bias=False, output_bias=False, mlp_bias=False, query_key_norm=QueryKeyNorm.PER_HEAD, plain_expert_width=True,
    router_bias=True, mlp_widths=("dense_intermediate_size", *MLP_WIDTHS),
)  # fmt: skip
_LATENT = Traits(mlp_bias=False)

_GPT2 = Traits(
    mlp_widths=_OWN_MLP_WIDTHS, qkv_bias=True, output_bias=True, norm_bias=True, gated=False, mlp_bias=True, tied=True,
    learned_positions=True, rotary=False,
)  # fmt: skip

TRAITS: Mapping[str, Traits] = {
    "llama": _LLAMA,
    "mistral": Traits(qkv_bias=False, output_bias=False, mlp_bias=False, windows=Windows.ALL),
    "mixtral": Traits(qkv_bias=False, output_bias=False, mlp_bias=False, windows=Windows.ALL, plain_expert_width=True),
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
    "qwen3_omni_moe_text": _QWEN3,
    "qwen3_next": _QWEN35,
    "qwen3_5_text": _QWEN35,
    "qwen3_5_moe_text": _QWEN35,
    "gemma": Traits(tied=True, mlp_bias=False, defaults={"head_dim": 256}),
    "gemma2": Traits(tied=True, norms=4, mlp_bias=False, windows=Windows.ALTERNATING, defaults={"head_dim": 256}),
    "gemma3_text": _GEMMA3,
    "gemma4_text": _GEMMA4,
    "gemma4_unified_text": _GEMMA4,
    "phi": Traits(qkv_bias=True, output_bias=True, norms=1, norm_bias=True, gated=False, mlp_bias=True, head_bias=True),
    "phi3": Traits(qkv_bias=False, output_bias=False, mlp_bias=False, windows=Windows.ALL),
    "gptj": Traits(
        qkv_bias=False, output_bias=False, norms=1, norm_bias=True, gated=False, mlp_bias=True, head_bias=True,
        kv_heads=KvHeads.ALL, mlp_widths=_OWN_MLP_WIDTHS,
    ),
    "falcon": Traits(
        norms=2, norm_bias=True, gated=False, tied=True, defaults={"max_position_embeddings": 2048},
        kv_heads=KvHeads.ONE_IF_MULTI_QUERY, mlp_widths=_OWN_MLP_WIDTHS, parallel_flag=("parallel_attn", True),
    ),
    "gpt_oss": Traits(
        windows=Windows.ALTERNATING, defaults={"attention_bias": True, "sliding_window": 128}, plain_expert_width=True,
        router_bias=True, sinks=True, expert_bias=True,
    ),
    "deepseek_v2": _LATENT,
    "deepseek_v3": replace(_LATENT, router_bias=True),
    "deepseek_v32": replace(_LATENT, router_bias=True),
    "deepseek_ref": replace(_LATENT, router_bias=True),
    "kimi_k2": replace(_LATENT, router_bias=True, own_code=True),
    "glm_moe_dsa": replace(_LATENT, router_bias=True),
    "glm4_moe_lite": replace(_LATENT, router_bias=True),
    "axk1": replace(_LATENT, expert_norms=1, router_bias=True),
    "mistral4": _LATENT,
    "youtu": replace(_LATENT, tied=True),
    "deepseek_v4": replace(_LATENT, router_bias=True, joins_streams=True),
    "glm5_next_text": replace(_LATENT, router_bias=True),
    "kimi_linear": replace(_LATENT, router_bias=True),
    "bailing_hybrid": replace(_LATENT, router_bias=True, head_gate=True, full_rank_gates=True),
    "llama4_text": Traits(
        windows=Windows.ALL_BUT_EVERY_NTH, window_period=4, plain_expert_width=True, chunked=True,
        one_shared_expert=True, mlp_widths=("intermediate_size_mlp", *MLP_WIDTHS),
    ),
    "minimax_m2": Traits(
        qkv_bias=False, output_bias=False, mlp_bias=False, query_key_norm=QueryKeyNorm.ALL_HEADS,
        plain_expert_width=True, router_bias=True, query_key_norm_default=True,
    ),
    "minimax_m3": _MINIMAX_M3,
    "minimax_m3_vl_text": _MINIMAX_M3,
    "olmo": Traits(norms=0, final_norm=False, mlp_bias=False),
    "olmo2": Traits(query_key_norm=QueryKeyNorm.ALL_HEADS, mlp_bias=False),
    "olmo3": Traits(query_key_norm=QueryKeyNorm.ALL_HEADS, mlp_bias=False),
    "olmoe": Traits(query_key_norm=QueryKeyNorm.ALL_HEADS, mlp_bias=False, plain_expert_width=True),
    "starcoder2": Traits(norm_bias=True, gated=False, tied=True, windows=Windows.ALL, defaults={"use_bias": True}),
    "stablelm": Traits(
        output_bias=False, mlp_bias=False, norm_bias=True, parallel_flag=("use_parallel_residual", False),
    ),
    "cohere": Traits(
        norms=1, tied=True, mlp_bias=False, query_key_norm=QueryKeyNorm.ALL_HEADS, query_key_norm_default=False,
    ),
    "cohere2": Traits(norms=1, tied=True, mlp_bias=False, windows=Windows.ALL_BUT_EVERY_NTH, window_period=4),
    "cohere2_moe": Traits(
        norms=1, tied=True, mlp_bias=False, plain_expert_width=True, windows=Windows.ALL_BUT_EVERY_NTH, window_period=4,
        mlp_widths=("prefix_dense_intermediate_size", *MLP_WIDTHS),
    ),
    "gpt2": replace(_GPT2, kv_heads=KvHeads.ALL),
    "gpt_bigcode": replace(_GPT2, kv_heads=KvHeads.ONE_IF_MULTI_QUERY),
    "gpt_neox": Traits(
        norm_bias=True, gated=False, mlp_bias=True, defaults={"attention_bias": True}, kv_heads=KvHeads.ALL,
    ),
    "opt": Traits(
        qkv_bias=True, output_bias=True, norm_bias=True, gated=False, mlp_bias=True, tied=True, learned_positions=True,
        extra_positions=2, rotary=False, kv_heads=KvHeads.ALL, mlp_widths=("ffn_dim",),
    ),
    "exaone4": Traits(
        qkv_bias=False, output_bias=False, query_key_norm=QueryKeyNorm.PER_HEAD, mlp_bias=False,
        windows=Windows.ALL_BUT_EVERY_NTH, window_period=4,
    ),
    "seed_oss": Traits(output_bias=False, mlp_bias=False, defaults={"attention_bias": True}),
    "ernie4_5": Traits(tied=True),
    "ernie4_5_moe": Traits(tied=True, router_bias=True),
    "hunyuan_v1_dense": Traits(query_key_norm=QueryKeyNorm.PER_HEAD, mlp_bias=False),
    "hy_v3": Traits(query_key_norm=QueryKeyNorm.PER_HEAD, router_bias=True),
    "apertus": Traits(query_key_norm=QueryKeyNorm.PER_HEAD, gated=False, mlp_bias=False, layer_scalars=2),
    "cwm": _PLAIN,
    "helium": Traits(output_bias=False),
    "jais2": Traits(norm_bias=True, gated=False),
    "vaultgemma": Traits(tied=True, mlp_bias=False, windows=Windows.ALTERNATING, defaults={"head_dim": 256}),
    "smollm3": _LLAMA,
    "nemotron": Traits(norm_bias=True, gated=False),
    "glm": Traits(output_bias=False, mlp_bias=False, defaults={"attention_bias": True}),
    "glm4": Traits(output_bias=False, norms=4, mlp_bias=False),
    "glm4_moe": Traits(
        output_bias=False, mlp_bias=False, router_bias=True, query_key_norm=QueryKeyNorm.PER_HEAD,
        query_key_norm_default=False,
    ),
    "solar_open": Traits(output_bias=False, mlp_bias=False, router_bias=True),
    "exaone_moe": Traits(
        qkv_bias=False, output_bias=False, mlp_bias=False, query_key_norm=QueryKeyNorm.PER_HEAD, router_bias=True,
        windows=Windows.ALL_BUT_EVERY_NTH, window_period=4,
    ),
    "afmoe": Traits(
        output_bias=False, mlp_bias=False, query_key_norm=QueryKeyNorm.PER_HEAD, norms=4, output_gate=True,
        router_bias=True, windows=Windows.ALL_BUT_EVERY_NTH, window_period=4,
    ),
    "mellum": Traits(output_bias=False, mlp_bias=False, query_key_norm=QueryKeyNorm.PER_HEAD),
    "dots1": Traits(query_key_norm=QueryKeyNorm.PER_HEAD, mlp_bias=False, router_bias=True),
    "phimoe": Traits(norm_bias=True, mlp_bias=False, windows=Windows.ALL, plain_expert_width=True),
    "granitemoe": Traits(tied=True, mlp_bias=False, plain_expert_width=True),
    "granitemoeshared": Traits(tied=True, mlp_bias=False, plain_expert_width=True),
    "granitemoehybrid": Traits(
        tied=True, mlp_bias=False, plain_expert_width=True, mlp_widths=("shared_intermediate_size", *MLP_WIDTHS),
    ),
    "flex_olmo": Traits(query_key_norm=QueryKeyNorm.ALL_HEADS, mlp_bias=False, plain_expert_width=True),
    "arcee": Traits(gated=False),
    "internlm3": Traits(output_bias=None, mlp_bias=None),
    "mimo": replace(_QWEN2, own_code=True),
    "mimo_v2_flash": Traits(qkv_bias=False, output_bias=False, mlp_bias=False, router_bias=True),
    "nemotron_h": Traits(
        gated=False, norms=1, router_bias=True, layout=LayerLayout.PATTERN, defaults={"mamba_ssm_cache_dtype":
        "float32"},
    ),
    "nemotron-nas": replace(_PLAIN, layout=LayerLayout.BLOCKS, own_code=True),
}  # fmt: skip
"""Families by `model_type` of the (text) configuration; the default of nemotron_h is that of vLLM 0.33's
NemotronHForCausalLMConfig."""


_UNUSUAL = (
    ("use_sparse_attention", "block-sparse attention with its own index"),
    ("altup_num_inputs", "alternating updates (AltUp)"),
    ("ssm_cfg", "Mamba-1 layers"),
    ("cross_attention_layers", "cross-attention to images"),
    ("is_encoder_decoder", "an encoder in addition to the decoder"),
    ("lightning_attention", "lightning attention"),
)


_STRUCTURE = re.compile(
    r"pattern|interval|layer_types|layers_block|block_type|_(freq|period)$|window|sliding|chunk|^swa_|compress|lora_rank"
    r"|latent|kv_shar|^index_|expert|^moe_|^ssm_|^mamba_|^linear_|^conv_|recurrent|^lru_|cross_attention"
    r"|attn_type|attention_type|sparse|hybrid|state_size"
)
"""Words of fields that describe a pattern of layers, a window, a compression, a state or experts."""
_NO_SIZE = re.compile(
    r"(eps|epsilon|dtype|act|act_fn|activation|activation_func|theta|dropout|coef|alpha|beta|std|noise|jitter"
    r"|scaling|scaling_factor|loss|norm|bias|bound|kernels|overlap|rope_interleave|renormalize)$"
)
"""Endings of such fields that change values but no size of a cache, a state or a matrix."""
_NOTHING_HERE = {
    "no_rope_layer_interval": "which layers have a rotary embedding", "chunk_size": "the block of Mamba's kernel",
    "mamba_chunk_size": "the block of Mamba's kernel", "mamba_expand": "with the heads and their width",
    "chunk_size_feed_forward": "splits the work of an MLP",
    "index_share_for_mtp_iteration": "drafts of speculation",
    "index_skip_topk_offset": "with indexer_types, which lists the layers",
    "mtp_hybrid_override_pattern": "layers that draft", "mtp_layers_block_type": "layers that draft",
    "moe_token_drop_policy": "training", "moe_capacity_factor": "training", "expert_capacity": "training",
    "moe_group_limited": "which experts may be chosen", "num_expert_group": "which experts may be chosen",
    "moe_router_use_sigmoid": "how experts are scored", "use_moe_router_bias": "counted by family",
    "moe_k_group": "which experts may be chosen", "expert_selection_fn": "how experts are scored",
    "shared_expert_combination_strategy": "how outputs are added", "moe_norm_min": "how experts are scored",
    "use_grouped_topk": "which experts may be chosen",
}  # fmt: skip
"""Fields with such words that decide nothing of what is computed here, and what they are about."""


class UnusualModelError(CapplanError):
    """A model with layers that no formula covers."""

    exit_code = 2


def refuse_unusual(fields: Fields) -> None:
    """Raise if the configuration has a kind of layer that no formula covers.

    Raises:
        UnusualModelError: Names the field and what it stands for.
    """
    for name, meaning in _UNUSUAL:
        if fields.has(name):
            raise UnusualModelError(
                f"{fields.where}: {name} means {meaning}, which no memory formula here covers, so nothing is guessed; "
                "the header of a safetensors or GGUF file gives its exact weights alone."
            )


def refuse_unread(fields: Fields) -> tuple[str, ...]:
    """Raise if a field that describes layers was not read; return the others that were not.

    Args:
        fields: The (text) configuration, after everything has been read that is known.

    Returns:
        Names of fields that decide nothing here.

    Raises:
        UnusualModelError: Names the field.
    """
    unread = fields.unread()
    for name in unread:
        if _STRUCTURE.search(name) and not _NO_SIZE.search(name) and name not in _NOTHING_HERE:
            raise UnusualModelError(
                f"{fields.where}: {name} is not understood for the family {fields.word('model_type')}, and its name "
                "speaks of layers, windows, compression, states or experts, so nothing is guessed; the header of a "
                "safetensors or GGUF file gives its exact weights alone."
            )
    return unread
