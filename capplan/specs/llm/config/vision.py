"""Count the parameters of the image encoders of multimodal models, from their configuration."""

from capplan.core.llm.architecture import VisionTower
from capplan.specs.llm.config.fields import Fields


def read_vision(root: Fields, *, hidden_dim: int) -> tuple[VisionTower | None, str | None]:
    """Return the image encoder with its projector, or a note where no formula covers it.

    Args:
        root: The whole configuration.
        hidden_dim: Width of the language model. [elements]
    """
    fields = root.object("vision_config")
    if fields is None:
        return None, None
    family = root.word("model_type") or ""
    count = _COUNTS.get(family)
    if count is None:
        return None, f"the image encoder of {family} is not counted"
    return VisionTower(kind=family, parameters=count(fields, hidden_dim)), None


def _encoder_block(hidden: int, width: int) -> int:
    """Return the parameters of one ViT block with biases: four projections, two MLP matrices, two layer norms."""
    return 4 * (hidden * hidden + hidden) + 2 * hidden * width + width + hidden + 4 * hidden


def _siglip(fields: Fields, hidden_dim: int) -> int:
    """SigLIP with Gemma 3's projector: patches with a bias, learned positions, a last layer norm."""
    hidden, layers = fields.size("hidden_size"), fields.size("num_hidden_layers")
    patch, side = fields.size("patch_size"), fields.size("image_size")
    patches = hidden * 3 * patch * patch + hidden
    positions = (side // patch) ** 2 * hidden
    blocks = layers * _encoder_block(hidden, fields.size("intermediate_size"))
    return patches + positions + blocks + 2 * hidden + hidden + hidden * hidden_dim


def _pixtral(fields: Fields, hidden_dim: int) -> int:
    """Pixtral with Mistral 3's projector: no biases, gated MLPs, RMS norms, patches merged two by two."""
    hidden, layers = fields.size("hidden_size"), fields.size("num_hidden_layers")
    width, patch = fields.size("intermediate_size"), fields.size("patch_size")
    blocks = layers * (4 * hidden * hidden + 3 * hidden * width + 2 * hidden)
    merger = 4 * hidden * hidden
    projector = hidden + merger + hidden * hidden_dim + hidden_dim * hidden_dim
    return hidden * 3 * patch * patch + hidden + blocks + projector


def _qwen_vl(fields: Fields, hidden_dim: int) -> int:
    """Qwen3-VL and Qwen3.5: learned positions, a merger of 2 × 2 patches, and one more for each deep-stack layer."""
    hidden, width = fields.size("hidden_size"), fields.size("intermediate_size")
    patch, merge = fields.size("patch_size"), fields.size("spatial_merge_size") ** 2
    times, channels = fields.size("temporal_patch_size"), fields.size("in_channels", default=3)
    out = fields.size("out_hidden_size", default=hidden_dim)
    patches = hidden * channels * times * patch * patch + hidden
    positions = fields.size("num_position_embeddings") * hidden
    blocks = fields.size("depth") * _encoder_block(hidden, width)
    merged = hidden * merge
    products = merged * merged + merged + merged * out + out
    deep = fields.raw("deepstack_visual_indexes") or []
    return patches + positions + blocks + (2 * hidden + products) + len(deep) * (2 * merged + products)


_COUNTS = {
    "gemma3": _siglip,
    "mistral3": _pixtral,
    "qwen3_vl": _qwen_vl,
    "qwen3_vl_moe": _qwen_vl,
    "qwen3_5": _qwen_vl,
    "qwen3_5_moe": _qwen_vl,
}
