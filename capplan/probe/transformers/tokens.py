"""Make token ids for transformers models, with the tokens that stand for features of images and sound."""

from collections.abc import Mapping
from typing import Any

from capplan.core.trace.types import Affine
from capplan.probe.inputs.grammar import BATCH, InputRequest, InputSpec
from capplan.probe.transformers.architecture import Image, patch_count
from capplan.probe.transformers.architectures import architecture
from capplan.probe.transformers.audio import sound_tokens
from capplan.probe.transformers.images import grid_tokens, image_size, takes_grid

DEFAULT_SEQ_LEN = 128


def token_spec(config: Any, request: InputRequest, *, name: str = "input_ids") -> InputSpec:
    """Return token ids: `--seq-len` of them, or as many as the model has positions."""
    vocabulary = vocab_size(config)
    return InputSpec(name=name, dtype="int64", shape=(BATCH, Affine(sequence(config, request))), high=vocabulary)


def vocab_size(config: Any) -> int:
    """Return how many token ids a config's text part knows."""
    for part in (text_part(config), config):
        for key in ("vocab_size", "text_vocab_size", "src_vocab_size"):
            if isinstance(size := getattr(part, key, None), int):
                return size
    return 100


def sequence(config: Any, request: InputRequest) -> int:
    """Return tokens per sequence: `--seq-len`, or `DEFAULT_SEQ_LEN` if the positions suffice."""
    if request.seq_len is not None:
        return request.seq_len
    keys = ("max_position_embeddings", "max_target_positions", "n_positions")
    limits = [getattr(text_part(config), key, None) for key in keys]
    return min([DEFAULT_SEQ_LEN, *(limit for limit in limits if isinstance(limit, int) and limit > 0)])


def text_part(config: Any) -> Any:
    """Return the config's text part; of an encoder and a decoder of text, the encoder, which takes the input."""
    encoder = getattr(config, "text_encoder", None)
    return config.get_text_config() if encoder is None else encoder


def plain_token(config: Any) -> int:
    """Return a token id that means nothing special to the config."""
    parts = [part for part in (config, text_part(config)) if part]
    special = [value for part in parts for key, value in vars(part).items() if key.endswith(_TOKEN_KEYS)]
    flat = {item for value in special for item in (value if isinstance(value, list) else [value])}
    return next(token for token in range(5, 1000) if token not in flat)


_TOKEN_KEYS = ("token_id", "token_index", "patch_id")


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
    _, height, width = image_size(config, request)
    patch_size = getattr(getattr(config, "vision_config", None), "patch_size", None)
    return placeholder, (declared or patch_count)(config, Image(height=height, width=width, patch_size=patch_size))


def _image_placeholder(config: Any) -> int | None:
    vocabulary = getattr(config, "vocabulary_map", None)
    if isinstance(vocabulary, dict) and "<image>" in vocabulary:
        return int(vocabulary["<image>"])
    holders = (config, *(getattr(config, part, None) for part in ("encoder", "vlm_config")))
    return next((token for part in holders if (token := _stated_token(part, _IMAGE_KEYS)) is not None), None)


def _stated_token(config: Any, keys: tuple[str, ...]) -> int | None:
    return next((token for key in keys if isinstance(token := getattr(config, key, None), int)), None)
