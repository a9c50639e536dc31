"""Decide which implementation CUDA runs for a convolution, from its filter, layout and stride."""

from capplan.core.ops.catalogue import BY_FILTER, find_row
from capplan.core.trace.types import Kernel, MemoryFormat


def is_convolution(kernel: Kernel) -> bool:
    row = find_row(kernel)
    return row is not None and row.efficiency == BY_FILTER


def filter_shape(kernel: Kernel) -> tuple[int, ...]:
    """Return the shape of a convolution's filter: output channels, input channels of a group, window."""
    return kernel.inputs[2 if kernel.name.endswith("backward") else 1].shape_at(1)


def group_count(kernel: Kernel, batch: int) -> int:
    """Return a convolution's groups at a batch.

    A trace holds no attribute for groups that grow with the batch: where each sample has filters of its own
    (conditional convolutions), samples are groups of one image. They follow from the channels.
    """
    stated = kernel.attributes.get("groups")
    if stated is not None:
        assert isinstance(stated, int)
        return stated
    is_backward = kernel.name.endswith("backward")
    source, weight = (kernel.inputs[1], kernel.inputs[2]) if is_backward else (kernel.inputs[0], kernel.inputs[1])
    result = kernel.inputs[0] if is_backward else next(iter(kernel.outputs), source)
    data = result if kernel.attributes.get("transposed") else source
    shape, window = data.shape_at(batch), weight.shape_at(batch)
    channels = shape[1 - (len(window) - len(shape))] if 0 <= len(window) - len(shape) <= 1 else window[1]
    return max(1, channels // max(1, window[1]))


def has_depthwise_filter(kernel: Kernel) -> bool:
    """Return True if a convolution has one input channel a group."""
    weight, groups = filter_shape(kernel), group_count(kernel, 1)
    return groups > 1 and weight[1] == 1 and weight[0] >= groups


def is_depthwise(kernel: Kernel) -> bool:
    """Return True if a convolution runs the depthwise kernels: an image, one input channel a group, not transposed."""
    in_space = len(filter_shape(kernel)) == 4 and not kernel.attributes.get("transposed")
    return in_space and has_depthwise_filter(kernel)


def cudnn_runs_depthwise(kernel: Kernel) -> bool:
    """Return False if ATen gives a row-major 3x3 depthwise convolution of few channels to PyTorch's own kernel."""
    data = kernel.inputs[1 if kernel.name.endswith("backward") else 0].shape_at(2)
    stride = kernel.attributes.get("stride", (1,))
    largest_stride = max(stride) if isinstance(stride, tuple) and stride else 1
    channels, width = data[1], data[-1]
    if largest_stride == 1:
        return channels >= 32 and width >= 7
    return channels >= 512 or (channels >= 256 and width >= 28)


def is_channels_last(kernel: Kernel) -> bool:
    """Return True if a kernel's first image is stored channels-last."""
    operands = [operand for operand in kernel.inputs if len(operand.shape) == 4 and not operand.is_weight]
    return bool(operands) and operands[0].memory_format is MemoryFormat.CHANNELS_LAST
