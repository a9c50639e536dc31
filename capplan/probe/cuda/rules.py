"""Run what PyTorch would run on CUDA where the meta device differs: above autograd, per call from Python."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import EllipsisType, NoneType
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from capplan.probe.cuda.attention import attend, encoder_layer, mask_is_left_aligned, multi_head_attention, packed_rows
from capplan.probe.cuda.autocast import OPERATORS, Autocast, contexts_of_models
from capplan.probe.cuda.rnn import RNN_MODES, run_rnn
from capplan.probe.foreign.machine.cuda import CUDA_TYPES, cuda_present
from capplan.probe.foreign.machine.triton import triton_launches_recorded
from capplan.probe.record.recorder import Recorder

_VARIABLE = torch._C._VariableFunctions
_CPU = torch.device("cpu")


class CudaRules(TorchFunctionMode):
    def __init__(self, recorder: Recorder, autocast: Autocast, *, place: str = "meta", as_cpu: bool = False) -> None:
        """Apply the rules to a pass."""
        super().__init__()
        self._place = place
        shown = _CPU if as_cpu else torch.device("cuda", 0)
        self._is_model_device = _is_any_device if as_cpu else _is_accelerator
        self._recorder = recorder
        self._autocast = autocast
        self._stand_ins: dict[Callable[..., Any], Callable[..., Any]] = {
            torch._C._nn.scaled_dot_product_attention: partial(attend, recorder),
            _VARIABLE._native_multi_head_attention: partial(multi_head_attention, recorder),
            _VARIABLE._transformer_encoder_layer_fwd: partial(encoder_layer, recorder),
            _VARIABLE._nested_tensor_from_mask_left_aligned: partial(mask_is_left_aligned, recorder),
            _VARIABLE._nested_tensor_from_mask: partial(packed_rows, recorder),
            torch.Tensor.to_padded_tensor: _padded,
            **{getattr(_VARIABLE, mode): partial(run_rnn, recorder, mode) for mode in RNN_MODES},
            _VARIABLE.dropout: _dropout,
            torch._C._nn.one_hot: self._one_hot,
            _VARIABLE.rms_norm: self._rms_norm,
            torch.softmax: _softmax(torch._softmax, torch.softmax),
            torch.Tensor.softmax: _softmax(torch._softmax, torch.softmax),
            torch.log_softmax: _softmax(torch._log_softmax, torch.log_softmax),
            torch.Tensor.log_softmax: _softmax(torch._log_softmax, torch.log_softmax),
            torch._C._nn.cross_entropy_loss: self._cross_entropy,
            torch.tensor: self._make_from_data,
            torch.as_tensor: self._make_from_data,
            torch.Tensor.tolist: _tolist,
            torch.Tensor.cuda: lambda tensor, *_, **__: tensor.to(place),
            torch.Tensor.device.__get__: lambda tensor: shown if tensor.is_meta else tensor.device,
            torch.Tensor.is_cuda.__get__: lambda tensor: not as_cpu and tensor.is_meta,  # type: ignore[attr-defined]  # a C property
            torch.Tensor.is_cpu.__get__: (lambda _: True) if as_cpu else torch.Tensor.is_cpu.__get__,  # type: ignore[attr-defined]
            torch.Tensor.get_device: lambda tensor: 0 if tensor.is_meta else tensor.get_device(),
            torch.Tensor.type: _type,
            torch.Tensor.to: self._to,
            torch.Tensor.__setitem__: _set_item,
            torch.Tensor.__getitem__: _get_item,
        }
        self._special = {*self._stand_ins, *autocast.policies}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func not in self._special and type(func) not in OPERATORS:
            if not kwargs:
                return func(*args)
            device = kwargs.get("device")
            if device is not None and _is_accelerator(device):
                kwargs = {**kwargs, "device": self._place}
            return func(*args, **kwargs)
        stand_in = self._stand_ins.get(func, func)
        if kwargs and "input" in kwargs and stand_in is not func:
            args = (kwargs["input"], *args)
            kwargs = {name: value for name, value in kwargs.items() if name != "input"}
        policy = self._autocast.policy(func)
        if policy is not None:
            return self._autocast.call(policy, stand_in, args, kwargs or {})
        return stand_in(*args, **(kwargs or {}))

    def _cross_entropy(  # noqa: PLR0917  # torch's signature
        self, x: Tensor, target: Tensor, weight: Any = None, reduction: Any = 1, ignore_index: int = -100,
        label_smoothing: float = 0.0,
    ) -> Tensor:  # fmt: skip
        """Run the two steps of `at::cross_entropy_loss` where autocast acts between them."""
        plain = torch._C._nn.cross_entropy_loss
        if not torch.is_autocast_enabled("cuda") or label_smoothing or target.is_floating_point():
            return plain(x, target, weight, reduction, ignore_index, label_smoothing)
        axis = 0 if x.dim() == 1 else 1
        log_probability = _softmax(torch._log_softmax, torch.log_softmax)(x, axis, dtype=torch.float32)
        return torch._C._nn.nll_loss_nd(log_probability, target, weight, reduction, ignore_index)

    def _rms_norm(
        self, x: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
    ) -> Tensor:
        """Use the fused kernel, as `at::rms_norm` does on CUDA since torch 2.9 where input and weight share a dtype."""
        mixed = weight is not None and weight.dtype is not x.dtype
        if x.is_cpu or mixed or torch.is_grad_enabled():
            return torch.rms_norm(x, normalized_shape, weight, eps)
        with self._recorder.paused():
            out = torch.empty_like(x, memory_format=torch.contiguous_format)
        inputs = [x] if weight is None else [x, weight]
        self._recorder.note("aten._fused_rms_norm", inputs, [out], (("normalized_shape", tuple(normalized_shape)),))
        return out

    def _make_from_data(self, data: Any, *args: Any, device: Any = None, **kwargs: Any) -> Tensor:
        if device is not None and _is_accelerator(device):
            device = self._place
        if isinstance(data, Tensor):
            named = dict(zip(("dtype",), args, strict=False))
            made: Tensor = torch.as_tensor(data, **named, device=device, **kwargs)
            return made
        made = torch.tensor(_numbers(data), *args, **kwargs)
        return made if device is None else made.to(device)

    def _to(self, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if args and self._is_model_device(args[0]):
            args = (self._place, *args[1:])
        if self._is_model_device(kwargs.get("device")):
            kwargs["device"] = self._place
        return tensor.to(*args, **kwargs)

    def _one_hot(self, index: Tensor, num_classes: Any = -1) -> Tensor:
        """Skip the CPU's checks of the smallest and largest index, which the model did not call."""
        count = int(num_classes)
        with self._recorder.unheard() if count >= 0 else contextlib.nullcontext():
            made: Tensor = torch._C._nn.one_hot(index, count)
        return made


