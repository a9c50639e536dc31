"""Operators that make, move, select and repeat elements."""

from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from capplan.probe.onnx.operators.call import Call, Handlers, ValueNeededError, along, torch_dtype


def _constant(call: Call) -> Tensor:
    for name in ("value_float", "value_floats", "value_int", "value_ints"):
        if name in call.node.attributes:
            dtype = torch.int64 if "int" in name else torch.float32
            return torch.tensor(call.node.attributes[name], dtype=dtype, device="cpu")
    raise ValueNeededError("is a constant of a kind that is not read (a text or a sparse tensor)")


def _constant_of_shape(call: Call) -> Tensor:
    shape = call.host_wholes(0) or []
    constant = call.constant("value")
    value: Any = 0.0
    dtype = torch.float32
    if constant is not None:
        dtype = getattr(torch, constant.dtype)
        value = constant.values.reshape(-1).tolist()[0] if constant.values is not None else 0
    if dtype.is_floating_point:
        return torch.full(shape, value, dtype=call.dtype(dtype), device=call.device)
    return torch.full(shape, value, dtype=dtype, device=call.place_of(prod(shape)))


def _shape(call: Call) -> Tensor:
    shape = list(call.tensor(0).shape)
    start, end = call.whole("start"), call.node.attributes.get("end")
    return torch.tensor(shape[start : end if isinstance(end, int) else None], dtype=torch.int64, device="cpu")


