"""Look inside quantised weights, to count what they store.

Tensor subclasses wrap other tensors; quantised modules keep packed weights in objects that are neither parameters nor
buffers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


def stored_tensors(tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    """List the plain tensors that a tensor stores, with their names below its own; a plain tensor is its own.

    Returns:
        Pairs such as ("", weight), or (".qdata", int8 values) and (".scale", fp32 scales), or the ".values" and the
        indices of a sparse tensor.
    """
    if tensor.layout in _SPARSE:
        for name in _SPARSE[tensor.layout]:
            yield f".{name.lstrip('_')}", getattr(tensor, name)().detach()
        return
    if not is_wrapper(tensor):
        yield "", tensor
        return
    wrapper: Any = tensor
    names, _ = wrapper.__tensor_flatten__()
    for name in names:
        for inner, plain in stored_tensors(getattr(wrapper, name)):
            yield f".{name}{inner}", plain


_COMPRESSED_ROWS = ("values", "crow_indices", "col_indices")
_COMPRESSED_COLUMNS = ("values", "ccol_indices", "row_indices")
_SPARSE = {
    torch.sparse_coo: ("_values", "_indices"),
    torch.sparse_csr: _COMPRESSED_ROWS,
    torch.sparse_bsr: _COMPRESSED_ROWS,
    torch.sparse_csc: _COMPRESSED_COLUMNS,
    torch.sparse_bsc: _COMPRESSED_COLUMNS,
}
"""What returns the tensors that a sparse tensor stores, by its layout: the values first."""


def is_wrapper(tensor: Tensor) -> bool:
    """Return True if a tensor's class keeps its data in other tensors and says which."""
    return type(tensor) not in (Tensor, nn.Parameter) and is_traceable_wrapper_subclass(tensor)


def rewrapped(tensor: Tensor, replace: Callable[[Tensor], Tensor]) -> Tensor:
    """Make a wrapper like another one around tensors that stand in for those which it stores."""
    wrapper: Any = tensor
    names, context = wrapper.__tensor_flatten__()
    inner = {}
    for name in names:
        held = getattr(wrapper, name)
        inner[name] = rewrapped(held, replace) if is_wrapper(held) else replace(held)
    made: Tensor = type(wrapper).__tensor_unflatten__(inner, context, wrapper.size(), wrapper.stride())
    if isinstance(tensor, nn.Parameter) and not isinstance(made, nn.Parameter):
        return nn.Parameter(made, requires_grad=tensor.requires_grad)
    return made


def as_parameter(made: Tensor, like: nn.Parameter, replace: Callable[[Tensor], Tensor]) -> nn.Parameter:
    """Make a parameter of a tensor that stands in for another one's, of its class and with its attributes.

    Quantising libraries keep scales and states as attributes of a class of their own (bitsandbytes' `Int8Params`).
    """
    if type(like) is nn.Parameter:
        return nn.Parameter(made, requires_grad=like.requires_grad)
    parameter: nn.Parameter = Tensor._make_subclass(type(like), made, like.requires_grad)
    for name, value in vars(like).items():
        if not name.startswith("_"):
            parameter.__dict__[name] = replace(value) if isinstance(value, Tensor) else value
    return parameter


def is_main(tensor: Tensor, stored: Tensor) -> bool:
    """Return True if a stored tensor holds the weights themselves, and not their scales or offsets."""
    if tensor.layout in _SPARSE:
        return stored.dtype == tensor.dtype
    return tensor is stored or stored.numel() == max(plain.numel() for _, plain in stored_tensors(tensor))


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

    `is_scale` decides, for each tensor, whether it holds scales, zero points or strides instead of weights or biases.
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
        for parameter in nn.Module.parameters(part, recurse=False):  # a model may have its own `parameters()`
            if type(parameter).__module__.partition(".")[0] != "bitsandbytes" or parameter.dtype in _PACKED_AS:
                continue
            packing: Any = parameter
            packing._quantize(parameter.device)


_PACKED_AS = (torch.uint8, torch.int8)


def packed_weights(module: nn.Module) -> Iterator[Packed]:
    """List the objects of packed weights that the modules of a model hold, each once.

    The object's own `__getstate__`, which `torch.save` calls, returns what it stores.
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
            for held in (value.q_per_channel_scales(), value.q_per_channel_zero_points()):
                yield torch.empty(held.shape, dtype=held.dtype, device="meta"), True
    elif isinstance(value, torch.ScriptObject):
        holder: Any = value
        yield from _stored(holder.__getstate__(), half=half)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _stored(part, half=half)
