"""Make images as lists of patches, together with a grid of their places."""

from collections.abc import Callable
from typing import Any

from capplan.core.trace.types import Affine
from capplan.probe.inputs.common import resized
from capplan.probe.inputs.grammar import BATCH, InputRequest, InputSpec
from capplan.probe.transformers.registry import architecture

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


def _frames_per_patch(vision: Any) -> int:
    return int(getattr(vision, "temporal_patch_size", None) or getattr(vision, "patch_temporal", None) or 1)


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
        shape = (Affine(0, rows * columns // merge**2), sides, sides, Affine(channels))
    elif architecture(config.model_type).has_unfolded_patches:
        shape = (Affine(0, rows * columns), Affine(channels), Affine(side), Affine(side))
    else:
        return InputSpec(
            name=name, shape=(Affine(0, rows * columns), Affine(channels * _frames_per_patch(vision) * side**2))
        )
    return InputSpec(name=name, shape=shape)


def padded_patches(config: Any, request: InputRequest) -> InputSpec:
    """Make each image's patches in a row of their own, as colqwen2 takes them."""
    flat = patches(config, request, name="pixel_values")
    return InputSpec(name="pixel_values", shape=(BATCH, Affine(flat.shape[0].per_sample), *flat.shape[1:]))


def _grid_row(config: Any, request: InputRequest) -> tuple[int, int, int]:
    frames, rows, columns = _grid(config, request)
    merge = _merge(config) if config.model_type == "inkling2" else 1
    return frames, rows // merge, columns // merge


def _grid_spec(name: str) -> Callable[[Any, InputRequest], list[InputSpec]]:
    def make(config: Any, request: InputRequest) -> list[InputSpec]:
        if name == "image_grid_thw" and not takes_grid(config):
            return []
        frames, rows, columns = _grid_row(config, request)
        row = (rows, columns) if name == "image_grid_hw" else (frames, rows, columns)
        return [InputSpec(name=name, dtype="int64", shape=(BATCH, Affine(len(row))), row=row)]

    return make


GRIDS: dict[str, Callable[[Any, InputRequest], list[InputSpec]]] = {
    "patches": lambda config, request: [patches(config, request, name="hidden_states")],
    "padded_patches": lambda config, request: [padded_patches(config, request)],
    "grid_thw": _grid_spec("grid_thw"),
    "image_grid_thw": _grid_spec("image_grid_thw"),
    "image_grid_hw": _grid_spec("image_grid_hw"),
    "image_merge_sizes": lambda config, _: [
        InputSpec(name="image_merge_sizes", dtype="int64", shape=(BATCH,), row=(_merge(config),))
    ],
}
"""What makes each input about patches, by the name of the forward's parameter."""
