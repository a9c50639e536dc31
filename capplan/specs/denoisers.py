"""Read how diffusers calls each class of denoiser."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from capplan.specs.values import RecordFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Denoiser:
    """How diffusers calls a class of denoiser.

    Attributes:
        inputs: templates of inputs; names of the configuration stand for its numbers.
        tokens: the lengths of the sequences that its attention sees; GPUs share them.
        text_tokens: what prompts are padded to where the folder does not say, by text encoder.
        template_tokens: tokens around the prompt that are cut from what an encoder returns, by text encoder.
        parameters: height, width, frames and steps of the pipeline in diffusers.
        guidance: whether the pipeline runs guidance as one batch ("together"), in two passes ("apart"), or not.
        joint: the length of the sequence of image and text together.
    """

    inputs: tuple[str, ...]
    tokens: tuple[str, ...]
    text_tokens: tuple[int, ...]
    parameters: Mapping[str, int]
    template_tokens: tuple[int, ...] = ()
    guidance: str = "together"
    joint: str = "image_tokens + text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoencoder:
    """How a class of autoencoder compresses, and the tiles that it decodes when tiling is on. [latents]

    `size` and `stride` are those of height and width at `scale`, `frames` and `frame_stride` those of time, 0 where it
    is not cut. A configuration may state another scale.
    """

    scale: int | None = None
    temporal: int = 1
    size: int = 0
    stride: int = 0
    frames: int = 0
    frame_stride: int = 0
    is_tiled: bool = False
    is_sliced: bool = False
    is_one_frame: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffusersClasses:
    """What is known of diffusers' denoisers and autoencoders by their class."""

    denoisers: Mapping[str, Denoiser]
    autoencoders: Mapping[str, Autoencoder]


@cache
def load_denoisers() -> DiffusersClasses:
    """Return what is known of denoisers and autoencoders by their class.

    Raises:
        SpecError: The file is not strict YAML, of another schema, or holds unknown, missing or wrong values.
    """
    where = Path(__file__).with_name("denoisers.yaml")
    return RecordFile(kind=DiffusersClasses, what="a table of denoisers").load(where)
