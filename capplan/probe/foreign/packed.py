"""Look inside the objects in which quantised modules keep their weights: they are neither parameters nor buffers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

_STORED_AS = {
    torch.qint8: torch.int8,
    torch.quint8: torch.uint8,
    torch.qint32: torch.int32,
    torch.quint4x2: torch.uint8,
}
_PER_CHANNEL = (torch.per_channel_affine, torch.per_channel_affine_float_qparams)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """An object of packed weights: `name` in the model, and stand-ins for what it stores, on the meta device.

    `is_scale` tells, for each tensor, whether it holds scales, zero points or strides instead of weights or biases.
    """

    name: str
    holder: torch.ScriptObject
    tensors: tuple[Tensor, ...]
    is_scale: tuple[bool, ...]


def pack_as_when_moved(module: nn.Module) -> None:
    """Pack the weights that bitsandbytes packs when a module is moved to its device (`Linear4bit`, `Linear8bitLt`).

    Before the move they are the floats that were given, which no layer of it computes with.
    """
    for part in module.modules():
        for parameter in part.parameters(recurse=False):
            if type(parameter).__module__.partition(".")[0] != "bitsandbytes" or parameter.dtype in _PACKED_AS:
                continue
            packing: Any = parameter
            packing._quantize(parameter.device)


_PACKED_AS = (torch.uint8, torch.int8)


def packed_weights(module: nn.Module) -> Iterator[Packed]:
    """List the objects of packed weights that the modules of a model hold, each once.

    The object's own `__getstate__`, which `torch.save` calls, tells what it stores.
    """
    seen: set[int] = set()
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if isinstance(value, torch.ScriptObject) and hasattr(value, "__getstate__") and hash(value) not in seen:
                seen.add(hash(value))
                stored = list(_stored(value, half=getattr(part, "dtype", None) is torch.float16))
                yield Packed(
                    name=f"{path}.{name}".removeprefix("."),
                    holder=value,
                    tensors=tuple(tensor for tensor, _ in stored),
                    is_scale=tuple(is_scale for _, is_scale in stored),
                )


def _stored(value: Any, *, half: bool) -> Iterator[tuple[Tensor, bool]]:
    if isinstance(value, Tensor):
        # linear weights of `dtype=torch.float16` are stored in 16 bits and unpacked to 32 for saving
        dtype = torch.float16 if half and value.dim() > 1 else _STORED_AS.get(value.dtype, value.dtype)
        says_strides = value.dtype is torch.int16  # a convolution's stride, padding and groups, kept with its weights
        yield torch.empty(value.shape, dtype=dtype, device="meta"), says_strides
        if value.is_quantized and value.qscheme() in _PER_CHANNEL:
            for each in (value.q_per_channel_scales(), value.q_per_channel_zero_points()):
                yield torch.empty(each.shape, dtype=each.dtype, device="meta"), True
    elif isinstance(value, torch.ScriptObject):
        yield from _stored(_state(value), half=half)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _stored(part, half=half)


def _state(packed: Any) -> Any:
    return packed.__getstate__()
