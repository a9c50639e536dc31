"""Find what runs an operator: the handler of its name.

An operator that is not read is recorded by its own name with its shapes, so that it is counted as uncounted.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from capplan.probe.onnx.graph import Node
from capplan.probe.onnx.operators import control, elementwise, products, quantised, shapes, windows
from capplan.probe.onnx.operators.call import Handler, Handlers

_ALL: Handlers = {
    **elementwise.HANDLERS,
    **shapes.HANDLERS,
    **products.HANDLERS,
    **windows.HANDLERS,
    **quantised.HANDLERS,
    **control.HANDLERS,
}


def find_handler(node: Node) -> Handler | None:
    """Return what runs a node; None for an operator that is not read."""
    return _ALL.get(node.full_operator)


def run_unknown(
    node: Node, inputs: Sequence[Any], outputs: Sequence[tuple[tuple[int, ...], torch.dtype]], device: torch.device
) -> tuple[Tensor, ...]:
    """Run an operator that is not read: one kernel of its own name, which makes tensors of the inferred shapes."""
    tensors = [value.to(device) for value in inputs if isinstance(value, Tensor)]
    tensors = tensors or [torch.empty(0, device=device)]  # says where tensors lie that are made here
    overload = _operator(*unknown_name(node).split("::"))
    sizes = [dim for shape, _ in outputs for dim in shape]
    made = overload(tensors, sizes, [len(shape) for shape, _ in outputs], [dtype for _, dtype in outputs], device)
    return tuple(made)


def unknown_name(node: Node) -> str:
    """Return the name under which an operator is recorded and a formula is registered, such as `onnx::Fancy`."""
    namespace = re.sub(r"[^A-Za-z0-9_]", "_", node.domain) or "onnx"
    if namespace in _TAKEN or namespace[0].isdigit():
        namespace = f"onnx_{namespace}"
    return f"{namespace}::{re.sub(r'[^A-Za-z0-9_]', '_', node.operator)}"


_TAKEN = ("aten", "prim", "prims", "torchvision")
"""Namespaces of operators that exist."""


@cache
def _operator(namespace: str, name: str) -> Any:
    """Define an operator in torch's registry, where the recorder sees it as it sees a library's own."""
    registry: Any = torch.library.Library
    library = registry(namespace, "FRAGMENT")
    library.define(f"{name}(Tensor[] inputs, int[] sizes, int[] ranks, ScalarType[] dtypes, Device device) -> Tensor[]")
    library.impl(name, _make, "CompositeExplicitAutograd")
    _LIBRARIES.append(library)  # an operator lives as long as its library does
    return getattr(getattr(torch.ops, namespace), name).default


_LIBRARIES: list[Any] = []


def _make(
    inputs: list[Tensor], sizes: list[int], ranks: list[int], dtypes: list[torch.dtype], device: torch.device
) -> list[Tensor]:
    # while a GPU's behaviour is traced, tensors are called "cuda" to the model and lie on the meta device
    device = inputs[0].device
    made = []
    for rank, dtype in zip(ranks, dtypes, strict=True):
        made.append(torch.empty(sizes[:rank], dtype=dtype, device=device))
        sizes = sizes[rank:]
    return made
