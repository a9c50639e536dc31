"""Count the tokens that an image becomes in a vision-language model, and the patches that its encoder processes."""

from collections.abc import Callable, Mapping
from math import ceil

_Size = tuple[int, int]


def _merged(pixels: int) -> Callable[[_Size], tuple[int, int]]:
    """Return a count for encoders whose two by two patches become one token of so many pixels in a square."""

    def count(size: _Size) -> tuple[int, int]:
        tokens = max(1, round(size[0] / pixels)) * max(1, round(size[1] / pixels))
        return tokens, 4 * tokens

    return count


def _fixed(tokens: int, patches: int) -> Callable[[_Size], tuple[int, int]]:
    """Return a count for encoders that scale every image to one size."""
    return lambda _: (tokens, patches)


def _tiles(size: _Size) -> tuple[int, int]:
    """Count Llama 4's tiles of 336 pixels, at most 16 and one of the whole image if there are several.

    A tile has 24 × 24 patches of 14 pixels, which a pixel shuffle turns into 144 tokens.
    """
    tiles = min(16, ceil(size[0] / 336) * ceil(size[1] / 336))
    tiles += 1 if tiles > 1 else 0
    return 144 * tiles, 576 * tiles


_COUNTS: Mapping[str, Callable[[_Size], tuple[int, int]]] = {
    "qwen2_vl": _merged(28),
    "qwen2_5_vl": _merged(28),
    "qwen3_vl": _merged(32),
    "qwen3_vl_moe": _merged(32),
    "qwen3_5": _merged(32),
    "qwen3_5_moe": _merged(32),
    "mistral3": _merged(28),
    "gemma3": _fixed(256, 4096),
    "llava": _fixed(576, 576),
    "llama4": _tiles,
}
"""By the kind of the model's configuration: patches of 14 or 16 pixels merged two by two (Qwen-VL, Pixtral), images of
896 × 896 pixels pooled to 256 tokens (Gemma 3), 336 × 336 pixels as 576 tokens (LLaVA), and tiles (Llama 4)."""


def image_tokens(kind: str, size: tuple[int, int]) -> tuple[int, int] | None:
    """Return tokens and patches of an image; None for an encoder that is not known.

    Args:
        kind: Kind of the encoder, the `model_type` of its model.
        size: Width and height. [pixels]
    """
    count = _COUNTS.get(kind)
    return None if count is None else count(size)
