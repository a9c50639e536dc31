"""Assume values where a model asks for what depends on data: a share selected, False for truth, 1 for a number.

What a model asserts is taken to hold. Where nothing else helps, the choices of a router are taken to be balanced: each
of the n alternatives as often as the others, in turn.

Each assumed value is counted under its operator's name, so that no answer rests on one silently.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import Any

import torch
from torch import Tensor

from capplan.probe.record.value_store import count_true


@dataclass(slots=True, kw_only=True)
class CandidateSelection:
    """How many candidates stay where the data decides, in one pass at one batch.

    Detectors select from what they selected: boxes that are large enough, of these the ones with a high score, of these
    the ones that do not overlap. The share is taken once of such a chain: a number of candidates that a selection left
    is kept whole. Only masks of integers (classes, not scores) are another question and take the share again.
    """

    share: float
    batch: int = 1
    _left: set[int] = field(default_factory=set)

    def kept(self, candidates: int, *, by_class: bool = False) -> int:
        """Return how many candidates stay; as many of each sample where they are as many, so that sizes stay affine."""
        if not candidates or (candidates in self._left and not by_class):
            return candidates
        samples = self.batch if candidates % self.batch == 0 else 1
        found = samples * ceil(self.share * (candidates // samples))
        self._left.add(found)
        return found


_COMPARING = frozenset({"aten.eq", "aten.ne", "aten.gt", "aten.ge", "aten.lt", "aten.le"})


def note_class_mask(name: str, args: tuple[Any, ...], out: Any) -> None:
    """Mark a mask that compares integers, such as the classes of regions."""
    if name in _COMPARING and isinstance(out, Tensor) and isinstance(args[0], Tensor) and args[0].dtype in _CLASSES:
        out.__dict__["_by_class"] = True


_CLASSES = (torch.int64, torch.int32)


def assume_output(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any], selection: CandidateSelection) -> Any:
    """Make an output of a data-dependent operator without its data; NotImplemented where no rule serves."""
    name = overload._schema.name
    if (selecting := _SELECTED.get(name)) is not None:
        return selecting(selection, *args, **kwargs)
    rule = _RULES.get(name)
    return rule(*args, **kwargs) if rule is not None else NotImplemented


def selected_output(overload: Any, args: tuple[Any, ...], knows: Callable[[Tensor], bool]) -> Any:
    """Make what known masks select of unknown values; NotImplemented where that is not what the operator does."""
    name = overload._schema.name
    if name == "aten::index":
        masks = [index for index in args[1] if isinstance(index, Tensor) and index.dtype in _MASKS]
        return _index(args[0], args[1], _count_known) if all(map(knows, masks)) else NotImplemented
    if name == "aten::masked_select" and args[0].shape == args[1].shape and knows(args[1]):
        return args[0].new_empty((_count_known(args[1]),))
    return NotImplemented


_MASKS = (torch.bool, torch.uint8)


def _count_known(mask: Tensor) -> int:
    return count_true(mask._known_value)  # type: ignore[attr-defined]  # our own mark


def is_choice(name: str, args: tuple[Any, ...]) -> bool:
    """Return True if an operator chooses some of few alternatives, as routers do among experts."""
    if name != "aten.topk":
        return False
    alternatives: int = args[0].shape[args[2] if len(args) > 2 else -1]
    return bool(args[1] < alternatives <= _MOST_ALTERNATIVES)


_MOST_ALTERNATIVES = 1024


def assumed_values(name: str, args: tuple[Any, ...], out: Any) -> tuple[Tensor, Tensor] | None:
    """Return an output of unknown value with a value to assume for it; None if there is none."""
    if name == "aten._is_all_true":
        return out, torch.tensor(True)
    if is_choice(name, args):
        dim = args[2] if len(args) > 2 else -1
        # Spread choices evenly: those of one row differ, those of the next go on from there.
        moved = out[1].movedim(dim, -1)
        in_turn = (torch.arange(moved.numel()) % args[0].shape[dim]).reshape(moved.shape).movedim(-1, dim).contiguous()
        return out[1], in_turn
    return None


def needs_values(overload: Any, args: tuple[Any, ...]) -> bool:
    """Return True if the operator needs values for these arguments: indexing does only by boolean masks."""
    if overload._schema.name != "aten::index":
        return True
    return any(isinstance(index, Tensor) and index.dtype in _MASKS for index in args[1])


def _scalar(tensor: Tensor) -> bool | int | float:
    if tensor.dtype is torch.bool:
        return False
    return 1.0 if tensor.is_floating_point() else 1


def _selected(selection: CandidateSelection, mask: Tensor) -> int:
    return selection.kept(mask.numel(), by_class="_by_class" in mask.__dict__)


def _index(x: Tensor, indices: list[Tensor | None], count: Callable[[Tensor], int]) -> Tensor:
    """Index by masks as by positions; a mask selects `count` of them."""
    unmasked: list[Tensor | None] = []
    for index in indices:
        if isinstance(index, Tensor) and index.dtype in _MASKS:
            unmasked += [index.new_empty((count(index),), dtype=torch.int64)] * index.dim()
        else:
            unmasked.append(index)
    return torch.ops.aten.index.Tensor(x, unmasked)  # type: ignore[no-any-return]  # torch.ops is untyped


def _nonzero(selection: CandidateSelection, x: Tensor) -> Tensor:
    return x.new_empty((x.dim(), _selected(selection, x)), dtype=torch.int64).t()


def _masked_select(selection: CandidateSelection, x: Tensor, mask: Tensor) -> Tensor:
    shape = torch.broadcast_shapes(x.shape, mask.shape)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return x.new_empty((selection.kept(torch.Size(shape).numel(), by_class="_by_class" in mask.__dict__),))


def _unique2(x: Tensor, _sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """Return one distinct value, because callers loop over them."""
    count = min(x.numel(), 1)
    return (
        x.new_empty((count,)),
        x.new_empty(x.shape if return_inverse else (0,), dtype=torch.int64),
        x.new_empty((count if return_counts else 0,), dtype=torch.int64),
    )


def _unique_consecutive(x: Tensor, return_inverse: bool = False, return_counts: bool = False, _dim: Any = None) -> Any:
    return _unique2(x, True, return_inverse, return_counts)


def _nms(selection: CandidateSelection, boxes: Tensor, *_: Any) -> Tensor:
    return boxes.new_empty((selection.kept(boxes.shape[0]),), dtype=torch.int64)


def _repeat_interleave(repeats: Tensor, *, output_size: int | None = None) -> Tensor:
    return repeats.new_empty((output_size if output_size is not None else repeats.shape[0],))


def _bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    return x.new_empty((max(minlength, 1),), dtype=torch.int64 if weights is None else torch.float64)


_RULES: Mapping[str, Callable[..., Any]] = {
    "aten::_local_scalar_dense": _scalar,
    "aten::is_nonzero": _scalar,
    "aten::equal": lambda *_: False,
    "aten::_unique2": _unique2,
    "aten::unique_consecutive": _unique_consecutive,
    "aten::repeat_interleave": _repeat_interleave,
    "aten::bincount": _bincount,
}
_SELECTED: Mapping[str, Callable[..., Tensor]] = {
    "aten::index": lambda selection, x, indices: _index(x, indices, partial(_selected, selection)),
    "aten::nonzero": _nonzero,
    "aten::masked_select": _masked_select,
    "torchvision::nms": _nms,
}

ASKING = frozenset(name.replace("::", ".") for name in _RULES)
"""Operators whose answers decide branches, counts and sizes, as `Operator.name` has them."""

SELECTING = frozenset(name.replace("::", ".") for name in _SELECTED)
"""Operators that keep some of their candidates."""
