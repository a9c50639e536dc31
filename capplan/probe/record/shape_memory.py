"""Keep what an operator makes of inputs of the same shapes: blocks of a network repeat, and shapes take long to derive.

Many operators' shapes are derived in Python on the meta device (elementwise operators, norms, resizing), which takes a
hundred times as long as making a tensor of a known shape.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from capplan.probe.record.types import Operator, flatten


@dataclass(frozen=True, slots=True)
class _Made:
    """A new tensor: its size, strides and dtype."""

    size: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype

    def again(self) -> Tensor:
        """Make another one, on the meta device."""
        return torch.empty_strided(self.size, self.stride, dtype=self.dtype, device="meta")


class ShapeMemory:
    """Runs operators on the meta device, those that make new tensors once for inputs of the same shapes."""

    def __init__(self) -> None:
        self._known: dict[Any, _Made | tuple[_Made, ...] | None] = {}

    def run(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if operator.written or operator.is_view or operator.is_data_dependent:
            return operator.overload(*args, **kwargs)
        try:
            key = operator.overload, *map(_look, args), *((name, _look(value)) for name, value in kwargs.items())
            made = self._known.get(key)
        except TypeError:  # an argument without a hash, or a tensor of another kind
            return operator.overload(*args, **kwargs)
        if isinstance(made, _Made):
            return made.again()
        if made is not None:
            return tuple(recipe.again() for recipe in made)
        out = operator.overload(*args, **kwargs)
        if key not in self._known:
            self._known[key] = _new(out, flatten((*args, *kwargs.values())))
        return out


def _look(value: Any) -> Any:
    """Return what decides of an argument how the output looks."""
    kind = type(value)
    if kind is Tensor or kind is nn.Parameter:
        if not value.is_meta or value.layout is not torch.strided or value.is_complex():
            raise TypeError
        return value.shape, value.stride(), value.dtype
    if isinstance(value, Tensor):
        raise TypeError
    if isinstance(value, (list, tuple)):
        return kind, tuple(map(_look, value))
    return kind, value


def _new(out: Any, inputs: list[Tensor]) -> _Made | tuple[_Made, ...] | None:
    """Return how to make an output again; None if it is not made of new tensors alone, each whole in its storage."""
    outputs = (out,) if isinstance(out, Tensor) else out
    if not isinstance(outputs, tuple) or not all(type(output) is Tensor and output.is_meta for output in outputs):
        return None
    taken = {tensor.untyped_storage()._cdata for tensor in inputs}
    made = []
    for tensor in outputs:
        storage = tensor.untyped_storage() if tensor.layout is torch.strided else None
        if storage is None or storage._cdata in taken or tensor.storage_offset() or tensor.is_complex():
            return None
        taken.add(storage._cdata)
        recipe = _Made(tensor.shape, tensor.stride(), tensor.dtype)
        if recipe.again().untyped_storage().nbytes() != storage.nbytes():
            return None
        made.append(recipe)
    return made[0] if isinstance(out, Tensor) else tuple(made)
