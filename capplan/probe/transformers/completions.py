"""Values that default configs of transformers lack, taken from other parts of the config or from checkpoints."""

from collections.abc import Callable, Mapping
from typing import Any

Content = Mapping[str, Any]
Completion = Callable[[Content], Any]
"""Makes a value from the whole config's content."""


def value_of(path: str) -> Completion:
    """Take another part's value."""

    def take(content: Content) -> Any:
        value: Any = content
        for key in path.split("."):
            value = value[key]
        return value

    return take


def quotient_of(path: str, by: str) -> Completion:
    """Take the whole quotient of two values of the config."""
    return lambda content: value_of(path)(content) // value_of(by)(content)


def first_layer_dense(content: Content) -> list[str]:
    """Return a first layer without experts, and all others with."""
    return ["dense", *["sparse"] * (content["text_config"]["num_hidden_layers"] - 1)]


def all_stages(count: int) -> dict[str, Any]:
    """Take features after every stage of a backbone."""
    stages = range(1, count + 1)
    return {
        "backbone_config.out_features": [f"stage{stage}" for stage in stages],
        "backbone_config.out_indices": list(stages),
    }


def width_after_pixel_shuffle(path: str) -> Completion:
    """Take the width of a vision part's features once a pixel shuffle has merged them."""

    def width(content: Content) -> int:
        part = value_of(path)(content)
        return int(part["hidden_size"] // part["pixel_shuffle_ratio"] ** 2)

    return width


_INTRACLASS = {
    "reduce_channel": [1, 1, 0],
    "return_channel": [1, 1, 0],
    **{
        f"{kind}_{ratio}": [[rows or size, columns or size], [1, 1], [(rows or size) // 2, (columns or size) // 2]]
        for kind, rows, columns in (
            ("vertical_long_to_small_conv", 0, 1),
            ("horizontal_small_to_long_conv", 1, 0),
            ("symmetric_conv_long", 0, 0),
        )
        for ratio, size in (("longratio", 7), ("midratio", 5), ("shortratio", 3))
    },
}
"""Kernel, stride and padding of PaddleOCR's intra-class block (ppocr/modeling/necks/intracl.py)."""

PADDLE_DETECTOR = {"intraclass_block_config": _INTRACLASS, "scale_factor_list": [1, 2, 4, 8], "kernel_list": [3, 2, 2]}
SIGLIP_896 = {"image_size": 896, "patch_size": 14}


def under(prefix: str, values: Content) -> dict[str, Any]:
    """Put a part's name before the names of values."""
    return {f"{prefix}.{key}": value for key, value in values.items()}
