"""Decide which implementation CUDA runs for a convolution, from its filter, layout and stride."""

from capplan.core.ops.catalogue import BY_FILTER, operator_rows
from capplan.core.trace.types import Kernel, MemoryFormat


def is_convolution(kernel: Kernel) -> bool:
    """Return True if a kernel is a convolution, forward or backward."""
    library, _, name = kernel.name.partition(".")
    row = operator_rows().get(name)
    return library != "capplan" and row is not None and row.efficiency == BY_FILTER


def filter_shape(kernel: Kernel) -> tuple[int, ...]:
    """Return the shape of a convolution's filter: output channels, input channels of a group, window."""
    return kernel.inputs[2 if kernel.name.endswith("backward") else 1].shape_at(1)


def has_depthwise_filter(kernel: Kernel) -> bool:
    """Return True if a convolution has one input channel a group."""
    weight, groups = filter_shape(kernel), kernel.attributes.get("groups", 1)
    return isinstance(groups, int) and groups > 1 and weight[1] == 1 and weight[0] >= groups


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
