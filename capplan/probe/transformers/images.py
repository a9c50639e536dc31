"""Make images and clips for transformers models, also as lists of patches with a grid of their places."""

import math
from collections.abc import Callable
from typing import Any

from capplan.core.trace.types import Affine
from capplan.probe.inputs.grammar import BATCH, InputRequest, InputSpec
from capplan.probe.inputs.tensors import image_spec, resized
from capplan.probe.transformers.architectures import architecture

_GRID_SIDE = 448
"""Height and width of an image where a model takes any. [pixels]"""

_CHANNELS = ("num_channels", "in_channels", "in_chans", "num_image_channels")


def channels_of(vision: Any) -> int:
    """Return the channels of the images that a part of a config describes."""
    return next((value for key in _CHANNELS if isinstance(value := getattr(vision, key, None), int)), 3)


def takes_grid(config: Any) -> bool:
    """Return True if a model takes images as a list of patches with a grid of their places."""
    if architecture(config.model_type).takes_patch_grid:
        return True
    vision = getattr(config, "vision_config", None)
    return vision is not None and hasattr(vision, "spatial_merge_size") and hasattr(vision, "temporal_patch_size")


def _vision_of_grid(config: Any) -> Any:
    return getattr(config, "vision_config", None) or config


def _merge(config: Any) -> int:
    """Return the patches per side that become one token."""
    vision = _vision_of_grid(config)
    for key in ("spatial_merge_size", "merge_size"):
        if isinstance(size := getattr(vision, key, None), int):
            return size
    kernel = getattr(vision, "merge_kernel_size", None)
    if kernel is not None:
        return int(kernel[0])
    ratio = getattr(config, "downsample_ratio", None)
    return 1 if ratio is None else round(1 / ratio)


def _grid(config: Any, request: InputRequest) -> tuple[int, int, int]:
    """Return frames, rows and columns of an image's patches."""
    vision, merge = _vision_of_grid(config), _merge(config)
    _, height, width = resized((3, _GRID_SIDE, _GRID_SIDE), request.size)
    merged = vision.patch_size * merge
    return 1, height // merged * merge, width // merged * merge


def grid_tokens(config: Any, request: InputRequest) -> int:
    """Return the number of tokens that stand for an image in a text."""
    (_, rows, columns), merge = _grid(config, request), _merge(config)
    if config.model_type == "hunyuan_vl":  # a line break per row, and a frame around
        return rows // merge * (columns // merge + 1) + 2
    return rows * columns // merge**2


