"""Quantised operators as PyTorch would run them: integers made floats, then the float operator."""

import torch
from torch import Tensor
from torch.nn import functional

from capplan.probe.onnx.operators.call import Call, Handlers, torch_dtype
from capplan.probe.onnx.operators.products import convolved


def _per_axis(scale: Tensor, data: Tensor, axis: int) -> Tensor:
    """Shape a scale or zero point for broadcasting over one axis, or over blocks along it."""
    if scale.dim() != 1 or scale.numel() == 1 or data.dim() < 2:
        return scale
    return scale.reshape([-1 if at == axis % data.dim() else 1 for at in range(data.dim())])


def _for_each_block(data: Tensor, scale: Tensor, zero: Tensor | None, axis: int) -> tuple[Tensor, Tensor | None]:
    """Repeat scales and zero points of blocks along an axis for each element of a block; others stay as they are."""
    if scale.dim() != data.dim() or scale.shape == data.shape or scale.numel() <= 1:
        return scale, zero
    repeats = -(-data.shape[axis] // scale.shape[axis])
    return scale.repeat_interleave(repeats, axis), None if zero is None else zero.repeat_interleave(repeats, axis)


def _dequantised(data: Tensor, scale: Tensor, zero: Tensor | None, axis: int, dtype: torch.dtype) -> Tensor:
    scale, zero = _for_each_block(data, scale, zero, axis)
    values = data.to(dtype)
    if zero is not None:
        values = values - _per_axis(zero, data, axis).to(dtype)
    return values * _per_axis(scale, data, axis).to(dtype)


def _dequantise(call: Call) -> Tensor:
    data, scale, zero = call.tensor(0), call.tensor(1), call.optional(2)
    scale = scale if data.device.type == scale.device.type else scale.to(data.device)
    return _dequantised(data, scale, zero, call.whole("axis", 1), call.dtype(scale.dtype))


def _quantised(data: Tensor, scale: Tensor, zero: Tensor | None, axis: int, dtype: torch.dtype) -> Tensor:
    scale, zero = _for_each_block(data, scale, zero, axis)
    values = torch.round(data / _per_axis(scale, data, axis))
    if zero is not None:
        values = values + _per_axis(zero, data, axis).to(values.dtype)
    if dtype.is_floating_point:
        return values.to(dtype)
    limits = torch.iinfo(dtype)
    return torch.clamp(values, limits.min, limits.max).to(dtype)


def _quantise(call: Call) -> Tensor:
    data, scale, zero = call.tensor(0), call.tensor(1), call.optional(2)
    dtype = torch.uint8
    if zero is not None:
        dtype = zero.dtype
    elif call.whole("output_dtype"):
        dtype = torch_dtype(call.whole("output_dtype"))
    return _quantised(data, scale, zero, call.whole("axis", 1), dtype)


def _quantise_dynamically(call: Call) -> tuple[Tensor, Tensor, Tensor]:
    data = call.tensor(0)
    low, high = data.min().clamp(max=0), data.max().clamp(min=0)
    scale = (high - low) / 255
    zero = torch.clamp(torch.round(-low / scale), 0, 255).to(torch.uint8)
    return _quantised(data, scale, zero, 0, torch.uint8), scale, zero


def _integer_product(call: Call) -> Tensor:
    first, second = call.tensor(0).to(call.float_dtype), call.tensor(1).to(call.float_dtype)
    first, second = (
        operand if (zero := call.optional(index)) is None else operand - zero.to(call.float_dtype)
        for index, operand in ((2, first), (3, second))
    )
    return torch.matmul(first, second).to(torch.int32)


def _q_linear_product(call: Call) -> Tensor:
    first = _dequantised(call.tensor(0), call.tensor(1), call.tensor(2), 1, call.float_dtype)
    second = _dequantised(call.tensor(3), call.tensor(4), call.tensor(5), 1, call.float_dtype)
    return _quantised(torch.matmul(first, second), call.tensor(6), call.tensor(7), 1, call.tensor(7).dtype)


def _q_gemm(call: Call) -> Tensor:
    """Run ONNX Runtime's quantised Gemm; without a scale of its result that is a float."""
    first = _dequantised(call.tensor(0), call.tensor(1), call.tensor(2), 1, call.float_dtype)
    second = _dequantised(call.tensor(3), call.tensor(4), call.tensor(5), 0, call.float_dtype)
    first, second = first.t() if call.whole("transA") else first, second.t() if call.whole("transB") else second
    bias = call.optional(6)
    product = torch.matmul(first, second) if bias is None else torch.addmm(bias.to(call.float_dtype), first, second)
    scale, zero = call.optional(7), call.optional(8)
    return product if scale is None or zero is None else _quantised(product, scale, zero, 1, zero.dtype)


def _q_linear_conv(call: Call) -> Tensor:
    data = _dequantised(call.tensor(0), call.tensor(1), call.tensor(2), 1, call.float_dtype)
    weight = _dequantised(call.tensor(3), call.tensor(4), call.tensor(5), 0, call.float_dtype)
    bias = call.optional(8)
    made = convolved(call, data, weight, None if bias is None else bias.to(call.float_dtype))
    return _quantised(made, call.tensor(6), call.tensor(7), 1, call.tensor(7).dtype)


def _conv_integer(call: Call) -> Tensor:
    data, weight = call.tensor(0).to(call.float_dtype), call.tensor(1).to(call.float_dtype)
    return convolved(call, data, weight, None).to(torch.int32)


def unpacked(packed: Tensor, *, per_byte: int, length: int) -> Tensor:
    """Copy elements that share bytes into bytes of their own, as the shapes and the memory of it."""
    return packed.unsqueeze(-1).expand(*packed.shape, per_byte).flatten(-2)[..., :length]


def _matmul_n_bits(call: Call) -> Tensor:
    """Unpack a weight of 2, 4 or 8 bits, [n, blocks, bytes of a block], and run the linear layer."""
    inner, outer = call.whole("K", 1), call.whole("N", 1)
    packed, scales = call.tensor(1), call.tensor(2)
    weight = unpacked(packed.reshape(outer, -1), per_byte=8 // call.whole("bits", 4), length=inner)
    factors = scales.reshape(outer, -1).repeat_interleave(call.whole("block_size", 32), 1)[:, :inner]
    return functional.linear(call.tensor(0), weight.to(call.tensor(0).dtype) * factors, call.optional(5))


HANDLERS: Handlers = {
    "DequantizeLinear": _dequantise, "QuantizeLinear": _quantise, "DynamicQuantizeLinear": _quantise_dynamically,
    "MatMulInteger": _integer_product, "ConvInteger": _conv_integer, "QLinearMatMul": _q_linear_product,
    "QLinearConv": _q_linear_conv, "com.microsoft.DequantizeLinear": _dequantise,
    "com.microsoft.QuantizeLinear": _quantise, "com.microsoft.MatMulNBits": _matmul_n_bits,
    "com.microsoft.QGemm": _q_gemm,
}  # fmt: skip
"""Handlers by operator, with the domain where it is not ONNX's own."""
