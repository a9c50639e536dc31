"""Operators that hold products: convolutions, linear layers, attention, recurrent layers, with their norms."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from capplan.probe.onnx.operators.call import Call, Handlers

_CONVOLUTIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_TRANSPOSED = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d, 3: functional.conv_transpose3d}


def window_pads(call: Call, *, window: list[int], sizes: list[int]) -> tuple[list[int], list[int]]:
    """Return how much a convolution or pooling pads before and after each spatial dimension."""
    rank = len(window)
    automatic = call.text("auto_pad", "NOTSET")
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        strides = call.wholes("strides") or [1] * rank
        dilations = call.wholes("dilations") or [1] * rank
        total = [
            max(0, (-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size)
            for size, kernel, stride, dilation in zip(sizes, window, strides, dilations, strict=True)
        ]
        small, large = [pad // 2 for pad in total], [pad - pad // 2 for pad in total]
        return (small, large) if automatic == "SAME_UPPER" else (large, small)
    pads = call.wholes("pads") or [0] * (2 * rank)
    return pads[:rank], pads[rank:]


def pad_sides(data: Tensor, before: list[int], after: list[int], *, value: float = 0.0) -> Tensor:
    """Pad the spatial dimensions by unequal amounts, as a kernel of its own."""
    amounts = [pad for sides in zip(reversed(before), reversed(after), strict=True) for pad in sides]
    return functional.pad(data, amounts, value=value)


def _conv(call: Call) -> Tensor:
    return convolved(call, call.tensor(0), call.tensor(1), call.optional(2))


def convolved(call: Call, data: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Convolve by a call's attributes: strides, dilations, groups, and its pads or what `auto_pad` makes of them."""
    rank = weight.dim() - 2
    before, after = window_pads(call, window=list(weight.shape[2:]), sizes=list(data.shape[2:]))
    if before != after:
        data, before = pad_sides(data, before, after), [0] * rank
    return _CONVOLUTIONS[rank](
        data,
        weight,
        bias,
        stride=call.wholes("strides") or [1] * rank,
        padding=before,
        dilation=call.wholes("dilations") or [1] * rank,
        groups=call.whole("group", 1),
    )


def _fused_conv(call: Call) -> Tensor:
    made, addend = _conv(call), call.optional(3)
    return _activated(made if addend is None else made + addend, call.text("activation"))


def _activated(made: Tensor, activation: str) -> Tensor:
    functions: dict[str, Any] = {
        "Relu": torch.relu, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "LeakyRelu": functional.leaky_relu,
        "Clip": functional.relu6, "HardSigmoid": functional.hardsigmoid, "HardSwish": functional.hardswish,
    }  # fmt: skip
    return functions[activation](made) if activation in functions else made


