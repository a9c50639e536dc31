"""What to assume where a model asks for values that depend on data: all selected, False for truth, 1 for a number.

Each guess is counted under its operator's name, so that no answer rests on one silently.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


def guess_output(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make an output of a data-dependent operator without its data; NotImplemented where no rule serves."""
    rule = _RULES.get(overload._schema.name)
    return rule(*args, **kwargs) if rule is not None else NotImplemented


def is_guessed(overload: Any, args: tuple[Any, ...]) -> bool:
    """Tell whether the operator needs values for these arguments: indexing does only by boolean masks."""
    if overload._schema.name != "aten::index":
        return True
    return any(isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in args[1])


def _scalar(tensor: Tensor) -> bool | int | float:
    if tensor.dtype is torch.bool:
        return False
    return 1.0 if tensor.is_floating_point() else 1


def _index(x: Tensor, indices: list[Tensor | None]) -> Tensor:
    unmasked: list[Tensor | None] = []
    for index in indices:
        if isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8):
            everything = index.new_empty((index.numel(),), dtype=torch.int64)
            unmasked += [everything] * index.dim()
        else:
            unmasked.append(index)
    return torch.ops.aten.index.Tensor(x, unmasked)  # type: ignore[no-any-return]  # torch.ops is untyped


def _nonzero(x: Tensor) -> Tensor:
    return x.new_empty((x.dim(), x.numel()), dtype=torch.int64).t()


def _masked_select(x: Tensor, mask: Tensor) -> Tensor:
    shape = torch.broadcast_shapes(x.shape, mask.shape)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return x.new_empty((torch.Size(shape).numel(),))


def _unique2(x: Tensor, _sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """One distinct value: what asks for them loops over them."""
    count = min(x.numel(), 1)
    return (
        x.new_empty((count,)),
        x.new_empty(x.shape if return_inverse else (0,), dtype=torch.int64),
        x.new_empty((count if return_counts else 0,), dtype=torch.int64),
    )


def _unique_consecutive(x: Tensor, return_inverse: bool = False, return_counts: bool = False, _dim: Any = None) -> Any:
    return _unique2(x, True, return_inverse, return_counts)


def _nms(boxes: Tensor, *_: Any) -> Tensor:
    return boxes.new_empty((boxes.shape[0],), dtype=torch.int64)


def _repeat_interleave(repeats: Tensor, *, output_size: int | None = None) -> Tensor:
    return repeats.new_empty((output_size if output_size is not None else repeats.shape[0],))


def _bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    return x.new_empty((max(minlength, 1),), dtype=torch.int64 if weights is None else torch.float64)


def _equal(*_: Any) -> bool:
    return False


_RULES: Mapping[str, Callable[..., Any]] = {
    "aten::_local_scalar_dense": _scalar,
    "aten::is_nonzero": _scalar,
    "aten::equal": _equal,
    "aten::index": _index,
    "aten::nonzero": _nonzero,
    "aten::masked_select": _masked_select,
    "aten::_unique2": _unique2,
    "aten::unique_consecutive": _unique_consecutive,
    "aten::repeat_interleave": _repeat_interleave,
    "aten::bincount": _bincount,
    "torchvision::nms": _nms,
}
