"""Sort a graph's constants into weights and values that decide shapes and stay on the host."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch

from capplan.probe.onnx.graph import Constant, Graph, names_read

_STATISTICS: Mapping[str, tuple[int, ...]] = {"BatchNormalization": (3, 4)}
"""Inputs that training does not change by gradients: buffers in PyTorch."""

_READ_ON_HOST: Mapping[str, tuple[int, ...]] = {
    "Reshape": (1,), "Expand": (1,), "Tile": (1,), "Resize": (1, 2, 3), "Upsample": (1,), "Pad": (1, 2, 3),
    "Slice": (1, 2, 3, 4), "Squeeze": (1,), "Unsqueeze": (1,), "Split": (1,), "TopK": (1,), "Clip": (1, 2),
    "OneHot": (1, 2), "Trilu": (1,), "CumSum": (1,), "ConstantOfShape": (0,), "Range": (0, 1, 2), "Loop": (0, 1),
    "If": (0,), "CenterCropPad": (1,), "Col2Im": (1, 2), "AffineGrid": (1,), "DFT": (1, 2), "SplitToSequence": (1,),
    "ReduceMean": (1,), "ReduceSum": (1,), "ReduceMax": (1,), "ReduceMin": (1,), "ReduceProd": (1,), "ReduceL1": (1,),
    "ReduceL2": (1,), "ReduceSumSquare": (1,), "ReduceLogSum": (1,), "ReduceLogSumExp": (1,), "SequenceAt": (1,),
}  # fmt: skip
"""Inputs whose values decide shapes, or are read by the host before a kernel is launched."""

_LARGEST_HOST_INTEGERS = 64
"""Integers up to this number are positions and sizes, which PyTorch's code holds in Python."""

PACKED = frozenset({"int4", "uint4"})
"""Dtypes of which weights hold two elements a byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightPlan:
    """A weight: the module that holds it, its name there, and the constant of the file."""

    path: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    is_parameter: bool
    constant: Constant


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsPlan:
    """A graph's constants, sorted."""

    weights: tuple[WeightPlan, ...]
    on_host: Mapping[str, Constant]


def plan_weights(graph: Graph, *, computed: Collection[str] = (), paths: Collection[str] = ()) -> WeightsPlan:
    """Sort a graph's constants into weights and values of the host.

    Args:
        graph: the graph.
        computed: constants that the file has as nodes: what code computes and does not learn.
        paths: modules that nodes came from, whose names no weight may have.
    """
    statistics = _names_at(graph, _STATISTICS)
    host = _names_at(graph, _READ_ON_HOST)
    used = {*(name for node in graph.nodes for name in names_read(node)), *(port.name for port in graph.outputs)}
    constants = [constant for constant in graph.constants.values() if constant.name in used]
    on_host = {each.name: each for each in constants if each.name in host or _is_position(each, each.name in computed)}
    namer = _Namer([*paths, *(_place(each.name)[0] for each in constants)])
    weights = tuple(
        _weight(each, namer, learns=bool(each.shape) and each.name not in statistics and each.name not in computed)
        for each in constants
        if each.name not in on_host
    )
    return WeightsPlan(weights=weights, on_host=on_host)


def _is_position(constant: Constant, is_computed: bool) -> bool:
    """Return True for a number, or a few integers: what PyTorch's code holds in Python."""
    if constant.values is None:
        return constant.elements == 0
    is_whole = constant.dtype in ("int64", "int32", "bool")
    is_number = not constant.shape or (is_computed and constant.elements == 1)
    return is_number or (is_whole and constant.elements <= _LARGEST_HOST_INTEGERS)


def _weight(constant: Constant, namer: "_Namer", *, learns: bool) -> WeightPlan:
    path, name = namer.place(constant.name)
    shape, dtype = constant.shape, constant.dtype
    if dtype in PACKED:  # along the last dimension
        shape, dtype = (*shape[:-1], -(-shape[-1] // 2)) if shape else (1,), "uint8"
    is_float = dtype.startswith(("float", "bfloat", "complex"))
    is_quantised = dtype in ("int8", "uint8") and len(shape) > 1
    return WeightPlan(
        path=path,
        name=name,
        shape=shape,
        dtype=dtype,
        is_parameter=is_quantised or (is_float and learns),
        constant=constant,
    )


class _Namer:
    """Gives each weight a place that nothing else has."""

    def __init__(self, paths: Collection[str]) -> None:
        self._taken = {
            ".".join(steps[: at + 1]) for path in paths for steps in [path.split(".")] for at in range(len(steps))
        }

    def place(self, name: str) -> tuple[str, str]:
        """Return the path of a module and the name of a weight in it."""
        path, last = _place(name)
        while f"{path}.{last}".lstrip(".") in self._taken or hasattr(torch.nn.Module, last):
            last += "_"
        self._taken.add(f"{path}.{last}".lstrip("."))
        return path, last


def _place(name: str) -> tuple[str, str]:
    """Return a module's path and a name in it: `layer1.0.weight` keeps its place, `onnx::Conv_12` has none."""
    path, _, last = name.rpartition(".") if re.fullmatch(r"[A-Za-z_]\w*(\.\w+)+", name) else ("", "", name)
    return path, re.sub(r"\W", "_", last) or "unnamed"


def _names_at(graph: Graph, places: Mapping[str, tuple[int, ...]]) -> set[str]:
    found = set()
    for node in graph.nodes:
        found |= {node.inputs[index] for index in places.get(node.operator, ()) if index < len(node.inputs)}
        for inner in node.graphs:
            found |= _names_at(inner, places)
    return found
