"""What a transformers model is fed: from its forward's parameters, its main input and its config."""

import inspect
from collections.abc import Callable
from typing import Any

from capplan.core.affine import Affine
from capplan.errors import UsageError
from capplan.probe.inputs import BATCH, InputRequest, InputSpec
from capplan.probe.inputs_audio import AUDIO
from capplan.probe.inputs_make import InputMaker, SpecInputs
from capplan.probe.inputs_placeholders import multimodal, placeholders, sees
from capplan.probe.inputs_vision import VISION

DEFAULT_SEQ_LEN = 128


def transformers_inputs(config: Any, model_class: Any, words: str, request: InputRequest) -> InputMaker:
    """Make the inputs of one forward pass: its main input, and what else that forward cannot do without.

    Raises:
        UsageError: an input that neither name nor config explain; the user must spell it out.
    """
    parameters = inspect.signature(model_class.forward).parameters
    whole, config = config, getattr(config, "vlm_config", None) or config
    needed = list(_NEEDED.get(whole.model_type, ())) or _needed(config, model_class, parameters)
    specs: list[InputSpec] = []
    for name in needed:
        try:
            specs.extend(MAKERS[name](config, request))
        except (KeyError, AttributeError, TypeError, ValueError) as error:  # no such maker, or a config unlike others
            raise UsageError(
                f"{words}: what its input {name} is cannot be told from the config; spell the inputs out with --input "
                f"or --inputs-from (its forward takes {', '.join(needed)})."
            ) from error
    return SpecInputs(specs=tuple(specs))


def _needed(config: Any, model_class: Any, parameters: Any) -> list[str]:
    """Names of the inputs that a forward pass needs."""
    kind = config.model_type
    if kind in _NEEDED:
        return list(_NEEDED[kind])
    required = [
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and name != "self"
    ]
    main = model_class.main_input_name
    if "hidden_states" in required and "grid_thw" in required:
        return ["patches", "grid_thw"]
    names = [*([main] if isinstance(main, str) and main in parameters else []), *required]
    if multimodal(config, parameters):
        names = [name for name in _MULTIMODAL if name in parameters]
    elif "input_ids" in parameters and "pixel_values" in parameters and sees(config):
        names += ["input_ids", "pixel_values"]
    elif "input_ids" in parameters and "input_features" in parameters and hasattr(config, "audio_config"):
        names += ["input_ids", "input_features"]
        names += [name for name in ("input_features_mask", "padding_mask") if name in parameters]
    names += ["bbox"] * ("bbox" in parameters)
    if config.is_encoder_decoder and "decoder_input_ids" in parameters:
        names.append("decoder_input_ids")
    return list(dict.fromkeys(names))


_MULTIMODAL = (
    "input_ids",
    "pixel_values",
    "high_res_pixel_values",
    "image_grid_thw",
    "image_grid_hw",
    "image_merge_sizes",
    "spatial_shapes",
    "mm_token_type_ids",
    "image_sizes",
    "pixel_attention_mask",
)

_NEEDED = {
    "decision_transformer": ("states", "actions", "rewards", "returns_to_go", "timesteps"),
    "perceiver": ("inputs",),
    "fuyu": ("input_ids",),
    "reformer": ("input_ids",),
    "canine": ("input_ids",),
    "blip-2": ("pixel_values", "blip_input_ids"),
    "instructblip": ("pixel_values", "qformer_input_ids", "blip_input_ids"),
    "visual_bert": ("input_ids", "visual_embeds"),
    "lxmert": ("input_ids", "visual_feats", "visual_pos"),
    "layoutlmv2": ("input_ids", "bbox", "image"),
    "csm": ("input_ids",),
    "siglip2": ("input_ids", "pixel_values", "pixel_attention_mask", "spatial_shapes"),
    "siglip2_vision_model": ("pixel_values", "pixel_attention_mask", "spatial_shapes"),
    "clvp": ("input_ids", "input_features"),
    "pix2struct": ("flattened_patches", "decoder_input_ids"),
    "vision-encoder-decoder": ("pixel_values", "decoder_input_ids"),
    "kosmos-2": ("pixel_values", "input_ids", "image_embeds_position_mask"),
    "xmod": ("input_ids", "lang_ids"),
    "roc_bert": ("input_ids", "input_shape_ids", "input_pronunciation_ids"),
    "mllama": ("input_ids",),
    "blt": ("input_ids",),
    "fastspeech2_conformer": ("input_ids",),
    "sam3": ("pixel_values", "input_ids"),
    "colqwen2": ("input_ids", "padded_patches", "image_grid_thw"),
    "idefics": ("input_ids", "pixel_values", "image_attention_mask"),
}
"""Inputs by architecture, where parameters without a default do not tell them."""


