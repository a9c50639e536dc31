"""Sort kernels into the classes whose efficiency is fitted: what implementation runs, not what it means."""

from collections.abc import Mapping

from capplan.core.ops.catalogue import BY_FILTER, BY_SHAPE, UNCOUNTED, find_row
from capplan.core.ops.convolutions import (
    cudnn_runs_depthwise,
    filter_shape,
    group_count,
    has_depthwise_filter,
    is_channels_last,
)
from capplan.core.trace.types import Kernel

CONV, CONV_1X1, CONV_STEM, CONV_GROUPED = "conv", "conv 1x1", "conv stem", "conv grouped"
DEPTHWISE_3, DEPTHWISE_5, DEPTHWISE_7, DEPTHWISE_LARGE = (
    "depthwise 3x3", "depthwise 5x5", "depthwise 7x7", "depthwise large",
)  # fmt: skip
DEPTHWISE_NATIVE = "depthwise 3x3 native"
CONV_PATCH = "conv patch"
CONV_OTHER = "conv other"
CONV_GROUPED_WIDE, CONV_GROUPED_NARROW = "conv grouped wide", "conv grouped narrow"
"""Grouped convolutions of many or very few channels a group, where cuDNN has no fast kernel: of many channels-last ones
before version 9, and gradients; of 2 and 3 channels-last ones."""
LINEAR, BATCHED_MATMUL, ATTENTION = "linear", "batched matmul", "attention"
LAYER_NORM, GROUP_NORM, BATCH_NORM, SOFTMAX = "layer norm", "group norm", "batch norm", "softmax"
CAST, WEIGHT_CAST, ACTIVATION, ADD, POINTWISE = "cast", "weight cast", "activation", "add", "pointwise"
COPY, POOL, REDUCTION, UPSAMPLE, GATHER, RECURRENT, OTHER = (
    "copy", "pool", "reduction", "upsample", "gather", "recurrent", "other",
)  # fmt: skip

FUSED_NORM, FUSED_SOFTMAX, FUSED_REDUCTION, FUSED_POOL, FUSED_COPY, FUSED_POINTWISE, FUSED_WEIGHT, FUSED_ACROSS = (
    "fused norm", "fused softmax", "fused reduction", "fused pool", "fused copy", "fused pointwise", "fused weight",
    "fused reduction across",
)  # fmt: skip
FUSED = (
    FUSED_NORM, FUSED_SOFTMAX, FUSED_REDUCTION, FUSED_POOL, FUSED_COPY, FUSED_POINTWISE, FUSED_WEIGHT, FUSED_ACROSS,
)  # fmt: skip
"""Kernels that a compiler made, by the costliest thing that they hold."""

BATCH_NORM_TRAINING, NORM_GRADIENT, POOL_GRADIENT, ATTENTION_GRADIENT, OPTIMIZER = (
    "batch norm training", "norm gradient", "pool gradient", "attention gradient", "optimizer",
)  # fmt: skip

CHANNELS_LAST_SUFFIX = " nhwc"
INPUT_GRADIENT_SUFFIX, WEIGHT_GRADIENT_SUFFIX = " input gradient", " weight gradient"

CONVOLUTIONS = (
    CONV, CONV_1X1, CONV_STEM, CONV_GROUPED, DEPTHWISE_3, DEPTHWISE_NATIVE, DEPTHWISE_5, DEPTHWISE_7, DEPTHWISE_LARGE,
    CONV_PATCH, CONV_OTHER,
)  # fmt: skip
FORWARD_CONVOLUTIONS = frozenset(
    label + suffix
    for label in (*CONVOLUTIONS, CONV_GROUPED_WIDE, CONV_GROUPED_NARROW)
    for suffix in ("", CHANNELS_LAST_SUFFIX)
)
SPATIAL = (*CONVOLUTIONS, BATCH_NORM, POOL, UPSAMPLE)
"""Classes that run other kernels on channels-last tensors."""

