"""Modules that stand in for those of a model of which only a graph is left, so that operators keep their paths."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch


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
