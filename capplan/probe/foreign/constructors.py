"""Run constructors that plain meta tensors defeat: they read values (`linspace(...).tolist()`) or ask for a GPU.

Inside `SmallValues` factories make real tensors on the CPU as long as these are small, uninitialised memory stays on
meta, and whatever asks for an accelerator gets meta. Inside `no_weights` initialisation is skipped.

`build_on_cpu` serves those that this does not help: constructors that make orthogonal parametrizations, mix devices, or
run a forward to find strides. Large tensors are allocated on the CPU and left unwritten, so that the operating system
gives them no memory; small ones get the values that the constructor computes. The module is then moved to meta.
"""

import contextlib
import functools
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors
from torch.utils._python_dispatch import TorchDispatchMode

from capplan.errors import TraceError
from capplan.probe.foreign.preserve import swapped
from capplan.probe.foreign.stored import as_parameter, is_wrapper, rewrapped

LARGEST_KNOWN = 131_072
"""Elements up to which a tensor's values are kept, while a module is built and while it is traced."""

_ACCELERATORS = ("cuda", "xpu", "mps", "npu", "hpu")
_DEFEATED = ("meta tensor", "Meta tensor", "meta device", "device meta", "CUDA", "cuda", "NVIDIA", "expected device")


class _Redirected(TorchFunctionMode):
    """Put one device in the place of accelerators."""

    _place = "cpu"

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Redirect a call's device."""
        del types
        if func is torch.Tensor.cuda:
            return args[0] if self._place == "cpu" else args[0].to(self._place)
        named = {key: _redirected(value, self._place) for key, value in (kwargs or {}).items()}
        return self._call(func, tuple(_redirected(value, self._place) for value in args), named)

    def _call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return func(*args, **kwargs)


class SmallValues(_Redirected):
    """Keep the values of small tensors that a constructor computes; the caller moves the module to meta at the end."""

    _place = "meta"

    def _call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        made = func(*args, **kwargs)
        if func not in _value_factories() or kwargs.get("device") is not None:
            return made
        if made.device.type != "meta" or made.numel() > LARGEST_KNOWN:
            return made
        return func(*args, **{**kwargs, "device": "cpu"})


def defeated_meta(raised: BaseException | None) -> bool:
    """Return True if a constructor failed because it wanted values or a GPU."""
    if not isinstance(raised, RuntimeError | NotImplementedError | AssertionError | ValueError):
        return False
    return any(word in str(raised) for word in _DEFEATED)


@contextlib.contextmanager
def refusals_raised() -> Iterator[None]:
    """Fail where a constructor went on after an operator that meta tensors lack, as if the operator had done nothing.

    `torch.nn.utils.parametrize` takes a NotImplementedError of `right_inverse` for "there is no inverse", so that
    `orthogonal`, whose QR decomposition has no meta kernel, would be built without its base.
    """
    refusals = _Refusals()
    with refusals:
        yield
    if refusals.first is not None:
        raise TraceError(f"its constructor needs values: {refusals.first}") from refusals.first


class _Refusals(TorchFunctionMode):
    """Keep the first error of an operator without a meta kernel."""

    first: NotImplementedError | None = None

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call the function, and look at how it failed."""
        del types
        try:
            return func(*args, **(kwargs or {}))
        except NotImplementedError as error:
            self.first = self.first or error
            raise


@functools.cache
def _value_factories() -> frozenset[Callable[..., Any]]:
    """Return torch's factories that set values, as `empty` and its like do not."""
    return frozenset(f for f in _device_constructors() if "empty" not in getattr(f, "__name__", ""))


def _redirected(value: Any, device: str) -> Any:
    """Return `device` in the place of an accelerator's, and any other value as it is."""
    if isinstance(value, torch.device):
        return torch.device(device) if value.type in _ACCELERATORS else value
    if isinstance(value, str) and value.partition(":")[0] in _ACCELERATORS:
        return device
    return value


