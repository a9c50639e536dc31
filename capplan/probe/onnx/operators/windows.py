"""Reductions, pooling, resizing, sorting."""

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from capplan.probe.onnx.operators.call import Call, Handler, Handlers, along
from capplan.probe.onnx.operators.products import pad_sides, window_pads

_MAX_POOLS: dict[int, Any] = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
_AVERAGE_POOLS: dict[int, Any] = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}


def _reduce(function: Callable[[Tensor, list[int], bool], Tensor]) -> Handler:
    def run(call: Call) -> Tensor:
        data = call.tensor(0)
        axes = call.host_wholes(1, "axes")
        if not axes and call.whole("noop_with_empty_axes"):
            return data
        chosen = [along(axis, data) for axis in axes] if axes else list(range(data.dim()))
        return function(data, chosen, bool(call.whole("keepdims", 1)))

    return run


def _product(data: Tensor, axes: list[int], keeps: bool) -> Tensor:
    for axis in sorted(axes, reverse=True):
        data = torch.prod(data, axis, keepdim=keeps)
    return data


def _reduce_mean(data: Tensor, axes: list[int], keeps: bool) -> Tensor:
    if data.is_floating_point():
        return torch.mean(data, axes, keepdim=keeps)
    return torch.mean(data.double(), axes, keepdim=keeps).to(data.dtype)


def _any_or_extreme(extreme: Any, logical: Any) -> Callable[[Tensor, list[int], bool], Tensor]:
    def run(data: Tensor, axes: list[int], keeps: bool) -> Tensor:
        made: Tensor = (logical if data.dtype is torch.bool else extreme)(data, axes, keepdim=keeps)
        return made

    return run


def _softmax(function: Any) -> Handler:
    def run(call: Call) -> Tensor:
        data = call.tensor(0)
        if call.opset >= 13:
            return function(data, dim=call.whole("axis", -1))  # type: ignore[no-any-return] # torch's softmax
        axis = call.whole("axis", 1) % max(1, data.dim())
        if axis == data.dim() - 1:
            return function(data, dim=axis)  # type: ignore[no-any-return] # torch's softmax
        return function(data.flatten(axis), dim=-1).reshape(data.shape)  # type: ignore[no-any-return] # as above

    return run


def _padded(call: Call, window: list[int], *, value: float = 0.0) -> tuple[Tensor, list[int]]:
    """Return what is pooled, and how much the pooling pads on both sides: what it cannot is padded beforehand."""
    data = call.tensor(0)
    before, after = window_pads(call, window=window, sizes=list(data.shape[2:]))
    if before != after or any(2 * pad > size for pad, size in zip(before, window, strict=True)):
        return pad_sides(data, before, after, value=value), [0] * len(window)
    return data, before


def _max_pool(call: Call) -> Any:
    window = call.wholes("kernel_shape") or [1]
    rank = len(window)
    data, padding = _padded(call, window, value=float("-inf"))
    return _MAX_POOLS[rank](
        data,
        window,
        stride=call.wholes("strides") or [1] * rank,
        padding=padding,
        dilation=call.wholes("dilations") or [1] * rank,
        ceil_mode=bool(call.whole("ceil_mode")),
        return_indices=len([name for name in call.node.outputs if name]) > 1,
    )


def _average_pool(call: Call) -> Tensor:
    window = call.wholes("kernel_shape") or [1]
    rank = len(window)
    if any(step > 1 for step in call.wholes("dilations") or ()):
        made: Tensor = _max_pool(call)  # PyTorch has no such pooling; this one takes as much work and memory
        return made
    data, padding = _padded(call, window)
    made = _AVERAGE_POOLS[rank](
        data,
        window,
        stride=call.wholes("strides") or [1] * rank,
        padding=padding,
        ceil_mode=bool(call.whole("ceil_mode")),
        count_include_pad=bool(call.whole("count_include_pad")),
    )
    return made


def _global_average(call: Call) -> Tensor:
    data = call.tensor(0)
    if data.dim() == 4:
        return functional.adaptive_avg_pool2d(data, 1)
    return data.mean(tuple(range(2, data.dim())), keepdim=True)


