"""Make the inputs of a transformers model from its forward's parameters, its main input and its config."""

import inspect
from collections.abc import Callable
from typing import Any

from capplan.core.trace.types import Affine
from capplan.errors import UsageError
from capplan.probe.inputs.grammar import BATCH, InputRequest, InputSpec
from capplan.probe.inputs.tensors import InputMaker, SpecInputs
from capplan.probe.transformers.audio import AUDIO
from capplan.probe.transformers.images import VISION
from capplan.probe.transformers.registry import architecture
from capplan.probe.transformers.single import SINGLE
from capplan.probe.transformers.tokens import multimodal, placeholders, plain_token, sees, sequence, token_spec


def transformers_inputs(config: Any, model_class: Any, words: str, request: InputRequest) -> InputMaker:
    """Make the inputs of one forward pass: its main input, and what else that forward cannot do without.

    Raises:
        UsageError: an input that neither name nor config explain; the user must spell it out.
    """
    parameters = inspect.signature(model_class.forward).parameters
    whole = config
    if not hasattr(config, "dit_config"):
        config = getattr(config, "vlm_config", None) or config
    needed = list(architecture(whole.model_type).inputs) or _needed(config, model_class, parameters)
    specs: list[InputSpec] = []
    for name in needed:
        try:
            specs.extend(MAKERS[name](config, request))
        except (KeyError, AttributeError, TypeError, ValueError) as error:  # no such maker, or a config unlike others
            raise UsageError(
                f"{words}: what its input {name} is cannot be derived from the config; state the inputs with --input "
                f"or --inputs-from (its forward takes {', '.join(needed)})."
            ) from error
    return SpecInputs(specs=tuple(specs))


def _needed(config: Any, model_class: Any, parameters: Any) -> list[str]:
    """Return the names of the inputs that a forward pass needs."""
    if declared := architecture(config.model_type).inputs:
        return list(declared)
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
    elif (
        "input_ids" in parameters
        and "input_features" in parameters
        and getattr(config, "audio_config", None) is not None
    ):
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
    return [InputSpec(name="mm_token_type_ids", dtype="int64", shape=(BATCH, Affine(len(row))), row=row)]


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
        return [InputSpec(name="bbox", shape=shape)]
    return [InputSpec(name="bbox", dtype="int64", shape=shape, row=(100, 100, 200, 200))]


def _per_token(name: str, high: int = 2) -> Callable[[Any, InputRequest], list[InputSpec]]:
    def make(config: Any, request: InputRequest) -> list[InputSpec]:
        return [InputSpec(name=name, dtype="int64", shape=(BATCH, Affine(sequence(config, request))), high=high)]

    return make


MAKERS: dict[str, Callable[[Any, InputRequest], list[InputSpec]]] = {
    "input_ids": _tokens,
    "decoder_input_ids": _decoder_tokens,
    "bbox": _boxes,
    "mm_token_type_ids": _token_types,
    "input_shape_ids": _per_token("input_shape_ids"),
    "input_pronunciation_ids": _per_token("input_pronunciation_ids"),
    **SINGLE,
    **VISION,
    **AUDIO,
}
"""What makes each input, by the name of the forward's parameter."""
