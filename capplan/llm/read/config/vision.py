"""Count the parameters of the image encoders of multimodal models, from their configuration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from capplan.llm.core.architecture import VisionTower
from capplan.llm.read.config.fields import Fields


def read_vision(root: Fields, *, hidden_dim: int) -> tuple[VisionTower | None, str | None]:
    """Return the image encoder with its projector, or a note where no formula covers it.

    Args:
        root: The whole configuration.
        hidden_dim: Width of the language model. [elements]
    """
    fields = root.object("vision_config")
    family = root.word("model_type") or ""
    if fields is None:
        classes = root.raw("architectures")
        multimodal = isinstance(classes, list) and any("ForConditionalGeneration" in str(each) for each in classes)
        return None, f"the image encoder of {family} is not in the configuration" if multimodal else None
    encoder = _ENCODERS.get(family)
    if encoder is None:
        return None, f"the image encoder of {family} is not counted"
    parameters = encoder.count(fields, hidden_dim)
    if encoder.projects_chosen_layers:
        layers = root.raw("vision_feature_layer")
        taken = len(layers) if isinstance(layers, list) else 1
        parameters += taken * fields.size("hidden_size") * hidden_dim
    parameters += hidden_dim if encoder.learns_line_end else 0
    hidden = fields.size(*encoder.width_fields)
    layer_count = fields.size("depth") if fields.raw("depth") else fields.size("num_hidden_layers")
    widths = _attention_widths(encoder.reach, fields, hidden=hidden, layer_count=layer_count)
    return VisionTower(kind=family, parameters=parameters, **widths), None


class _Reach(StrEnum):
    """How far the attention of an image encoder's layers reaches."""

    IMAGE = "the image"
    WINDOWS = "windows, except in the layers of fullatt_block_indexes"
    TILE = "a tile of image_size"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Encoder:
    """What one family's image encoder is: how its parameters are counted, and what else its code fixes.

    `width_fields` may state the width of layers. `projects_chosen_layers` says that the projector takes the layers of
    `vision_feature_layer` side by side, `learns_line_end` that it learns an end of line.
    """

    count: Callable[[Fields, int], int]
    reach: _Reach = _Reach.IMAGE
    width_fields: tuple[str, ...] = ("hidden_size",)
    projects_chosen_layers: bool = False
    learns_line_end: bool = False


def _attention_widths(reach: _Reach, fields: Fields, *, hidden: int, layer_count: int) -> dict[str, int]:
    """Return the widths of layers by how far their attention reaches."""
    match reach:
        case _Reach.IMAGE:
            return {"attention_width": layer_count * hidden}
        case _Reach.WINDOWS:
            whole = fields.raw("fullatt_block_indexes") or []
            side = fields.size("window_size", default=112) // fields.size("patch_size")
            return {
                "attention_width": len(whole) * hidden,
                "window_width": (layer_count - len(whole)) * hidden,
                "window_patches": side * side,
            }
        case _Reach.TILE:
            side = fields.size("image_size") // fields.size("patch_size")
            return {"window_width": layer_count * hidden, "window_patches": side * side}


def _encoder_block(hidden: int, width: int) -> int:
    """Return the parameters of one ViT block with biases: four projections, two MLP matrices, two layer norms."""
    return 4 * (hidden * hidden + hidden) + 2 * hidden * width + width + hidden + 4 * hidden


