"""Memory of the host that the operators of a file ask for, counted before it is allocated.

A model of a file is run without data: its tensors have shapes and no memory. Small tensors of shapes and positions have
values, on the host, and a file may make them large: `ones` of 40,000 by 40,000 on the CPU, or a list doubled often.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch._guards import detect_fake_mode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes, _get_current_dispatch_mode

from capplan.budget import LIMITS, Budget

_SMALL_ELEMENTS = 2**12
"""Results that cannot have more elements are not counted. Almost all operators on the host are of this kind."""

_ITEM_BYTES = 16
"""The most bytes of an element, those of complex128. [bytes]"""


_KNOWN_PER_STEP = 32
"""Elements of known values, such as those of `arange`, that are computed in the time of a step."""

_MADE_PER_HELD = 128
"""Bytes that a pass with data may make in all for each byte of the model's weights and inputs. At three images, timm's
ResNet-50 makes 46 times as much at 800 pixels, EfficientNet-B0 45 at 512, MobileNetV3 13 at 320."""


@contextlib.contextmanager
def counted_host_memory(budget: Budget, *, device: torch.device, held: Iterable[object]) -> Iterator[None]:
    """Count what operators make on the host against a file's budget.

    A model that is measured on the CPU may take all memory. One that is traced there, because its shapes depend on
    data, may take a multiple of its weights and inputs, so that a file of a few bytes is held to the budget's.

    Args:
        budget: the file's.
        device: where the model's tensors are.
        held: the model's weights and inputs; what is no tensor does not count.
    """
    if device.type == "cpu":
        if detect_fake_mode() is not None or _get_current_dispatch_mode() is None:
            yield
            return
        held_bytes = sum(each.numel() * each.element_size() for each in held if isinstance(each, Tensor))
        budget = Budget(budget.where, replace(LIMITS, size_bytes=LIMITS.size_bytes + _MADE_PER_HELD * held_bytes))
    with _HostMemory(budget):
        yield


class _HostMemory(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    def __init__(self, budget: Budget) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._budget = budget

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        leaves = list(_leaves((*args, *named.values())))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        is_on_host = all(tensor.device.type == "cpu" for tensor in tensors) and _device(leaves).type == "cpu"
        if is_on_host and not func.is_view and _may_be_large(leaves, tensors):
            self._budget.take_bytes(_made_bytes(func, args, named, tensors))
        made = func(*args, **named)
        if not func.is_view:
            self._budget.take_steps(_known_elements(made) // _KNOWN_PER_STEP)
        return made


def _known_elements(made: Any) -> int:
    """Return the elements in memory of results whose values were computed on the host beside their shapes."""
    values = (getattr(each, "_known_value", None) for each in _leaves([made]) if isinstance(each, Tensor))
    return sum(value.untyped_storage().nbytes() // value.itemsize for value in values if value is not None)


def _leaves(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _leaves(value)
        else:
            yield value


def _device(leaves: Sequence[Any]) -> torch.device:
    """Return the device that a call names; without one it is the CPU."""
    return next((leaf for leaf in leaves if isinstance(leaf, torch.device)), torch.device("cpu"))


def _may_be_large(leaves: Sequence[Any], tensors: Sequence[Tensor]) -> bool:
    """Return True unless sizes of tensors, and numbers taken for sizes, multiply to few elements."""
    elements = prod(max(1, tensor.numel()) for tensor in tensors)
    for leaf in leaves:
        if isinstance(leaf, float) and not isinstance(leaf, bool):
            return True  # a step of `arange` may be as small as it likes
        if isinstance(leaf, int):
            elements *= max(1, abs(leaf) + 1)
        if elements > _SMALL_ELEMENTS:
            return True
    return elements > _SMALL_ELEMENTS


def _made_bytes(
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], tensors: Sequence[Tensor]
) -> int:
    """Return the bytes of a call's results, from the same call on tensors without data. [bytes]"""
    meta = torch.device("meta")

    def without_data(value: Any) -> Any:
        if isinstance(value, Tensor):
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=meta)
        if isinstance(value, torch.device):
            return meta
        if isinstance(value, list | tuple):
            return type(value)(map(without_data, value))
        return value

    given = {name: without_data(value) for name, value in kwargs.items()}
    is_factory = not tensors and any(each.name == "device" for each in func._schema.arguments)  # type: ignore[attr-defined] # an OpOverload
    if is_factory:
        given["device"] = meta
    try:
        with _disable_current_modes():
            made = func(*map(without_data, args), **given)
    except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
        # the size depends on values, as that of `nonzero`: positions of every element; or the call itself will fail
        return _ITEM_BYTES * sum(tensor.numel() * max(1, tensor.dim()) for tensor in tensors)
    return sum(each.numel() * each.element_size() for each in _leaves([made]) if isinstance(each, Tensor))
