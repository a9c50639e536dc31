"""Outputs of the most frequent operators without torch's meta kernels, many of which take 0.2 to 0.6 ms in Python.

A rule answers only where the shapes plainly agree; otherwise it returns None, and torch's own kernel decides or raises.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


def suggests_channels_last(tensor: Tensor) -> bool:
    """Return True if `at::Tensor::suggest_memory_format` would say channels-last.

    A slice of the channels of a channels-last tensor counts, too: `is_channels_last_strides_2d` and `_3d`
    (c10/core/MemoryFormat.h) ask only for the order of the strides.
    """
    strides = tensor.stride()
    rank = len(strides)
    if rank not in (4, 5) or strides[1] == 0:
        return False
    least = 0
    for dim in (1, *range(rank - 1, 1, -1), 0):
        size = tensor.shape[dim]
        ambiguous = dim == 0 and least == strides[1]  # N111 counts as row-major
        if not size or strides[dim] < least or ambiguous:
            return False
        least = strides[dim] * max(1, size)
    return True


def _new(x: Tensor, shape: Any, *, dtype: torch.dtype | None = None) -> Tensor:
    """Make a row-major tensor; `torch.empty` is compiled, `Tensor.new_empty` and `torch.empty_like` on meta are not."""
    return torch.empty(shape, dtype=dtype or x.dtype, device=x.device)


def _like(x: Tensor, *, dtype: torch.dtype | None = None, memory_format: torch.memory_format | None = None) -> Tensor:
    """Make a tensor as `torch.empty_like` does: dense strides are kept."""
    if memory_format is None or memory_format is torch.preserve_format:
        if x.is_contiguous() and not (x.dim() > 3 and x.stride(1) == 1):  # 1x1 filters can be both, and keep strides
            return _new(x, x.shape, dtype=dtype)
        if _is_dense(x):
            return torch.empty_strided(x.shape, x.stride(), dtype=dtype or x.dtype, device=x.device)
    return torch.empty_like(x, dtype=dtype, memory_format=memory_format or torch.preserve_format)


def _is_dense(x: Tensor) -> bool:
    """Return True if elements lie without gaps or overlap, in any order of dimensions."""
    expected = 1
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def _convolution(  # noqa: PLR0917  # aten's signature
    x: Tensor,
    weight: Tensor,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Tensor | None:
    shape, kernel = x.shape, weight.shape
    spatial = len(kernel) - 2
    lengths = {len(stride), len(padding), len(dilation)}
    channels = kernel[0] if transposed else kernel[1] * groups
    if x.dtype is not weight.dtype or len(shape) != spatial + 2 or lengths != {spatial} or shape[1] != channels:
        return None
    if bias is not None and (
        bias.dtype is not x.dtype or bias.shape[0] != (kernel[1] * groups if transposed else kernel[0])
    ):
        return None
    out = [shape[0], kernel[1] * groups if transposed else kernel[0]]
    for axis in range(spatial):
        reach = dilation[axis] * (kernel[axis + 2] - 1)
        size = shape[axis + 2]
        if transposed:
            out.append((size - 1) * stride[axis] - 2 * padding[axis] + reach + output_padding[axis] + 1)
        else:
            out.append((size + 2 * padding[axis] - reach - 1) // stride[axis] + 1)
    if min(out[1:]) <= 0 or out[1] % groups:
        return None
    if suggests_channels_last(x) or suggests_channels_last(weight):
        layout = torch.channels_last if spatial == 2 else torch.channels_last_3d
        return torch.empty(out, dtype=x.dtype, device=x.device, memory_format=layout)
    return _new(x, out)


def _like_first(x: Any, *_: Any, **__: Any) -> Tensor | None:
    return _like(x) if x.is_floating_point() else None


def _binary(a: Any, b: Any, *_: Any, **__: Any) -> Tensor | None:
    """Follow the first operand's layout where it decides alone, as TensorIterator does."""
    if not a.is_floating_point():
        return None
    if not isinstance(b, Tensor):
        return _like(a) if isinstance(b, (int, float)) else None
    if not b.is_floating_point():
        return None
    dtype = a.dtype if a.dtype is b.dtype else torch.result_type(a, b)
    if (a.shape == b.shape or broadcasts(b, a)) and (a.is_contiguous() or _is_dense(a)):
        return _like(a, dtype=dtype)
    return _like(b, dtype=dtype) if b.is_contiguous() and broadcasts(a, b) else None


