"""Leave everything as it was: a model's tensors, attributes and modes, random states, and torch's global switches."""

import contextlib
import gc
import inspect
import logging
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType, NoneType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_INNER = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
_DEEPEST = 4
"""Levels of containers inside containers that are restored: a cache is a list of pairs, or a dictionary of lists."""


@contextlib.contextmanager
def preserved(module: nn.Module) -> Iterator[None]:
    """Restore, at the end, what a forward could have changed."""
    states = [_ModuleState.of(part) for part in module.modules()]
    try:
        with globals_preserved():
            yield
    finally:
        for state in states:
            state.restore()


@dataclass(frozen=True, slots=True, kw_only=True)
class _ModuleState:
    """What a module held: its class, its attributes, its tensors, and the content of its containers."""

    module: nn.Module
    kind: type[nn.Module]
    attributes: dict[str, Any]
    tensors: list[tuple[Any, dict[str, Any]]]
    contents: "list[tuple[Any, Any]]"

    @classmethod
    def of(cls, module: nn.Module) -> "_ModuleState":
        attributes = dict(module.__dict__)
        held = [holder for holder in (module._parameters, module._buffers) if not isinstance(holder, dict)]
        return cls(
            module=module,
            kind=type(module),
            attributes=attributes,
            tensors=[(holder, dict(holder.items())) for holder in held],
            contents=list(_contents(attributes.values())),
        )

    def restore(self) -> None:
        if type(self.module) is not self.kind:  # lazy modules change their class
            object.__setattr__(self.module, "__class__", self.kind)
        self.module.__dict__.clear()
        self.module.__dict__.update(self.attributes)
        for holder, tensors in self.tensors:  # TorchScript keeps its tensors in holders of its own
            for name, tensor in tensors.items():
                if holder[name] is not tensor:
                    holder[name] = tensor
        for container, content in self.contents:
            _refill(container, content)


def _contents(values: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """List the containers among values, and the attributes of objects, with what they hold, level by level.

    Models keep tensors of their first call there.
    """
    seen: set[int] = set()
    level = list(values)
    for _ in range(_DEEPEST):
        inner: list[Any] = []
        for value in level:
            if type(value) in _SCALARS:  # most of what a module holds: checked first, as millions of values pass here
                continue
            container = value if isinstance(value, _CONTAINERS) else _attributes_of(value)
            if container is None or id(container) in seen:
                continue
            seen.add(id(container))
            if isinstance(container, dict):
                content: list[Any] = list(dict.items(container))
                inner += dict.values(container)
            else:
                content = list(container)
                inner += content
            yield container, content
        level = inner


_CONTAINERS = (dict, list, set, deque)
_SCALARS = frozenset({bool, int, float, str, tuple, NoneType, Tensor, nn.Parameter})
_LEFT_ALONE = (
    str, int, float, tuple, NoneType, nn.Module, Tensor, ModuleType, type, torch.Generator, logging.Logger,
)  # fmt: skip


def _attributes_of(value: Any) -> dict[str, Any] | None:
    """Return the attribute dictionary of a plain object, such as a cache that a model holds; None for others.

    Nothing of the object's own code runs: lazy objects would load what they stand for.
    """
    if isinstance(value, _LEFT_ALONE) or callable(value):
        return None
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return held if isinstance(held, dict) else None


def _refill(container: Any, content: list[Any]) -> None:
    """Restore a container's content where it changed, by the built-in type's own methods.

    Subclasses may forbid to be changed (a frozen dictionary), or do more than store: neither matters to what a model
    itself has just changed.
    """
    if isinstance(container, dict):
        items = list(dict.items(container))
        same = (now[0] is before[0] and now[1] is before[1] for now, before in zip(items, content, strict=False))
        if len(items) == len(content) and all(same):
            return
        base: Any = OrderedDict if isinstance(container, OrderedDict) else dict
        base.clear(container)
        for key, value in content:
            base.__setitem__(container, key, value)
        return
    if len(container) == len(content) and all(a is b for a, b in zip(container, content, strict=True)):
        return
    base = next(kind for kind in (list, set, deque) if isinstance(container, kind))
    base.clear(container)
    (base.update if base is set else base.extend)(container, content)


def host_generators() -> tuple[object, ...]:
    """Return the state of the random generators of Python and numpy, which tensors do not use; equal if none drew."""
    kind, keys, *rest = tuple(np.random.get_state(legacy=True))
    return random.getstate(), kind, np.asarray(keys).tobytes(), *rest


@contextlib.contextmanager
def globals_preserved() -> Iterator[None]:
    """Restore, at the end, the global state that a model's code could have changed: generators, dtype, switches."""
    default_dtype = torch.get_default_dtype()
    torch_state, python_state, numpy_state = torch.get_rng_state(), random.getstate(), np.random.get_state()
    grad_enabled = torch.is_grad_enabled()
    matmul_precision, threads = torch.get_float32_matmul_precision(), torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warns_only = torch.is_deterministic_algorithms_warn_only_enabled()
    cudnn = torch.backends.cudnn
    cudnn_switches = (cudnn.enabled, cudnn.benchmark, cudnn.deterministic)
    try:
        yield
    finally:
        torch.set_default_dtype(default_dtype)
        torch.set_rng_state(torch_state)
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        torch.set_grad_enabled(grad_enabled)
        if torch.get_float32_matmul_precision() != matmul_precision:
            torch.set_float32_matmul_precision(matmul_precision)
        if torch.are_deterministic_algorithms_enabled() != deterministic:
            torch.use_deterministic_algorithms(deterministic, warn_only=warns_only)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        if (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) != cudnn_switches:
            cudnn.enabled, cudnn.benchmark, cudnn.deterministic = cudnn_switches


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Disable the garbage collector, which takes time and frees storages at moments that differ from pass to pass."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def swapped(module: nn.Module, stand_in: Callable[[Tensor], Tensor]) -> None:
    """Replace parameters and buffers by other tensors; `preserved` restores the old ones."""
    stand_ins: dict[int, Tensor] = {}

    def replaced(tensor: Tensor) -> Tensor:
        known = stand_ins.get(id(tensor))
        if known is None:
            known = stand_ins[id(tensor)] = stand_in(tensor)
        return known

    for part in module.modules():
        for content in (part._parameters, part._buffers):
            for name, tensor in list(content.items()):
                if tensor is not None:
                    content[name] = replaced(tensor)  # type: ignore[assignment]  # a Parameter for a Parameter
    for part in module.modules():
        for name, value in list(part.__dict__.items()):
            if name not in _INNER and isinstance(value, list) and value and isinstance(value[0], Tensor):
                part.__dict__[name] = [stand_ins.get(id(item), item) for item in value]


def set_mode(module: nn.Module, *, training: bool) -> None:
    """Set the mode of a module and of all below it, as `nn.Module.train` does.

    A class's own `train` is called only where it takes the `mode` of `nn.Module.train`, as those do that keep batch
    norms frozen. Wrappers of whole libraries have a `train` that starts a training run (ultralytics' `YOLO`), and
    exported programs one that refuses to be called.
    """
    parts = list(module.modules())
    for part in parts:
        part.training = training
    for part in parts:
        own = type(part).train
        if own is not nn.Module.train and "mode" in inspect.signature(own).parameters:
            with contextlib.suppress(NotImplementedError):
                part.train(training)
