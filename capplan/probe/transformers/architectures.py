"""What configs of transformers and their forward methods do not say, by architecture and family.

A default config describes no published model. Some leave open what every checkpoint sets, and composite ones put the
defaults of two parts together that were never meant for each other. Only default configs are completed, and each
completion gives way to an argument of the user's; a config file is taken as it is.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from capplan.probe.transformers.architecture import (
    Content,
    FamilyFacts,
    Image,
    TokenCount,
    first_layer_dense,
    one_in,
    one_per_square,
    packed,
    patch_count,
    pixel_shuffled,
    quotient_of,
    scaled_by_downsample_ratio,
    stated,
    two_by_two_tiles,
    value_of,
    width_after_pixel_shuffle,
)
from capplan.strict_json import read_json

_FILE = Path(__file__).parents[1] / "transformers_families.json"


def fixed(tokens: int) -> TokenCount:
    """Count the same tokens for every image."""
    return lambda _config, _image: tokens


def ratio(frames: int, tokens: int) -> float:
    return frames / tokens


def half_per_label(content: Content) -> list[float]:
    return [0.5] * len(content["id2label"])


def label_order(content: Content) -> list[int]:
    return list(range(len(content["id2label"])))


def lfm2_layers(content: Content) -> list[str]:
    return ["full_attention" if layer % 4 == 2 else "conv" for layer in range(content["num_hidden_layers"])]


def emu3_vocabulary(_content: Content) -> dict[str, int]:
    visual = {f"<|visual token {index:06d}|>": 151854 + index for index in range(32768)}
    return {"<image>": 151642, "<|extra_200|>": 151846, **visual}


def aria_queries(config: Any, image: Image) -> int:
    return int(config.projector_patch_to_query_dict[image.patches])


def modernvbert_shuffled(config: Any, image: Image) -> int:
    return int(image.patches // config.pixel_shuffle_factor**2)


def with_class_token(config: Any, image: Image) -> int:
    return image.patches + int(config.vision_feature_select_strategy == "full")


def molmo2_pooled(config: Any, _image: Image) -> int:
    vision = config.vision_config
    return int((vision.image_size[0] // vision.patch_size // 2 + 1) ** 2)


_FUNCTIONS: tuple[Callable[..., Any], ...] = (
    aria_queries, emu3_vocabulary, first_layer_dense, fixed, half_per_label, label_order, lfm2_layers,
    modernvbert_shuffled, molmo2_pooled, one_in, one_per_square, packed, patch_count, pixel_shuffled, quotient_of,
    ratio, scaled_by_downsample_ratio, stated, two_by_two_tiles, value_of, width_after_pixel_shuffle, with_class_token,
)  # fmt: skip
_BY_NAME = {f"${function.__name__}": function for function in _FUNCTIONS}


def _value(given: Any) -> Any:
    """Return a value of the table: a function that a mapping names, or what it makes of the arguments beside it."""
    if not isinstance(given, dict) or not given:
        return given
    [name, arguments] = next(iter(given.items()))
    if not name.startswith("$"):
        return {key: _value(value) for key, value in given.items()}
    function = _BY_NAME[name]
    if arguments is None:
        return function
    return function(**arguments) if isinstance(arguments, dict) else function(*arguments)


def _facts(row: Mapping[str, Any]) -> FamilyFacts:
    others = {name: _value(value) for name, value in row.items() if name != "inputs"}
    return FamilyFacts(inputs=tuple(row.get("inputs", ())), **others)


@cache
def families() -> Mapping[str, Mapping[str, FamilyFacts]]:
    """Return the declarations by what the models take; an architecture stands in one family only."""
    table = read_json(_FILE.read_bytes())["families"]
    return {family: {kind: _facts(row) for kind, row in rows.items()} for family, rows in table.items()}


@cache
def _declared() -> Mapping[str, FamilyFacts]:
    return {kind: facts for family in families().values() for kind, facts in family.items()}


def architecture(kind: str) -> FamilyFacts:
    """Return what is declared of an architecture; an empty declaration where nothing is."""
    return _declared().get(kind, FamilyFacts())


def completed(kind: str, content: Content) -> Iterator[tuple[str, Any]]:
    """Yield the dotted arguments that an architecture's default config needs in addition to its content."""
    yield from _agreeing(content, "")
    for name, value in architecture(kind).completions.items():
        yield name, value(content) if callable(value) else value


def _agreeing(content: Content, prefix: str) -> Iterator[tuple[str, Any]]:
    """Make vision parts output the width that text parts take."""
    text, vision = content.get("text_config"), content.get("vision_config")
    if isinstance(text, Mapping) and isinstance(vision, Mapping) and "hidden_size" in text:
        for key in ("out_hidden_size", "text_hidden_size"):
            if key in vision and vision[key] != text["hidden_size"]:
                yield f"{prefix}vision_config.{key}", text["hidden_size"]
    for key, part in content.items():
        if isinstance(part, Mapping) and key.endswith("_config"):
            yield from _agreeing(part, f"{prefix}{key}.")
