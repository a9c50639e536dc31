"""Constructors that plain meta tensors defeat: they read values (`linspace(...).tolist()`) or ask for a GPU.

Inside `SmallValues` factories make real tensors on the CPU as long as these are small, uninitialised memory stays on
meta, and whatever asks for an accelerator gets meta.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

LARGEST_KNOWN = 131_072
"""Elements up to which a tensor's values are kept, while a module is built and while it is traced."""

_ACCELERATORS = ("cuda", "xpu", "mps", "npu", "hpu")
_DEFEATED = ("meta tensor", "Meta tensor", "meta device", "device meta", "CUDA", "cuda", "NVIDIA", "expected device")


class SmallValues(TorchFunctionMode):
    """Keep the values of small tensors that a constructor computes; the caller moves the module to meta at the end."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Redirect a call's device."""
        del types
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return args[0].to("meta")
        args = tuple(redirected(value, "meta") for value in args)
        kwargs = {key: redirected(value, "meta") for key, value in kwargs.items()}
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


@functools.cache
def _value_factories() -> frozenset[Callable[..., Any]]:
    """Return torch's factories that set values, as `empty` and its like do not."""
    return frozenset(f for f in _device_constructors() if "empty" not in getattr(f, "__name__", ""))


def redirected(value: Any, device: str) -> Any:
    """Return `device` in the place of an accelerator's, and any other value as it is."""
    if isinstance(value, torch.device):
        return torch.device(device) if value.type in _ACCELERATORS else value
    if isinstance(value, str) and value.partition(":")[0] in _ACCELERATORS:
        return device
    return value