def broadcasts(small: Tensor, large: Tensor) -> bool:
    """Return True if one tensor's shape plainly broadcasts to another's."""
    shape, target = small.shape, large.shape
    if len(shape) > len(target) or not shape:
        return not shape
    return all(dim in (1, goal) for dim, goal in zip(reversed(shape), reversed(target), strict=False))


def _addmm(bias: Tensor, a: Tensor, b: Tensor, **_: Any) -> Tensor | None:
    rows, inner = a.shape
    if b.shape[0] != inner or bias.dtype is not a.dtype or a.dtype is not b.dtype or bias.shape[-1:] != b.shape[1:]:
        return None
    return _new(a, (rows, b.shape[1]))


def _mm(a: Tensor, b: Tensor) -> Tensor | None:
    """Multiply two matrices, or a batch of each."""
    if a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2] or a.dtype is not b.dtype:
        return None
    return _new(a, (*a.shape[:-1], b.shape[-1]))


def _layer_norm(x: Tensor, normalized: Any, weight: Any, bias: Any, _eps: float) -> tuple[Tensor, ...] | None:
    count = len(normalized)
    if list(x.shape[-count:]) != list(normalized) or any(
        p is not None and p.dtype is not x.dtype for p in (weight, bias)
    ):
        return None
    rest = (*x.shape[:-count], *(1,) * count)
    statistics = torch.float32 if x.dtype in (torch.bfloat16, torch.float16) else x.dtype
    return _new(x, x.shape), _new(x, rest, dtype=statistics), _new(x, rest, dtype=statistics)


def _batch_norm(x: Tensor, *rest: Any) -> Any:
    weight, bias, mean, var, training, *_ = rest
    channels = x.shape[1]
    if any(p is not None and p.shape[0] != channels for p in (weight, bias, mean, var)):
        return None
    statistics = torch.float32 if x.dtype in (torch.bfloat16, torch.float16) else x.dtype
    size = channels if training else 0
    out = _like(x)
    return out, _new(x, (size,), dtype=statistics), _new(x, (size,), dtype=statistics)


def _softmax(x: Tensor, _dim: int, half_to_float: bool) -> Tensor:
    return _like(x, dtype=torch.float32) if half_to_float else _like(x)


def _softmax_backward(grad: Tensor, _output: Tensor, _dim: int, input_dtype: torch.dtype) -> Tensor:
    return _like(grad, dtype=input_dtype)


def _activation_backward(grad: Tensor, x: Tensor, *_: Any, **__: Any) -> Tensor | None:
    same = grad.shape == x.shape and grad.dtype is x.dtype and grad.stride() == x.stride()
    return _like(grad) if same else None


def _layer_norm_backward(  # aten's signature
    _grad: Tensor, x: Tensor, _shape: Any, _mean: Any, _rstd: Any, weight: Any, bias: Any, mask: Any
) -> Any:
    made = (x if mask[0] else None, weight if mask[1] else None, bias if mask[2] else None)
    return tuple(None if t is None else _new(t, t.shape) for t in made)


def _batch_norm_backward(_grad: Tensor, x: Tensor, weight: Any, *rest: Any) -> Any:
    mask = rest[-1]
    made = (x if mask[0] else None, weight if mask[1] else None, weight if mask[2] else None)
    return tuple(None if t is None else _like(t) for t in made)


def _convolution_backward(_grad: Tensor, x: Tensor, weight: Tensor, *rest: Any) -> Any:
    mask = rest[-1]
    if mask[2]:
        return None
    return (_like(x) if mask[0] else None, _like(weight) if mask[1] else None, None)


def _native_dropout(x: Tensor, _p: float, train: bool | None) -> tuple[Tensor, Tensor] | None:
    return (_like(x), _like(x, dtype=torch.bool)) if train else None


def _dropout_backward(grad: Tensor, mask: Tensor, _scale: float) -> Tensor | None:
    return _like(grad) if grad.shape == mask.shape and grad.stride() == mask.stride() else None


def _clone(x: Tensor, *, memory_format: Any = None) -> Tensor | None:
    if memory_format is torch.contiguous_format:
        return _new(x, x.shape)
    return _like(x, memory_format=memory_format)


def _cat(tensors: Any, dim: int = 0) -> Tensor | None:
    first: Tensor = tensors[0]
    rank = first.dim()
    dim = dim + rank if dim < 0 else dim
    for tensor in tensors:
        if tensor.dtype is not first.dtype or tensor.dim() != rank or not tensor.is_contiguous():
            return None
        if any(a != b for axis, (a, b) in enumerate(zip(tensor.shape, first.shape, strict=True)) if axis != dim):
            return None
    shape = list(first.shape)
    if not shape:
        return None
    shape[dim] = sum(tensor.shape[dim] for tensor in tensors)
    return _new(first, shape)


