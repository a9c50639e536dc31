"""Make the inputs of a transformers model from its forward's parameters and config; for single ones by their code."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from capplan.core.trace.types import Affine
from capplan.errors import UsageError
from capplan.probe.inputs.grammar import BATCH, InputRequest, InputSpec
from capplan.probe.inputs.tensors import InputMaker, SpecInputs
from capplan.probe.transformers.architectures import architecture
from capplan.probe.transformers.audio import AUDIO
from capplan.probe.transformers.images import VISION
from capplan.probe.transformers.tokens import multimodal, placeholders, plain_token, sees, sequence, token_spec

Maker = Callable[[Any, InputRequest], list[InputSpec]]


def _decision(width: str | int, *, dtype: str = "float32") -> Maker:
    def make(config: Any, request: InputRequest) -> list[InputSpec]:
        length = request.seq_len or 20
        columns = () if width == 0 else (Affine(getattr(config, width) if isinstance(width, str) else width),)
        return [InputSpec(dtype=dtype, shape=(BATCH, Affine(length), *columns), high=length)]

    return make


def _past_values(config: Any, _request: InputRequest) -> list[InputSpec]:
    """Return a context window of the time series that the config describes."""
    length = getattr(config, "context_length", None) or getattr(config, "prediction_length", 512)
    if length is None:
        raise UsageError(f"the config of {config.model_type} states no prediction_length: ⟨arg⟩ prediction_length=24.")
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


def _embeddings(count: int, width: str) -> Maker:
    return lambda config, _request: [InputSpec(shape=(BATCH, Affine(count), Affine(getattr(config, width))))]


def _blip_tokens(config: Any, request: InputRequest) -> list[InputSpec]:
    text = [plain_token(config)] * sequence(config, request)
    placeholder = getattr(config, "image_token_id", None) or config.image_token_index
    if placeholder is None:
        raise UsageError(f"the config of {config.model_type} states no image token: ⟨arg⟩ image_token_index=50265.")
    row = (*[placeholder] * config.num_query_tokens, *text)
    return [InputSpec(name="input_ids", dtype="int64", shape=(BATCH, Affine(len(row))), row=row)]


def _image_positions(config: Any, request: InputRequest) -> list[InputSpec]:
    """Mark the image's embeddings as the first ones, as kosmos-2 has them."""
    count, length = config.latent_query_num, sequence(config, request)
    row = tuple(int(index < count) for index in range(length))
    return [InputSpec(dtype="bool", shape=(BATCH, Affine(length)), row=row)]


def _seen_images(config: Any, request: InputRequest) -> list[InputSpec]:
    """Let every token attend to its one image, as in idefics."""
    return [InputSpec(dtype="int64", shape=(BATCH, Affine(sequence(config, request)), Affine(1)), row=(1,))]


def _marks(row: tuple[int, ...]) -> Maker:
    """Make questions about one prompt, with the places and types of their answers, as jev takes them."""
    return lambda _config, _request: [InputSpec(dtype="int64", shape=(BATCH, Affine(len(row))), row=row)]


def _task(config: Any, _request: InputRequest) -> list[InputSpec]:
    """Make oneformer's task input: the task as tokens."""
    return [InputSpec(dtype="int64", shape=(BATCH, Affine(config.task_seq_len)), high=config.text_encoder_vocab_size)]


_CLASSES = 4
"""Classes per image that omdet-turbo is asked to look for."""


def _detection_text(rows: int, *, is_mask: bool = False) -> Maker:
    """Make tokens of the task, or of each image's classes in one list, or their mask, as omdet-turbo takes them."""

    def make(config: Any, _request: InputRequest) -> list[InputSpec]:
        shape = (Affine(0, rows), Affine(config.text_config.max_position_embeddings))
        row = (1,) if is_mask else None
        return [InputSpec(dtype="int64", shape=shape, row=row, high=2 if is_mask else config.text_config.vocab_size)]

    return make


