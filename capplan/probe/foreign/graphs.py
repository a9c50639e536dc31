"""Run the graphs of files: PyTorch's operators by name, modules that stand in for a model's own, a bound on memory.

A model of a file is run without data: its tensors have shapes and no memory. Small tensors of shapes and positions have
values, on the host, and a file may make them large: `ones` of 40,000 by 40,000 on the CPU, or a list doubled often.
What operators make on the host is therefore counted before it is allocated.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch._guards import detect_fake_mode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes, _get_current_dispatch_mode

from capplan.budget import LIMITS, Budget

NAMESPACES = frozenset({"aten", "torchvision"})
"""Libraries whose operators a file may name."""

_REFUSED = frozenset(
    {"from_file", "save", "_save_parameter", "_print", "manual_seed", "set_grad_enabled", "wait", "_debug_trace",
     "_cufft_set_plan_cache_max_size", "_cufft_clear_plan_cache", "set_num_threads", "set_", "record_stream"}
)  # fmt: skip
"""Operators that read or write files, or change the process."""


def is_allowed(namespace: str, name: str) -> bool:
    """Return True if a file may name an operator: it computes on tensors, and neither opens files nor sets anything."""
    return namespace in NAMESPACES and name not in _REFUSED and not name.startswith("_test")


def as_from_python(name: str, overload: Any) -> Callable[..., Any]:
    """Return what calls an operator as Python code would, so that autocast and attention act on it as on code.

    It refuses None for a tensor: operators without kernels of their own, as `aten::copy`, end the process of it.
    """
    places = (torch._C._nn, torch._C._VariableFunctions)
    binding = next((found for place in places if (found := getattr(place, name, None)) is not None), None)
    call = overload if binding is None else partial(_call_either, binding, overload)
    required = [
        (index, argument.name)
        for index, argument in enumerate(overload._schema.arguments)
        if isinstance(argument.type, torch.TensorType)
    ]

    def checked(*args: Any, **kwargs: Any) -> Any:
        for index, argument in required:
            if (args[index] if index < len(args) else kwargs.get(argument, ...)) is None:
                raise TypeError(f"{name} takes a tensor for {argument!r}, not None")
        return call(*args, **kwargs)

    return checked


def _call_either(binding: Callable[..., Any], overload: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call Python's binding, or the overload where it takes other arguments."""
    try:
        return binding(*args, **kwargs)
    except TypeError:
        return overload(*args, **kwargs)


class Scope(torch.nn.Module):
    """A module of the original model, of which the file states path and weights; runs what came from it."""

    def forward(self, call: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return call(*args, **kwargs)


DEEPEST_SCOPE = 64
"""Most modules within one another whose names a file may state; deeper ones are left out."""


def scope_at(root: torch.nn.Module, path: str) -> torch.nn.Module:
    """Return the module at a path, made where there is none."""
    module = root
    for step in path.split(".") if path else ():
        is_taken = step not in module._modules and hasattr(module, step)  # by modules themselves, such as "forward"
        part = f"{step}_" if is_taken else step
        if part not in module._modules:
            module.add_module(part, Scope())
        child = module._modules[part]
        assert child is not None
        module = child
    return module


def empty_weight(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Make a tensor for a weight whose values are not read: zeros where there is memory for them."""
    tensor = torch.empty(shape, dtype=dtype)
    return tensor if tensor.is_meta else tensor.zero_()


def device_of(weights: Iterable[object], inputs: Iterable[object]) -> torch.device:
    """Return where the first of the weights is, else the first of the inputs, else the CPU."""
    tensors = (value for values in (weights, inputs) for value in values if isinstance(value, Tensor))
    return next((tensor.device for tensor in tensors), torch.device("cpu"))


def last_uses(names: Sequence[Iterable[str]], outputs: Iterable[str]) -> list[tuple[str, ...]]:
    """Return for each node the names that nothing after it reads, so that memory is freed as early as in PyTorch."""
    live = set(outputs)
    freed: list[tuple[str, ...]] = []
    for node_names in reversed(names):
        met = dict.fromkeys(node_names)
        freed.append(tuple(name for name in met if name not in live))
        live.update(met)
    return freed[::-1]


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
    """
    if device.type == "cpu":
        if detect_fake_mode() is not None or _get_current_dispatch_mode() is None:
            yield
            return
        held_bytes = sum(tensor.numel() * tensor.element_size() for tensor in held if isinstance(tensor, Tensor))
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
        named_device = next((leaf for leaf in leaves if isinstance(leaf, torch.device)), torch.device("cpu"))
        is_on_host = all(device.type == "cpu" for device in (named_device, *(tensor.device for tensor in tensors)))
        if is_on_host and not func.is_view and _may_be_large(leaves, tensors):
            self._budget.take_bytes(_made_bytes(func, args, named, tensors))
        made = func(*args, **named)
        if not func.is_view:
            # the elements in memory of results whose values were computed on the host beside their shapes
            known = (getattr(leaf, "_known_value", None) for leaf in _leaves([made]) if isinstance(leaf, Tensor))
            elements = sum(value.untyped_storage().nbytes() // value.itemsize for value in known if value is not None)
            self._budget.take_steps(elements // _KNOWN_PER_STEP)
        return made


def _leaves(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _leaves(value)
        else:
            yield value


def _may_be_large(leaves: Sequence[Any], tensors: Sequence[Tensor]) -> bool:
    """Return True unless sizes of tensors, and numbers taken for sizes, multiply to few elements."""
    elements = prod(max(1, tensor.numel()) for tensor in tensors)
    for leaf in leaves:
        if isinstance(leaf, float):
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
    is_factory = not tensors and any(argument.name == "device" for argument in func._schema.arguments)  # type: ignore[attr-defined] # an OpOverload
    if is_factory:
        given["device"] = meta
    try:
        with _disable_current_modes():
            made = func(*map(without_data, args), **given)
    except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
        # the size depends on values, as that of `nonzero`: positions of every element; or the call itself will fail
        return _ITEM_BYTES * sum(tensor.numel() * max(1, tensor.dim()) for tensor in tensors)
    return sum(leaf.numel() * leaf.element_size() for leaf in _leaves([made]) if isinstance(leaf, Tensor))
