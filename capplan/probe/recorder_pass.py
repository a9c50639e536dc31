"""What a recorder writes down of one pass, in concrete numbers, and how it puts scalars and layouts into words."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, TypeAlias

import torch
from torch import Tensor

from capplan.core.trace import Attribute, Role

RawOperand: TypeAlias = tuple[torch.dtype, tuple[int, ...], str, tuple[int, ...]]
RawKernel: TypeAlias = tuple[str, tuple[tuple[str, Attribute], ...], tuple[int, ...], tuple[int, ...]]
"""Name, attributes, and operands as 2 · index + is_weight."""


@dataclass(slots=True)
class Pass:
    """One pass at one batch size, in concrete numbers."""

    operands: list[RawOperand] = field(default_factory=list)
    kernels: list[RawKernel] = field(default_factory=list)
    op_kernels: list[int] = field(default_factory=list)
    op_modules: list[int] = field(default_factory=list)
    op_calls: list[int] = field(default_factory=list)
    op_reads: list[tuple[int, ...]] = field(default_factory=list)
    op_writes: list[tuple[int, ...]] = field(default_factory=list)
    sizes_bytes: list[int] = field(default_factory=list)
    roles: list[Role] = field(default_factory=list)
    births: list[int] = field(default_factory=list)
    deaths: list[int | None] = field(default_factory=list)
    phases: list[tuple[str, int, int]] = field(default_factory=list)
    guesses: dict[str, int] = field(default_factory=dict)
    flops: dict[int, int] = field(default_factory=dict)


def plain_attribute(value: Any) -> Attribute | None:
    """Keep a scalar argument if a trace can hold it."""
    kind = type(value)
    if kind is bool or kind is int or kind is str:
        return value  # type: ignore[no-any-return]  # narrowed by `kind`
    if kind is float:
        return value if isfinite(value) else None
    if isinstance(value, (list, tuple)) and len(value) <= 16 and all(type(item) in (int, bool) for item in value):
        return tuple(int(item) for item in value)
    return None


def flatten(values: Iterable[Any]) -> list[Tensor]:
    """Collect the tensors of an argument list, lists inside it included, in order."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)) and value and type(value[0]) not in _NUMBERS:
            found += flatten(value)
    return found


_NUMBERS = (int, float, bool)


def classify_layout(tensor: Tensor) -> tuple[str, tuple[int, ...]]:
    """Tell how a tensor lies in memory: its `MemoryFormat` value and its dimensions of stride 0."""
    if tensor.layout is not torch.strided:
        return "s", ()
    if tensor.is_contiguous():
        return "c", ()
    rank = tensor.dim()
    for wanted, memory_format in ((4, torch.channels_last), (5, torch.channels_last_3d)):
        if rank == wanted and tensor.is_contiguous(memory_format=memory_format):
            return "n", ()
    strides = tensor.stride()
    expanded = tuple(axis for axis, size in enumerate(tensor.shape) if size > 1 and strides[axis] == 0)
    return "s", expanded
