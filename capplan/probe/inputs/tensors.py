"""Inputs made for a batch size: from specs, as a list of images, by the user's function; for all sources of models."""

import copy
import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import torch

from capplan.core.trace.types import Affine
from capplan.errors import UsageError
from capplan.probe.foreign.code import model_code
from capplan.probe.inputs.grammar import BATCH, InputRequest, InputSpec, ModelInputs, nested

Device = torch.device | str


InputMaker = Callable[[int, Device], ModelInputs]
"""Makes a model's inputs for a batch size on a device; on meta only their shapes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecInputs:
    """Tensors from specs: unnamed ones positional, in order; `positional_names` gives their names.

    Names such as `batch.x` and `views[0]` are put into dictionaries and lists.
    """

    specs: tuple[InputSpec, ...]
    positional_names: tuple[str, ...] = ()

    def __call__(self, batch: int, device: Device) -> ModelInputs:
        positional = [spec for spec in self.specs if spec.name is None]
        named = [(spec.name, spec) for spec in self.specs if spec.name is not None]
        kwargs = nested((name, make_tensor(spec, batch=batch, device=device)) for name, spec in named)
        unnamed = (f"input{index}" for index in range(len(self.positional_names), len(positional)))
        called = (*self.positional_names[: len(positional)], *unnamed)
        return ModelInputs(
            args=tuple(make_tensor(spec, batch=batch, device=device) for spec in positional),
            kwargs=kwargs,
            names=(*called, *(name for name, _ in named_tensors((), kwargs))),
        )


def image_list_inputs(image: InputSpec, batch: int, device: Device) -> ModelInputs:
    """Make a list of `batch` images, as torchvision's detectors take them."""
    images = [image.clone() for image in make_tensor(image, batch=batch, device=device)]
    return ModelInputs(args=(images,), names=tuple(f"images[{index}]" for index in range(batch)))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInputs:
    """The inputs of a graph in a file; `only_batch` is None where its batch varies.

    Another batch is refused: `fixed` says that the file fixes it ("net.onnx has a fixed batch"), `instead` what to do.
    """

    made: SpecInputs
    only_batch: int | None
    fixed: str
    instead: str
    notes: tuple[str, ...] = ()

    def __call__(self, batch: int, device: Device) -> ModelInputs:
        if self.only_batch not in (None, batch):
            raise UsageError(f"{self.fixed} of {self.only_batch}, so batch {batch} cannot be run: {self.instead}")
        return self.made(batch, device)


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionInputs:
    """What the user's function returns for a batch size.

    A tuple is the positional arguments, a pair of tuple and dict both kinds, a dict the keyword arguments where the
    model's `forward` takes such, and anything else (tensors, lists, dicts, dataclasses) the one argument.
    """

    words: str
    function: Callable[[int], Any]
    forward: Callable[..., Any] | None = None

    def __call__(self, batch: int, device: Device) -> ModelInputs:
        """Call the function and put its tensors on the device."""
        with model_code(f"⟨inputs-from⟩ {self.words} at batch {batch}", error=UsageError):
            made = self.function(batch)
        args, kwargs = _as_call(made, self.forward)
        args, kwargs = on_device((args, kwargs), device)
        return ModelInputs(args=args, kwargs=kwargs, names=tuple(name for name, _ in named_tensors(args, kwargs)))


def make_tensor(spec: InputSpec, *, batch: int, device: Device) -> torch.Tensor:
    """Make one tensor of random values, or of the values that the spec fixes."""
    shape = tuple(dim.at(batch) for dim in spec.shape)
    dtype: torch.dtype = getattr(torch, spec.dtype)
    if torch.device(device).type == "meta":
        return torch.empty(shape, dtype=dtype, device="meta")
    if spec.row is not None:
        return torch.tensor(spec.row, dtype=dtype, device=device).expand(shape).contiguous()
    if dtype == torch.bool:
        return torch.ones(shape, dtype=dtype, device=device)
    chance = torch.Generator("cpu").manual_seed(0)
    if dtype.is_floating_point or dtype.is_complex:
        made = torch.rand(shape, dtype=dtype if dtype.is_complex else torch.float32, generator=chance, device="cpu")
    else:
        made = torch.randint(0, spec.high, shape, generator=chance, device="cpu")
    return made.to(device=device, dtype=dtype)


def as_forward_takes(inputs: ModelInputs, forward: Callable[..., Any]) -> ModelInputs:
    """Pass a single named input by position if `forward` has no parameter of that name.

    `nn.Sequential` calls its only parameter `input`, whatever its user calls it. Anything else is left as it is.
    """
    if inputs.args or len(inputs.kwargs) != 1:
        return inputs
    [(name, value)] = inputs.kwargs.items()
    parameters = inspect.signature(forward).parameters
    is_taken = name in parameters or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    takes_one = any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters.values())
    return inputs if is_taken or not takes_one else replace(inputs, args=(value,), kwargs={})


