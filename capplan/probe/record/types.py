"""Types of a recorded pass in concrete numbers, and of operators as the recorder treats them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch._ops import OpOverload

from capplan.core.trace.types import Attribute, Role
from capplan.probe.record.shape_rules import SHAPE_RULES

Prelude = Callable[[Any, "Operator", tuple[Any, ...], dict[str, Any]], Any]
"""Runs an operator together with the kernels that CUDA launches around it; the first argument is the recorder."""

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


VIEWS_WITHOUT_ALIAS = frozenset(
    {"aten._unsafe_view", "aten._reshape_alias", "aten.lift_fresh", "aten.lift", "aten.unsafe_split",
     "aten.unsafe_split_with_sizes"}
)  # fmt: skip
"""Views whose schema does not say so: their output shares the input's storage."""

OVERWRITING = frozenset(
    {"copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "geometric_", "cauchy_",
     "log_normal_"}
)  # fmt: skip
"""In-place operators that never read what they overwrite."""

RESHAPING_IN_PLACE = frozenset(
    {"t_", "transpose_", "squeeze_", "unsqueeze_", "swapdims_", "swapaxes_", "as_strided_", "detach_", "resize_",
     "resize_as_", "set_", "rename_"}
)  # fmt: skip
"""In-place operators that change a tensor's shape or storage, not its values: no kernel runs."""

ALLOCATING_ONLY = frozenset({"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"})
ASSUMED = frozenset({"aten._is_all_true", "aten.topk"})
"""Operators whose values `assumed_values.assumed_values` may assume without data."""

READING_VALUES = frozenset({"aten._local_scalar_dense", "aten.is_nonzero", "aten.equal"})
"""Operators by which Python reads a value: nothing is written on the device, but the host waits for it."""

COPYING = frozenset({"clone", "_to_copy"})
UNRECORDED_ATTRIBUTES = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking", "size",
                                   "generator", "self", "implicit", "eps", "momentum"})  # fmt: skip
RANDOM_TAG = torch.Tag.nondeterministic_seeded
DATA_DEPENDENT_TAGS = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)


def describe_operator(overload: OpOverload, *, preludes: Mapping[str, Prelude]) -> Operator:
    """Read an overload's schema; `preludes` are what CUDA runs around an operator, by its name."""
    schema = overload._schema
    namespace, _, base = schema.name.partition("::")
    plain = base if base.startswith("__") else base.removesuffix("_")
    name = f"{namespace}.{plain}"
    aliasing = [ret.alias_info for ret in schema.returns if ret.alias_info is not None]
    written = [
        (index, argument.name)
        for index, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    launches = base not in ALLOCATING_ONLY
    in_place = bool(written) and written[0][0] == 0 and base.endswith("_") and not base.startswith("_foreach")
    return Operator(
        name=name,
        overload=overload,
        is_view=(bool(aliasing) and not written) or name in VIEWS_WITHOUT_ALIAS,
        reshapes_in_place=base in RESHAPING_IN_PLACE,
        returns_first=in_place and base not in RESHAPING_IN_PLACE and len(schema.returns) == 1,
        is_foreach_in_place=base.startswith("_foreach") and bool(written) and not schema.returns,
        written=tuple(index for index, _ in written),
        written_names=tuple(name for _, name in written),
        reads_written=base not in OVERWRITING and not any(name == "out" for _, name in written),
        scalars=tuple(
            (index, argument.name)
            for index, argument in enumerate(schema.arguments)
            if launches and argument.name not in UNRECORDED_ATTRIBUTES and "Tensor" not in str(argument.type)
        ),
        is_random=RANDOM_TAG in overload.tags,
        is_data_dependent=any(tag in overload.tags for tag in DATA_DEPENDENT_TAGS) or name == "torchvision.nms",
        is_elementwise=not written and (torch.Tag.pointwise in overload.tags or base in COPYING),
        tells_equal=base in {"eq", "ne"},
        is_assumed=name in ASSUMED,
        is_composite=namespace != "prim" and _is_composite(overload),
        launches=launches,
        shape_rule=SHAPE_RULES.get(str(overload)),
        prelude=preludes.get(name),
    )


_NATIVE_ON_CUDA = frozenset({"aten::silu_backward", "aten::mish_backward"})
"""Composite on other devices; CUDA has kernels of its own, which a CPU build does not list."""


def _is_composite(overload: OpOverload) -> bool:
    name: str = overload.name()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return (
        name not in _NATIVE_ON_CUDA
        and torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
        and not torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA")
    )
