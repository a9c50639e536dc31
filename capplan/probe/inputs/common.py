"""Handle inputs for all sources of models: image sizes, inputs that the user states, options that do not apply."""

from collections.abc import Callable
from typing import Any

from capplan.core.trace.types import Affine
from capplan.errors import UsageError
from capplan.probe.inputs.grammar import BATCH, InputRequest, InputSpec
from capplan.probe.inputs.tensors import FunctionInputs, InputMaker, SpecInputs

_IMAGE_RANK = 3


def image_spec(size: tuple[int, ...], *, name: str | None = None) -> InputSpec:
    """Return the spec of one batched float image or clip of a size."""
    return InputSpec(name=name, shape=(BATCH, *map(Affine, size)))


def resized(size: tuple[int, ...], wanted: tuple[int, ...] | None) -> tuple[int, ...]:
    """Apply `--input-size` to a known shape: all dimensions, height and width, or one number for both.

    Raises:
        UsageError: more dimensions than the shape has, or too few of them beginning with the channels.
    """
    if wanted is None:
        return size
    known, words = "x".join(map(str, size)), "x".join(map(str, wanted))
    if len(wanted) > len(size):
        raise UsageError(f"--input-size {words} has more dimensions than the model's {known}.")
    if len(wanted) == 1 and len(size) >= _IMAGE_RANK:
        return (*size[:-2], *wanted, *wanted)
    if 1 < len(wanted) < len(size) and wanted[0] == size[0]:
        raise UsageError(
            f"--input-size {words} could begin with the {size[0]} channels or not: write all dimensions of {known}, "
            "height and width alone, or one number for a square image."
        )
    return (*size[: len(size) - len(wanted)], *wanted)


def asked_inputs(
    request: InputRequest, *, positional_names: tuple[str, ...] = (), forward: Callable[..., Any] | None = None
) -> InputMaker | None:
    """Return the inputs that the user stated; None where the model's source decides."""
    if request.inputs_from is not None:
        from capplan.probe.foreign.importing import load_function

        function = load_function(request.inputs_from, "--inputs-from", as_cpu=request.as_cpu)
        return FunctionInputs(words=request.inputs_from, function=function, forward=forward)
    if request.inputs:
        return SpecInputs(specs=request.inputs, positional_names=positional_names)
    return None


def refuse_seq_len(words: str, request: InputRequest) -> None:
    """Refuse a sequence length of a model that takes no tokens.

    Raises:
        UsageError: it was given.
    """
    if request.seq_len is not None:
        raise UsageError(f"--seq-len is for transformers models (hf:...), and {words} is not one: use --input.")
