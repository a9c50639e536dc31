"""What a compiler may fuse: each operator's part in a fused kernel, and what it iterates over."""

from dataclasses import dataclass
from enum import StrEnum
from math import prod

from capplan.core.compiled.graph_breaks import breaks_graph
from capplan.core.ops.catalogue import OperatorClass, operator_class
from capplan.core.trace.types import Kernel, MemoryFormat, Operand

FUSED = "capplan.fused"
"""The name of a kernel that a compiler made of several operators."""


class Part(StrEnum):
    """What an operator is inside a fused kernel."""

    NORM = "norm"
    SOFTMAX = "softmax"
    REDUCTION = "reduction"
    POOL = "pool"
    COPY = "copy"
    POINTWISE = "pointwise"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """What a reduction runs over: how many results, and how many elements make one."""

    results: int
    elements: int


_PARTS = {
    OperatorClass.NORM: Part.NORM,
    OperatorClass.SOFTMAX: Part.SOFTMAX,
    OperatorClass.REDUCTION: Part.REDUCTION,
    OperatorClass.SCAN: Part.REDUCTION,
    OperatorClass.LOSS: Part.REDUCTION,
    OperatorClass.POOL: Part.POOL,
    OperatorClass.RESIZE: Part.COPY,
    OperatorClass.INDEX: Part.COPY,
    OperatorClass.COPY: Part.COPY,
    OperatorClass.CAST: Part.POINTWISE,
    OperatorClass.ACTIVATION: Part.POINTWISE,
    OperatorClass.POINTWISE: Part.POINTWISE,
    OperatorClass.RANDOM: Part.POINTWISE,
    OperatorClass.FILL: Part.POINTWISE,
}
_NEVER_FUSED = frozenset(
    {"topk", "sort", "argsort", "kthvalue", "median", "nanmedian", "mode", "nonzero", "nonzero_static", "_unique2",
     "unique_consecutive", "unique_dim", "masked_select", "histc", "bincount", "nms", "multinomial", "searchsorted",
     "grid_sampler_3d", "_cdist_backward", "trace", "_ctc_loss", "_ctc_loss_backward", "roi_align", "roi_pool",
     "_roi_align_backward", "ps_roi_align", "repeat_interleave", "isin", "segment_reduce", "_embedding_bag",
     "adaptive_max_pool2d", "adaptive_max_pool3d", "max_unpool2d", "grid_sampler_2d_backward", "renorm"}
)  # fmt: skip
"""Operators of fusible classes that Inductor leaves to PyTorch's own kernels."""

_INSTRUCTIONS_OF_OTHERS = 2
_INSTRUCTIONS = {
    "relu": 1, "hardtanh": 2, "clamp": 2, "_to_copy": 1, "clone": 1, "copy": 1, "cat": 4, "native_batch_norm": 6,
    "native_layer_norm": 10, "_softmax": 25, "div": 8, "silu": 25, "sigmoid": 22, "gelu": 40, "tanh": 25, "mish": 60,
    "softplus": 40, "elu": 25, "exp": 15, "pow": 15, "sqrt": 8, "rsqrt": 8, "erf": 30, "log": 20, "hardswish": 6,
    "hardsigmoid": 5, "leaky_relu": 3, "celu": 25, "selu": 25,
}  # fmt: skip
"""Per element, in fp32: a division or an exponential takes many."""

