"""Launches of Triton kernels without a GPU: none is compiled, and each is an operator that no formula counts.

A launch `kernel[grid](x, y, n)` names neither what it reads nor what it writes. Its operator therefore takes all
tensors of the launch as read and written, so that their memory is true; what it computes is reported as uncounted.
"""

import contextlib
import functools
import re
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from capplan.probe.foreign.machine.cuda import CAPABILITY

_TARGET = SimpleNamespace(backend="cuda", arch=10 * CAPABILITY[0] + CAPABILITY[1], warp_size=32)


@contextlib.contextmanager
def triton_launches_recorded() -> Iterator[None]:
    """Replace launches of Triton kernels, where a model imported Triton, by operators named after the kernels."""
    jit = sys.modules.get("triton.runtime.jit")
    runtime = sys.modules.get("triton.runtime")
    if jit is None or runtime is None:
        yield
        return
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(jit.KernelInterface, "__getitem__", _launcher))
        for kind in _classes_below(jit.KernelInterface):
            for name in {"__getitem__", "run"} & vars(kind).keys():
                stack.enter_context(mock.patch.object(kind, name, _launcher if name == "__getitem__" else _run))
        stack.enter_context(mock.patch.object(runtime.driver, "_active", _driver()))
        yield


def _classes_below(kind: type) -> Iterator[type]:
    kinds: list[type] = kind.__subclasses__()
    for below in kinds:
        yield below
        yield from _classes_below(below)


def _driver() -> SimpleNamespace:
    """Return a stand-in for the active driver, which reports the GPU that models see."""
    return SimpleNamespace(
        get_current_target=lambda: _TARGET,
        get_current_device=lambda: 0,
        get_current_stream=lambda _device=None: 0,
        get_active_torch_device=lambda: torch.device("meta"),
        get_device_interface=lambda: torch.cuda,
        set_current_device=lambda _device: None,
    )


def _launcher(kernel: Any, _grid: Any) -> Callable[..., None]:
    return functools.partial(_run, kernel)


def _run(kernel: Any, *args: Any, **kwargs: Any) -> None:
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    while not hasattr(kernel, "__name__") and hasattr(kernel, "fn"):  # tuners and heuristics wrap the kernel
        kernel = kernel.fn
    name = re.sub(r"\W", "_", str(getattr(kernel, "__name__", "kernel")))
    if tensors:
        with torch.no_grad():  # as a launch is: what autograd does stands in the function around it
            _operator(name)(tensors)


@functools.cache
def _operator(name: str) -> Any:
    """Declare the operator of a kernel, which does nothing to its tensors."""
    library = _library()
    library.define(f"{name}(Tensor(a!)[] tensors) -> ()")
    library.impl(name, _leave, "CompositeExplicitAutograd")
    return getattr(torch.ops.triton_kernel, name).default


def _leave(tensors: list[Tensor]) -> None:
    """Leave the tensors of a launch as they are: no kernel runs."""
    del tensors


@functools.cache
def _library() -> Any:
    return torch.library.Library("triton_kernel", "DEF")  # type: ignore[no-untyped-call]  # torch leaves it untyped
