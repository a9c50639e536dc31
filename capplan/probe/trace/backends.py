"""Tracing backends, which run a model without a GPU: meta tensors, fake tensors, a small real forward on the CPU."""

import contextlib
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from capplan.probe.foreign.constructors import LARGEST_KNOWN
from capplan.probe.foreign.stored import as_parameter, is_wrapper, rewrapped
from capplan.probe.record.known_values import KnownValueMode
from capplan.probe.record.recorder import lacks_data
from capplan.probe.record.types import ALLOCATING_ONLY

LARGEST_REAL_BYTES = 4 * 10**9
"""Weights up to which a model is run for real. [bytes]"""


class Backend(StrEnum):
    """List the tracing backends, best first; what one cannot answer is tried on the next."""

    META = "meta"
    FAKE = "fake"
    REAL = "real"


class TensorFactory:
    """Make the tensors of a pass on one tracing backend."""

    def __init__(self, backend: Backend, *, half: torch.dtype | None, channels_last: bool) -> None:
        self.backend = backend
        self.device = torch.device("meta" if backend is Backend.META else "cpu")
        self._half = half
        self._channels_last = channels_last
        self.kept_full: frozenset[int] = frozenset()
        self._fake_mode: Any = None
        if backend is Backend.FAKE:
            from torch._subclasses.fake_tensor import FakeTensorMode

            self._fake_mode = FakeTensorMode(allow_non_fake_inputs=True)

    def entered(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext() if self._fake_mode is None else self._fake_mode

    def weight(self, tensor: Tensor) -> Tensor:
        """Make the tensor that stands in for a parameter or buffer; a wrapper's stored tensors keep their dtypes."""
        if is_lazy(tensor) or tensor.layout is not torch.strided:
            return tensor  # a sparse buffer keeps its data: how many elements it stores is in it
        if is_wrapper(tensor):
            return rewrapped(_in_dtype(tensor, self._half), lambda plain: self._place(plain, keeps_dtype=True))
        made = self._place(tensor, keeps_dtype=id(tensor) in self.kept_full)
        if isinstance(tensor, nn.Parameter):
            return as_parameter(made, tensor, lambda held: self._place(held, keeps_dtype=True))
        return made

    def input(self, tensor: Tensor) -> Tensor:
        """Make the tensor that stands in for an input; small integers keep their values, floats are drawn at random."""
        if tensor.layout is not torch.strided:
            return tensor.to(self._half) if self._half is not None and tensor.is_floating_point() else tensor
        made = self._place(tensor)
        if made.is_floating_point():
            made.__dict__["_drawn"] = True
        return made

    def _place(self, tensor: Tensor, *, keeps_dtype: bool = False) -> Tensor:
        casts = self._half is not None and tensor.is_floating_point() and not keeps_dtype
        dtype = self._half if casts else tensor.dtype
        if self.backend is Backend.REAL:
            layout = torch.channels_last if self._channels_last and tensor.dim() == 4 else torch.preserve_format
            return tensor.detach().clone(memory_format=layout).to(dtype)
        if self._channels_last and tensor.dim() == 4:
            made = torch.empty(tensor.shape, dtype=dtype, device="meta", memory_format=torch.channels_last)
        else:
            made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype, device="meta")
        if self._fake_mode is not None:
            from torch._subclasses.fake_tensor import FakeTensor

            return FakeTensor(self._fake_mode, made, torch.device("cpu"))
        value = getattr(tensor, "_known_value", None) if tensor.is_meta else tensor
        keeps = value is not None and value.numel() <= LARGEST_KNOWN and not isinstance(tensor, nn.Parameter)
        if value is not None and keeps:
            made.__dict__["_known_value"] = value.detach().to(dtype).clone()
        return made


def _in_dtype(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Convert a wrapper as the user would; one that cannot be converted stays as it is."""
    if dtype is None or not tensor.is_floating_point():
        return tensor
    try:
        return tensor.to(dtype)
    except (RuntimeError, NotImplementedError, TypeError):
        return tensor


@contextlib.contextmanager
def building_with_values() -> Iterator[None]:
    """Build modules without weights, but keep the values of small tensors that their constructors compute."""
    with torch.device("meta"), _DataKept(), KnownValueMode():
        yield


class _DataKept(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in (torch.tensor, torch.as_tensor) and kwargs.get("device") is None:
            return func(*args, **{**kwargs, "device": "cpu"}).to("meta")
        if func is torch.Tensor.tolist:
            return func(getattr(args[0], "_known_value", args[0]))
        return func(*args, **kwargs)


class MemoryZeroed(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Fill fresh memory with zeros: parameters that a constructor leaves unwritten are the same every time."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if func._schema.name.rpartition("::")[2] in ALLOCATING_ONLY and not lacks_data(out):
            out.zero_()
        return out


Builder = Callable[[], nn.Module]
