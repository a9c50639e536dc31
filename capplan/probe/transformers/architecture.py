"""The declaration of an architecture, and the ways to state it.

It says what neither a config nor its forward's parameters do: inputs, how an image becomes tokens of a text, and values
that a default config lacks, taken from other parts of it or from checkpoints.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image as an architecture takes it. [pixels]

    `patch_size` is the side of a patch, or its height and width; None where the config states none.
    """

    height: int
    width: int
    patch_size: int | tuple[int, int] | None

    @property
    def patches(self) -> int:
        if self.patch_size is None:
            raise TypeError("the config states no patch size")
        side = self.patch_size
        rows, columns = (side, side) if isinstance(side, int) else side
        return (self.height // rows) * (self.width // columns)


TokenCount = Callable[[Any, Image], int]
"""Counts the text tokens that stand for an image, from a config and an image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyFacts:
    """Facts of one transformers architecture; whatever is left out follows from config and forward method.

    Attributes:
        inputs: Names of the inputs that one forward pass needs.
        image_side: Side of square images where the config names none: its image processor's usual size. [pixels]
        images: Images per sample, where a sample holds a list of them.
        is_tiled: True if an image comes as two by two tiles, and once more small.
        takes_image_sizes: True if the whole image's height and width are an input.
        takes_clips: True if its images are clips: frames come first.
        takes_patch_grid: True if images come as a list of patches with a grid of their places, though the vision part
            does not say how many frames make a patch.
        has_unfolded_patches: True if each patch of such a list is a small image.
        image_tokens: Counts the tokens that stand for an image; None: one per patch of the vision part.
        has_bins_first: True if bins are a spectrogram's first dimension, as of Whisper, False if frames are; None where
            the config says so.
        has_audio_channel: True if waveforms have a dimension for their one channel.
        stacked_frames: Frames that the processor lays side by side into one.
        frames_per_token: Frames that become one token of text.
        completions: Values that a default config lacks, by dotted argument, or a `Completion` that makes one: those of
            its published checkpoints, or of another part of the config.
    """

    inputs: tuple[str, ...] = ()
    image_side: int | None = None
    images: int | None = None
    is_tiled: bool = False
    takes_image_sizes: bool = False
    takes_clips: bool = False
    takes_patch_grid: bool = False
    has_unfolded_patches: bool = False
    image_tokens: TokenCount | None = None
    has_bins_first: bool | None = None
    has_audio_channel: bool = False
    frames: int | None = None
    stacked_frames: int = 1
    frames_per_token: float | None = None
    completions: Mapping[str, Any] = field(default_factory=dict)


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


Content = Mapping[str, Any]
Completion = Callable[[Content], Any]
"""Makes a value from the whole config's content."""


def value_of(path: str) -> Completion:
    """Return another part's value."""

    def take(content: Content) -> Any:
        value: Any = content
        for key in path.split("."):
            value = value[key]
        return value

    return take


def quotient_of(path: str, by: str) -> Completion:
    """Return the integer quotient of two values of the config."""
    return lambda content: value_of(path)(content) // value_of(by)(content)


def first_layer_dense(content: Content) -> list[str]:
    """Return a first layer without experts, and all others with."""
    return ["dense", *["sparse"] * (content["text_config"]["num_hidden_layers"] - 1)]


def width_after_pixel_shuffle(path: str) -> Completion:
    """Return the width of a vision part's features once a pixel shuffle has merged them."""

    def width(content: Content) -> int:
        part = value_of(path)(content)
        return int(part["hidden_size"] // part["pixel_shuffle_ratio"] ** 2)

    return width
