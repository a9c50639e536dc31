"""Inputs made for a batch size: from specs, as a list of images, or by the user's own function."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.utils._pytree import tree_flatten_with_path, tree_map_only

from capplan.errors import UsageError
from capplan.probe.inputs import InputSpec, ModelInputs

Device = torch.device | str


class InputMaker(Protocol):
    """Makes a model's inputs for a batch size on a device; on meta only their shapes."""

    def __call__(self, batch: int, device: Device) -> ModelInputs:
        """Make them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecInputs:
    """Tensors from specs: unnamed ones positional, in order; `positional_names` tells what to call them."""

    specs: tuple[InputSpec, ...]
    positional_names: tuple[str, ...] = ()

    def __call__(self, batch: int, device: Device) -> ModelInputs:
        """Make the tensors."""
        positional = [spec for spec in self.specs if spec.name is None]
        named = {spec.name: spec for spec in self.specs if spec.name is not None}
        called = [
            self.positional_names[i] if i < len(self.positional_names) else f"input{i}" for i in range(len(positional))
        ]
        known = {
            name: make_tensor(spec, batch=batch, device="cpu")
            for name, spec in [*zip(called, positional, strict=True), *named.items()]
            if spec.row is not None
        }
        return ModelInputs(
            args=tuple(make_tensor(spec, batch=batch, device=device) for spec in positional),
            kwargs={name: make_tensor(spec, batch=batch, device=device) for name, spec in named.items()},
            names=(*called, *named),
            known=known,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageListInputs:
    """A list of `batch` images, as torchvision's detectors take them."""

    image: tuple[int, ...]

    def __call__(self, batch: int, device: Device) -> ModelInputs:
        """Make the images."""
        images = [torch.rand(self.image, device=device) for _ in range(batch)]
        return ModelInputs(args=(images,), names=tuple(f"images[{i}]" for i in range(batch)))


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionInputs:
    """Whatever the user's function returns for a batch size: a tensor, a tuple of arguments, a dict of keywords."""

    words: str
    function: Callable[[int], Any]

    def __call__(self, batch: int, device: Device) -> ModelInputs:
        """Call the function and move its tensors to the device."""
        from capplan.probe.target_code import model_code

        with model_code(f"--inputs-from {self.words}", error=UsageError), torch.device(device):
            made = self.function(batch)
        made = tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), made)
        args, kwargs = _as_call(made)
        return ModelInputs(args=args, kwargs=kwargs, names=tensor_names(args, kwargs))


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
    if dtype.is_floating_point or dtype.is_complex:
        wide = dtype if dtype.is_complex else torch.float32
        return torch.rand(shape, dtype=wide, device=device).to(dtype)
    return torch.randint(0, spec.high, shape, dtype=dtype, device=device)


def tensor_names(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[str, ...]:
    """Name the tensors of a call by where they sit: `input0`, `boxes[1]`, `batch.ids`."""
    leaves = tree_flatten_with_path((tuple(args), kwargs))[0]
    return tuple(_path_name(path) for path, leaf in leaves if isinstance(leaf, torch.Tensor))


def _path_name(path: Sequence[Any]) -> str:
    """Spell a pytree path below (args, kwargs)."""
    place, first, *rest = path
    key = first.idx if hasattr(first, "idx") else first.key
    head = f"input{key}" if place.idx == 0 else str(key)
    return head + "".join(str(step) for step in rest)


def _as_call(made: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Split what a user's function returned into positional and keyword arguments.

    A tuple is the positional arguments, unless it is a pair (tuple, dict); a mapping is the keywords; anything else is
    the one argument.
    """
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], tuple) and isinstance(made[1], dict):
        return made
    if isinstance(made, tuple) and not hasattr(made, "_fields"):
        return made, {}
    if isinstance(made, dict) and all(isinstance(key, str) and key.isidentifier() for key in made):
        return (), dict(made)
    return (made,), {}