def _actions(config: Any, _request: InputRequest) -> list[InputSpec]:
    """Make a state and the actions of a chunk, as pi0 takes them."""
    return [InputSpec(shape=(BATCH, Affine(1 + config.chunk_size), Affine(config.dit_config.hidden_size)))]


_MOLMO_STEP = 2
"""Sides of the squares of patches that molmo2 pools."""


def _crops(config: Any, _request: InputRequest) -> list[InputSpec]:
    """Make one crop per image as flat patches, with the patches and grid of its tokens, as molmo2 takes them."""
    vision = config.vision_config
    side = vision.image_size[0] // vision.patch_size
    rows = -(-side // _MOLMO_STEP)
    return [
        InputSpec(
            name="pixel_values", shape=(BATCH, Affine(side**2), Affine(vision.num_channels * vision.patch_size**2))
        ),
        InputSpec(
            name="image_token_pooling", dtype="int64", shape=(Affine(0, rows**2), Affine(_MOLMO_STEP**2)), high=side**2
        ),
        InputSpec(name="image_grids", dtype="int64", shape=(BATCH, Affine(4)), row=(rows, rows, 0, 0)),
        InputSpec(name="image_num_crops", dtype="int64", shape=(BATCH,), row=(1,)),
    ]


def _source_grids(config: Any, _request: InputRequest) -> list[InputSpec]:
    """Make a source image and a target per sample, as glm_image takes them."""
    side = 448 // config.vision_config.patch_size
    return [
        InputSpec(name="image_grid_thw", dtype="int64", shape=(Affine(0, 2), Affine(3)), row=(1, side, side)),
        InputSpec(name="images_per_sample", dtype="int64", shape=(BATCH,), row=(2,)),
    ]


SINGLE: dict[str, Maker] = {
    "blip_input_ids": _blip_tokens,
    "qformer_input_ids": lambda config, request: [token_spec(config.qformer_config, request, name="qformer_input_ids")],
    "lang_ids": lambda _config, _request: [InputSpec(dtype="int64", shape=(BATCH,), high=1)],
    "states": _decision("state_dim"),
    "actions": _decision("act_dim"),
    "rewards": _decision(1),
    "returns_to_go": _decision(1),
    "timesteps": _decision(0, dtype="int64"),
    "past_values": _past_values,
    "past_time_features": lambda _config, _request: [],  # made together with past_values, and so is the next
    "past_observed_mask": lambda _config, _request: [],
    "past_values_padding": lambda config, _: [
        InputSpec(dtype="int64", shape=(BATCH, Affine(config.context_length)), high=1)
    ],
    "freq": lambda _config, _request: [InputSpec(dtype="int64", shape=(BATCH, Affine(1)), high=3)],
    "inputs": lambda config, request: [
        InputSpec(shape=(BATCH, Affine(request.seq_len or 2048), Affine(config.d_model)))
    ],
    "visual_embeds": _embeddings(36, "visual_embedding_dim"),
    "visual_feats": _embeddings(36, "visual_feat_dim"),
    "visual_pos": _embeddings(36, "visual_pos_dim"),
    "query_embeds": _embeddings(32, "hidden_size"),
    "image_embeds_position_mask": _image_positions,
    "image_attention_mask": _seen_images,
    "marks": _marks((1, 2, 3, 4)),
    "num_options": _marks((2, 2, 2, 2)),
    "question_type_ids": _marks((0, 0, 0, 0)),
    "task_inputs": _task,
    "classes_input_ids": _detection_text(_CLASSES),
    "classes_attention_mask": _detection_text(_CLASSES, is_mask=True),
    "tasks_input_ids": _detection_text(1),
    "tasks_attention_mask": _detection_text(1, is_mask=True),
    "classes_structure": lambda _config, _request: [InputSpec(dtype="int64", shape=(BATCH,), row=(_CLASSES,))],
    "action_embeds": _actions,
    "crops": _crops,
    "source_grids": _source_grids,
}
"""What makes each such input, by the name of the forward's parameter or of what is made together; a tensor without a
name of its own has the parameter's."""


def transformers_inputs(config: Any, model_class: Any, words: str, request: InputRequest) -> InputMaker:
    """Make the inputs of one forward pass: its main input, and what else that forward cannot do without."""
    parameters = inspect.signature(model_class.forward).parameters
    whole = config
    if not hasattr(config, "dit_config"):
        config = getattr(config, "vlm_config", None) or config
    declared = architecture(whole.model_type).inputs or architecture(config.model_type).inputs
    needed = list(declared) or _needed(config, model_class, parameters)
    specs: list[InputSpec] = []
    for name in needed:
        try:
            made = MAKERS[name](config, request)
        except (KeyError, AttributeError, TypeError, ValueError) as error:  # no such maker, or a config unlike others
            raise UsageError(
                f"{words}: what its input {name} is cannot be derived from the config; state the inputs with ⟨input⟩ "
                f"or ⟨inputs-from⟩ (its forward takes {', '.join(needed)})."
            ) from error
        specs.extend(spec if spec.name else replace(spec, name=name) for spec in made)
    return SpecInputs(specs=tuple(specs))


def _needed(config: Any, model_class: Any, parameters: Any) -> list[str]:
    """Return the names of the inputs that a forward pass needs."""
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
    elif {"input_ids", "input_features"} <= parameters.keys() and getattr(config, "audio_config", None) is not None:
        names += ["input_ids", "input_features"]
        names += [name for name in ("input_features_mask", "padding_mask") if name in parameters]
    names += ["bbox"] * ("bbox" in parameters)
    if config.is_encoder_decoder and "decoder_input_ids" in parameters:
        names.append("decoder_input_ids")
    return list(dict.fromkeys(names))


_MULTIMODAL = (
    "input_ids", "pixel_values", "high_res_pixel_values", "image_grid_thw", "image_grid_hw", "image_merge_sizes",
    "spatial_shapes", "mm_token_type_ids", "image_sizes", "pixel_attention_mask",
)  # fmt: skip


def _tokens(config: Any, request: InputRequest) -> list[InputSpec]:
    """Return token ids; placeholders for image or sound features come first, if the model replaces these."""
    placeholder, count = placeholders(config, request)
    if not count:
        return [token_spec(config, request)]
    text = [plain_token(config)] * sequence(config, request)
    row = (*[placeholder] * count, *text)
    return [InputSpec(name="input_ids", dtype="int64", shape=(BATCH, Affine(len(row))), row=row)]


def _token_types(config: Any, request: InputRequest) -> list[InputSpec]:
    """Return 1 for an image's feature, 0 for text."""
    _, count = placeholders(config, request)
    row = (*[1] * count, *[0] * sequence(config, request))
    return [InputSpec(dtype="int64", shape=(BATCH, Affine(len(row))), row=row)]


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
    """Return a box per token: corners in thousandths of the page, or fractions of it for bros."""
    shape = (BATCH, Affine(sequence(config, request)), Affine(4))
    if config.model_type == "bros":
        return [InputSpec(shape=shape)]
    return [InputSpec(dtype="int64", shape=shape, row=(100, 100, 200, 200))]


def _per_token(config: Any, request: InputRequest) -> list[InputSpec]:
    return [InputSpec(dtype="int64", shape=(BATCH, Affine(sequence(config, request))))]


MAKERS: dict[str, Maker] = {
    "input_ids": _tokens,
    "decoder_input_ids": _decoder_tokens,
    "bbox": _boxes,
    "mm_token_type_ids": _token_types,
    "input_shape_ids": _per_token,
    "input_pronunciation_ids": _per_token,
    **SINGLE,
    **VISION,
    **AUDIO,
}
"""What makes each input, by the name of the forward's parameter."""
