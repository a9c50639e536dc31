"""What the model zoos share: images of a size, arguments that a constructor refuses, missing libraries."""

import importlib
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import torch

from capplan.core.affine import Affine
from capplan.errors import UsageError
from capplan.probe.inputs import BATCH, InputRequest, InputSpec
from capplan.probe.inputs_make import FunctionInputs, InputMaker, SpecInputs

_NOT_TAKEN = re.compile(r"unexpected keyword argument '(\w+)'|missing \d+ required|multiple values for")


def import_library(name: str) -> ModuleType:
    """Import a model library.

    Raises:
        UsageError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise UsageError(f"{name} is not installed: pip install 'capplan[zoo]', or pip install {name}.") from error


def call_with_arguments(
    what: str, make: Callable[..., torch.nn.Module], arguments: Mapping[str, Any]
) -> torch.nn.Module:
    """Call a constructor with the user's arguments.

    Raises:
        UsageError: it does not take them, in its own words.
    """
    try:
        return make(**arguments)
    except TypeError as error:
        if _NOT_TAKEN.search(str(error)):
            raise UsageError(f"{what} does not take these arguments: {error}.") from error
        raise


def image_spec(size: tuple[int, ...], *, name: str | None = None) -> InputSpec:
    """One batched float image or clip of a size."""
    return InputSpec(name=name, shape=(BATCH, *map(Affine, size)))


def resized(size: tuple[int, ...], wanted: tuple[int, ...] | None) -> tuple[int, ...]:
    """Apply `--input-size` to a known shape: all of its dimensions, or the last ones."""
    if wanted is None:
        return size
    if len(wanted) > len(size):
        known = "x".join(map(str, size))
        raise UsageError(f"--input-size {'x'.join(map(str, wanted))} has more dimensions than the model's {known}.")
    return (*size[: len(size) - len(wanted)], *wanted)


def asked_inputs(
    request: InputRequest, *, positional_names: tuple[str, ...] = (), forward: Callable[..., Any] | None = None
) -> InputMaker | None:
    """The inputs that the user spelt out; None where they left it to the model's source."""
    if request.inputs_from is not None:
        from capplan.probe.target_file import load_function

        function = load_function(request.inputs_from, "--inputs-from")
        return FunctionInputs(words=request.inputs_from, function=function, forward=forward)
    if request.inputs:
        return SpecInputs(specs=request.inputs, positional_names=positional_names)
    return None


def refuse_seq_len(words: str, request: InputRequest) -> None:
    """Refuse `--seq-len` where there are no tokens.

    Raises:
        UsageError: it was given.
    """
    if request.seq_len is not None:
        raise UsageError(f"--seq-len is for transformers models (hf:...), and {words} is none: use --input.")
