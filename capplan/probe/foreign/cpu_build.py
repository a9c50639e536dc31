"""Build a module on the CPU where its constructor cannot run on meta tensors, then move it to the meta device.

Constructors read values (`linspace(...).tolist()`, orthogonal parametrizations), mix devices, or run a forward to find
strides. On the CPU they can. Large tensors are allocated and left unwritten, so that the operating system gives them
no memory; small ones get the values that the constructor computes.
"""

import contextlib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from capplan.probe.foreign.meta import LARGEST_KNOWN, redirected
from capplan.probe.foreign.preserve import swapped
from capplan.probe.foreign.subclasses import as_parameter, is_wrapper, rewrapped

LARGEST_BUILD_BYTES = 16 * 10**9
"""Tensors that a constructor may hold at once when it runs on the CPU. [bytes]"""

_LEFT_UNWRITTEN = 2**20
"""Elements from which on a tensor is not filled: fresh memory of this size reads as zeros."""

_FILLING = frozenset(
    {"normal_", "uniform_", "bernoulli_", "erfinv_", "exponential_", "random_", "log_normal_", "cauchy_"}
)


def build_on_cpu(construct: Callable[[], nn.Module]) -> nn.Module:
    """Run a constructor on the CPU and return its module on the meta device; small buffers keep their values.

    Raises:
        MemoryError: the constructor holds more than `LARGEST_BUILD_BYTES`.
    """
    with torch.device("cpu"), _HostOnly(), _large_weights_skipped(), _Bounded():
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


class _HostOnly(TorchFunctionMode):
    """Put the CPU in the place of accelerators."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        del types
        if func is torch.Tensor.cuda:
            return args[0]
        return func(
            *(redirected(value, "cpu") for value in args),
            **{key: redirected(value, "cpu") for key, value in (kwargs or {}).items()},
        )


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


@contextlib.contextmanager
def _large_weights_skipped() -> Iterator[None]:
    """Leave large tensors as they are where `torch.nn.init` would fill them; small ones are initialised."""
    names = [name for name in vars(torch.nn.init) if name.endswith("_") and not name.startswith("_")]
    plain = {name: getattr(torch.nn.init, name) for name in names}
    try:
        for name, function in plain.items():
            setattr(torch.nn.init, name, _unless_large(function))
        yield
    finally:
        for name, function in plain.items():
            setattr(torch.nn.init, name, function)


def _unless_large(initialise: Callable[..., Any]) -> Callable[..., Any]:
    def fill(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        is_large = isinstance(tensor, Tensor) and not torch.nn.parameter.is_lazy(tensor)
        if is_large and tensor.numel() >= _LEFT_UNWRITTEN:
            return tensor
        return initialise(tensor, *args, **kwargs)

    return fill