def _mean(x: Tensor, dims: Any, keepdim: bool = False, *, dtype: Any = None) -> Tensor | None:
    if not dims or dtype is not None or not x.is_floating_point() or not x.is_contiguous():
        return None
    rank = x.dim()
    axes = {axis % rank for axis in dims}
    return _new(x, [1 if axis in axes else size for axis, size in enumerate(x.shape) if keepdim or axis not in axes])


def _zeros_like(
    x: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None,
    memory_format: Any = None,
) -> Tensor | None:  # fmt: skip
    if layout not in (None, torch.strided) or pin_memory or (device is not None and torch.device(device) != x.device):
        return None
    return _like(x, dtype=dtype, memory_format=memory_format)


def _foreach_unary(tensors: Any) -> list[Tensor] | None:
    return [_like(x) for x in tensors] if all(x.is_floating_point() for x in tensors) else None


def _upsample(x: Tensor, output_size: Any, *_: Any) -> Tensor | None:
    return _new(x, (*x.shape[:2], *output_size)) if x.is_contiguous() else None


def _grouped_mm(a: Tensor, b: Tensor, offs: Any = None, *_: Any, **__: Any) -> Tensor | None:
    if a.shape[-1] != b.shape[-2] or a.dtype is not b.dtype:
        return None
    if a.dim() == 2 and b.dim() == 2:
        return _new(a, (offs.shape[0], a.shape[0], b.shape[1]))
    return _new(a, (*a.shape[:-1], b.shape[-1]))


def _embedding(weight: Tensor, indices: Tensor, *_: Any) -> Tensor:
    return _new(weight, (*indices.shape, weight.shape[1]))


def _to_copy(x: Tensor, **kwargs: Any) -> Tensor | None:
    if kwargs.keys() - {"dtype", "memory_format"}:
        return None
    return _like(x, dtype=kwargs.get("dtype"), memory_format=kwargs.get("memory_format"))


_UNARY = (
    "relu", "gelu", "silu", "sigmoid", "tanh", "hardswish", "hardsigmoid", "hardtanh", "leaky_relu", "elu", "neg",
    "exp", "sqrt", "rsqrt", "erf", "cos", "sin", "abs", "clamp", "clamp_min", "mish", "log", "reciprocal",
)  # fmt: skip

_UPSAMPLING = (
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d", "upsample_bilinear2d",
    "upsample_bicubic2d", "upsample_trilinear3d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
    "_upsample_nearest_exact2d",
)  # fmt: skip

SHAPE_RULES: Mapping[str, Callable[..., Any]] = {
    **{f"aten.{name}.default": _like_first for name in _UNARY},
    "aten.pow.Tensor_Scalar": _like_first,
    **{f"aten.{name}.{kind}": _binary for name in ("add", "sub", "mul", "div") for kind in ("Tensor", "Scalar")},
    "aten.convolution.default": _convolution,
    "aten.addmm.default": _addmm,
    "aten.mm.default": _mm,
    "aten._grouped_mm.default": _grouped_mm,
    "aten.bmm.default": _mm,
    "aten.native_layer_norm.default": _layer_norm,
    "aten.native_batch_norm.default": _batch_norm,
    "aten._softmax.default": _softmax,
    "aten.clone.default": _clone,
    "aten.cat.default": _cat,
    "aten.mean.dim": _mean,
    "aten.sum.dim_IntList": _mean,
    "aten.zeros_like.default": _zeros_like,
    "aten._foreach_sqrt.default": _foreach_unary,
    "aten.embedding.default": _embedding,
    "aten._to_copy.default": _to_copy,
    **{f"aten.{name}.default": _upsample for name in _UPSAMPLING},
    "aten._log_softmax.default": _softmax,
    "aten._softmax_backward_data.default": _softmax_backward,
    "aten._log_softmax_backward_data.default": _softmax_backward,
    "aten.native_layer_norm_backward.default": _layer_norm_backward,
    "aten.native_batch_norm_backward.default": _batch_norm_backward,
    "aten.convolution_backward.default": _convolution_backward,
    "aten.native_dropout.default": _native_dropout,
    **{
        f"aten.{name}_backward.default": _activation_backward
        for name in ("gelu", "silu", "mish", "hardswish", "hardsigmoid")
    },
    "aten.threshold_backward.default": _activation_backward,
    "aten.native_dropout_backward.default": _dropout_backward,
}
