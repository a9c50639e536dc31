"""Tokens of a text that stand for the features of an image or a sound, and how many there are."""

from collections.abc import Callable, Mapping
from typing import Any

from capplan.probe.inputs.grammar import InputRequest
from capplan.probe.transformers.audio import sound_tokens
from capplan.probe.transformers.image_grids import grid_tokens, takes_grid
from capplan.probe.transformers.images import image_size

TokenCount = Callable[[Any, InputRequest], int]

_IMAGE_KEYS = ("image_token_id", "image_token_index", "img_context_token_id", "image_soft_token_id", "image_patch_id")
_AUDIO_KEYS = ("audio_token_id", "audio_token_index")


def multimodal(config: Any, parameters: Mapping[str, Any]) -> bool:
    """Tell whether a model replaces placeholder tokens of its text by an image's features."""
    takes_both = "pixel_values" in parameters and "input_ids" in parameters
    return takes_both and sees(config) and _image_placeholder(config) is not None


def sees(config: Any) -> bool:
    """Tell whether a config describes an image's encoder; composite ones may leave it out."""
    return getattr(config, "vision_config", ...) is not None


def placeholders(config: Any, request: InputRequest) -> tuple[int, int]:
    """The placeholder token and how many of them stand for one image or sound; 0 of them where there are none."""
    placeholder = _image_placeholder(config)
    if placeholder is None or not sees(config):
        sound = _stated_token(config, _AUDIO_KEYS)
        return (0, 0) if sound is None else (sound, sound_tokens(config, request))
    if takes_grid(config):
        return placeholder, grid_tokens(config, request)
    config = config.encoder if config.model_type == "t5gemma2" else config
    if config.model_type not in _TOKENS and not hasattr(config, "vision_config"):
        return 0, 0
    return placeholder, _TOKENS.get(config.model_type, _patch_count)(config, request)


def _image_placeholder(config: Any) -> int | None:
    vocabulary = getattr(config, "vocabulary_map", None)
    if isinstance(vocabulary, dict) and "<image>" in vocabulary:
        return int(vocabulary["<image>"])
    holders = (config, *(getattr(config, part, None) for part in ("encoder", "vlm_config")))
    return next((token for part in holders if (token := _stated_token(part, _IMAGE_KEYS)) is not None), None)


def _stated_token(config: Any, keys: tuple[str, ...]) -> int | None:
    return next((token for key in keys if isinstance(token := getattr(config, key, None), int)), None)


def _patch_count(config: Any, request: InputRequest) -> int:
    vision = config.vision_config
    _, height, width = image_size(config, request)
    patch = vision.patch_size
    patch_height, patch_width = (patch, patch) if isinstance(patch, int) else patch
    return int((height // patch_height) * (width // patch_width))


def _one_in(number: int, *, beside: int = 0) -> TokenCount:
    """A token for so many patches, and some beside."""
    return lambda config, request: _patch_count(config, request) // number + beside


def _sides(*, step: int, line_break: int = 0, beside: int = 0) -> TokenCount:
    """A token for each square of so many pixels, and some for each row's end and for the whole."""

    def count(config: Any, request: InputRequest) -> int:
        _, height, width = image_size(config, request)
        return (height // step) * (width // step + line_break) + beside

    return count


def _shuffled(config: Any, request: InputRequest) -> int:
    """Patches merged by a pixel shuffle."""
    factor = next(
        getattr(config, key)
        for key in ("scale_factor", "downsample_factor", "pixel_shuffle_factor", "spatial_merge_size")
        if getattr(config, key, None)
    )
    return _patch_count(config, request) // int(factor) ** 2


def _internvl(config: Any, request: InputRequest) -> int:
    return int(_patch_count(config, request) * config.downsample_ratio**2)


def _packed(config: Any, _request: InputRequest) -> int:
    return int(config.vision_config.num_patches) // int(config.downsample_factor) ** 2


def _tiled(config: Any, _request: InputRequest) -> int:
    """An image of two by two tiles, a line break after each row of patches, and the whole image once more."""
    side = config.vision_config.image_size // config.vision_config.patch_size
    return int(2 * side * (2 * side + 1) + side**2)


def _stated(*keys: str) -> TokenCount:
    """As many as the config says."""

    def count(config: Any, _request: InputRequest) -> int:
        value: Any = config
        for key in keys:
            value = getattr(value, key)
        return int(value)

    return count


_TOKENS: dict[str, TokenCount] = {
    "gemma3": _stated("mm_tokens_per_image"),
    "shieldgemma2": _stated("mm_tokens_per_image"),
    "gemma3n": _stated("vision_soft_tokens_per_image"),
    "fast_vlm": _sides(step=64),
    "florence2": _sides(step=32, beside=1),
    "t5gemma2_encoder": _stated("mm_tokens_per_image"),
    "perception_lm": _sides(step=28),
    "granite_docling": _one_in(16),
    "idefics2": _stated("perceiver_config", "resampler_n_latents"),
    "idefics3": _shuffled,
    "smolvlm": _shuffled,
    "modernvbert": lambda config, request: _patch_count(config, request) // config.pixel_shuffle_factor**2,
    "ultravbert": _shuffled,
    "aya_vision": _shuffled,
    "cohere2_vision": _shuffled,
    "mistral3": _shuffled,
    "internvl": _internvl,
    "qianfan_ocr": _internvl,
    "got_ocr2": _one_in(16),
    "pp_chart2table": _one_in(16),
    "step3p7": _one_in(16),
    "llama4": _one_in(4),
    "deepseek_ocr2": _sides(step=64, beside=1),
    "unlimited_ocr": _sides(step=64, line_break=1, beside=1),
    "lighton_ocr": _shuffled,
    "mistral_large4": _shuffled,
    "lfm2_vl": _packed,
    "llava": lambda config, request: _patch_count(config, request) + (config.vision_feature_select_strategy == "full"),
    "llava_next": _tiled,
    "llava_next_video": _tiled,
    "llava_onevision": _tiled,
    "janus": _patch_count,
    "deepseek_vl_hybrid": lambda _config, _request: 576,
    "chameleon": _sides(step=16),
    "emu3": _sides(step=8, line_break=1),
    "molmo2": lambda config, _: (config.vision_config.image_size[0] // config.vision_config.patch_size // 2 + 1) ** 2,
    "pi0": lambda _config, _request: 256,
    "aria": lambda config, request: int(config.projector_patch_to_query_dict[_patch_count(config, request)]),
}
"""How many tokens stand for an image, by architecture; the vision part's patches elsewhere."""