def named_tensors(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Walk the tensors of a call with names for where they sit: `input0`, `boxes[1]`, `batch.ids`."""
    for index, value in enumerate(args):
        yield from _walk(f"input{index}", value)
    for name, value in kwargs.items():
        yield from _walk(name, value)


def _walk(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _walk(f"{name}.{key}", part)
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from _walk(f"{name}[{index}]", part)
    elif _has_parts(value):
        for key, part in vars(value).items():
            yield from _walk(f"{name}.{key}", part)


def on_device(value: Any, device: Device) -> Any:
    """Copy a nest of tensors with every tensor on a device; on meta only its shape goes.

    A sparse tensor keeps its data instead: how many elements it stores decides what is computed.
    """
    is_meta = torch.device(device).type == "meta"
    return map_tensors(
        value, lambda tensor: tensor if is_meta and tensor.layout is not torch.strided else tensor.to(device)
    )


def map_tensors(value: Any, replace: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Copy a nest of containers and objects with every tensor replaced; what holds no tensor is shared."""
    if isinstance(value, torch.Tensor):
        return replace(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(part, replace) for part in value))
    if isinstance(value, list | tuple):
        return type(value)(map_tensors(part, replace) for part in value)
    if isinstance(value, dict):
        moved = copy.copy(value)
        for key, part in list(dict.items(value)):
            dict.__setitem__(moved, key, map_tensors(part, replace))
        return moved
    if _has_parts(value):
        twin = copy.copy(value)
        for key, part in vars(value).items():
            object.__setattr__(twin, key, map_tensors(part, replace))
        return twin
    return value


def _has_parts(value: Any) -> bool:
    """Return True if a value is an object that carries tensors in its attributes, as dataclasses do."""
    if isinstance(value, _ALONE) or (callable(value) and not isinstance(value, Mapping)):
        return False
    parts = getattr(value, "__dict__", None)
    return isinstance(parts, dict) and any(map(_holds_tensors, parts.values()))


_ALONE = (type, ModuleType, torch.nn.Module, weakref.ReferenceType, str)


def _holds_tensors(value: Any, depth: int = 3) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    if depth == 0 or isinstance(value, _ALONE):
        return False
    if isinstance(value, Mapping):
        return any(_holds_tensors(part, depth - 1) for part in value.values())
    if isinstance(value, list | tuple):
        return any(_holds_tensors(part, depth - 1) for part in value)
    parts = getattr(value, "__dict__", None)
    return isinstance(parts, dict) and any(_holds_tensors(part, depth - 1) for part in parts.values())


def _as_call(made: Any, forward: Callable[..., Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Split what a user's function returned into positional and keyword arguments."""
    if isinstance(made, tuple) and not hasattr(made, "_fields"):
        if len(made) == 2 and isinstance(made[0], tuple) and isinstance(made[1], dict):
            return made
        return made, {}
    if isinstance(made, Mapping) and _takes(forward, made):
        return (), dict(made)
    return (made,), {}


def _takes(forward: Callable[..., Any] | None, keywords: Mapping[Any, Any]) -> bool:
    """Return True if a forward takes these keywords; yes where its signature is unknown."""
    if not all(isinstance(key, str) for key in keywords):
        return False
    if forward is None:
        return True
    parameters = inspect.signature(forward).parameters
    return all(key in parameters for key in keywords) or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


_IMAGE_RANK = 3


def image_spec(size: tuple[int, ...]) -> InputSpec:
    """Return the spec of one batched float image or clip of a size."""
    return InputSpec(shape=(BATCH, *map(Affine, size)))


def image_of_stated_size(request: InputRequest, words: str, *, positional_names: tuple[str, ...]) -> SpecInputs | None:
    """Return one image of `--input-size` for a model whose own size is not known; None where no size was given."""
    if request.size is None:
        return None
    if len(request.size) == 1:
        [side] = request.size
        raise UsageError(
            f"{words}: ⟨input-size⟩ {side} leaves open what it is the size of: write ⟨input-size⟩ 3x{side}x{side} for "
            f"an image, or ⟨input⟩ {side} for a vector."
        )
    return SpecInputs(specs=(image_spec(request.size),), positional_names=positional_names)


def resized(size: tuple[int, ...], wanted: tuple[int, ...] | None) -> tuple[int, ...]:
    """Apply `--input-size` to a known shape: all dimensions, height and width, or one number for both."""
    if wanted is None:
        return size
    known, words = "x".join(map(str, size)), "x".join(map(str, wanted))
    if len(wanted) > len(size):
        raise UsageError(f"⟨input-size⟩ {words} has more dimensions than the model's {known}.")
    if len(wanted) == 1 and len(size) >= _IMAGE_RANK:
        return (*size[:-2], *wanted, *wanted)
    if 1 < len(wanted) < len(size) and wanted[0] == size[0]:
        raise UsageError(
            f"⟨input-size⟩ {words} could begin with the {size[0]} channels or not: write all dimensions of {known}, "
            "height and width alone, or one number for a square image."
        )
    return (*size[: len(size) - len(wanted)], *wanted)


def asked_inputs(
    request: InputRequest, *, positional_names: tuple[str, ...] = (), forward: Callable[..., Any] | None = None
) -> InputMaker | None:
    """Return the inputs that the user stated; None where the model's source decides."""
    if request.inputs_from is not None:
        from capplan.probe.foreign.importing import load_function

        function = load_function(request.inputs_from, "⟨inputs-from⟩", as_cpu=request.as_cpu)
        return FunctionInputs(words=request.inputs_from, function=function, forward=forward)
    if request.inputs:
        return SpecInputs(specs=request.inputs, positional_names=positional_names)
    return None


def refuse_seq_len(words: str, request: InputRequest) -> None:
    """Refuse a sequence length of a model that takes no tokens."""
    if request.seq_len is not None:
        raise UsageError(f"⟨seq-len⟩ is for transformers models (hf:...), and {words} is not one: use ⟨input⟩.")
