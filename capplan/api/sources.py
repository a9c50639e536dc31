"""Turn what a Python caller passes (words, a module, a trace) into the model of a request."""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from capplan.app.models import ModelSource, QuantisedSource
from capplan.core.quantisation.schemes import find_scheme
from capplan.core.trace.types import Trace
from capplan.errors import UsageError
from capplan.probe.inputs.request import ModelRequest

if TYPE_CHECKING:
    from capplan.probe.inputs.grammar import InputRequest
    from capplan.probe.target.types import Target


def find_source(
    model: Any,
    *,
    arguments: Mapping[str, Any] | None = None,
    inputs: Sequence[str] | Callable[[int], Any] = (),
    input_size: Sequence[int] | None = None,
    seq_len: int | None = None,
    weights: str | None = None,
    activations: str | None = None,
    selected_share: float | None = None,
) -> ModelSource:
    """Return the model of a request.

    Words with plain arguments are asked as on the command line, so that their traces are cached; what only this
    process holds (a module, a function, other values) becomes a target.

    Args:
        model: words as on the command line, an `nn.Module`, or a `Trace`.
        arguments: the constructor's or config's arguments, by name.
        inputs: words of the input grammar, or a function of the batch size that returns the inputs.
        input_size: the shape of one image without the batch.
        seq_len: tokens per sample.
        weights: the format that weights of linear layers are quantised to, as for `--weights`.
        activations: the format of their activations.
        selected_share: the share of candidates that stay where the data decides.

    Raises:
        UsageError: there is no such model, or it does not take these arguments and inputs.
    """
    scheme = find_scheme(weights, activations)
    if scheme is not None:
        source = find_source(
            model, arguments=arguments, inputs=inputs, input_size=input_size, seq_len=seq_len,
            selected_share=selected_share,
        )  # fmt: skip
        assert not isinstance(source, QuantisedSource)
        return QuantisedSource(source=source, scheme=scheme)
    values = dict(arguments or {})
    if isinstance(model, Trace):
        if values or inputs or any(each is not None for each in (input_size, seq_len, selected_share)):
            raise UsageError(f"{model.name} is a trace: its arguments and inputs are fixed; trace the model again.")
        return model
    request = ModelRequest(
        words=model if isinstance(model, str) else "",
        arg=tuple(f"{name}={value!r}" for name, value in values.items()),
        inputs=() if callable(inputs) else tuple(inputs),
        input_size=None if input_size is None else "x".join(map(str, input_size)),
        seq_len=seq_len,
        selected_share=selected_share,
    )
    if isinstance(model, str) and callable(inputs):
        raise UsageError(f"{model}: inputs made by a function need the module itself; pass it instead of its name.")
    if isinstance(model, str) and all(map(_is_plain, values.values())):
        return request
    parsed = replace(replace(request, arg=()).parse(), arguments=tuple(values.items()))
    return _target(model, parsed, inputs if callable(inputs) else None)


def _target(model: Any, request: "InputRequest", make: Callable[[int], Any] | None) -> "Target":
    from capplan.probe.target.resolve import load_target
    from capplan.probe.target.sources.code import module_target

    if isinstance(model, str):
        return load_target(model, request=request)
    return replace(module_target(model, request=request, make=make), selected_share=request.selected_share)


def _is_plain(value: Any) -> bool:
    """Return True if a value survives being written as words: numbers, texts and containers of them."""
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False