ALL_CLASSES: tuple[str, ...] = tuple(
    dict.fromkeys((
        *CONVOLUTIONS, LINEAR, BATCHED_MATMUL, ATTENTION, LAYER_NORM, GROUP_NORM, BATCH_NORM, SOFTMAX, CAST,
        WEIGHT_CAST, ACTIVATION, ADD, POINTWISE, COPY, POOL, REDUCTION, UPSAMPLE, GATHER, RECURRENT, OTHER,
        CONV_GROUPED_WIDE + CHANNELS_LAST_SUFFIX, CONV_GROUPED_NARROW + CHANNELS_LAST_SUFFIX,
        *(label + CHANNELS_LAST_SUFFIX for label in SPATIAL), *FUSED,
        BATCH_NORM_TRAINING, NORM_GRADIENT, POOL_GRADIENT, ATTENTION_GRADIENT, OPTIMIZER,
        *(
            label + layout + gradient
            for label in (*CONVOLUTIONS, CONV_GROUPED_WIDE)
            for layout in ("", CHANNELS_LAST_SUFFIX)
            for gradient in (INPUT_GRADIENT_SUFFIX, WEIGHT_GRADIENT_SUFFIX)
        ),
    ))
)  # fmt: skip
CLASS_INDEX: Mapping[str, int] = {label: index for index, label in enumerate(ALL_CLASSES)}


def kernel_class(kernel: Kernel) -> str:
    """Name the class of implementation that PyTorch's CUDA back end would run for a kernel, run eagerly."""
    label = _class_by_operator(kernel)
    if label in SPATIAL and is_channels_last(kernel):
        return label + CHANNELS_LAST_SUFFIX
    return label


def is_convolution(label: str) -> bool:
    """Return True if the class is a convolution, in either layout."""
    return label in FORWARD_CONVOLUTIONS


def is_depthwise(label: str) -> bool:
    """Return True if the class is a depthwise convolution, which runs on CUDA cores, not on tensor cores."""
    return label.startswith("depthwise")


def _class_by_operator(kernel: Kernel) -> str:
    if kernel.name == "capplan.fused":
        return _fused_class(kernel)
    row = find_row(kernel)
    if kernel.flops is not None and (row is None or row.products == UNCOUNTED):
        return LINEAR  # a formula of the user's counts it as products
    efficiency = BY_SHAPE if row is None else row.efficiency
    if efficiency == BY_FILTER:
        weight = filter_shape(kernel)
        groups = group_count(kernel, 2)  # where samples have filters of their own, each is a group: one at batch 1
        window = weight[2:]
        if kernel.attributes.get("transposed") or len(window) == 3:
            return CONV_OTHER
        if has_depthwise_filter(kernel):
            size = max(window)
            if size > 7:
                return DEPTHWISE_LARGE
            if size > 5:
                return DEPTHWISE_7
            if size > 3:
                return DEPTHWISE_5
            return DEPTHWISE_3 if cudnn_runs_depthwise(kernel) else DEPTHWISE_NATIVE
        if groups > 1:
            return CONV_GROUPED
        if weight[1] <= 4:
            return CONV_PATCH if kernel.attributes.get("stride") == window and max(window) > 3 else CONV_STEM
        return CONV_1X1 if max(window) == 1 else CONV
    if efficiency == BY_SHAPE:
        return POINTWISE if _is_elementwise(kernel) else OTHER
    if efficiency == CAST and kernel.inputs and kernel.inputs[0].is_weight:
        return WEIGHT_CAST
    return efficiency


def _fused_class(kernel: Kernel) -> str:
    held = kernel.attributes
    if "weight_only" in held:
        return FUSED_WEIGHT
    for part, label in (
        ("norm", FUSED_NORM), ("softmax", FUSED_SOFTMAX), ("pool", FUSED_POOL), ("across", FUSED_ACROSS),
        ("reduction", FUSED_REDUCTION),
        ("copy", FUSED_COPY),
    ):  # fmt: skip
        if part in held:
            return label
    return FUSED_POINTWISE


def _is_elementwise(kernel: Kernel) -> bool:
    if not kernel.inputs or not kernel.outputs:
        return False
    elements = kernel.outputs[0].distinct_elements(2)
    return any(operand.distinct_elements(2) == elements for operand in kernel.inputs) or _broadcasts(kernel)


def _broadcasts(kernel: Kernel) -> bool:
    """Return True if the inputs are stretched to the result's shape, as where a column meets a row."""
    goal = kernel.outputs[0].shape_at(2)
    shapes = [operand.shape_at(2) for operand in kernel.inputs]
    return all(
        len(shape) <= len(goal)
        and all(size in (1, whole) for size, whole in zip(reversed(shape), reversed(goal), strict=False))
        for shape in shapes
    )
