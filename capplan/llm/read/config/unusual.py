"""Refuse models whose layers no formula covers, by name, because a guess would be silently wrong."""

import re

from capplan.errors import CapplanError
from capplan.llm.read.config.fields import Fields

_UNUSUAL = (
    ("compress_ratios", "compressed attention with a changing ratio per layer"),
    ("hc_mult", "hyper-connections"),
    ("o_lora_rank", "a factored attention output"),
    ("sparse_attention_config", "block-sparse attention with its own index"),
    ("use_sparse_attention", "block-sparse attention with its own index"),
    ("linear_attn_config", "Kimi delta attention (KDA)"),
    ("routed_expert_hidden_size", "experts on a latent state of their own width"),
    ("hidden_size_per_layer_input", "embeddings per layer"),
    ("altup_num_inputs", "alternating updates (AltUp)"),
    ("ssm_cfg", "Mamba-1 layers"),
    ("cross_attention_layers", "cross-attention to images"),
    ("is_encoder_decoder", "an encoder in addition to the decoder"),
    ("lightning_attention", "lightning attention"),
    ("use_double_wide_mlp", "MLPs of double width in layers that share a cache"),
)


_STRUCTURE = re.compile(
    r"pattern|interval|layer_types|layers_block|block_type|_(freq|period)$|window|sliding|chunk|^swa_|compress|lora_rank"
    r"|latent|kv_shar|^index_|expert|^moe_|^ssm_|^mamba_|^linear_|^conv_|recurrent|^lru_|cross_attention"
    r"|attn_type|attention_type|sparse|hybrid|state_size"
)
"""Words of fields that describe a pattern of layers, a window, a compression, a state or experts."""
_NO_SIZE = re.compile(
    r"(eps|epsilon|dtype|act|act_fn|activation|activation_func|theta|dropout|coef|alpha|beta|std|noise|jitter"
    r"|scaling|scaling_factor|loss|norm|bias|kernels|overlap|rope_interleave|renormalize)$"
)
"""Endings of such fields that change values but no size of a cache, a state or a matrix."""
_NOTHING_HERE = {
    "no_rope_layer_interval": "which layers have a rotary embedding",
    "chunk_size": "the block of Mamba's kernel",
    "mamba_chunk_size": "the block of Mamba's kernel",
    "chunk_size_feed_forward": "splits the work of an MLP",
    "index_share_for_mtp_iteration": "drafts of speculation",
    "index_skip_topk_offset": "with indexer_types, which lists the layers",
    "mtp_hybrid_override_pattern": "layers that draft",
    "mtp_layers_block_type": "layers that draft",
    "moe_token_drop_policy": "training",
    "moe_capacity_factor": "training",
    "expert_capacity": "training",
    "moe_group_limited": "which experts may be chosen",
    "num_expert_group": "which experts may be chosen",
    "moe_router_use_sigmoid": "how experts are scored",
    "use_moe_router_bias": "counted by family",
    "moe_k_group": "which experts may be chosen",
}
"""Fields with such words that decide nothing of what is computed here, and what they are about."""


class UnusualModelError(CapplanError):
    """A model with layers that no formula covers."""

    exit_code = 2


def refuse_unusual(fields: Fields) -> None:
    """Raise if the configuration has a kind of layer that no formula covers.

    Args:
        fields: The (text) configuration.

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
