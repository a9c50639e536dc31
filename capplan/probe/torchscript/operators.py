"""PyTorch's operators as TorchScript names them, called as Python code would call them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from capplan.probe.foreign.graphs import as_from_python, is_allowed
from capplan.probe.torchscript.scalars import ScriptError

_SCALAR_TYPES: tuple[torch.dtype, ...] = (
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
    torch.complex32, torch.complex64, torch.complex128, torch.bool,
)  # fmt: skip
_FURTHER_TYPES: Mapping[int, torch.dtype] = {
    15: torch.bfloat16, 23: torch.float8_e5m2, 24: torch.float8_e4m3fn, 25: torch.float8_e5m2fnuz,
    26: torch.float8_e4m3fnuz,
}  # fmt: skip
_FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)


def scalar_type(dtype: torch.dtype) -> int:
    """Return the number by which TorchScript names a dtype."""
    if dtype in _SCALAR_TYPES:
        return _SCALAR_TYPES.index(dtype)
    return next((number for number, known in _FURTHER_TYPES.items() if known == dtype), -1)


def _dtype(number: Any) -> Any:
    if not isinstance(number, int) or isinstance(number, bool):
        return number
    if 0 <= number < len(_SCALAR_TYPES):
        return _SCALAR_TYPES[number]
    if number in _FURTHER_TYPES:
        return _FURTHER_TYPES[number]
    raise ScriptError(f"a dtype of number {number} is not read")


def call_operator(
    namespace: str, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], *, device: torch.device
) -> Any:
    if not is_allowed(namespace, name):
        raise ScriptError(f"{namespace}::{name} is not an operator that is read")
    special = _SPECIAL.get(name)
    if special is not None and namespace == "aten":
        return special(device, *args, **kwargs)
    packet = getattr(getattr(torch.ops, namespace), name, None)
    if packet is None:
        raise ScriptError(f"{namespace}::{name} is not an operator of this PyTorch ({torch.__version__})")
    overload, args = _overload_for(packet, f"{namespace}::{name}", args, kwargs)
    schema = overload._schema.arguments
    given = [_converted(schema[index].name, value, device) for index, value in enumerate(args)]
    named = {key: _converted(key, value, device) for key, value in kwargs.items()}
    if "device" in {argument.name for argument in schema} and not _holds_tensor([*given, *named.values()]):
        place = next((index for index, argument in enumerate(schema) if argument.name == "device"), len(given))
        if place < len(given):
            given[place] = device
        else:
            named["device"] = device
    made = as_from_python(name, overload)(*given, **named)
    returns = overload._schema.returns
    return list(made) if len(returns) == 1 and str(returns[0].type).startswith("List") else made


def _overload_for(packet: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Sequence[Any]]:
    """Return the overload that the arguments choose, and the arguments as it takes them.

    TorchScript passes a tensor without dimensions where an operator takes a number; Python's bindings do not.
    """
    try:
        return _overload(packet, name, args, kwargs), args
    except ScriptError:
        numbers = [_as_number(argument) for argument in args]
        if all(number is argument for number, argument in zip(numbers, args, strict=True)):
            raise
        return _overload(packet, name, numbers, kwargs), numbers


def _as_number(value: Any) -> Any:
    """Return the number of a tensor without dimensions whose value is known; anything else as it is."""
    is_number = isinstance(value, Tensor) and not value.is_meta and value.dim() == 0
    return value.item() if is_number else value


def _overload(packet: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    try:
        chosen = torch._C._jit_resolve_packet(name, *args, **kwargs)
    except RuntimeError as error:
        raise ScriptError(f"{name} does not take these arguments ({' '.join(str(error).split())[:200]})") from error
    return getattr(packet, chosen or "default")


def _converted(name: str, value: Any, device: torch.device) -> Any:
    """Return an argument as Python names it: dtypes, layouts and memory formats are numbers in a file."""
    if value is None:
        return None
    if name in ("dtype", "out_dtype", "output_dtype"):
        return _dtype(value)
    if name == "layout":
        return torch.strided
    if name == "memory_format" and isinstance(value, int):
        return _FORMATS[value] if 0 <= value < len(_FORMATS) else torch.preserve_format
    if isinstance(value, torch.device):
        return device
    return value


def _holds_tensor(values: Sequence[Any]) -> bool:
    return any(isinstance(value, Tensor) or (isinstance(value, list) and _holds_tensor(value)) for value in values)


def _convolution(_device: torch.device, *args: Any, **_kwargs: Any) -> Any:
    """Call the convolution that a traced archive names with backends' flags behind its nine arguments."""
    return torch.convolution(*args[:9])


def _tensor(place: torch.device, data: Any, *, dtype: Any = None, requires_grad: bool = False, **_device: Any) -> Any:
    """Make a tensor of host values: scalars stay on the host, as PyTorch lets them meet tensors of any device."""
    made = torch.tensor(data, dtype=_dtype(dtype), device="cpu", requires_grad=requires_grad)
    return made if made.dim() == 0 else made.to(place)


def _size(_device: torch.device, tensor: Tensor, dim: int | None = None) -> Any:
    return list(tensor.shape) if dim is None else tensor.shape[dim]


def _scalar(_device: torch.device, value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) else value


