"""Leave everything as found: a model's tensors, attributes and modes, random states, and torch's global switches."""

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_INNER = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")


@contextlib.contextmanager
def preserved(module: nn.Module) -> Iterator[None]:
    """Restore, at the end, what a forward could have changed."""
    states = [(m, m.__dict__.copy(), _containers(m)) for m in module.modules()]
    try:
        with globals_preserved():
            yield
    finally:
        for each, attributes, containers in states:
            each.__dict__.clear()
            each.__dict__.update(attributes)
            for key, content in containers.items():
                _refill(attributes[key], content)


def _containers(module: nn.Module) -> dict[str, Any]:
    """Copy what a module's dictionaries, lists and sets hold: models keep tensors of their first call there."""
    return {key: value.copy() for key, value in module.__dict__.items() if isinstance(value, (dict, list, set))}


def _refill(held: Any, content: Any) -> None:
    held.clear()
    if isinstance(held, list):
        held.extend(content)
    else:
        held.update(content)


@contextlib.contextmanager
def globals_preserved() -> Iterator[None]:
    """Restore, at the end, the global state that a model's code could have changed: generators, dtype, switches."""
    default_dtype = torch.get_default_dtype()
    torch_state, python_state, numpy_state = (
        torch.get_rng_state(),
        random.getstate(),
        np.random.get_state(),
    )  # what models use
    grad_enabled = torch.is_grad_enabled()
    switches = _switches()
    try:
        yield
    finally:
        torch.set_default_dtype(default_dtype)
        torch.set_rng_state(torch_state)
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        torch.set_grad_enabled(grad_enabled)
        _restore(switches)


def _switches() -> dict[str, Any]:
    return {
        "matmul": torch.get_float32_matmul_precision(),
        "deterministic": (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        "threads": torch.get_num_threads(),
        "cudnn": (torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic),
    }


def _restore(switches: dict[str, Any]) -> None:
    if torch.get_float32_matmul_precision() != switches["matmul"]:
        torch.set_float32_matmul_precision(switches["matmul"])
    enabled, warn_only = switches["deterministic"]
    if torch.are_deterministic_algorithms_enabled() != enabled:
        torch.use_deterministic_algorithms(enabled, warn_only=warn_only)
    if torch.get_num_threads() != switches["threads"]:
        torch.set_num_threads(switches["threads"])
    cudnn = torch.backends.cudnn
    if (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) != switches["cudnn"]:
        cudnn.enabled, cudnn.benchmark, cudnn.deterministic = switches["cudnn"]


def swapped(module: nn.Module, stand_in: Callable[[Tensor], Tensor]) -> None:
    """Put other tensors in the place of parameters and buffers; `preserved` puts the old ones back."""
    stand_ins: dict[int, Tensor] = {}

    def replaced(tensor: Tensor) -> Tensor:
        known = stand_ins.get(id(tensor))
        if known is None:
            known = stand_ins[id(tensor)] = stand_in(tensor)
        return known

    for each in module.modules():
        for content in (each._parameters, each._buffers):
            for name, tensor in content.items():
                if tensor is not None:
                    content[name] = replaced(tensor)  # type: ignore[assignment]  # a Parameter for a Parameter
    for each in module.modules():
        for name, value in list(each.__dict__.items()):
            if name not in _INNER and isinstance(value, list) and value and isinstance(value[0], Tensor):
                each.__dict__[name] = [stand_ins.get(id(item), item) for item in value]
