"""Images and clips that transformers models are fed, and the tokens that stand for them in a text."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from capplan.core.affine import Affine
from capplan.probe.inputs import BATCH, InputRequest, InputSpec
from capplan.probe.inputs_vision_grid import GRIDS, channels_of, grid_tokens, patches, takes_grid
from capplan.probe.zoo import image_spec, resized

_VIDEO_KINDS = ("videomae", "vivit", "timesformer", "vjepa2", "videoprism_vision_model", "videoprism", "xclip")


def vision_part(config: Any) -> Any:
    """The part of a config that describes images."""
    if config.model_type == "vision-encoder-decoder":
        return config.encoder
    for key in ("vision_config", "encoder_config", "backbone_config", "vision", "vq_config"):
        part = getattr(config, key, None)
        if (
            part is not None
            and not isinstance(part, dict)
            and hasattr(part, "num_channels" if key != "vision" else "to_dict")
        ):
            return part
    return config


def image_size(config: Any, request: InputRequest) -> tuple[int, ...]:
    """Channels, height and width of an image; frames first for clips."""
    vision = vision_part(config)
    size = _stated_size(config) or _DEFAULT_SIDES.get(config.model_type) or _stated_size(vision) or 224
    side = (size, size) if isinstance(size, int) else tuple(size)[-2:]
    return resized((channels_of(vision), *side), request.size)


def _stated_size(part: Any) -> Any:
    """The image size that a part of a config states; None where it states none."""
    stated = (getattr(part, key, None) for key in _SIZES)
    return next((size for size in stated if isinstance(size, int | list | tuple) and size), None)


_SIZES = ("image_size", "img_size", "crop_size", "input_size")
_DEFAULT_SIDES = {
    "detr": 800, "conditional_detr": 800, "deformable_detr": 800, "table-transformer": 800, "dab-detr": 800,
    "grounding-dino": 800, "mm-grounding-dino": 800, "rt_detr": 640, "rt_detr_v2": 640, "d_fine": 640,
    "depth_pro": 1536, "mask2former": 384, "maskformer": 384, "oneformer": 512, "segformer": 512, "glpn": 480,
    "omdet-turbo": 640, "deimv2": 640, "rf_detr": 560, "lw_detr": 640, "superpoint": 480, "uvdoc": 512,
    "efficientloftr": 480, "lightglue": 480, "superglue": 480, "edgetam": 1024, "edgetam_vision_model": 1024,
    "sam2": 1024, "sam2_vision_model": 1024, "sam3": 1008, "sam3_tracker": 1008, "upernet": 512, "vitmatte": 512,
}  # fmt: skip
"""Sides of square images by architecture whose config names none: their image processors' usual sizes. [pixels]"""


def _pixel_values(config: Any, request: InputRequest) -> list[InputSpec]:
    kind = config.model_type
    if takes_grid(config):
        return [patches(config, request, name="pixel_values")]
    if _is_packed(config):
        vision = vision_part(config)
        columns = Affine(channels_of(vision) * vision.patch_size**2)
        return [InputSpec(name="pixel_values", shape=(BATCH, Affine(vision.num_patches), columns))]
    image = image_size(config, request)
    if kind in _VIDEO_KINDS:
        image = (*_frames(config), *image)
    elif kind in _MANY_IMAGES:
        image = (_MANY_IMAGES[kind], *image)
    return [image_spec(image, name="pixel_values")]


_MANY_IMAGES = {"idefics": 1, "idefics2": 1, "idefics3": 1, "smolvlm": 1, "modernvbert": 1, "colmodernvbert": 1,
                "efficientloftr": 2, "lightglue": 2, "superglue": 2}  # fmt: skip
"""Architectures that take several images per sample, and how many here."""


def _clips(config: Any, request: InputRequest) -> list[InputSpec]:
    return [image_spec((*_frames(config), *image_size(config, request)), name="pixel_values_videos")]


def _frames(config: Any) -> tuple[int, ...]:
    vision = vision_part(config)
    keys = ("num_frames", "frames_per_clip")
    return (next((getattr(vision, key) for key in keys if isinstance(getattr(vision, key, None), int)), 16),)


def multimodal(config: Any, parameters: Mapping[str, Any]) -> bool:
    """Tell whether a model replaces placeholder tokens of its text by an image's features."""
    return "pixel_values" in parameters and "input_ids" in parameters and _placeholder(config) is not None


def _placeholder(config: Any) -> int | None:
    for key in ("image_token_id", "image_token_index", "img_context_token_id", "image_soft_token_id"):
        if isinstance(token := getattr(config, key, None), int):
            return token
    return None