_LARGEST_INLINED_WINDOW = 25
_LONGEST_INLINED_CAT = 8
_GATHERS_FROM_MEMORY = frozenset(
    {"upsample_bilinear2d", "upsample_bicubic2d", "upsample_linear1d", "upsample_trilinear3d", "im2col",
     "grid_sampler_2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "constant_pad_nd"}
)  # fmt: skip


def part(kernel: Kernel) -> Part | None:
    """Say what an operator is inside a fused kernel; None for what always runs as a kernel of its own."""
    found = _PARTS.get(operator_class(kernel))
    if found is None or _name(kernel) in _NEVER_FUSED or breaks_graph(kernel):
        return None
    if found is Part.NORM and normalises_with_constants(kernel):
        return Part.POINTWISE
    if found is Part.POOL:
        if _averages_everything(kernel):
            return Part.REDUCTION
        window = kernel.attributes.get("kernel_size", (1,))
        if isinstance(window, tuple) and prod(window) > _LARGEST_INLINED_WINDOW:
            return None
    return found


def needs_stored_input(kernel: Kernel) -> bool:
    """Is whatever makes an operator's input run before, not in it?

    So it is where each element is read several times, and where a channels-last image is reduced over its positions,
    across the order in which its elements lie.
    """
    found = part(kernel)
    if reduces_across_memory(kernel):
        return True
    return found is Part.POOL or _name(kernel) in _GATHERS_FROM_MEMORY


def ends_kernel(kernel: Kernel) -> bool:
    """Must what reads an operator's result be another kernel? Long concatenations are filled piece by piece."""
    if part(kernel) is None:
        return True
    return kernel.name == "aten.cat" and len(kernel.inputs) > _LONGEST_INLINED_CAT


def reduces_across_memory(kernel: Kernel) -> bool:
    """Does a reduction leave the dimension whose elements lie side by side: channels of a channels-last image?"""
    if part(kernel) is not Part.REDUCTION or not kernel.inputs:
        return False
    data = kernel.inputs[0]
    rank = len(data.shape)
    over = (2, 3) if "_adaptive_avg_pool" in kernel.name else kernel.attributes.get("dim", ())
    dims = {dim % rank for dim in (over if isinstance(over, tuple) else (over,)) if isinstance(dim, int) and rank}
    innermost = 1 if data.memory_format is MemoryFormat.CHANNELS_LAST else rank - 1
    return bool(dims) and data.memory_format is not MemoryFormat.STRIDED and innermost not in dims


def arithmetic(kernel: Kernel, batch: int) -> float:
    """Roughly how many instructions a fused operator takes, beside loads and stores. [FLOP]"""
    each = _INSTRUCTIONS.get(_name(kernel), _INSTRUCTIONS_OF_OTHERS)
    return float(each * max(elements(kernel, batch), *(prod(operand.shape_at(batch)) for operand in kernel.inputs), 0))


def reduced(kernel: Kernel, batch: int) -> Reduced | None:
    """What a reduction iterates over at a batch; None for operators that reduce nothing."""
    found = part(kernel)
    if found not in (Part.NORM, Part.SOFTMAX, Part.REDUCTION) or not kernel.inputs or not kernel.outputs:
        return None
    elements = prod(kernel.inputs[0].shape_at(batch))
    if found is Part.REDUCTION:
        results = max(1, min(prod(operand.shape_at(batch)) for operand in kernel.outputs))
    elif found is Part.SOFTMAX:
        results = elements // max(1, _softmax_length(kernel, batch))
    else:
        results = _normalised_groups(kernel, batch)
    return Reduced(results=results, elements=max(1, elements // max(1, results)))


def elements(kernel: Kernel, batch: int) -> int:
    """The elements that an operator's largest result has, views broadcast."""
    return max((prod(operand.shape_at(batch)) for operand in kernel.outputs), default=0)


def _name(kernel: Kernel) -> str:
    return kernel.name.partition(".")[2]


def normalises_with_constants(kernel: Kernel) -> bool:
    """Batch norm with running statistics is a multiplication and an addition."""
    return (
        "batch_norm" in kernel.name and "backward" not in kernel.name and not kernel.attributes.get("training", False)
    )


def _averages_everything(kernel: Kernel) -> bool:
    if "_adaptive_avg_pool" not in kernel.name or not kernel.outputs:
        return False
    positions: tuple[int, ...] = kernel.outputs[0].shape_at(1)[2:]
    return "backward" not in kernel.name and prod(positions) == 1


def _softmax_length(kernel: Kernel, batch: int) -> int:
    shape = kernel.inputs[0].shape_at(batch)
    dim = kernel.attributes.get("dim", -1)
    return shape[dim] if isinstance(dim, int) and shape else 1


def _normalised_groups(kernel: Kernel, batch: int) -> int:
    data: Operand = kernel.inputs[0]
    shape = data.shape_at(batch)
    if "batch_norm" in kernel.name:
        return shape[1] if len(shape) > 1 else 1
    if "group_norm" in kernel.name:
        groups = kernel.attributes.get("group", kernel.attributes.get("num_groups", 1))
        return shape[0] * (groups if isinstance(groups, int) else 1)
    width = kernel.attributes.get("normalized_shape")
    normalised = prod(width) if isinstance(width, tuple) else shape[-1]
    return prod(shape) // max(1, normalised)
