"""Kernels that CUDA launches around an operator and the meta device does not show: copies to a layout, added biases."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from capplan.probe.record.recorder import Recorder
from capplan.probe.record.shape_rules import suggests_channels_last
from capplan.probe.record.types import Operator, Prelude

_ADD = torch.ops.aten.add_.Tensor
_SUM = torch.ops.aten.sum.dim_IntList
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def _convolve(recorder: Recorder, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a convolution as ATen does: cuDNN, then its bias added in place; PyTorch's own depthwise kernel in NCHW.

    `at::native::_convolution` and `ConvParams::use_cudnn_depthwise` (aten/src/ATen/native/Convolution.cpp). cuDNN gets
    operands in one layout, channels-last if either has it. For NCHW depthwise in 16 bits cuDNN's choice by problem
    size is not modelled.
    """
    x, weight, bias, *rest = args
    channels_last = suggests_channels_last(x) or suggests_channels_last(weight)
    layout = _CHANNELS_LAST[x.dim()] if channels_last else torch.contiguous_format
    x = recorder.laid_out(x, layout)
    if bias is None or (is_depthwise(x, weight, *rest) and not channels_last):
        return recorder.run(operator, (x, weight, bias, *rest), kwargs)
    out = recorder.run(operator, (x, recorder.laid_out(weight, layout), None, *rest), kwargs)
    shaped = bias if x.dim() == 2 else bias.view(-1, *[1] * (x.dim() - 2))
    recorder.adopt_view(shaped, bias)
    recorder.run(recorder.describe(_ADD), (out, shaped), {})
    return out


def is_depthwise(x: Tensor, weight: Tensor, *rest: Any) -> bool:
    """Return True if ATen calls a convolution depthwise: one input channel per group."""
    transposed, groups = rest[3], rest[5]
    return not transposed and groups > 1 and groups == x.shape[1] and weight.shape[0] % x.shape[1] == 0 and x.dim() > 3


def _convolve_backward(recorder: Recorder, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a convolution's gradients: cuDNN's two, and the bias's as a sum of its own."""
    grad, x, weight, bias_sizes, *rest, mask = args
    depthwise = is_depthwise(x, weight, *rest)
    channels_last = suggests_channels_last(x) or suggests_channels_last(weight)
    layout = _CHANNELS_LAST[x.dim()] if channels_last else torch.contiguous_format
    grad = recorder.laid_out(grad, layout)
    x = recorder.laid_out(x, layout)
    if not depthwise or channels_last:
        weight = recorder.laid_out(weight, layout)
    made = recorder.run(operator, (grad, x, weight, bias_sizes, *rest, [*mask[:2], False]), kwargs)
    if not mask[2]:
        return made
    axes = [axis for axis in range(grad.dim()) if axis != 1]
    return (*made[:2], recorder.run(recorder.describe(_SUM), (grad, axes), {}))


def _on_contiguous(recorder: Recorder, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator that first makes its input row-major."""
    return recorder.run(operator, (recorder.laid_out(args[0], torch.contiguous_format), *args[1:]), kwargs)


def _on_dense(recorder: Recorder, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator that takes row-major or channels-last input and copies anything else."""
    layout = _CHANNELS_LAST[args[0].dim()] if suggests_channels_last(args[0]) else torch.contiguous_format
    return recorder.run(operator, (recorder.laid_out(args[0], layout), *args[1:]), kwargs)


def _packed_linear(recorder: Recorder, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record a linear layer of packed weights as one that reads what the object of its weights stores."""
    x, packed, *_others = (*args, *kwargs.values())
    weight, *biases = recorder.packed[hash(packed)]
    with recorder.paused():
        if x.is_meta:
            out = torch.empty((*x.shape[:-1], weight.shape[0]), dtype=x.dtype, device=x.device)
        else:
            out = operator.overload(*args, **kwargs)
    recorder.note("capplan.packed_linear", [x, weight, *biases], [out])
    return out


def _packed_convolution(recorder: Recorder, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record a convolution of packed weights, which torch.ao's `convert` makes, with what the object stores."""
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    packed: Any = next(value for value in (*args, *kwargs.values()) if isinstance(value, torch.ScriptObject))
    stored = recorder.packed[hash(packed)]
    [weight] = (tensor for tensor in stored if tensor.dim() > 1)
    biases = [tensor for tensor in stored if tensor.dim() == 1 and tensor.dtype is torch.float32]
    with recorder.paused():
        out = operator.overload(*args, **kwargs)
        rank = out.dim() - 2
        window = weight if weight.dim() == out.dim() else weight.squeeze(2)  # conv1d is stored as a conv2d
        names = ("stride", "padding", "dilation", "output_padding")
        attributes = [(name, tuple(getattr(packed, name)()[-rank:])) for name in names]
        attributes += [("groups", packed.groups()), ("transposed", packed.transpose())]
    if window is not weight:
        recorder.adopt_view(window, weight)
    recorder.note("aten.convolution", [tensors[0], window, *biases, *tensors[1:]], [out], tuple(attributes))
    return out


PRELUDES: Mapping[str, Prelude] = {
    "aten.convolution": _convolve,
    "aten.convolution_backward": _convolve_backward,
    **dict.fromkeys(
        (
            "aten.native_layer_norm", "aten._softmax", "aten._log_softmax", "aten.im2col", "aten.col2im",
            "aten.native_group_norm",
        ),
        _on_contiguous,
    ),
    **dict.fromkeys(
        (
            "aten.max_pool2d_with_indices", "aten.avg_pool2d", "aten._adaptive_avg_pool2d", "aten.adaptive_max_pool2d",
            "aten.upsample_nearest2d", "aten.upsample_bilinear2d",
        ),
        _on_dense,
    ),
    **dict.fromkeys(
        (
            "quantized.linear_dynamic", "quantized.linear_relu_dynamic",
            "quantized.linear_dynamic_fp16", "quantized.linear_relu_dynamic_fp16",
            "quantized.linear", "quantized.linear_relu",
        ),
        _packed_linear,
    ),
    **dict.fromkeys(
        (
            *(f"quantized.conv{rank}d{after}" for rank in (1, 2, 3) for after in ("", "_relu")),
            *(f"quantized.conv_transpose{rank}d" for rank in (1, 2, 3)),
            "quantized.conv2d_add", "quantized.conv2d_add_relu",
        ),
        _packed_convolution,
    ),
}  # fmt: skip
"""By operator name, what CUDA's implementation does with its operands before the kernel runs."""
