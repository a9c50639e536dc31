"""Turn compilation off while foreign code runs: what `torch.compile` and `torch.jit` wrap is called as it is.

A trace records operators below both, and the graph that a compiler makes is worked out later, from the trace.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import nn


@contextlib.contextmanager
def compilation_off() -> Iterator[None]:
    """Make `torch.compile`, `torch.jit.script` and `torch.jit.trace` return what they are given."""
    jit_state: Any = torch.jit._state
    was_enabled = jit_state._enabled.enabled
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(torch, "compile", _compile))
        for name in ("freeze", "optimize_for_inference"):
            stack.enter_context(mock.patch.object(torch.jit, name, _unless_plain(getattr(torch.jit, name))))
        if "torch._dynamo" in sys.modules:  # functions that were compiled before
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        jit_state._enabled.enabled = False
        try:
            yield
        finally:
            jit_state._enabled.enabled = was_enabled


def uncompiled(module: nn.Module) -> nn.Module:
    """Return the module that wrappers of `torch.compile` and nn.DataParallel hold, or the module itself."""
    while True:
        if "_orig_mod" in module._modules and type(module).__name__ == "OptimizedModule":
            inner = module._modules["_orig_mod"]
        elif isinstance(module, nn.DataParallel):
            inner = module.module
        else:
            return module
        assert inner is not None
        module = inner


def _compile(model: Any = None, *_: Any, **__: Any) -> Any:
    return _same if model is None else model


def _same(thing: Any) -> Any:
    return thing


def _unless_plain(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Pass a module through that was not scripted, because scripting is off."""

    def optimise(module: Any, *args: Any, **kwargs: Any) -> Any:
        return plain(module, *args, **kwargs) if isinstance(module, torch.jit.ScriptModule) else module

    return optimise
