"""Shapes and dtypes that the onnx package infers: for outputs of operators that are not read here."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from capplan.errors import TraceError
from capplan.probe.onnx.graph import Node
from capplan.probe.onnx.operators.call import torch_dtype
from capplan.probe.onnx.parse import parse_file

_LONGEST_VALUE = 10**6
"""Most elements of a value that the onnx package may compute beside the shapes."""
_MOST_DIMENSIONS = 64
"""What a value of unknown length is taken to have: the sizes of a tensor."""

ShapeAndDtype = tuple[tuple[int, ...], torch.dtype]


class ShapeInference:
    """Infers the shapes of a file's values for inputs of given shapes; the file is parsed when first asked."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inferred: dict[tuple[tuple[str, tuple[int, ...]], ...], Mapping[str, Any]] = {}

    @property
    def where(self) -> str:
        return str(self._path)

    def outputs(self, node: Node, inputs: Sequence[Any], given: Mapping[str, Tensor]) -> list[ShapeAndDtype]:
        shapes = {name: tuple(tensor.shape) for name, tensor in given.items()}
        key = tuple(shapes.items())
        if key not in self._inferred:
            self._inferred[key] = self._infer(shapes)
        types = self._inferred[key]
        first = next((value for value in inputs if isinstance(value, Tensor)), None)
        outputs = [name for name in node.outputs if name]
        found = []
        for index, name in enumerate(outputs):
            known = _shape_and_dtype(types.get(name), first) or _of_classical(node, index, first)
            if known is None and first is not None and len(outputs) == 1:
                known = tuple(first.shape), first.dtype
            if known is None:
                raise TraceError(
                    f"{self._path}: {node.describe()} is not an operator that is read, and the onnx package does not "
                    f"know the shape of its output {name!r}; save the file with the shapes of its values stated."
                )
            found.append(known)
        return found

    def _infer(self, shapes: Mapping[str, tuple[int, ...]]) -> Mapping[str, Any]:
        import onnx

        message = parse_file(self._path)
        sizes: dict[str, int] = {}
        for port in message.graph.input:
            dims = port.type.tensor_type.shape.dim
            for dim, size in zip(dims, shapes.get(port.name, ()), strict=False):
                if dim.dim_param:
                    sizes.setdefault(dim.dim_param, size)
                dim.dim_value = size
        for port in (*message.graph.value_info, *message.graph.output):
            for dim in port.type.tensor_type.shape.dim:
                if dim.dim_param in sizes:  # a name stands for one size throughout a file
                    dim.dim_value = sizes[dim.dim_param]
        try:
            # the onnx package computes values of shapes without a bound: joining a value with itself doubles it
            is_bounded = _longest_value(message) <= _LONGEST_VALUE
            inferred = onnx.shape_inference.infer_shapes(message, data_prop=is_bounded)
        except (onnx.shape_inference.InferenceError, RuntimeError):
            inferred = message
        ports = (*inferred.graph.value_info, *inferred.graph.output)
        return {port.name: port.type.tensor_type for port in ports}


def _longest_value(message: Any) -> int:
    """Return how many elements the longest value can have that the onnx package computes beside the shapes.

    Of the operators that it computes, Concat alone gives more elements than its longest input has.
    """
    lengths = {tensor.name: math.prod(tensor.dims) for tensor in message.graph.initializer}
    graphs, longest = [message.graph.node, *(function.node for function in message.functions)], 0
    while graphs:
        for node in graphs.pop():
            graphs += [attribute.g.node for attribute in node.attribute if attribute.HasField("g")]
            graphs += [graph.node for attribute in node.attribute for graph in attribute.graphs]
            stated = [math.prod(attribute.t.dims) for attribute in node.attribute if attribute.HasField("t")]
            inputs = [lengths.get(name, _MOST_DIMENSIONS) for name in node.input]
            length = sum(inputs) if node.op_type == "Concat" else max([*inputs, *stated], default=1)
            lengths.update(dict.fromkeys(node.output, length))
            longest = max(longest, length)
    return longest


def _shape_and_dtype(tensor: Any, first: Tensor | None) -> ShapeAndDtype | None:
    if tensor is None or not tensor.HasField("shape"):
        return None
    sizes = [int(dim.dim_value) if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
    if sizes and sizes[0] is None and first is not None and first.dim():
        sizes[0] = first.shape[0]
    dtype = torch_dtype(tensor.elem_type) if tensor.elem_type else None if first is None else first.dtype
    if dtype is None or None in sizes:
        return None
    return tuple(size for size in sizes if size is not None), dtype


_CLASSES = ("classlabels_int64s", "classlabels_ints", "classlabels_strings")
_TARGETS = ("n_targets", "targets")


def _of_classical(node: Node, index: int, first: Tensor | None) -> ShapeAndDtype | None:
    """Return an output of a classifier or regressor of ai.onnx.ml, by the operators' descriptions.

    A classifier gives a label to each row, and a score for each class; a regressor gives each row its targets.
    Labels that are texts are taken as their 64-bit indices.
    """
    if node.domain != "ai.onnx.ml" or first is None or not first.dim():
        return None
    rows = first.shape[0]
    classes = next((value for name in _CLASSES if isinstance(value := node.attributes.get(name), tuple)), None)
    if classes is not None:
        return ((rows,), torch.int64) if index == 0 else ((rows, len(classes)), torch.float32)
    targets = next((value for name in _TARGETS if isinstance(value := node.attributes.get(name), int)), None)
    return None if targets is None else ((rows, targets), torch.float32)
