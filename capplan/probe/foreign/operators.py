"""What files of graphs name: PyTorch's operators, how to call them, and modules that stand in for a model's own."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

NAMESPACES = frozenset({"aten", "torchvision"})
"""Libraries whose operators a file may name."""

_REFUSED = frozenset(
    {"from_file", "save", "_save_parameter", "_print", "manual_seed", "set_grad_enabled", "wait", "_debug_trace",
     "_cufft_set_plan_cache_max_size", "_cufft_clear_plan_cache", "set_num_threads", "set_", "record_stream"}
)  # fmt: skip
"""Operators that read or write files, or change the process."""


_NOT_GIVEN = object()


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
    arguments = overload._schema.arguments
    required = [(index, each.name) for index, each in enumerate(arguments) if isinstance(each.type, torch.TensorType)]

    def checked(*args: Any, **kwargs: Any) -> Any:
        for index, argument in required:
            if (args[index] if index < len(args) else kwargs.get(argument, _NOT_GIVEN)) is None:
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
        """Run one operator."""
        return call(*args, **kwargs)


DEEPEST_SCOPE = 64
"""Most modules within one another whose names a file may state; deeper ones are left out."""


def scope_at(root: torch.nn.Module, path: str) -> torch.nn.Module:
    """Return the module at a path, made where there is none."""
    module = root
    for step in path.split(".") if path else ():
        part = step
        if part not in module._modules:
            part += "_" * hasattr(module, part)  # a name that modules use themselves, such as "forward"
            if part not in module._modules:
                module.add_module(part, Scope())
        child = module._modules[part]
        assert child is not None
        module = child
    return module