def _padded(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Copy rows back between padding."""
    return x.to_padded_tensor(*args, **kwargs) if x.is_nested or not x.is_meta else x.clone()


def _softmax(fused: Callable[..., Tensor], plain: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Read 16 bits and write fp32 in one kernel where that is asked for, as CUDA does for float16."""

    def softmax(x: Tensor, dim: Any = None, dtype: Any = None, **kwargs: Any) -> Tensor:
        if dtype is torch.float32 and x.dtype in (torch.float16, torch.bfloat16) and type(dim) is int and x.is_meta:
            return fused(x, dim, True)
        return plain(x, dim, dtype=dtype, **kwargs)

    return softmax


def _dropout(x: Tensor, p: float = 0.5, train: bool = False) -> Tensor:
    """Use the fused kernel, as `at::dropout` does on CUDA (aten/src/ATen/native/Dropout.cpp)."""
    fused = train and 0 < p < 1 and x.numel() > 0 and not x.is_cpu
    return torch.native_dropout(x, p, train)[0] if fused else torch.dropout(x, p, train)


_plain_format = torch.Tensor.__format__


def _format(tensor: Tensor, spec: str) -> str:
    """Format a number without data, such as a loss that is logged, as zero: nothing that runs hangs on it."""
    if tensor.is_meta and tensor.dim() == 0 and spec:
        return format(0.0 if tensor.is_floating_point() else 0, spec)
    words: str = _plain_format(tensor, spec)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return words


def _numbers(data: Any) -> Any:
    """Read scalars on the device, as torch does of those in a list."""
    if isinstance(data, list | tuple):
        return [_numbers(item) for item in data]
    return data.tolist() if isinstance(data, Tensor) and data.is_meta else data


def _tolist(tensor: Tensor) -> Any:
    return torch.Tensor.tolist(getattr(tensor, "_known_value", tensor))


def _get_item(tensor: Tensor, index: Any) -> Tensor:
    """Index by lists of numbers without losing their values to the meta device."""
    if isinstance(index, str):  # torch would warn of sequences, and stop with "invalid data type"
        raise TypeError(f"the model asks a tensor for its item {index!r}, as of a dictionary")
    if type(index) is list and any(isinstance(place, _OF_SEVERAL_DIMENSIONS) for place in index):
        index = tuple(index)  # as PyTorch takes it (`treatSequenceAsTuple` of python_variable_indexing.cpp)
    if type(index) is list:
        index = _positions(index)
    elif type(index) is tuple and any(type(place) is list for place in index):
        index = tuple(_positions(place) if type(place) is list else place for place in index)
    return torch.Tensor.__getitem__(tensor, index)


_OF_SEVERAL_DIMENSIONS = (Tensor, list, tuple, slice, NoneType, EllipsisType)


def _positions(numbers: list[Any]) -> Tensor:
    return torch.tensor(numbers, dtype=None if numbers else torch.int64)  # of no numbers torch.tensor makes floats


def _set_item(tensor: Tensor, index: Any, value: Any) -> None:
    """Write numbers as CUDA does: a number stays on the host and becomes a fill, or a masked fill."""
    if not isinstance(value, (bool, int, float)) or not tensor.is_meta:
        torch.Tensor.__setitem__(tensor, index, value)
    elif isinstance(index, Tensor) and index.dtype is torch.bool and index.shape == tensor.shape:
        tensor.masked_fill_(index, value)
    else:
        torch.Tensor.__setitem__(tensor, index, torch.tensor(value, dtype=tensor.dtype))


def _type(tensor: Tensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Accept the legacy types of CUDA tensors by their names, too."""
    if dtype is None:
        name = tensor.type()
        return name.replace("torch.", "torch.cuda.", 1) if tensor.is_meta else name
    named = getattr(dtype, "dtype_made", None)
    if isinstance(dtype, str) and dtype.startswith("torch.cuda."):
        named = CUDA_TYPES.get(dtype.rpartition(".")[2])
    return tensor.to(named) if named is not None else tensor.type(dtype, *args, **kwargs)


def _is_accelerator(device: Any) -> bool:
    if isinstance(device, torch.device):
        return device.type == "cuda"
    return isinstance(device, int) or (isinstance(device, str) and device.startswith("cuda"))


def _is_any_device(device: Any) -> bool:
    """Return True for the CPU, too: where tensors say that they are on it, the model moves its inputs there."""
    return _is_accelerator(device) or device in ("cpu", _CPU)


_plain_wrapper = torch.Tensor._make_wrapper_subclass


def _make_wrapper(*args: Any, **kwargs: Any) -> Any:
    """Make a tensor that wraps others, such as a jagged one, on the device that they are on, not on the one they name.

    Autograd of a PyTorch that is built for CUDA takes a stream for each tensor that is on a CUDA device.
    """

    def placed(arg: Any) -> Any:
        return torch.device("meta") if isinstance(arg, torch.device) and _is_accelerator(arg) else arg

    return _plain_wrapper(*map(placed, args), **{name: placed(arg) for name, arg in kwargs.items()})


_SEES_THROUGH = ("torch.nn.functional", "torch.functional", "torch._tensor", "torch.overrides", "torch.autograd")


@contextlib.contextmanager
def as_on_cuda(note: Callable[[str], None], *, as_cpu: bool = False) -> Iterator[None]:
    """Apply the rules to what PyTorch's own Python functions call, and make modules take the paths of CUDA.

    Python functions of PyTorch hand themselves over whole to an active function mode, which then is off inside them;
    nn.MultiheadAttention and nn.TransformerEncoderLayer take their fast path only on devices that they know.
    `note` takes what models asked `torch.cuda` that can change what they run.
    """
    with contextlib.ExitStack() as stack:
        for module_name in _SEES_THROUGH:
            module = sys.modules[module_name]
            for name in ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"):
                if hasattr(module, name):
                    stack.enter_context(mock.patch.object(module, name, _is_plain))
        backends = torch.utils.backend_registration
        stack.enter_context(mock.patch.object(backends, "_privateuse1_backend_name", "meta"))
        stack.enter_context(mock.patch.object(torch.distributions.Distribution, "_validate_args", False))
        stack.enter_context(mock.patch.object(torch.backends.cudnn, "is_acceptable", _is_plain))
        stack.enter_context(mock.patch.object(torch.Tensor, "__format__", _format))
        stack.enter_context(mock.patch.object(torch.Tensor, "_make_wrapper_subclass", staticmethod(_make_wrapper)))
        if (flexible := sys.modules.get("torch.nn.attention.flex_attention")) is not None:
            stack.enter_context(mock.patch.object(flexible, "_warn_once", _is_plain))
        if not as_cpu:
            stack.enter_context(cuda_present(note))
        stack.enter_context(triton_launches_recorded())
        stack.enter_context(contexts_of_models())
        stack.enter_context(autocast_of_cuda())
        yield


@contextlib.contextmanager
def autocast_of_cuda() -> Iterator[None]:
    """Make models that query autocast for their tensors' device receive the answer of CUDA."""
    with contextlib.ExitStack() as stack:
        for name in ("is_autocast_enabled", "get_autocast_dtype"):
            stack.enter_context(mock.patch.object(torch, name, _asks_cuda(getattr(torch, name))))
        yield


def _asks_cuda(question: Callable[..., Any]) -> Callable[..., Any]:
    """Answer a model that queries autocast for its tensors' device as CUDA would."""

    def asks(device_type: str = "cuda") -> Any:
        return question("cuda" if device_type == "meta" else device_type)

    return asks


def _is_plain(*_: Any, **__: Any) -> bool:
    return False
