"""What configurations of each model family leave unsaid, and families that no formula covers, refused by name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from capplan import specs
from capplan.errors import CapplanError
from capplan.llm.read.config.fields import Fields
from capplan.specs.strict_yaml import read_versioned

QueryKeyNorm = Literal["none", "per head", "all heads"]
"""Norms on queries and keys: one scale per element of a head, or one per element of all heads."""
Windows = Literal["none", "all", "all but every nth", "alternating", "from max_window_layers on, if use_sliding_window"]
"""Which layers use a sliding window where the configuration does not list them."""
KvHeads = Literal[
    "stated", "as many as query heads", "one where multi_query (true by default) holds, else as many as query heads"
]
"""How many key-value heads a layer has where the configuration's own field does not decide."""
LayerLayout = Literal[
    "a mixer and an MLP in each of num_hidden_layers",
    "a mixer or an MLP in each, as a pattern states",
    "sizes of every block",
]
"""How the configuration lays out its layers."""
MLP_WIDTHS = ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "dense_intermediate_size")
_FILE = Path(specs.__file__).with_name("model_families.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Facts of one family; None where the configuration states them.

    `norms` is the number of norms of width H per layer, each with a bias vector if `norm_bias`. `window_period` is
    the n of "all but every nth". `extra_positions` are rows of learned positions beyond the longest context.
    `defaults` are values of fields that published configurations leave out.

    `query_key_norm_default` is the value of `use_qk_norm` where it is not stated, None where norms do not depend on it.
    `parallel_flag` names the field, and its default, by which attention and MLP run side by side behind one norm.
    `mlp_widths` are the fields that may state the MLP's width. `sinks` says that heads have attention sinks,
    `expert_bias` that experts have biases, `plain_expert_width` that they are `intermediate_size` wide, `router_bias`
    that the router has a correction per expert and `image_router_bias` another for images, `one_shared_expert` that one
    expert as wide as the others is shared.
    `chunked` says that windows are blocks of `attention_chunk_size`, `local_rope` that local layers have a rotary
    table of their own. `layer_scalars` counts learned numbers per layer, `expert_norms` norms of layers with
    experts beyond the others'. `head_gate` says that attention has a gate per head, `mamba_beside` that it has a
    Mamba-2 layer beside it, `joins_streams` that residual streams are joined by learned weights, `full_rank_gates`
    that Kimi's delta attention projects its gates directly.
    `own_code` says that engines run code of the checkpoint's repository. `trained_positions` are those of the training
    by those that the configuration states, where they differ.
    """

    qkv_bias: bool | None = None
    output_bias: bool | None = None
    query_key_norm: QueryKeyNorm = "none"
    norms: int = 2
    norm_bias: bool = False
    gated: bool = True
    mlp_bias: bool | None = None
    tied: bool = False
    final_norm: bool = True
    extra_positions: int = 0
    head_bias: bool = False
    output_gate: bool = False
    windows: Windows = "none"
    window_period: int = 0
    learned_positions: bool = False
    rotary: bool = True
    layout: LayerLayout = "a mixer and an MLP in each of num_hidden_layers"
    kv_heads: KvHeads = "stated"
    query_key_norm_default: bool | None = None
    parallel_flag: tuple[str, bool] | None = None
    mlp_widths: tuple[str, ...] = MLP_WIDTHS
    sinks: bool = False
    expert_bias: bool = False
    plain_expert_width: bool = False
    router_bias: bool = False
    image_router_bias: bool = False
    one_shared_expert: bool = False
    chunked: bool = False
    local_rope: bool = False
    layer_scalars: int = 0
    expert_norms: int = 0
    head_gate: bool = False
    mamba_beside: bool = False
    joins_streams: bool = False
    full_rank_gates: bool = False
    own_code: bool = False
    trained_positions: Mapping[str, int] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)


_LISTS = ("mlp_widths", "parallel_flag")


@cache
def _tables() -> Mapping[str, Any]:
    return read_versioned(_FILE, what="a file of model families", version=1, shown=_FILE.name)


@cache
def families() -> Mapping[str, Traits]:
    """Return every family whose layers are known by `model_type`; a word in the file stands for another's traits."""
    stated = _tables()["families"]
    own: dict[str, dict[str, Any]] = {
        name: stated[traits] if isinstance(traits, str) else traits for name, traits in stated.items()
    }
    lists = [{key: tuple(traits[key]) for key in _LISTS if key in traits} for traits in own.values()]
    return {name: Traits(**(traits | read)) for (name, traits), read in zip(own.items(), lists, strict=True)}


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
    r"|scaling|scaling_factor|loss|norm|bias|bound|multipliers?|kernels|overlap|rope_interleave|renormalize)$"
)
"""Endings of such fields that change values but no size of a cache, a state or a matrix."""


class UnusualModelError(CapplanError):
    """A model with layers that no formula covers."""

    exit_code = 2


def refuse_unusual(fields: Fields) -> None:
    """Raise if the configuration has a kind of layer that no formula covers."""
    for name, meaning in _UNUSUAL:
        if fields.has(name):
            raise UnusualModelError(
                f"{fields.where}: {name} means {meaning}, which no memory formula here covers, so nothing is guessed; "
                "the header of a safetensors or GGUF file gives its exact weights alone."
            )


def refuse_unread(fields: Fields) -> tuple[str, ...]:
    """Raise if a field that describes layers was not read; return the others that were not.

    Returns:
        Names of fields that decide nothing here.
    """
    unread, decides_nothing = fields.unread(), _tables()["decides_nothing"]
    for name in unread:
        if _STRUCTURE.search(name) and not _NO_SIZE.search(name) and name not in decides_nothing:
            raise UnusualModelError(
                f"{fields.where}: {name} is not understood for the family {fields.word('model_type')}, and its name "
                "speaks of layers, windows, compression, states or experts, so nothing is guessed; the header of a "
                "safetensors or GGUF file gives its exact weights alone."
            )
    return unread