def _mkldnn(*_: Any) -> Any:
    raise ScriptError(
        "torch.jit.optimize_for_inference made operators of oneDNN, for CPUs, whose weights the archive does not hold; "
        "that is not read: save the module before this step"
    )


_SPECIAL: Mapping[str, Callable[..., Any]] = {
    "to_mkldnn": _mkldnn,
    "_convolution": _convolution,
    "convolution": _convolution,
    "tensor": _tensor,
    "as_tensor": lambda place, data, **kwargs: data if isinstance(data, Tensor) else _tensor(place, data, **kwargs),
    "scalar_tensor": _tensor,
    "size": _size,
    "sym_size": _size,
    "stride": lambda _device, tensor, *dim: tensor.stride(*dim) if dim else list(tensor.stride()),
    "dim": lambda _device, tensor: tensor.dim(),
    "numel": lambda _device, tensor: tensor.numel(),
    "len": lambda _device, tensor: len(tensor),
    "item": _scalar,
    "Int": lambda _device, value: int(value),
    "IntImplicit": lambda _device, value: int(value),
    "Float": lambda _device, value: float(value),
    "FloatImplicit": lambda _device, value: float(value),
    "Bool": lambda _device, value: bool(value),
    "ScalarImplicit": _scalar,
    "is_floating_point": lambda _device, tensor: tensor.is_floating_point(),
    "is_complex": lambda _device, tensor: tensor.is_complex(),
    "is_contiguous": lambda _device, tensor, *_: tensor.is_contiguous(),
    "is_grad_enabled": lambda _device: torch.is_grad_enabled(),
    "is_autocast_enabled": lambda _device: torch.is_autocast_enabled(),
    "is_autocast_cpu_enabled": lambda _device: False,
    "is_scripting": lambda _device: True,
    "get_fastpath_enabled": lambda _device: False,
    "device": lambda device, *_: device,
    "cuda": lambda _device, tensor, *_: tensor,
    "cpu": lambda _device, tensor, *_: tensor,
    "__not__": lambda _device, value: not value,
    "unbind": lambda _device, tensor, dim=0: list(torch.unbind(tensor, dim)),
    "resolve_conj": lambda _device, tensor: tensor,
    "detach": lambda _device, tensor: tensor.detach(),
}  # fmt: skip
"""Operators that Python writes otherwise, or that a device's rules replace; each takes the model's device first."""


def prim(name: str, args: Sequence[Any], *, device: torch.device) -> Any:
    """Evaluate one of TorchScript's own primitives."""
    if name == "RaiseException":
        raise ScriptError(f"the model's code raises {str(args[0])[:300]!r}")
    function = _PRIMITIVES.get(name)
    if function is None:
        raise ScriptError(f"prim::{name} is not a primitive that is read")
    return function(device, *args)


_PRIMITIVES: Mapping[str, Callable[..., Any]] = {
    "NumToTensor": lambda _device, value: torch.tensor(value, device="cpu"),
    "dtype": lambda _device, tensor: scalar_type(tensor.dtype),
    "device": lambda _device, tensor: tensor.device,
    "layout": lambda _device, _tensor: 0,
    "shape": lambda _device, tensor: list(tensor.shape),
    "ndim": lambda _device, tensor: tensor.dim(),
    "data": lambda _device, tensor: tensor.detach(),
    "grad": lambda _device, _tensor: None,
    "requires_grad": lambda _device, tensor: tensor.requires_grad,
    "is_cuda": lambda _device, _tensor: True,
    "is_cpu": lambda _device, _tensor: False,
    "is_sparse": lambda _device, tensor: tensor.is_sparse,
    "is_quantized": lambda _device, tensor: tensor.is_quantized,
    "is_nested": lambda _device, tensor: tensor.is_nested,
    "is_mkldnn": lambda _device, _tensor: False,
    "is_meta": lambda _device, _tensor: False,
    "is_leaf": lambda _device, tensor: tensor.is_leaf,
    "itemsize": lambda _device, tensor: tensor.itemsize,
    "T": lambda _device, tensor: tensor.T,
    "mT": lambda _device, tensor: tensor.mT,
    "H": lambda _device, tensor: tensor.H,
    "mH": lambda _device, tensor: tensor.mH,
    "real": lambda _device, tensor: tensor.real,
    "imag": lambda _device, tensor: tensor.imag,
    "type": lambda device, _device: device.type,
    "index": lambda _device, _of: None,
    "min": lambda _device, *values: min(*values) if len(values) > 1 else min(values[0]),
    "max": lambda _device, *values: max(*values) if len(values) > 1 else max(values[0]),
    "abs": lambda _device, value: abs(value),
    "tolist": lambda _device, value, *_depth_and_type: value.tolist(),
    "unchecked_unwrap_optional": lambda _device, value: value,
    "unchecked_cast": lambda _device, value: value,
    "rangelist": lambda _device, count: list(range(count)),
    "Print": lambda _device, *_: None,
    "TupleUnpack": lambda _device, value: value,
    "TupleIndex": lambda _device, value, index: value[index],
    "ListUnpack": lambda _device, value: value,
}
"""TorchScript's primitives on tensors and values; each takes the model's device first."""