def _global_max(call: Call) -> Tensor:
    data = call.tensor(0)
    return functional.adaptive_max_pool2d(data, 1) if data.dim() == 4 else data.amax(tuple(range(2, data.dim())), True)


def _lp_pool(call: Call) -> Tensor:
    """Compute the p-norm of windows as PyTorch does: powers, their mean times the window's size, the root."""
    power, window = call.whole("p", 2), call.wholes("kernel_shape") or [1]
    raised = replace(call, inputs=(call.tensor(0).abs().pow(power),))
    return (_average_pool(raised) * prod(window)).pow(1 / power)


def _resize(call: Call) -> Tensor:
    data = call.tensor(0)
    scales_at, sizes_at = (2, 3) if call.opset >= 11 and call.node.operator == "Resize" else (1, 9)
    sizes = call.host_wholes(sizes_at) or []
    given = call.optional(scales_at)
    axes = [along(axis, data) for axis in call.wholes("axes") or range(data.dim())]
    if not sizes:
        factors = call.host_list(given) if given is not None else call.node.attributes.get("scales", ())
        assert isinstance(factors, list | tuple)
        sizes = [int(data.shape[axis] * float(factor)) for axis, factor in zip(axes, factors, strict=True)]
    shape = list(data.shape)
    policy = call.text("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch" and sizes:
        factors = [size / data.shape[axis] for axis, size in zip(axes, sizes, strict=True)]
        factor = min(factors) if policy == "not_larger" else max(factors)
        sizes = [round(data.shape[axis] * factor) for axis in axes]
    for axis, size in zip(axes, sizes, strict=True):
        shape[axis] = size
    if shape == list(data.shape):
        return data
    return _interpolate(call, data, shape)


def _interpolate(call: Call, data: Tensor, shape: list[int]) -> Tensor:
    rank = data.dim() - 2
    kind = call.text("mode", "nearest")
    if rank not in (1, 2, 3) or shape[:2] != list(data.shape[:2]):
        while data.dim() < len(shape) or list(data.shape) != shape:
            axis = next(at for at, (have, want) in enumerate(zip(data.shape, shape, strict=True)) if have != want)
            picked = torch.linspace(0, data.shape[axis] - 1, shape[axis], device=data.device).long()
            data = data.index_select(axis, picked)
        return data
    modes = {"linear": ("linear", "bilinear", "trilinear"), "cubic": ("nearest", "bicubic", "nearest")}
    mode = modes[kind][rank - 1] if kind in modes else "nearest"
    aligned = call.text("coordinate_transformation_mode") == "align_corners"
    return functional.interpolate(
        data, size=shape[2:], mode=mode, align_corners=aligned if mode != "nearest" else None,
        antialias=bool(call.whole("antialias")) and mode in ("bilinear", "bicubic"),
    )  # fmt: skip


def _top_k(call: Call) -> tuple[Tensor, Tensor]:
    count = call.host_wholes(1)
    kept = int(count[0]) if count else call.whole("k", 1)
    top = torch.topk(
        call.tensor(0),
        kept,
        dim=call.whole("axis", -1),
        largest=bool(call.whole("largest", 1)),
        sorted=bool(call.whole("sorted", 1)),
    )
    return top.values, top.indices


def _arg(function: Any) -> Handler:
    return lambda call: function(call.tensor(0), dim=call.whole("axis"), keepdim=bool(call.whole("keepdims", 1)))


def _cumulate(call: Call) -> Tensor:
    axis = int(call.host_list(call.tensor(1))[0])
    data = call.tensor(0)
    if call.whole("reverse"):
        return torch.flip(torch.cumsum(torch.flip(data, [axis]), axis, dtype=data.dtype), [axis])
    return data.cumsum(axis, dtype=data.dtype)


def _hardmax(call: Call) -> Tensor:
    data, axis = call.tensor(0), call.whole("axis", -1)
    return torch.zeros_like(data).scatter(axis, data.argmax(axis, keepdim=True), 1.0)


def _grid_sample(call: Call) -> Tensor:
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(call.text("mode", "bilinear"), call.text("mode", "bilinear"))
    return functional.grid_sample(
        call.tensor(0),
        call.tensor(1),
        mode=mode,
        padding_mode=call.text("padding_mode", "zeros"),
        align_corners=bool(call.whole("align_corners")),
    )


def _dft(call: Call) -> Tensor:
    data = call.tensor(0)
    axis = call.whole("axis", 1)
    if call.opset >= 20:
        given = call.optional(2)
        axis = along(-2 if given is None else int(call.host_list(given)[0]), data)
    inverse, onesided = bool(call.whole("inverse")), bool(call.whole("onesided"))
    if inverse and onesided:
        real: Tensor = torch.fft.irfft(torch.view_as_complex(data.contiguous()), dim=axis)
        return real.unsqueeze(-1)
    if data.shape[-1] == 2:
        source = torch.view_as_complex(data.contiguous())
        return torch.view_as_real((torch.fft.ifft if inverse else torch.fft.fft)(source, dim=axis))
    return torch.view_as_real((torch.fft.rfft if onesided else torch.fft.fft)(data.squeeze(-1), dim=axis))


def _stft(call: Call) -> Tensor:
    signal, step = call.tensor(0), int(call.host_list(call.tensor(1))[0])
    window = call.optional(2)
    length = call.host_wholes(3)
    size = window.shape[0] if window is not None else (length or [signal.shape[1]])[0]
    frames = signal.reshape(signal.shape[0], signal.shape[1], -1)[..., 0].unfold(1, size, step)
    frames = frames if window is None else frames * window
    transform = torch.fft.rfft if call.whole("onesided", 1) else torch.fft.fft
    return torch.view_as_real(transform(frames, dim=-1))


def _window(function: Any) -> Handler:
    return lambda call: function(
        int(call.host_list(call.tensor(0))[0]), periodic=bool(call.whole("periodic", 1)), device=call.device
    )


HANDLERS: Handlers = {
    "ReduceMean": _reduce(_reduce_mean),
    "ReduceSum": _reduce(lambda data, axes, keeps: torch.sum(data, axes, keepdim=keeps, dtype=data.dtype)),
    "ReduceMax": _reduce(_any_or_extreme(torch.amax, torch.any)),
    "ReduceMin": _reduce(_any_or_extreme(torch.amin, torch.all)), "ReduceProd": _reduce(_product),
    "ReduceL1": _reduce(lambda data, axes, keeps: data.abs().sum(axes, keepdim=keeps)),
    "ReduceL2": _reduce(lambda data, axes, keeps: torch.linalg.vector_norm(data, 2, axes, keepdim=keeps)),
    "ReduceSumSquare": _reduce(lambda data, axes, keeps: (data * data).sum(axes, keepdim=keeps)),
    "ReduceLogSum": _reduce(lambda data, axes, keeps: data.sum(axes, keepdim=keeps).log()),
    "ReduceLogSumExp": _reduce(lambda data, axes, keeps: torch.logsumexp(data, axes, keepdim=keeps)),
    "Softmax": _softmax(torch.softmax), "LogSoftmax": _softmax(torch.log_softmax), "Hardmax": _hardmax,
    "MaxPool": _max_pool, "AveragePool": _average_pool, "GlobalAveragePool": _global_average,
    "GlobalMaxPool": _global_max, "LpPool": _lp_pool, "Resize": _resize, "Upsample": _resize, "TopK": _top_k,
    "ArgMax": _arg(torch.argmax), "ArgMin": _arg(torch.argmin), "CumSum": _cumulate, "GridSample": _grid_sample,
    "AffineGrid": lambda call: functional.affine_grid(
        call.tensor(0), call.host_wholes(1) or [], bool(call.whole("align_corners"))
    ),
    "DFT": _dft, "STFT": _stft,
    "CumProd": lambda call: torch.cumprod(
        call.tensor(0), int(call.host_list(call.tensor(1))[0]), dtype=call.tensor(0).dtype
    ),
    "HannWindow": _window(torch.hann_window), "HammingWindow": _window(torch.hamming_window),
    "BlackmanWindow": _window(torch.blackman_window),
}  # fmt: skip
"""Handlers by operator."""
