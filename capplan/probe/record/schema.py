"""Read from an operator's schema its name, what it overwrites, and whether it is a view."""

from collections.abc import Mapping

import torch
from torch._ops import OpOverload

from capplan.probe.record.shape_rules import SHAPE_RULES
from capplan.probe.record.types import Operator, Prelude

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
"""Operators whose values `assumed_values.assumed_values` may tell without data."""

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
"""Composite on other devices; CUDA has kernels of its own, which a CPU build does not tell."""


def _is_composite(overload: OpOverload) -> bool:
    name: str = overload.name()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return (
        name not in _NATIVE_ON_CUDA
        and torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
        and not torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA")
    )
