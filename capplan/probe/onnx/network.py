"""An ONNX graph as a module: its constants as weights or values, its nodes run on PyTorch's operators."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import Tensor

from capplan.budget import Budget
from capplan.errors import CapplanError, UsageError
from capplan.probe.foreign.graphs import (
    DEEPEST_SCOPE,
    Scope,
    counted_host_memory,
    device_of,
    empty_weight,
    last_uses,
    scope_at,
)
from capplan.probe.onnx.graph import Constant, Graph, Node, OnnxModel, names_read
from capplan.probe.onnx.infer import ShapeInference
from capplan.probe.onnx.operators.call import Call, Value
from capplan.probe.onnx.operators.quantised import unpacked
from capplan.probe.onnx.operators.table import find_handler, run_unknown
from capplan.probe.record.value_store import attach

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


def _plan_weights(
    graph: Graph, *, computed: Collection[str], paths: Collection[str]
) -> tuple[tuple[WeightPlan, ...], Mapping[str, Constant]]:
    """Sort a graph's constants into weights and values of the host."""
    statistics = _names_at(graph, _STATISTICS)
    host = _names_at(graph, _READ_ON_HOST)
    used = {*(name for node in graph.nodes for name in names_read(node)), *(port.name for port in graph.outputs)}
    constants = [constant for constant in graph.constants.values() if constant.name in used]
    on_host = {
        constant.name: constant
        for constant in constants
        if constant.name in host or _is_position(constant, constant.name in computed)
    }
    namer = _Namer([*paths, *(_place(constant.name)[0] for constant in constants)])
    fixed = {*statistics, *computed, *(constant.name for constant in constants if not constant.shape)}
    weights = tuple(
        _weight(constant, namer, learns=constant.name not in fixed)
        for constant in constants
        if constant.name not in on_host
    )
    return weights, on_host


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


class NodeError(RuntimeError):
    """A node could not be run; the message names it."""


class OnnxNetwork(torch.nn.Module):
    """A graph of ONNX as a module: its inputs by position, its outputs as a tuple.

    Weights have shape and dtype and no values; small constants that decide shapes keep theirs, on the host.
    """

    def __init__(self, model: OnnxModel, inference: ShapeInference) -> None:
        super().__init__()
        self._model = model
        self._inference = inference
        self._probe = ""
        paths = {module_path(node.name) for node in model.graph.nodes}
        self._weights, on_host = _plan_weights(model.graph, computed=model.computed, paths=paths)
        for weight in self._weights:
            tensor = empty_weight(weight.shape, getattr(torch, weight.dtype))
            if weight.constant.values is not None and tensor.is_meta and not weight.is_parameter:
                attach(tensor, torch.from_numpy(numpy.array(weight.constant.values)))
            owner = scope_at(self, weight.path)
            if weight.is_parameter:
                owner.register_parameter(
                    weight.name, torch.nn.Parameter(tensor, requires_grad=tensor.is_floating_point())
                )
                if weight.dtype == "float32" and not self._probe:
                    self._probe = f"{weight.path}.{weight.name}".lstrip(".")
            else:
                owner.register_buffer(weight.name, tensor)
        self._packed = {
            weight.constant.name: weight.constant.shape
            for weight in self._weights
            if weight.constant.dtype in PACKED and weight.constant.shape
        }
        self._host = {name: _host_tensor(constant) for name, constant in on_host.items()}
        self._last_uses: dict[int, list[tuple[str, ...]]] = {}
        self._paths: dict[int, list[str]] = {}
        self._prepare(model.graph)

    def _prepare(self, graph: Graph) -> None:
        """Find when values are last used, and the modules that nodes came from, for a graph and those within it."""
        used = [(*names_read(node), *(name for name in node.outputs if name)) for node in graph.nodes]
        self._last_uses[id(graph)] = last_uses(used, [port.name for port in graph.outputs])
        self._paths[id(graph)] = [module_path(node.name) for node in graph.nodes]
        for node, path in zip(graph.nodes, self._paths[id(graph)], strict=True):
            scope_at(self, path)
            for inner in node.graphs:
                self._prepare(inner)

    @property
    def _float_dtype(self) -> torch.dtype:
        """Return the dtype that the file's 32-bit floats have now: another where the model was converted to 16 bits."""
        return self.get_parameter(self._probe).dtype if self._probe else torch.float32

    def forward(self, *inputs: Tensor) -> tuple[Any, ...]:
        given = dict(zip((port.name for port in self._model.graph.inputs), inputs, strict=True))
        values: dict[str, Value] = {**self._host, **given}
        for weight in self._weights:
            owner = scope_at(self, weight.path)
            values[weight.constant.name] = getattr(owner, weight.name)
        device = device_of((v for v in values.values() if isinstance(v, torch.nn.Parameter)), inputs)
        budget = Budget(self._inference.where)
        run = _ForwardPass(self, given, device, self._float_dtype, budget)
        with counted_host_memory(budget, device=device, held=(*self.parameters(), *self.buffers(), *inputs)):
            return tuple(run.graph(self._model.graph, values))


