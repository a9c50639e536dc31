"""One call of an ONNX operator: its tensors and its attributes, and values that are read on the host."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from capplan.budget import NUMBER_BYTES, Budget
from capplan.errors import UsageError
from capplan.probe.onnx.graph import Constant, Graph, Node

MOST_SIZES = 4096
"""Most sizes, axes or pieces of one operator."""

LARGEST_HOST_ELEMENTS = 2**22
"""Elements up to which a tensor of shapes and positions is made on the host."""

Value: TypeAlias = Any
"""What an operator takes and returns: a tensor, a list of tensors (an ONNX sequence), or None where it is absent."""


class ValueNeededError(RuntimeError):
    """An operator needs a tensor's values to know its result's shape, and they depend on data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One operator with its inputs, and what the network lends it.

    `device` is where activations live. `float_dtype` is the dtype that a 32-bit float of the file has in this run.
    `budget` is what the file may take. `run_graph` runs a graph of the node's attributes with values for its inputs.
    """

    node: Node
    opset: int
    inputs: Sequence[Value]
    device: torch.device
    float_dtype: torch.dtype
    budget: Budget
    run_graph: Callable[[Graph, Sequence[Value]], list[Value]]

    def tensor(self, index: int) -> Tensor:
        """Return an input that must be there."""
        if (found := self.optional(index)) is None:
            raise UsageError(f"{self.node.describe()} lacks its input {index}.")
        return found

    def optional(self, index: int) -> Tensor | None:
        """Return an input, or None where the node leaves it out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def dtype_of(self, code: int) -> torch.dtype:
        """Return the dtype of a number of the file, 32-bit floats in the dtype of this run."""
        return self.dtype(torch_dtype(code))

    def dtype(self, dtype: torch.dtype) -> torch.dtype:
        return self.float_dtype if dtype is torch.float32 else dtype

    def whole(self, name: str, default: int = 0) -> int:
        value = self.node.attributes.get(name)
        return value if isinstance(value, int) else default

    def real(self, name: str, default: float = 0.0) -> float:
        value = self.node.attributes.get(name)
        return float(value) if isinstance(value, int | float) else default

    def text(self, name: str, default: str = "") -> str:
        value = self.node.attributes.get(name)
        return value if isinstance(value, str) else default

    def wholes(self, name: str) -> list[int] | None:
        """Return an attribute that is a list of integers; None where the node leaves it out."""
        value = self.node.attributes.get(name)
        return [int(item) for item in value] if isinstance(value, tuple) else None

    def constant(self, name: str) -> Constant | None:
        value = self.node.attributes.get(name)
        return value if isinstance(value, Constant) else None

    def host_wholes(self, index: int, name: str | None = None) -> list[int] | None:
        """Read a list of integers from an input, or from the attribute that older opsets have in its place."""
        tensor = self.optional(index)
        if tensor is None:
            return self.wholes(name) if name is not None else None
        return [int(item) for item in self.host_list(tensor)]

    def host_list(self, tensor: Tensor) -> list[Any]:
        if tensor.numel() > MOST_SIZES:
            raise UsageError(
                f"{self.node.describe()} takes {tensor.numel():,} sizes or axes; at most {MOST_SIZES:,} are read."
            )
        if tensor.is_meta:
            known = getattr(tensor, "_known_value", None)
            if known is None:
                raise ValueNeededError("needs values that depend on data, and tensors without data have none")
            tensor = known
        self.budget.take_bytes(NUMBER_BYTES * tensor.numel())
        return list(tensor.reshape(-1).tolist())

    def on_device(self, *tensors: Tensor | None) -> list[Any]:
        """Move tensors of the host to the device, where kernels read them."""
        return [None if tensor is None else tensor.to(self.device) for tensor in tensors]

    def place_of(self, elements: int) -> torch.device:
        """Return where a tensor of shapes or positions is made: large ones on the device."""
        return torch.device("cpu") if elements <= LARGEST_HOST_ELEMENTS else self.device


Handler: TypeAlias = Callable[[Call], Value]
Handlers: TypeAlias = Mapping[str, Handler]


def torch_dtype(code: int) -> torch.dtype:
    """Return torch's dtype for a number of the file."""
    from capplan.probe.onnx.parse import DTYPES

    name = DTYPES.get(code)
    found = getattr(torch, _STORED_AS.get(name or "", name or ""), None)
    if not isinstance(found, torch.dtype):
        raise UsageError(f"an ONNX tensor of type {code} has no numbers; texts and their operators are not read.")
    return found


_STORED_AS = {"int4": "int8", "uint4": "uint8"}
"""4-bit integers stand in whole bytes once they are activations; weights of them are packed by `network`."""


def along(axis: int, tensor: Tensor) -> int:
    """Return an axis counted from the front."""
    rank = max(tensor.dim(), 1)
    if not -rank <= axis < rank:
        raise IndexError(f"axis {axis} of a tensor of {tensor.dim()} dimensions")
    return axis % rank