def _siglip(fields: Fields, hidden_dim: int) -> int:
    """Count SigLIP with Gemma 3's projector: patches with a bias, learned positions, a last layer norm."""
    hidden, layers = fields.size("hidden_size"), fields.size("num_hidden_layers")
    patch, side = fields.size("patch_size"), fields.size("image_size")
    patches = hidden * 3 * patch * patch + hidden
    positions = (side // patch) ** 2 * hidden
    blocks = layers * _encoder_block(hidden, fields.size("intermediate_size"))
    return patches + positions + blocks + 2 * hidden + hidden + hidden * hidden_dim


def _pixtral(fields: Fields, hidden_dim: int) -> int:
    """Count Pixtral with Mistral 3's projector: no biases, gated MLPs, RMS norms, patches merged two by two."""
    hidden, layers = fields.size("hidden_size"), fields.size("num_hidden_layers")
    width, patch = fields.size("intermediate_size"), fields.size("patch_size")
    blocks = layers * (4 * hidden * hidden + 3 * hidden * width + 2 * hidden)
    merger = 4 * hidden * hidden
    projector = hidden + merger + hidden * hidden_dim + hidden_dim * hidden_dim
    return hidden * 3 * patch * patch + hidden + blocks + projector


def _qwen_vl(fields: Fields, hidden_dim: int) -> int:
    """Count Qwen3-VL and Qwen3.5: learned positions, a merger of patches, one more for each deep-stack layer."""
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


def _llava(fields: Fields, hidden_dim: int) -> int:
    """Count CLIP or SigLIP of LLaVA with its projector, but for the matrix whose inputs are the chosen layers."""
    hidden, patch = fields.size("hidden_size"), fields.size("patch_size")
    side = fields.size("image_size") // patch
    blocks = fields.size("num_hidden_layers") * _encoder_block(hidden, fields.size("intermediate_size"))
    patches = hidden * 3 * patch * patch + hidden_dim * hidden_dim + 2 * hidden_dim
    if fields.word("model_type") == "clip_vision_model":
        return patches + hidden + (side * side + 1) * hidden + blocks + 4 * hidden
    return patches + hidden + side * side * hidden + blocks + 2 * hidden


def _qwen2_vl(fields: Fields, hidden_dim: int) -> int:
    """Count Qwen2-VL: no positions, a merger of 2 × 2 patches."""
    hidden, patch = fields.size("embed_dim"), fields.size("patch_size")
    times, channels = fields.size("temporal_patch_size", default=2), fields.size("in_channels", "in_chans", default=3)
    merged = hidden * fields.size("spatial_merge_size", default=2) ** 2
    blocks = fields.size("depth") * _encoder_block(hidden, hidden * fields.size("mlp_ratio", default=4))
    products = merged * merged + merged + merged * hidden_dim + hidden_dim
    return hidden * channels * times * patch * patch + blocks + 2 * hidden + products


def _qwen25_vl(fields: Fields, hidden_dim: int) -> int:
    """Count Qwen2.5-VL: RMS norms and gated MLPs with biases."""
    hidden, width, patch = fields.size("hidden_size"), fields.size("intermediate_size"), fields.size("patch_size")
    times, channels = fields.size("temporal_patch_size", default=2), fields.size("in_channels", "in_chans", default=3)
    merged = hidden * fields.size("spatial_merge_size", default=2) ** 2
    mlp = 3 * hidden * width + 2 * width + hidden
    blocks = fields.size("depth") * (4 * hidden * hidden + 4 * hidden + mlp + 2 * hidden)
    out = fields.size("out_hidden_size", default=hidden_dim)
    return hidden * channels * times * patch * patch + blocks + hidden + merged * merged + merged + merged * out + out


def _llama4(fields: Fields, hidden_dim: int) -> int:
    """Count Llama 4: a class token, an adapter of two matrices, and one projection."""
    hidden, patch = fields.size("hidden_size"), fields.size("patch_size")
    side = fields.size("image_size") // patch
    blocks = fields.size("num_hidden_layers") * _encoder_block(hidden, fields.size("intermediate_size"))
    inner, outer = fields.size("projector_input_dim"), fields.size("projector_output_dim")
    adapter = fields.size("intermediate_size") * inner + outer * outer
    ends = hidden + (side * side + 1) * hidden + 4 * hidden
    return hidden * 3 * patch * patch + blocks + ends + adapter + fields.size("vision_output_dim") * hidden_dim


_ENCODERS: Mapping[str, _Encoder] = {
    "llava": _Encoder(count=_llava, projects_chosen_layers=True),
    "llava_next": _Encoder(count=_llava, projects_chosen_layers=True, learns_line_end=True),
    "qwen2_vl": _Encoder(count=_qwen2_vl, width_fields=("embed_dim", "hidden_size")),
    "qwen2_5_vl": _Encoder(count=_qwen25_vl, reach=_Reach.WINDOWS),
    "llama4": _Encoder(count=_llama4, reach=_Reach.TILE),
    "gemma3": _Encoder(count=_siglip),
    "mistral3": _Encoder(count=_pixtral),
    "qwen3_vl": _Encoder(count=_qwen_vl),
    "qwen3_vl_moe": _Encoder(count=_qwen_vl),
    "qwen3_5": _Encoder(count=_qwen_vl),
    "qwen3_5_moe": _Encoder(count=_qwen_vl),
}
"""Image encoders by `model_type` of the whole configuration."""
