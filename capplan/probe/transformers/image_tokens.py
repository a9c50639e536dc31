"""Ways in which architectures turn an image into tokens of a text."""

from typing import Any

from capplan.probe.transformers.architecture import Image, TokenCount


def patch_count(_config: Any, image: Image) -> int:
    """Count one token per patch."""
    return image.patches


def one_in(number: int) -> TokenCount:
    """Count one token for so many patches."""
    return lambda _config, image: image.patches // number


def one_per_square(*, step: int, line_break: int = 0, beside: int = 0) -> TokenCount:
    """Count one token per square of `step` pixels, `line_break` more per row of squares and `beside` for the image."""
    return lambda _config, image: (image.height // step) * (image.width // step + line_break) + beside


def pixel_shuffled(config: Any, image: Image) -> int:
    """Count patches merged by a pixel shuffle, whose factor the config states under one of four names."""
    keys = ("scale_factor", "downsample_factor", "pixel_shuffle_factor", "spatial_merge_size")
    factor = next(getattr(config, key) for key in keys if getattr(config, key, None))
    return image.patches // int(factor) ** 2


def scaled_by_downsample_ratio(config: Any, image: Image) -> int:
    """Count patches scaled down on both sides by `downsample_ratio`."""
    return int(image.patches * config.downsample_ratio**2)


def packed(config: Any, _image: Image) -> int:
    """Count the vision part's fixed number of patches, merged by `downsample_factor`."""
    return int(config.vision_config.num_patches) // int(config.downsample_factor) ** 2


def two_by_two_tiles(config: Any, _image: Image) -> int:
    """Count the tokens of two by two tiles, a line break after each row of patches, and the whole image once more."""
    side = config.vision_config.image_size // config.vision_config.patch_size
    return int(2 * side * (2 * side + 1) + side**2)


def stated(*keys: str) -> TokenCount:
    """Count as many tokens as the config states under a path of keys."""

    def count(config: Any, _image: Image) -> int:
        value: Any = config
        for key in keys:
            value = getattr(value, key)
        return int(value)

    return count