def _conv_transpose(call: Call) -> Tensor:
    data, weight, bias = call.tensor(0), call.tensor(1), call.optional(2)
    rank = weight.dim() - 2
    strides = call.wholes("strides") or [1] * rank
    dilations = call.wholes("dilations") or [1] * rank
    extra = call.wholes("output_padding") or [0] * rank
    full = [
        (size - 1) * stride + (kernel - 1) * dilation + 1
        for size, kernel, stride, dilation in zip(data.shape[2:], weight.shape[2:], strides, dilations, strict=True)
    ]
    wanted = call.wholes("output_shape")
    if wanted is None and call.text("auto_pad").startswith("SAME"):
        wanted = [size * stride for size, stride in zip(data.shape[2:], strides, strict=True)]
    if wanted is not None:
        total = [have - want for have, want in zip(full, wanted, strict=True)]
        before = [max(0, cut) // 2 for cut in total]
        after = [max(0, cut) - less for cut, less in zip(total, before, strict=True)]
        extra = [max(0, -cut) for cut in total]
    else:
        pads = call.wholes("pads") or [0] * (2 * rank)
        before, after = pads[:rank], pads[rank:]
    made = _TRANSPOSED[rank](
        data,
        weight,
        bias,
        stride=strides,
        padding=before if before == after else [0] * rank,
        output_padding=extra,
        groups=call.whole("group", 1),
        dilation=dilations,
    )
    return made if before == after else pad_sides(made, [-cut for cut in before], [-cut for cut in after])


def _gemm(call: Call) -> Tensor:
    first, second, addend = call.tensor(0), call.tensor(1), call.optional(2)
    alpha, beta = call.real("alpha", 1.0), call.real("beta", 1.0)
    if not call.whole("transA") and alpha == 1 and (addend is None or (addend.dim() == 1 and beta == 1)):
        return functional.linear(first, second if call.whole("transB") else second.t(), addend)
    first = first.t() if call.whole("transA") else first
    second = second.t() if call.whole("transB") else second
    if addend is None:
        return alpha * torch.mm(first, second) if alpha != 1 else torch.mm(first, second)
    return torch.addmm(addend, first, second, beta=beta, alpha=alpha)


def _linear(call: Call) -> Tensor:
    """Run MatMul and Add as the linear layer that they came from: data [.., k], weight [k, n], bias [n]."""
    return functional.linear(call.tensor(0), call.tensor(1).t(), call.tensor(2))


def _fused_matmul(call: Call) -> Tensor:
    first, second = call.tensor(0), call.tensor(1)
    first = first.transpose(-1, -2) if call.whole("transA") else first
    second = second.transpose(-1, -2) if call.whole("transB") else second
    made = torch.matmul(first, second)
    return made if call.real("alpha", 1.0) == 1 else made * call.real("alpha", 1.0)


def _attention_pattern(call: Call) -> Tensor:
    """Run a softmax between two products as one attention: query, transposed key, value, factors, then a mask."""
    query, key_transposed, value = (call.tensor(index) for index in range(3))
    factors = call.whole("factors")
    divisors = call.wholes("divisors") or []
    scale = 1.0
    for index in range(factors):
        factor = float(call.host_list(call.tensor(3 + index))[0])
        scale *= 1 / factor if index in divisors else factor
    mask = call.optional(3 + factors)
    if mask is not None:
        (mask,) = call.on_device(mask)
    return functional.scaled_dot_product_attention(query, key_transposed.transpose(-1, -2), value, mask, scale=scale)


def _attention(call: Call) -> Any:
    """Run ONNX's own attention on [batch, heads, tokens, width], or on [batch, tokens, heads · width]."""
    query, key, value = (call.tensor(index) for index in range(3))
    is_flat = query.dim() == 3
    if is_flat:
        heads, shared = call.whole("q_num_heads", 1), call.whole("kv_num_heads", 1)
        query, key, value = _split_heads(query, heads), _split_heads(key, shared), _split_heads(value, shared)
    past_key, past_value = call.optional(4), call.optional(5)
    if past_key is not None and past_value is not None:
        key, value = torch.cat([past_key, key], dim=2), torch.cat([past_value, value], dim=2)
    mask, is_causal = call.optional(3), bool(call.whole("is_causal"))
    if mask is not None:
        (mask,) = call.on_device(mask)
        mask = mask.unsqueeze(0) if mask.dim() == 1 else mask
        mask = functional.pad(mask, (0, key.shape[2] - mask.shape[-1])) if mask.shape[-1] != key.shape[2] else mask
    scale = call.real("scale") or None
    made = functional.scaled_dot_product_attention(
        query,
        key,
        value,
        mask,
        is_causal=is_causal and mask is None,
        scale=scale,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    made = _join_heads(made) if is_flat else made
    return (made, key, value)[: max(1, len(call.node.outputs))]


def _split_heads(data: Tensor, heads: int) -> Tensor:
    return data.reshape(data.shape[0], data.shape[1], heads, -1).transpose(1, 2)


def _join_heads(data: Tensor) -> Tensor:
    return data.transpose(1, 2).reshape(data.shape[0], data.shape[2], -1)


def _packed_attention(call: Call) -> Any:
    """Run ONNX Runtime's Attention: one product for query, key and value, then attention."""
    heads = call.whole("num_heads", 1)
    packed = functional.linear(call.tensor(0), call.tensor(1).t(), call.optional(2))
    widths = call.wholes("qkv_hidden_sizes") or [packed.shape[-1] // 3] * 3
    query, key, value = (_split_heads(part, heads) for part in torch.split(packed, widths, dim=-1))
    causal = bool(call.whole("unidirectional"))
    return _join_heads(functional.scaled_dot_product_attention(query, key, value, is_causal=causal))


def _multi_head_attention(call: Call) -> Any:
    """Run ONNX Runtime's MultiHeadAttention on separate query, key and value."""
    heads = call.whole("num_heads", 1)
    query = _split_heads(call.tensor(0), heads)
    given = (call.tensor(1), call.tensor(2))
    key, value = (data if data.dim() == 4 else _split_heads(data, heads) for data in given)
    causal = bool(call.whole("unidirectional"))
    return _join_heads(functional.scaled_dot_product_attention(query, key, value, is_causal=causal))


def _batch_norm(call: Call) -> Tensor:
    data, scale, shift, mean, variance = (call.tensor(index) for index in range(5))
    return functional.batch_norm(data, mean, variance, scale, shift, training=False, eps=call.real("epsilon", 1e-5))


def _layer_norm(call: Call) -> tuple[Any, ...]:
    data = call.tensor(0)
    shape = list(data.shape[call.whole("axis", -1) % data.dim() :])
    given = (call.optional(1), call.optional(2))
    scale, shift = (None if weight is None else weight.reshape(shape) for weight in given)
    epsilon = call.real("epsilon", 1e-5)
    if len([name for name in call.node.outputs if name]) == 1:
        return (functional.layer_norm(data, shape, scale, shift, epsilon),)
    return torch.native_layer_norm(data, shape, scale, shift, epsilon)


def _rms_norm(call: Call) -> Tensor:
    data, scale = call.tensor(0), call.tensor(1)
    axis = call.whole("axis", -1) % data.dim()
    return functional.rms_norm(data, list(data.shape[axis:]), scale, call.real("epsilon", 1e-5))


def _skip_layer_norm(call: Call) -> Any:
    total = call.tensor(0) + call.tensor(1)
    simplified = "Simplified" in call.node.operator
    bias = call.optional(3 if simplified else 4)
    total = total if bias is None else total + bias
    shape, epsilon = [total.shape[-1]], call.real("epsilon", 1e-5)
    if simplified:
        made = functional.rms_norm(total, shape, call.tensor(2), epsilon)
    else:
        made = functional.layer_norm(total, shape, call.tensor(2), call.optional(3), epsilon)
    return (made, None, None, total)[: max(1, len(call.node.outputs))]


def _lrn(call: Call) -> Tensor:
    return functional.local_response_norm(
        call.tensor(0), call.whole("size", 1), call.real("alpha", 1e-4), call.real("beta", 0.75), call.real("bias", 1.0)
    )


def _mean_variance(call: Call) -> Tensor:
    data, axes = call.tensor(0), call.wholes("axes") or [0, 2, 3]
    return (data - data.mean(axes, keepdim=True)) / (data.var(axes, unbiased=False, keepdim=True).sqrt() + 1e-9)


def _recurrent(call: Call) -> tuple[Any, ...]:
    """Run a recurrent layer as cuDNN does; a gate's place within the weights decides neither work nor memory."""
    data, weight, recurrent, bias = call.tensor(0), call.tensor(1), call.tensor(2), call.optional(3)
    batch_first = bool(call.whole("layout"))
    directions, hidden = weight.shape[0], recurrent.shape[-1]
    mode = {"LSTM": "lstm", "GRU": "gru"}.get(call.node.operator, "rnn_tanh")
    samples = data.shape[0 if batch_first else 1]
    states = [
        data.new_zeros((directions, samples, hidden))
        if state is None
        else (state.transpose(0, 1).contiguous() if batch_first else state)  # directions first, as cuDNN has them
        for state in (call.optional(5), call.optional(6))[: 2 if mode == "lstm" else 1]
    ]
    weights = [
        part
        for direction in range(directions)
        for part in (weight[direction], recurrent[direction], *(() if bias is None else bias[direction].chunk(2)))
    ]
    run: Any = getattr(torch, mode)
    given = tuple(states) if mode == "lstm" else states[0]
    out, *last = run(data, given, weights, bias is not None, 1, 0.0, False, directions == 2, batch_first)
    split = out.unflatten(-1, (directions, hidden))
    if batch_first:  # directions before the hidden size in the outputs, behind the batch in the last states
        return (split, *(state.transpose(0, 1) for state in last))
    return (split.transpose(1, 2), *last)


def _roi_align(call: Call) -> Tensor:
    boxes = torch.cat([call.tensor(2).to(call.tensor(1).dtype).unsqueeze(1).to(call.device), call.tensor(1)], dim=1)
    made: Tensor = _torchvision_ops().roi_align(
        call.tensor(0),
        boxes,
        (call.whole("output_height", 1), call.whole("output_width", 1)),
        call.real("spatial_scale", 1.0),
        call.whole("sampling_ratio") or -1,
    )
    return made


def _torchvision_ops() -> Any:
    from capplan.probe.foreign.libraries import import_torchvision

    import_torchvision()
    import torchvision.ops

    return torchvision.ops


def _deform_conv(call: Call) -> Tensor:
    pads = call.wholes("pads") or [0] * 4
    made: Tensor = _torchvision_ops().deform_conv2d(
        call.tensor(0),
        call.tensor(2),
        call.tensor(1),
        call.optional(3),
        stride=tuple(call.wholes("strides") or (1, 1)),
        padding=(pads[0], pads[1]),
        dilation=tuple(call.wholes("dilations") or (1, 1)),
        mask=call.optional(4),
    )
    return made


def _group_norm(call: Call) -> Tensor:
    """Normalise groups of channels; opset 18 states a scale and a bias for each group, opset 21 for each channel."""
    data, groups = call.tensor(0), call.whole("num_groups", 1)
    scale, bias = call.tensor(1), call.tensor(2)
    if call.opset < 21 and scale.numel() == groups:
        scale, bias = (values.repeat_interleave(data.shape[1] // groups) for values in (scale, bias))
    return functional.group_norm(data, groups, scale, bias, call.real("epsilon", 1e-5))


def _rotary(call: Call) -> Tensor:
    """Rotate pairs of elements by the angles of the caches: [batch, heads, tokens, width] or [batch, tokens, all]."""
    data = call.tensor(0)
    caches = [call.tensor(1), call.tensor(2)]
    positions = call.optional(3)
    if positions is not None:
        caches = [functional.embedding(positions, cache) for cache in caches]
    is_flat = data.dim() == 3
    view = _split_heads(data, call.whole("num_heads", 1)) if is_flat else data
    cos, sin = (cache.unsqueeze(-3 if cache.dim() == 3 else 0) for cache in caches)
    width = 2 * cos.shape[-1]
    turned, rest = view[..., :width], view[..., width:]
    first, second = turned.chunk(2, dim=-1)
    made = torch.cat([first * cos - second * sin, second * cos + first * sin, rest], dim=-1)
    return _join_heads(made) if is_flat else made


def _swiglu(call: Call) -> Tensor:
    gate = call.tensor(0)
    return gate * torch.sigmoid(gate * call.real("alpha", 1.0)) * call.tensor(1)


HANDLERS: Handlers = {
    "Conv": _conv, "com.microsoft.FusedConv": _fused_conv, "ConvTranspose": _conv_transpose, "Gemm": _gemm,
    "com.microsoft.FusedGemm": lambda call: _activated(_gemm(call), call.text("activation")),
    "MatMul": lambda call: torch.matmul(call.tensor(0), call.tensor(1)), "com.microsoft.FusedMatMul": _fused_matmul,
    "capplan.Linear": _linear, "capplan.Attention": _attention_pattern, "Attention": _attention,
    "com.microsoft.Attention": _packed_attention, "com.microsoft.MultiHeadAttention": _multi_head_attention,
    "BatchNormalization": _batch_norm, "LayerNormalization": _layer_norm, "capplan.LayerNormalization": _layer_norm,
    "RMSNormalization": _rms_norm, "SimplifiedLayerNormalization": _rms_norm,
    "com.microsoft.SkipLayerNormalization": _skip_layer_norm,
    "com.microsoft.SkipSimplifiedLayerNormalization": _skip_layer_norm,
    "InstanceNormalization": lambda call: functional.instance_norm(
        call.tensor(0), weight=call.tensor(1), bias=call.tensor(2), eps=call.real("epsilon", 1e-5)
    ),
    "GroupNormalization": _group_norm, "LRN": _lrn,
    "LpNormalization": lambda call: functional.normalize(
        call.tensor(0), p=call.whole("p", 2), dim=call.whole("axis", -1)
    ),
    "MeanVarianceNormalization": _mean_variance, "LSTM": _recurrent, "GRU": _recurrent, "RNN": _recurrent,
    "Einsum": lambda call: torch.einsum(call.text("equation"), *call.inputs),
    "RoiAlign": _roi_align, "DeformConv": _deform_conv, "RotaryEmbedding": _rotary,
    "SwiGLU": _swiglu, "Det": lambda call: torch.linalg.det(call.tensor(0)),
}  # fmt: skip
"""Handlers by operator, with the domain where it is not ONNX's own."""
