"""Find the tokens of a text that stand for image or sound features, and count them."""

from collections.abc import Mapping
from typing import Any

from capplan.probe.inputs.grammar import InputRequest
from capplan.probe.transformers.architecture import Image
from capplan.probe.transformers.audio import sound_tokens
from capplan.probe.transformers.image_grids import grid_tokens, takes_grid
from capplan.probe.transformers.image_tokens import patch_count
from capplan.probe.transformers.images import image_size
from capplan.probe.transformers.registry import architecture

_IMAGE_KEYS = ("image_token_id", "image_token_index", "img_context_token_id", "image_soft_token_id", "image_patch_id")
_AUDIO_KEYS = ("audio_token_id", "audio_token_index")


def multimodal(config: Any, parameters: Mapping[str, Any]) -> bool:
    """Return True if a model replaces placeholder tokens of its text by an image's features."""
    takes_both = "pixel_values" in parameters and "input_ids" in parameters
    return takes_both and sees(config) and _image_placeholder(config) is not None


def sees(config: Any) -> bool:
    """Return True if a config describes an image's encoder; composite ones may leave it out."""
    return getattr(config, "vision_config", ...) is not None


def placeholders(config: Any, request: InputRequest) -> tuple[int, int]:
    """Return the placeholder token and how many of them stand for one image or sound; 0 if there are none."""
    placeholder = _image_placeholder(config)
    if placeholder is None or not sees(config):
        sound = _stated_token(config, _AUDIO_KEYS)
        return (0, 0) if sound is None else (sound, sound_tokens(config, request))
    if takes_grid(config):
        return placeholder, grid_tokens(config, request)
    config = config.encoder if config.model_type == "t5gemma2" else config
    declared = architecture(config.model_type).image_tokens
    if declared is None and not hasattr(config, "vision_config"):
        return 0, 0
    return placeholder, (declared or patch_count)(config, _image(config, request))


def _image(config: Any, request: InputRequest) -> Image:
    _, height, width = image_size(config, request)
    return Image(
        height=height, width=width, patch_size=getattr(getattr(config, "vision_config", None), "patch_size", None)
    )


def _image_placeholder(config: Any) -> int | None:
    vocabulary = getattr(config, "vocabulary_map", None)
    if isinstance(vocabulary, dict) and "<image>" in vocabulary:
        return int(vocabulary["<image>"])
    holders = (config, *(getattr(config, part, None) for part in ("encoder", "vlm_config")))
    return next((token for part in holders if (token := _stated_token(part, _IMAGE_KEYS)) is not None), None)


def _stated_token(config: Any, keys: tuple[str, ...]) -> int | None:
    return next((token for key in keys if isinstance(token := getattr(config, key, None), int)), None)
