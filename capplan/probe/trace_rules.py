"""What PyTorch would run on CUDA where it differs from the meta device: seen above autograd, per call from Python."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from capplan.probe.attention import attend
from capplan.probe.autocast import Autocast
from capplan.probe.recorder import Recorder


class CudaRules(TorchFunctionMode):
    """The function mode of a trace."""

    def __init__(self, recorder: Recorder, autocast: Autocast | None) -> None:
        super().__init__()
        self._recorder = recorder
        self._autocast = autocast
        self._stand_ins: dict[Callable[..., Any], Callable[..., Any]] = {
            torch._C._nn.scaled_dot_product_attention: self._attend,
            torch.tensor: self._make_from_data,
            torch.as_tensor: self._make_from_data,
            torch.Tensor.tolist: _tolist,
        }

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        autocast = self._autocast
        if autocast is not None and autocast.enabled:
            policy = autocast.policies.get(func)
            if policy is not None:
                return autocast.call(policy, self._stand_ins.get(func, func), args, kwargs)
        stand_in = self._stand_ins.get(func)
        return func(*args, **kwargs) if stand_in is None else stand_in(*args, **kwargs)

    def _attend(self, *args: Any, **kwargs: Any) -> Tensor:
        return attend(self._recorder, *args, **kwargs)

    def _make_from_data(self, data: Any, *args: Any, device: Any = None, **kwargs: Any) -> Tensor:
        if isinstance(data, Tensor):
            return torch.as_tensor(data, *args, device=device, **kwargs)
        made = torch.tensor(data, *args, **kwargs)
        return made if device is None else made.to(device)


def _tolist(tensor: Tensor) -> Any:
    return getattr(tensor, "_shadow", tensor).tolist()


_SEES_THROUGH = ("torch.nn.functional", "torch.functional", "torch._tensor")


@contextlib.contextmanager
def functions_seen_through() -> Iterator[None]:
    """Let the rules see the C functions inside PyTorch's own Python functions.

    Those hand themselves over whole to an active function mode, which then is off inside them.
    """
    with contextlib.ExitStack() as stack:
        import sys

        for module_name in _SEES_THROUGH:
            module = sys.modules[module_name]
            for name in ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"):
                if hasattr(module, name):
                    stack.enter_context(mock.patch.object(module, name, _is_plain))
        yield


def _is_plain(*_: Any) -> bool:
    return False


assert functional is not None
