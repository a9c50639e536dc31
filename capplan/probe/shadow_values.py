"""Values that take little memory: tensors of stride 0 are computed and counted by their distinct elements."""

from typing import Any

import torch
from torch import Tensor

LARGEST_SHADOW = 131_072
"""Elements held in memory up to which values are kept."""

LARGEST_COMPUTED = 2**24
"""Elements, repeated ones included, up to which values are computed."""


def is_small(value: Tensor) -> bool:
    """Tell whether a value is kept: it has few elements, or many that share the memory of few."""
    return value.numel() <= LARGEST_SHADOW or value.untyped_storage().nbytes() <= LARGEST_SHADOW * value.itemsize


def is_repeated(value: Tensor) -> bool:
    """Tell whether a large value repeats itself along a dimension of stride 0."""
    return value.numel() > LARGEST_SHADOW and 0 in value.stride()


def without_repeats(value: Any) -> Any:
    """Take one element of each dimension of stride 0."""
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
