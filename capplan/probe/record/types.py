"""Types of a recorded pass in concrete numbers, and of operators as the recorder treats them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor
from torch._ops import OpOverload

from capplan.core.trace.types import Attribute, Role


class PreludeRecorder(Protocol):
    """The part of a recorder that a prelude uses to run and record further kernels.

    `packed` holds what objects of packed weights store, by the hash of the object, which names it alone.
    """

    packed: Mapping[int, tuple[Tensor, ...]]

    def note(
        self,
        name: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        attributes: tuple[tuple[str, Attribute], ...] = (),
    ) -> None:
        """Record a logical operator whose outputs the caller made."""

    def paused(self) -> AbstractContextManager[None]:
        """Run without recording."""

    def describe(self, overload: OpOverload) -> "Operator":
        """Look an overload up."""

    def run(self, operator: "Operator", args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run and record one operator."""

    def laid_out(self, tensor: Tensor, layout: torch.memory_format) -> Tensor:
        """Copy a tensor to a layout unless it has it already."""

    def adopt_view(self, view: Tensor, source: Tensor) -> None:
        """Register a view that was made outside the recorder."""


Prelude = Callable[[PreludeRecorder, "Operator", tuple[Any, ...], dict[str, Any]], Any]
"""Runs an operator together with the kernels that CUDA launches around it."""


RawOperand: TypeAlias = tuple[torch.dtype, tuple[int, ...], str, tuple[int, ...]]
RawKernel: TypeAlias = tuple[str, tuple[tuple[str, Attribute], ...], tuple[int, ...], tuple[int, ...]]
"""Name, attributes, and operands as 2 · index + is_weight."""


@dataclass(slots=True)
class Assumed:
    """How often an operator's value was assumed in one pass, at which lines, and the op that came next."""

    first_op: int
    count: int = 0
    lines: dict[str, None] = field(default_factory=dict)


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
    assumed: dict[str, Assumed] = field(default_factory=dict)
    selected_share: float = 1.0
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
    """Return a tensor's `MemoryFormat` value and its dimensions of stride 0."""
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


@dataclass(slots=True, eq=False)
class Operator:
    """One overload as the recorder treats it; made once per overload and session."""

    name: str
    overload: OpOverload
    is_view: bool
    reshapes_in_place: bool
    returns_first: bool
    is_foreach_in_place: bool
    written: tuple[int, ...]
    written_names: tuple[str, ...]
    reads_written: bool
    scalars: tuple[tuple[int, str], ...]
    is_random: bool
    is_data_dependent: bool
    is_elementwise: bool
    tells_equal: bool
    is_assumed: bool
    is_composite: bool
    launches: bool
    shape_rule: Callable[..., Any] | None
    prelude: Prelude | None
