"""The declaration of an architecture: what neither its config nor its forward's parameters say."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
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
        """Patches of the image.

        Raises:
            TypeError: The config states no patch size.
        """
        if self.patch_size is None:
            raise TypeError("the config states no patch size")
        side = self.patch_size
        rows, columns = (side, side) if isinstance(side, int) else side
        return (self.height // rows) * (self.width // columns)


TokenCount = Callable[[Any, Image], int]
"""Counts the text tokens that stand for an image, from a config and an image."""

Completion = Any
"""A value, or a function of a default config's content that makes one."""


class SpectrogramOrder(StrEnum):
    """Order of a spectrogram's dimensions; Whisper-like encoders take bins first, others frames first."""

    BINS_FIRST = "bins first"
    TIME_FIRST = "time first"


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
        spectrogram: The order of a spectrogram's dimensions, where the config does not tell.
        has_audio_channel: True if waveforms have a dimension for their one channel.
        frames: Frames of a spectrogram.
        stacked_frames: Frames that the processor lays side by side into one.
        frames_per_token: Frames that become one token of text.
        completions: Values that a default config lacks, by dotted argument: those of its published checkpoints, or
            of another part of the config.
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
    spectrogram: SpectrogramOrder | None = None
    has_audio_channel: bool = False
    frames: int | None = None
    stacked_frames: int = 1
    frames_per_token: float | None = None
    completions: Mapping[str, Completion] = field(default_factory=dict)