def patches(config: Any, request: InputRequest, *, name: str) -> InputSpec:
    """Make the patches of a batch's images, in one list."""
    vision, merge = _vision_of_grid(config), _merge(config)
    _, rows, columns = _grid(config, request)
    channels, side = channels_of(vision), vision.patch_size
    if config.model_type == "inkling2":  # merged ones, channels last
        sides = Affine(side * merge)
        shape: tuple[Affine, ...] = (Affine(0, rows * columns // merge**2), sides, sides, Affine(channels))
    elif architecture(config.model_type).has_unfolded_patches:
        shape = (Affine(0, rows * columns), Affine(channels), Affine(side), Affine(side))
    else:
        frames = int(getattr(vision, "temporal_patch_size", None) or getattr(vision, "patch_temporal", None) or 1)
        shape = (Affine(0, rows * columns), Affine(channels * frames * side**2))
    return InputSpec(name=name, shape=shape)


def _padded_patches(config: Any, request: InputRequest) -> list[InputSpec]:
    """Make each image's patches in a row of their own, as colqwen2 takes them."""
    flat = patches(config, request, name="pixel_values")
    return [InputSpec(name=flat.name, shape=(BATCH, Affine(flat.shape[0].per_sample), *flat.shape[1:]))]


def _grid_spec(name: str) -> Callable[[Any, InputRequest], list[InputSpec]]:
    def make(config: Any, request: InputRequest) -> list[InputSpec]:
        if name == "image_grid_thw" and not takes_grid(config):
            return []
        frames, rows, columns = _grid(config, request)
        if config.model_type == "inkling2":
            rows, columns = rows // _merge(config), columns // _merge(config)
        row = (rows, columns) if name == "image_grid_hw" else (frames, rows, columns)
        return [InputSpec(name=name, dtype="int64", shape=(BATCH, Affine(len(row))), row=row)]

    return make


GRIDS: dict[str, Callable[[Any, InputRequest], list[InputSpec]]] = {
    "patches": lambda config, request: [patches(config, request, name="hidden_states")],
    "padded_patches": _padded_patches,
    "grid_thw": _grid_spec("grid_thw"),
    "image_grid_thw": _grid_spec("image_grid_thw"),
    "image_grid_hw": _grid_spec("image_grid_hw"),
    "image_merge_sizes": lambda config, _: [InputSpec(dtype="int64", shape=(BATCH,), row=(_merge(config),))],
}
"""What makes each input about patches, by the name of the forward's parameter."""


def vision_part(config: Any) -> Any:
    if config.model_type == "vision-encoder-decoder":
        return config.encoder
    if config.model_type == "t5gemma2":
        return config.encoder.vision_config
    if config.model_type == "pi0":
        return config.vlm_config.vision_config
    for key in ("vision_config", "encoder_config", "backbone_config", "vision", "vq_config"):
        part = getattr(config, key, None)
        if not isinstance(part, dict) and hasattr(part, "to_dict" if key == "vision" else "num_channels"):
            return part
    return config


def image_size(config: Any, request: InputRequest) -> tuple[int, ...]:
    """Return channels, height and width of an image; frames first for clips."""
    vision = vision_part(config)
    size = _stated_size(config) or architecture(config.model_type).image_side or _stated_size(vision) or 224
    side = (size, size) if isinstance(size, int) else tuple(size)[-2:]
    if config.model_type == "seggpt":  # the prompt's image lies above it
        side = (side[0] // 2, side[1])
    return resized((channels_of(vision), *side), request.size)


def _stated_size(part: Any) -> Any:
    """Return the image size that a part of a config states; None where it states none."""
    stated = (getattr(part, key, None) for key in _SIZES)
    return next((size for size in stated if isinstance(size, int | list | tuple) and size), None)


_SIZES = ("image_size", "img_size", "crop_size", "input_size", "max_img_size", "resolution")


def _pixel_values(config: Any, request: InputRequest) -> list[InputSpec]:
    declared = architecture(config.model_type)
    if takes_grid(config):
        return [patches(config, request, name="pixel_values")]
    if _is_packed(config):
        vision = vision_part(config)
        columns = Affine(channels_of(vision) * vision.patch_size**2)
        return [InputSpec(shape=(BATCH, Affine(vision.num_patches), columns))]
    if config.model_type == "inkling_mm_model":  # patches over time, channels last, in one list
        channels, height, width = image_size(config, request)
        side, frames = config.vision_config.patch_size, config.vision_config.temporal_patch_size
        count = (height // side) * (width // side)
        return [InputSpec(shape=(Affine(0, count), *map(Affine, (frames, side, side, channels))))]
    image = image_size(config, request)
    if declared.takes_clips:
        image = (*_frames(config), *image)
    elif declared.images is not None:
        image = (getattr(config, "num_frames", None) or declared.images, *image)
    return [image_spec(image)]


def _clips(config: Any, request: InputRequest) -> list[InputSpec]:
    return [image_spec((*_frames(config), *image_size(config, request)))]


def _frames(config: Any) -> tuple[int, ...]:
    vision = vision_part(config)
    keys = ("num_frames", "frames_per_clip")
    return (next((getattr(vision, key) for key in keys if isinstance(getattr(vision, key, None), int)), 16),)


def _image_sizes(config: Any, request: InputRequest) -> list[InputSpec]:
    """Return height and width of the whole image, if it comes in tiles or padded."""
    declared = architecture(config.model_type)
    if not declared.takes_image_sizes:
        return []
    _, height, width = image_size(config, request)
    tiles = 2 if declared.is_tiled else 1
    row = (tiles * height, tiles * width)
    return [InputSpec(dtype="int64", shape=(BATCH, Affine(2)), row=row)]


def _prompt(config: Any, request: InputRequest) -> list[InputSpec]:
    return [image_spec(image_size(config, request))]


def _high_resolution(config: Any, request: InputRequest) -> list[InputSpec]:
    side = config.high_res_vision_config.image_size
    return [image_spec(resized((3, side, side), request.size))]


def _document(_config: Any, request: InputRequest) -> list[InputSpec]:
    """Make the page's image, as layoutlmv2 takes it."""
    return [image_spec(resized((3, 224, 224), request.size))]


def _flattened(config: Any, _request: InputRequest) -> list[InputSpec]:
    """Make patches with their row and column first, as pix2struct takes them."""
    vision = config.vision_config
    columns = Affine(2 + vision.patch_embed_hidden_size)
    return [InputSpec(shape=(BATCH, Affine(vision.seq_len), columns))]


def _is_packed(config: Any) -> bool:
    """Return True if images come as rows of patches, together with their shapes and a mask."""
    return str(config.model_type).startswith(("siglip2", "lfm2_vl"))


def _patch_mask(config: Any, _request: InputRequest) -> list[InputSpec]:
    if config.model_type in ("granite_docling", "pi0"):  # one image each, and it is there
        return [InputSpec(dtype="bool", shape=(BATCH, Affine(1)))]
    if not _is_packed(config):
        return []
    count = Affine(vision_part(config).num_patches)
    return [InputSpec(dtype="int64", shape=(BATCH, count), row=(1,))]


def _patch_shapes(config: Any, _request: InputRequest) -> list[InputSpec]:
    side = math.isqrt(vision_part(config).num_patches)
    return [InputSpec(dtype="int64", shape=(BATCH, Affine(2)), row=(side, side))]


VISION: dict[str, Callable[[Any, InputRequest], list[InputSpec]]] = {
    "pixel_values": _pixel_values,
    "pixel_values_videos": _clips,
    **GRIDS,
    "image_sizes": _image_sizes,
    "pixel_attention_mask": _patch_mask,
    "spatial_shapes": _patch_shapes,
    "prompt_pixel_values": _prompt,
    "high_res_pixel_values": _high_resolution,
    "prompt_masks": _prompt,
    "image": _document,
    "flattened_patches": _flattened,
}
"""What makes each image input, by the name of the forward's parameter."""