def token_spec(config: Any, request: InputRequest, *, name: str = "input_ids") -> InputSpec:
    """Token ids: `--seq-len` of them, or as many as the model has positions."""
    vocabulary = vocab_size(config)
    return InputSpec(name=name, dtype="int64", shape=(BATCH, Affine(sequence(config, request))), high=vocabulary)


def vocab_size(config: Any) -> int:
    """How many token ids a config's text part knows."""
    for part in (_text(config), config):
        for key in ("vocab_size", "text_vocab_size", "src_vocab_size"):
            if isinstance(size := getattr(part, key, None), int):
                return size
    return 100


def sequence(config: Any, request: InputRequest) -> int:
    """Tokens per sequence: `--seq-len`, or `DEFAULT_SEQ_LEN` where the positions suffice."""
    if request.seq_len is not None:
        return request.seq_len
    limits = [
        getattr(_text(config), key, None) for key in ("max_position_embeddings", "max_target_positions", "n_positions")
    ]
    return min([DEFAULT_SEQ_LEN, *(limit for limit in limits if isinstance(limit, int) and limit > 0)])


def _text(config: Any) -> Any:
    """The config's text part; of an encoder and a decoder of text, the encoder, which takes the input."""
    encoder = getattr(config, "text_encoder", None)
    return config.get_text_config() if encoder is None else encoder


def _tokens(config: Any, request: InputRequest) -> list[InputSpec]:
    """Token ids; with placeholders for its image's or sound's features first, where the model replaces these."""
    placeholder, count = placeholders(config, request)
    if not count:
        return [token_spec(config, request)]
    text = [_plain_token(config)] * sequence(config, request)
    row = (*[placeholder] * count, *text)
    return [InputSpec(name="input_ids", dtype="int64", shape=(BATCH, Affine(len(row))), row=row)]


def _token_types(config: Any, request: InputRequest) -> list[InputSpec]:
    """1 where an image's feature stands, 0 for text."""
    _, count = placeholders(config, request)
    row = (*[1] * count, *[0] * sequence(config, request))
    return [InputSpec(name="mm_token_type_ids", dtype="int64", shape=(BATCH, Affine(len(row))), row=row)]


def _plain_token(config: Any) -> int:
    """A token id that means nothing special to the config."""
    special = [
        value
        for part in (config, _text(config))
        if part
        for key, value in vars(part).items()
        if key.endswith(_TOKEN_KEYS)
    ]
    flat = {item for value in special for item in (value if isinstance(value, list) else [value])}
    return next(token for token in range(5, 1000) if token not in flat)


_TOKEN_KEYS = ("token_id", "token_index", "patch_id")


def _decoder_tokens(config: Any, request: InputRequest) -> list[InputSpec]:
    decoder = getattr(config, "decoder", None) or getattr(config, "decoder_config", None) or config
    spec = token_spec(config, request, name="decoder_input_ids")
    size = getattr(decoder, "vocab_size", None)
    high = size if isinstance(size, int) else spec.high
    if books := getattr(decoder, "num_codebooks", None):  # a row per codebook and sample
        return [InputSpec(name=spec.name, dtype=spec.dtype, shape=(Affine(0, books), spec.shape[1]), high=high)]
    channels = getattr(decoder, "num_channels", None) if config.model_type == "dia" else None
    shape = (*spec.shape, Affine(channels)) if channels else spec.shape
    return [InputSpec(name=spec.name, dtype=spec.dtype, shape=shape, high=high)]


def _boxes(config: Any, request: InputRequest) -> list[InputSpec]:
    """A box per token: corners in thousandths of the page, or fractions of it for bros."""
    shape = (BATCH, Affine(sequence(config, request)), Affine(4))
    if config.model_type == "bros":
        return [InputSpec(name="bbox", shape=shape)]
    return [InputSpec(name="bbox", dtype="int64", shape=shape, row=(100, 100, 200, 200))]


def _per_token(name: str, high: int = 2) -> Callable[[Any, InputRequest], list[InputSpec]]:
    def make(config: Any, request: InputRequest) -> list[InputSpec]:
        return [InputSpec(name=name, dtype="int64", shape=(BATCH, Affine(sequence(config, request))), high=high)]

    return make


def _decision(name: str, width: str | int, *, dtype: str = "float32") -> Callable[[Any, InputRequest], list[InputSpec]]:
    def make(config: Any, request: InputRequest) -> list[InputSpec]:
        length = request.seq_len or 20
        columns = () if width == 0 else (Affine(getattr(config, width) if isinstance(width, str) else width),)
        return [InputSpec(name=name, dtype=dtype, shape=(BATCH, Affine(length), *columns), high=length)]

    return make