def image_tokens(config: Any, request: InputRequest) -> tuple[int, int]:
    """The placeholder token and how many of them stand for one image; 0 of them where there are none."""
    placeholder = _placeholder(config)
    if placeholder is None or not hasattr(config, "vision_config"):
        return 0, 0
    if takes_grid(config):
        return placeholder, grid_tokens(config, request)
    count = _TOKENS.get(config.model_type, _patch_count)
    return placeholder, count(config, request)


def _patch_count(config: Any, request: InputRequest) -> int:
    vision = config.vision_config
    _, height, width = image_size(config, request)
    patch = vision.patch_size
    patch_height, patch_width = (patch, patch) if isinstance(patch, int) else patch
    return (height // patch_height) * (width // patch_width)


def _shuffled(config: Any, request: InputRequest) -> int:
    """Patches merged by a pixel shuffle."""
    factor = next(
        getattr(config, key)
        for key in ("scale_factor", "downsample_factor", "pixel_shuffle_factor", "spatial_merge_size")
        if getattr(config, key, None)
    )
    return _patch_count(config, request) // int(factor) ** 2


def _sixteenth(config: Any, request: InputRequest) -> int:
    """Patches halved twice per side by convolutions."""
    return _patch_count(config, request) // 16


def _internvl(config: Any, request: InputRequest) -> int:
    return int(_patch_count(config, request) * config.downsample_ratio**2)


_TOKENS: dict[str, Callable[[Any, InputRequest], int]] = {
    "gemma3": lambda config, _: int(config.mm_tokens_per_image),
    "shieldgemma2": lambda config, _: int(config.mm_tokens_per_image),
    "idefics2": lambda config, _: int(config.perceiver_config.resampler_n_latents),
    "idefics3": _shuffled,
    "smolvlm": _shuffled,
    "modernvbert": lambda config, request: _patch_count(config, request) // config.pixel_shuffle_factor**2,
    "aya_vision": _shuffled,
    "cohere2_vision": _shuffled,
    "mistral3": _shuffled,
    "internvl": _internvl,
    "qianfan_ocr": _internvl,
    "got_ocr2": _sixteenth,
    "pp_chart2table": _sixteenth,
    "step3p7": _sixteenth,
    "lighton_ocr": _shuffled,
    "mistral_large4": _shuffled,
    "llava": lambda config, request: _patch_count(config, request) + (config.vision_feature_select_strategy == "full"),
    "janus": _patch_count,
    "aria": lambda config, request: int(config.projector_patch_to_query_dict[_patch_count(config, request)]),
}
"""How many tokens stand for an image, by architecture; the vision part's patches elsewhere."""


def _image_sizes(config: Any, request: InputRequest) -> list[InputSpec]:
    if config.model_type not in ("mistral3", "lighton_ocr", "mistral_large4"):
        return []
    _, height, width = image_size(config, request)
    return [InputSpec(name="image_sizes", dtype="int64", shape=(BATCH, Affine(2)), row=(height, width))]


def _prompt(name: str) -> Callable[[Any, InputRequest], list[InputSpec]]:
    return lambda config, request: [image_spec(image_size(config, request), name=name)]


def _document(_config: Any, request: InputRequest) -> list[InputSpec]:
    """layoutlmv2: the page's image."""
    return [image_spec(resized((3, 224, 224), request.size), name="image")]


def _flattened(config: Any, _request: InputRequest) -> list[InputSpec]:
    """pix2struct: patches with their row and column first."""
    vision = config.vision_config
    columns = Affine(2 + vision.patch_embed_hidden_size)
    return [InputSpec(name="flattened_patches", shape=(BATCH, Affine(vision.seq_len), columns))]


def _is_packed(config: Any) -> bool:
    """Tell whether images come as rows of patches, with their shapes and a mask beside."""
    return str(config.model_type).startswith("siglip2")


def _patch_mask(config: Any, _request: InputRequest) -> list[InputSpec]:
    if not _is_packed(config):
        return []
    count = Affine(vision_part(config).num_patches)
    return [InputSpec(name="pixel_attention_mask", dtype="int64", shape=(BATCH, count), row=(1,))]


def _patch_shapes(config: Any, _request: InputRequest) -> list[InputSpec]:
    side = math.isqrt(vision_part(config).num_patches)
    return [InputSpec(name="spatial_shapes", dtype="int64", shape=(BATCH, Affine(2)), row=(side, side))]


VISION: dict[str, Callable[[Any, InputRequest], list[InputSpec]]] = {
    "pixel_values": _pixel_values,
    "pixel_values_videos": _clips,
    **GRIDS,
    "image_sizes": _image_sizes,
    "pixel_attention_mask": _patch_mask,
    "spatial_shapes": _patch_shapes,
    "prompt_pixel_values": _prompt("prompt_pixel_values"),
    "prompt_masks": _prompt("prompt_masks"),
    "image": _document,
    "flattened_patches": _flattened,
}
"""What makes each image input, by the name of the forward's parameter."""