LARGEST_BUILD_BYTES = 16 * 10**9
"""Tensors that a constructor may hold at once when it runs on the CPU. [bytes]"""

_LEFT_UNWRITTEN = 2**20
"""Elements from which on a tensor is not filled: fresh memory of this size reads as zeros."""

_FILLING = frozenset(
    {"normal_", "uniform_", "bernoulli_", "erfinv_", "exponential_", "random_", "log_normal_", "cauchy_"}
)


@contextlib.contextmanager
def no_weights() -> Iterator[None]:
    """Skip weight initialisation, as befits modules on the meta device."""
    of_timm = sys.modules.get("timm.layers.weight_init")
    with (
        initialisers_replaced(lambda _: _keep),
        contextlib.nullcontext() if of_timm is None else mock.patch.object(of_timm, "_trunc_normal_", _keep),
    ):
        yield


@contextlib.contextmanager
def initialisers_replaced(stand_in: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Replace the functions of `torch.nn.init` that fill a tensor; `stand_in` makes what replaces one of them."""
    with contextlib.ExitStack() as stack:
        for name in [name for name in vars(torch.nn.init) if name.endswith("_") and not name.startswith("_")]:
            stack.enter_context(mock.patch.object(torch.nn.init, name, stand_in(getattr(torch.nn.init, name))))
        yield


def _keep(tensor: torch.Tensor, *_args: Any, **_kwargs: Any) -> torch.Tensor:
    return tensor


def build_on_cpu(construct: Callable[[], nn.Module]) -> nn.Module:
    """Run a constructor on the CPU and return its module on the meta device; small buffers keep their values."""
    with torch.device("cpu"), _Redirected(), initialisers_replaced(_unless_large), _Bounded():
        module = construct()
    swapped(module, _moved)
    return module


def _moved(tensor: Tensor) -> Tensor:
    """Make the meta twin of a CPU tensor; a small buffer keeps its value."""
    if tensor.is_meta or torch.nn.parameter.is_lazy(tensor) or tensor.layout is not torch.strided:
        return tensor
    if is_wrapper(tensor):
        return rewrapped(tensor, _moved)
    twin = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    if isinstance(tensor, nn.Parameter):
        return as_parameter(twin, tensor, _moved)
    if tensor.numel() <= LARGEST_KNOWN:
        twin.__dict__["_known_value"] = tensor.detach().clone()
    return twin


class _Bounded(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Count the bytes of living tensors, and leave large ones unwritten."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._held_bytes = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        del types
        is_filling = func._schema.name.rpartition("::")[2] in _FILLING
        if is_filling and isinstance(args[0], Tensor) and args[0].numel() >= _LEFT_UNWRITTEN:
            return args[0]
        out = func(*args, **(kwargs or {}))
        if isinstance(out, Tensor) and out.layout is torch.strided and out.numel() >= _LEFT_UNWRITTEN:
            self._hold(out.untyped_storage())
        return out

    def _hold(self, storage: Any) -> None:
        key = storage._cdata
        if key in self._seen:
            return
        size = storage.nbytes()
        if self._held_bytes + size > LARGEST_BUILD_BYTES:
            raise MemoryError(
                "it cannot be built on tensors without data, and on the CPU it would hold more than "
                f"{LARGEST_BUILD_BYTES / 1e9:g} GB: trace a smaller stand-in, or let it build on the meta device"
            )
        self._seen.add(key)
        self._held_bytes += size
        weakref.finalize(storage, self._release, key, size)

    def _release(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self._held_bytes -= size


def _unless_large(initialise: Callable[..., Any]) -> Callable[..., Any]:
    """Leave large tensors as they are; small ones are initialised."""

    def fill(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        is_large = isinstance(tensor, Tensor) and not torch.nn.parameter.is_lazy(tensor)
        if is_large and tensor.numel() >= _LEFT_UNWRITTEN:
            return tensor
        return initialise(tensor, *args, **kwargs)

    return fill