def _range(call: Call) -> Tensor:
    start, limit, delta = (call.host_list(call.tensor(index))[0] for index in range(3))
    elements = max(0, -(-(limit - start) // delta)) if delta else 0
    return torch.arange(start, limit, delta, dtype=call.tensor(0).dtype, device=call.place_of(int(elements)))


def _reshape(call: Call) -> Tensor:
    data, shape = call.tensor(0), call.host_wholes(1, "shape") or []
    if not call.whole("allowzero"):
        shape = [data.shape[index] if dim == 0 else dim for index, dim in enumerate(shape)]
    return data.reshape(shape)


def _flatten(call: Call) -> Tensor:
    data, axis = call.tensor(0), call.whole("axis", 1)
    axis = axis + data.dim() if axis < 0 else axis
    return data.reshape(prod(data.shape[:axis]), -1)


def _transpose(call: Call) -> Tensor:
    data = call.tensor(0)
    return data.permute(call.wholes("perm") or list(range(data.dim()))[::-1])


def _squeeze(call: Call) -> Tensor:
    axes = call.host_wholes(1, "axes")
    data = call.tensor(0)
    return data.squeeze() if axes is None else data.squeeze(tuple(along(axis, data) for axis in axes))


def _unsqueeze(call: Call) -> Tensor:
    data, axes = call.tensor(0), call.host_wholes(1, "axes") or []
    rank = data.dim() + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        data = data.unsqueeze(axis)
    return data


def _concat(call: Call) -> Tensor:
    parts = list(call.inputs)
    if len({part.device for part in parts}) > 1:
        parts = call.on_device(*parts)
    parts = [part for part in parts if part.numel()] or parts[:1]
    return torch.cat(parts, dim=call.whole("axis"))


def _split(call: Call) -> tuple[Tensor, ...]:
    data = call.tensor(0)
    axis = along(call.whole("axis"), data)
    sizes = call.host_wholes(1, "split")
    if sizes is None:
        count = call.whole("num_outputs") or len(call.node.outputs)
        size = -(-data.shape[axis] // count)
        sizes = [size] * (count - 1) + [data.shape[axis] - size * (count - 1)]
    return torch.split(data, sizes, dim=axis)


def _slice(call: Call) -> Tensor:
    data = call.tensor(0)
    starts, ends = call.host_wholes(1, "starts") or [], call.host_wholes(2, "ends") or []
    axes = call.host_wholes(3, "axes") or list(range(len(starts)))
    steps = call.host_wholes(4) or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = along(axis, data)
        if step > 0:
            length = data.shape[at]
            low, high, _ = slice(start, end).indices(length)
            if (low, high, step) != (0, length, 1):
                data = data[(*[slice(None)] * at, slice(low, max(low, high), step))]
        else:
            picked = torch.tensor(range(data.shape[at])[start:end:step], dtype=torch.int64, device="cpu")
            data = data.index_select(at, picked if data.device.type == "cpu" else picked.to(data.device))
    return data


def _gather(call: Call) -> Tensor:
    data, indices = call.tensor(0), call.tensor(1)
    axis = along(call.whole("axis"), data)
    if indices.dim() == 0 and indices.device.type == "cpu" and not hasattr(indices, "fake_mode"):
        return data.select(axis, int(indices))
    if indices.device.type == "cpu" and not hasattr(indices, "fake_mode"):
        indices = torch.where(indices < 0, indices + data.shape[axis], indices)
    if axis == 0 and data.dim() == 2 and data.is_floating_point():
        return functional.embedding(indices, data)
    picked = data.index_select(axis, indices.reshape(-1))
    return picked.reshape(*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])


def _gather_nd(call: Call) -> Tensor:
    data, indices = call.tensor(0), call.tensor(1)
    batch = call.whole("batch_dims")
    if batch == 0:
        return data[tuple(indices.unbind(-1))]
    leading = [
        torch.arange(size, device=indices.device).reshape([-1 if i == at else 1 for i in range(indices.dim() - 1)])
        for at, size in enumerate(data.shape[:batch])
    ]
    return data[(*leading, *indices.unbind(-1))]


def _scatter_elements(call: Call) -> Tensor:
    data, indices, updates = call.tensor(0), call.tensor(1), call.tensor(2)
    axis = along(call.whole("axis"), data)
    reduction = _REDUCTIONS.get(call.text("reduction", "none"))
    if reduction is None:
        return data.scatter(axis, indices, updates)
    return data.scatter_reduce(axis, indices, updates, reduction)


_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _scatter_nd(call: Call) -> Tensor:
    data, indices, updates = call.tensor(0), call.tensor(1), call.tensor(2)
    made = data.clone()
    return made.index_put_(tuple(indices.unbind(-1)), updates, accumulate=call.text("reduction", "none") == "add")


def _expand(call: Call) -> Tensor:
    data, shape = call.tensor(0), call.host_wholes(1) or []
    broadcast: Any = torch.broadcast_shapes
    return data.expand(broadcast(data.shape, torch.Size(shape)))


def _tile(call: Call) -> Tensor:
    data, repeats = call.tensor(0), call.host_wholes(1) or []
    if data.numel() * prod(repeats) > 2**24:
        (data,) = call.on_device(data)
    return data.repeat(repeats)


def _pad(call: Call) -> Tensor:
    data, mode = call.tensor(0), call.text("mode", "constant")
    pads = call.host_wholes(1, "pads") or []
    axes = call.host_wholes(3) or list(range(data.dim()))
    sides = {along(axis, data): (pads[i], pads[i + len(axes)]) for i, axis in enumerate(axes)}
    if prod(size + sum(sides.get(axis, (0, 0))) for axis, size in enumerate(data.shape)) > 2**24:
        (data,) = call.on_device(data)
    amounts = [amount for axis in reversed(range(data.dim())) for amount in sides.get(axis, (0, 0))]
    while len(amounts) > 2 and amounts[-2:] == [0, 0]:
        amounts = amounts[:-2]
    if not any(amounts):
        return data
    if mode == "constant":
        given = call.optional(2)
        value = call.real("value") if given is None else float(call.host_list(given)[0])
        return functional.pad(data, amounts, value=value)
    return functional.pad(data, amounts, mode={"edge": "replicate", "reflect": "reflect", "wrap": "circular"}[mode])


def _one_hot(call: Call) -> Tensor:
    indices, values = call.tensor(0), call.tensor(2)
    depth = int(call.host_list(call.tensor(1))[0])
    axis = call.whole("axis", -1) % (indices.dim() + 1)
    positions = torch.arange(depth, device=call.device).reshape(depth, *[1] * (indices.dim() - axis))
    found = indices.to(call.device).unsqueeze(axis) == positions
    off, on = call.host_list(values)
    return torch.where(found, on, off).to(call.dtype(values.dtype))


def _eye_like(call: Call) -> Tensor:
    rows, columns = call.tensor(0).shape
    dtype = call.dtype_of(call.whole("dtype")) if "dtype" in call.node.attributes else call.tensor(0).dtype
    return torch.eye(rows, columns, dtype=dtype, device=call.device)


def _depth_to_space(call: Call) -> Tensor:
    data, size = call.tensor(0), call.whole("blocksize", 1)
    if call.text("mode", "DCR") == "CRD":
        return functional.pixel_shuffle(data, size)
    batch, channels, height, width = data.shape
    parts = data.reshape(batch, size, size, channels // size**2, height, width).permute(0, 3, 4, 1, 5, 2)
    return parts.reshape(batch, channels // size**2, height * size, width * size)


def _space_to_depth(call: Call) -> Tensor:
    data, size = call.tensor(0), call.whole("blocksize", 1)
    batch, channels, height, width = data.shape
    parts = data.reshape(batch, channels, height // size, size, width // size, size).permute(0, 3, 5, 1, 2, 4)
    return parts.reshape(batch, channels * size**2, height // size, width // size)


def _trilu(call: Call) -> Tensor:
    offset = call.optional(1)
    diagonal = 0 if offset is None else int(call.host_list(offset)[0])
    return (torch.triu if call.whole("upper", 1) else torch.tril)(call.tensor(0), diagonal)


def _center_crop_pad(call: Call) -> Tensor:
    data, sizes = call.tensor(0), call.host_wholes(1) or []
    for axis, size in zip(call.wholes("axes") or range(data.dim()), sizes, strict=True):
        at = along(axis, data)
        have = data.shape[at]
        if have > size:
            data = data.narrow(at, (have - size) // 2, size)
        elif have < size:
            before = (size - have) // 2
            data = functional.pad(data, [0, 0] * (data.dim() - 1 - at) + [before, size - have - before])
    return data


def _random(call: Call) -> Tensor:
    like = call.optional(0)
    shape = list(like.shape) if like is not None else call.wholes("shape") or []
    normal = "Normal" in call.node.operator
    dtype = torch_dtype(call.whole("dtype", 1)) if like is None or call.whole("dtype") else like.dtype
    return (torch.randn if normal else torch.rand)(shape, dtype=call.dtype(dtype), device=call.device)


def _sequence_at(call: Call) -> Tensor:
    sequence: list[Tensor] = call.inputs[0]
    return sequence[int(call.host_list(call.tensor(1))[0])]


def _sequence_insert(call: Call) -> list[Tensor]:
    sequence: list[Tensor] = list(call.inputs[0])
    place = call.optional(2)
    sequence.insert(len(sequence) if place is None else int(call.host_list(place)[0]), call.inputs[1])
    return sequence


def _concat_from_sequence(call: Call) -> Tensor:
    join = torch.stack if call.whole("new_axis") else torch.cat
    return join(list(call.inputs[0]), dim=call.whole("axis"))


def _split_to_sequence(call: Call) -> list[Tensor]:
    data, axis = call.tensor(0), along(call.whole("axis"), call.tensor(0))
    given = call.optional(1)
    if given is None:
        parts = list(torch.split(data, 1, dim=axis))
        return parts if call.whole("keepdims", 1) else [part.squeeze(axis) for part in parts]
    sizes = call.host_list(given)
    return list(torch.split(data, int(sizes[0]) if given.dim() == 0 else [int(size) for size in sizes], dim=axis))


def _compress(call: Call) -> Tensor:
    chosen = [index for index, keep in enumerate(call.host_list(call.tensor(1))) if keep]
    axis = call.node.attributes.get("axis")
    data = call.tensor(0) if isinstance(axis, int) else call.tensor(0).reshape(-1)
    at = along(axis, data) if isinstance(axis, int) else 0
    return data.index_select(at, torch.tensor(chosen, device=data.device))


def _tensor_scatter(call: Call) -> Tensor:
    """Write new keys or values into a cache, in place as engines do."""
    cache, update = call.tensor(0), call.tensor(1)
    axis = along(call.whole("axis", -2), cache)
    made = cache.clone()
    made.narrow(axis, 0, update.shape[axis]).copy_(update)
    return made


def _col2im(call: Call) -> Tensor:
    pads = call.wholes("pads") or [0] * 4
    fold: Any = functional.fold
    made: Tensor = fold(
        call.tensor(0),
        call.host_wholes(1),
        call.host_wholes(2),
        call.wholes("dilations") or 1,
        pads[: len(pads) // 2],
        call.wholes("strides") or 1,
    )
    return made


HANDLERS: Handlers = {
    "Constant": _constant, "ConstantOfShape": _constant_of_shape, "Shape": _shape, "Range": _range,
    "Size": lambda call: torch.tensor(call.tensor(0).numel(), dtype=torch.int64, device="cpu"),
    "Reshape": _reshape, "Flatten": _flatten, "Transpose": _transpose, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze,
    "Concat": _concat, "Split": _split, "Slice": _slice, "Gather": _gather, "GatherND": _gather_nd,
    "GatherElements": lambda call: torch.gather(
        call.tensor(0), along(call.whole("axis"), call.tensor(0)), call.tensor(1)
    ),
    "ScatterElements": _scatter_elements, "Scatter": _scatter_elements,
    "ScatterND": _scatter_nd, "Expand": _expand, "Tile": _tile, "Pad": _pad, "OneHot": _one_hot, "EyeLike": _eye_like,
    "DepthToSpace": _depth_to_space, "SpaceToDepth": _space_to_depth, "Trilu": _trilu,
    "CenterCropPad": _center_crop_pad, "RandomNormal": _random, "RandomUniform": _random, "RandomNormalLike": _random,
    "RandomUniformLike": _random, "SequenceConstruct": lambda call: list(call.inputs), "SequenceEmpty": lambda _: [],
    "SequenceAt": _sequence_at, "SequenceInsert": _sequence_insert,
    "SequenceLength": lambda call: torch.tensor(len(call.inputs[0]), device="cpu"),
    "ConcatFromSequence": _concat_from_sequence, "SplitToSequence": _split_to_sequence,
    "TensorScatter": _tensor_scatter,
    "ReverseSequence": lambda call: torch.flip(call.tensor(0), [call.whole("time_axis", 0)]),
    "Compress": _compress, "Col2Im": _col2im,
    "NonZero": lambda call: torch.nonzero(call.tensor(0)).transpose(0, 1),
    "OptionalHasElement": lambda call: torch.tensor(call.optional(0) is not None, device="cpu"),
    "Optional": lambda call: call.inputs[0], "OptionalGetElement": lambda call: call.inputs[0],
}  # fmt: skip
"""Handlers by operator."""
