"""Tokens of an image, by the models' published rules."""

import pytest

from capplan.llm.core.search.images import image_tokens


@pytest.mark.parametrize(
    ("kind", "size", "tokens"),
    [
        # Qwen2-VL, section 2.1: an image of 224 x 224 is 66 tokens with its two markers, 64 of them patches.
        ("qwen2_vl", (224, 224), 64),
        # Qwen3-VL merges two by two patches of 16 pixels: 1,024 / 32 = 32 a side.
        ("qwen3_vl", (1024, 1024), 1024),
        # Gemma 3 (report, section 2.1): 256 tokens whatever the image.
        ("gemma3", (300, 900), 256),
        # LLaVA-1.5: 336 / 14 = 24 a side.
        ("llava", (640, 480), 576),
        # Llama 4: four tiles of 336 and one of the whole, 144 each.
        ("llama4", (672, 672), 720),
    ],
)
def test_tokens_of_an_image(kind: str, size: tuple[int, int], tokens: int) -> None:
    found = image_tokens(kind, size)
    assert found is not None
    assert found[0] == tokens


def test_an_unknown_encoder_is_not_guessed() -> None:
    assert image_tokens("some_vl", (10, 10)) is None