class _ForwardPass:
    def __init__(
        self,
        network: OnnxNetwork,
        given: Mapping[str, Tensor],
        device: torch.device,
        float_dtype: torch.dtype,
        budget: Budget,
    ) -> None:
        self._budget = budget
        self._network = network
        self._given = given
        self._device = device
        self._float_dtype = float_dtype

    def graph(self, graph: Graph, values: dict[str, Value]) -> list[Value]:
        """Run a graph's nodes; a value is dropped after its last use, so that memory is freed as in PyTorch."""
        network = self._network
        frees, paths = network._last_uses[id(graph)], network._paths[id(graph)]
        self._budget.take_nodes(len(graph.nodes))
        for index, node in enumerate(graph.nodes):
            made = self._node(node, paths[index], values)
            for name, value in zip(node.outputs, made, strict=False):
                values[name] = value
            del made
            for name in frees[index]:
                values.pop(name, None)
        return [values[port.name] for port in graph.outputs]

    def _node(self, node: Node, path: str, values: dict[str, Value]) -> Sequence[Value]:
        try:
            if not path:
                return self._run(node, values)
            scope = scope_at(self._network, path)
            assert isinstance(scope, Scope)
            made: Sequence[Value] = scope(self._run, (node, values), {})
            return made
        except (CapplanError, NotImplementedError, NodeError):
            raise
        except (RuntimeError, TypeError, ValueError, IndexError, KeyError, AssertionError, OverflowError) as error:
            raise NodeError(f"{node.describe()}: {str(error)[:_LONGEST_WORDS]}") from error

    def _run(self, node: Node, values: dict[str, Value]) -> Sequence[Value]:
        inputs = [self._read(values, name) if name else None for name in node.inputs]
        call = Call(
            node=node,
            opset=self._network._model.opset,
            inputs=self._together(inputs),
            device=self._device,
            float_dtype=self._float_dtype,
            budget=self._budget,
            run_graph=lambda graph, given: self._inner(graph, given, values),
        )
        handler = find_handler(node)
        if handler is None:
            shapes = self._network._inference.outputs(node, inputs, self._given)
            return run_unknown(node, inputs, [(s, call.dtype(d)) for s, d in shapes], self._device)
        made = handler(call)
        return made if isinstance(made, tuple) else (made,)

    def _read(self, values: Mapping[str, Value], name: str) -> Value:
        shape = self._network._packed.get(name)
        return values[name] if shape is None else unpacked(values[name], per_byte=2, length=shape[-1])

    def _inner(self, graph: Graph, given: Sequence[Value], values: Mapping[str, Value]) -> list[Value]:
        """Run a graph within a node, which reads what is around it."""
        inner = {**values, **{name: _host_tensor(constant) for name, constant in graph.constants.items()}}
        inner.update(zip((port.name for port in graph.inputs), given, strict=True))
        return self.graph(graph, inner)

    def _together(self, inputs: list[Value]) -> list[Value]:
        """Move everything to the device where the host would make a tensor out of all measure."""
        elements = 1
        for value in (part for part in inputs if part is not None):
            if not isinstance(value, Tensor) or value.device.type != "cpu" or self._device.type == "cpu":
                return inputs
            elements *= max(1, value.numel())
        return inputs if elements <= 2**26 else [value.to(self._device) for value in inputs]


def _host_tensor(constant: Constant) -> Tensor:
    """Make a constant whose values are read."""
    if constant.values is None and constant.elements:
        raise UsageError(
            f"the values of {constant.name!r} decide shapes, and the file does not hold them: save it again with "
            "onnx.save(model, path, save_as_external_data=True, size_threshold=1024), which keeps small tensors inside."
        )
    dtype = getattr(torch, constant.dtype)
    values = [] if constant.values is None else constant.values.tolist()
    return torch.tensor(values, dtype=dtype, device="cpu").reshape(constant.shape)


_LONGEST_WORDS = 300


def module_path(node_name: str) -> str:
    """Return the path of the module that a node came from, out of names as `/layer1/layer1.0/conv1/Conv`.

    torch.onnx writes each module's own name, or its full path where a container was not called itself; a step that
    continues the one before it replaces it. Names of any other form name no module.
    """
    if not node_name.startswith("/"):
        return ""
    steps: list[str] = []
    for step in re.findall(r"[^/]+", node_name)[:-1]:
        if steps and step.startswith(f"{steps[-1]}."):
            steps.pop()
        steps.append(step)
    path = ".".join(steps)
    is_read = path.count(".") < DEEPEST_SCOPE and all(re.fullmatch(r"\w+", part) for part in path.split("."))
    return path if is_read else ""
