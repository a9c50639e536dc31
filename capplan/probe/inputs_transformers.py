"""What a transformers model is fed, from its main input's name and its config."""

import inspect
from typing import Any

from capplan.core.affine import Affine
from capplan.errors import UsageError
from capplan.probe.inputs import BATCH, InputRequest, InputSpec
from capplan.probe.inputs_make import InputMaker, SpecInputs
from capplan.probe.zoo import image_spec, resized

DEFAULT_SEQ_LEN = 128


def transformers_inputs(config: Any, model_class: Any, words: str, request: InputRequest) -> InputMaker:
    """Make the inputs of one forward pass.

    Raises:
        UsageError: the main input is none that the config describes; the user must spell it out.
    """
    main = model_class.main_input_name
    taken = inspect.signature(model_class.forward).parameters
    specs: list[InputSpec] = []
    if main == "pixel_values":
        specs.append(image_spec(resized(image_size(config), request.size), name=main))
    elif main == "input_ids":
        specs.append(token_spec(config, request, name=main))
    else:
        raise UsageError(f"{words}: its inputs are not known; spell them out: --input {main}=... or --inputs-from.")
    if config.is_encoder_decoder and "decoder_input_ids" in taken:
        specs.append(token_spec(config, request, name="decoder_input_ids"))
    return SpecInputs(specs=tuple(specs))


def token_spec(config: Any, request: InputRequest, *, name: str) -> InputSpec:
    """Token ids: one sequence of `--seq-len`, or as many positions as the model has."""
    text = config.get_text_config()
    longest = getattr(text, "max_position_embeddings", None)
    length = request.seq_len or min(DEFAULT_SEQ_LEN, longest or DEFAULT_SEQ_LEN)
    return InputSpec(name=name, dtype="int64", shape=(BATCH, Affine(length)), high=text.vocab_size)


def image_size(config: Any) -> tuple[int, int, int]:
    """Channels, height and width of the images that a config describes."""
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", 224)
    height, width = (size, size) if isinstance(size, int) else tuple(size)
    return (getattr(vision, "num_channels", 3), height, width)
