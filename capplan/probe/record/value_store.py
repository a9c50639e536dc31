"""Values that take little memory: tensors of stride 0 are computed and counted by their distinct elements."""

from typing import Any

import torch
from torch import Tensor

from capplan.probe.foreign.constructors import LARGEST_KNOWN

LARGEST_COMPUTED = 2**24
"""Elements, repeated ones included, up to which values are computed."""


def is_small(value: Tensor) -> bool:
    """Return True if a value is kept: it has few elements, or many that share the memory of few."""
    return value.numel() <= LARGEST_KNOWN or value.untyped_storage().nbytes() <= LARGEST_KNOWN * value.itemsize


def is_repeated(value: Tensor) -> bool:
    """Return True if a large value repeats itself along a dimension of stride 0."""
    return value.numel() > LARGEST_KNOWN and 0 in value.stride()


def without_repeats(value: Any) -> Any:
    """Select one element of each dimension of stride 0."""
    if not isinstance(value, Tensor):
        return value
    for axis, stride in enumerate(value.stride()):
        if stride == 0 and value.shape[axis] > 1:
            value = value.narrow(axis, 0, 1)
    return value


def count_true(mask: Tensor) -> int:
    """Count a mask's elements that are not zero, repeated ones included."""
    distinct = without_repeats(mask)
    if distinct.numel() == 0:
        return 0
    repeats: int = mask.numel() // distinct.numel()
    return int(torch.count_nonzero(distinct)) * repeats


def run_elementwise(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any], like: Tensor) -> Tensor:
    """Run an elementwise operator on distinct elements only, and repeat its result to the shape of `like`."""
    made: Tensor = overload(*map(without_repeats, args), **kwargs)
    return made.expand(like.shape)


def real_of(value: Any) -> Any:
    """Replace meta tensors by their known values."""
    if isinstance(value, Tensor):
        return value._known_value if value.is_meta else value  # type: ignore[attr-defined]  # our own mark
    if isinstance(value, (list, tuple)):
        return type(value)(real_of(item) for item in value)
    return value


def on_meta(real: Any) -> Any:
    if isinstance(real, Tensor):
        out = torch.empty_strided(real.shape, real.stride(), dtype=real.dtype, device="meta")
        attach(out, real)
        return out
    if isinstance(real, (list, tuple)):
        return type(real)(on_meta(item) for item in real)
    return real


def attach(out: Any, real: Any) -> None:
    """Attach values to meta tensors, if the values are small."""
    if isinstance(out, Tensor):
        if is_small(real):
            out.__dict__["_known_value"] = real
    elif isinstance(out, (list, tuple)):
        for item, value in zip(out, real, strict=True):
            if isinstance(item, Tensor):
                attach(item, value)
