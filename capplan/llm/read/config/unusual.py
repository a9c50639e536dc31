"""Refuse models whose layers no formula covers, by name, because a guess would be silently wrong."""

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