def _past_values(config: Any, _request: InputRequest) -> list[InputSpec]:
    """A context window of the time series that the config describes.

    Raises:
        UsageError: its config leaves the length of what is predicted open.
    """
    length = getattr(config, "context_length", None) or getattr(config, "prediction_length", 512)
    if length is None:
        raise UsageError(f"the config of {config.model_type} says no prediction_length: --arg prediction_length=24.")
    lags = getattr(config, "lags_sequence", None)
    steps = Affine(length + (max(lags) if lags else 0))
    if config.model_type in ("patchtst", "patchtsmixer"):
        return [InputSpec(name="past_values", shape=(BATCH, steps, Affine(config.num_input_channels)))]
    if not lags:
        return [InputSpec(name="past_values", shape=(BATCH, Affine(length)))]
    size: int = getattr(config, "input_size", 1)
    series = (BATCH, steps) if size == 1 else (BATCH, steps, Affine(size))
    future = (BATCH, Affine(config.prediction_length))
    features = Affine(config.num_time_features)
    return [
        InputSpec(name="past_values", shape=series),
        InputSpec(name="past_time_features", shape=(BATCH, steps, features)),
        InputSpec(name="past_observed_mask", dtype="bool", shape=series),
        InputSpec(name="future_values", shape=future),
        InputSpec(name="future_time_features", shape=(*future, features)),
    ]


def _embeddings(name: str, count: int, width: str | int) -> Callable[[Any, InputRequest], list[InputSpec]]:
    def make(config: Any, _request: InputRequest) -> list[InputSpec]:
        columns = getattr(config, width) if isinstance(width, str) else width
        return [InputSpec(name=name, shape=(BATCH, Affine(count), Affine(columns)))]

    return make


def _blip_tokens(config: Any, request: InputRequest) -> list[InputSpec]:
    text = [_plain_token(config)] * sequence(config, request)
    placeholder = getattr(config, "image_token_id", None) or config.image_token_index
    if placeholder is None:
        raise UsageError(f"the config of {config.model_type} says no image token: --arg image_token_index=50265.")
    row = (*[placeholder] * config.num_query_tokens, *text)
    return [InputSpec(name="input_ids", dtype="int64", shape=(BATCH, Affine(len(row))), row=row)]


def _image_positions(config: Any, request: InputRequest) -> list[InputSpec]:
    """kosmos-2: the image's embeddings come first."""
    count, length = config.latent_query_num, sequence(config, request)
    row = tuple(int(index < count) for index in range(length))
    return [InputSpec(name="image_embeds_position_mask", dtype="bool", shape=(BATCH, Affine(length)), row=row)]


def _seen_images(config: Any, request: InputRequest) -> list[InputSpec]:
    """idefics: every token attends to its one image."""
    shape = (BATCH, Affine(sequence(config, request)), Affine(1))
    return [InputSpec(name="image_attention_mask", dtype="int64", shape=shape, row=(1,))]


def _nothing(_config: Any, _request: InputRequest) -> list[InputSpec]:
    """Made together with another input."""
    return []


MAKERS: dict[str, Callable[[Any, InputRequest], list[InputSpec]]] = {
    "input_ids": _tokens,
    "blip_input_ids": _blip_tokens,
    "qformer_input_ids": lambda config, request: [token_spec(config.qformer_config, request, name="qformer_input_ids")],
    "decoder_input_ids": _decoder_tokens,
    "bbox": _boxes,
    "mm_token_type_ids": _token_types,
    "input_shape_ids": _per_token("input_shape_ids"),
    "input_pronunciation_ids": _per_token("input_pronunciation_ids"),
    "lang_ids": lambda _config, _request: [InputSpec(name="lang_ids", dtype="int64", shape=(BATCH,), high=1)],
    "states": _decision("states", "state_dim"),
    "actions": _decision("actions", "act_dim"),
    "rewards": _decision("rewards", 1),
    "returns_to_go": _decision("returns_to_go", 1),
    "timesteps": _decision("timesteps", 0, dtype="int64"),
    "past_values": _past_values,
    "past_time_features": _nothing,
    "past_observed_mask": _nothing,
    "past_values_padding": lambda config, _: [
        InputSpec(name="past_values_padding", dtype="int64", shape=(BATCH, Affine(config.context_length)), high=1)
    ],
    "freq": lambda _config, _request: [InputSpec(name="freq", dtype="int64", shape=(BATCH, Affine(1)), high=3)],
    "inputs": lambda config, request: [
        InputSpec(name="inputs", shape=(BATCH, Affine(request.seq_len or 2048), Affine(config.d_model)))
    ],
    "visual_embeds": _embeddings("visual_embeds", 36, "visual_embedding_dim"),
    "visual_feats": _embeddings("visual_feats", 36, "visual_feat_dim"),
    "visual_pos": _embeddings("visual_pos", 36, "visual_pos_dim"),
    "query_embeds": _embeddings("query_embeds", 32, "hidden_size"),
    "image_embeds_position_mask": _image_positions,
    "image_attention_mask": _seen_images,
    **VISION,
    **AUDIO,
}
"""What makes each input, by the name of the forward's parameter."""
