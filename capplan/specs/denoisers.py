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
        parameters: height, width, frames and steps of the pipeline in diffusers.
        guidance: whether the pipeline runs guidance as one batch ("together"), in two passes ("apart"), or not.
        joint: the length of the sequence of image and text together.
    """

    inputs: tuple[str, ...]
    tokens: tuple[str, ...]
    text_tokens: tuple[int, ...]
    parameters: Mapping[str, int]
    guidance: str = "together"
    joint: str = "image_tokens + text"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    denoisers: Mapping[str, Denoiser]


@cache
def load_denoisers() -> Mapping[str, Denoiser]:
    """Return what is known of denoisers by their class.

    Raises:
        SpecError: The file is not strict YAML, of another schema, or holds unknown, missing or wrong values.
    """
    table = RecordFile(kind=_Table, what="a table of denoisers").load(Path(__file__).with_name("denoisers.yaml"))
    return table.denoisers
