"""A torch.export graph run again, operator by operator, each within a module at the path it came from."""

import contextlib
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from capplan.budget import Budget
from capplan.errors import UsageError
from capplan.probe.foreign.graphs import (
    DEEPEST_SCOPE,
    as_from_python,
    counted_host_memory,
    empty_weight,
    is_allowed,
    last_uses,
    scope_at,
)

DTYPES: Mapping[int, torch.dtype] = {
    1: torch.uint8, 2: torch.int8, 3: torch.int16, 4: torch.int32, 5: torch.int64, 6: torch.float16, 7: torch.float32,
    8: torch.float64, 9: torch.complex32, 10: torch.complex64, 11: torch.complex128, 12: torch.bool,
    13: torch.bfloat16, 28: torch.uint16, 29: torch.float8_e4m3fn, 30: torch.float8_e5m2, 31: torch.float8_e4m3fnuz,
    32: torch.float8_e5m2fnuz, 34: torch.uint32, 35: torch.uint64,
}  # fmt: skip
"""Dtypes by their numbers in an archive."""

_MEMORY_FORMATS = {
    1: torch.contiguous_format, 2: torch.channels_last, 3: torch.channels_last_3d, 4: torch.preserve_format,
}  # fmt: skip
_ARITHMETIC = (
    "add", "sub", "mul", "floordiv", "truediv", "mod", "neg", "pow", "eq", "ne", "lt", "le", "gt", "ge", "and_", "or_",
    "not_",
)  # fmt: skip
CONDITIONAL = "torch.ops.higher_order.cond"
"""The operator of `torch.cond`."""
_LOOPS = {f"torch.ops.higher_order.{name}": name for name in ("map_impl", "scan", "while_loop")}
_CHECKS = ("_assert_scalar", "_assert_async", "_assert_tensor_metadata", "sym_constrain_range", "_guards_fn")


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightMeta:
    """A weight as an archive describes it; weights of one `storage` are one tensor."""

    path: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    is_parameter: bool
    trainable: bool
    storage: str


class ExportedModule(torch.nn.Module):
    """A program of torch.export as a module: its inputs by position, its outputs as a tuple."""

    def __init__(self, graph_module: Mapping[str, Any], weights: Mapping[str, WeightMeta], *, where: str) -> None:
        super().__init__()
        self._where = where
        self._graph = graph_module["graph"]
        self._weights = dict(weights)
        used = [(*_names(node["inputs"]), *_names(node["outputs"])) for node in self._graph["nodes"]]
        self._last_uses = last_uses(used, _names(self._graph["outputs"]))
        specs = graph_module["signature"]["input_specs"]
        self._inputs = [_input_name(spec) for spec in specs if "constant_input" not in spec]
        made: dict[str, torch.Tensor] = {}
        for weight in weights.values():
            if weight.storage not in made:
                tensor = empty_weight(weight.shape, weight.dtype)
                trainable = weight.trainable and tensor.is_floating_point()
                made[weight.storage] = (
                    torch.nn.Parameter(tensor, requires_grad=trainable) if weight.is_parameter else tensor
                )
            scope, _, name = weight.path.rpartition(".")
            owner = scope_at(self, scope)
            if weight.is_parameter:
                owner.register_parameter(name, made[weight.storage])  # type: ignore[arg-type] # made as one
            else:
                owner.register_buffer(name, made[weight.storage])
        for path in {_module_path(node) for node in self._graph["nodes"]}:
            scope_at(self, path)

    def forward(self, *inputs: torch.Tensor) -> tuple[Any, ...]:
        given = iter(inputs)
        values: dict[str, Any] = {}
        for name in self._inputs:
            weight = self._weights.get(name)
            if weight is None:
                values[name] = next(given)
            else:
                scope, _, attribute = weight.path.rpartition(".")
                values[name] = getattr(scope_at(self, scope), attribute)
        device, budget = inputs[0].device, Budget(self._where)
        with counted_host_memory(budget, device=device, held=(*self.parameters(), *self.buffers(), *inputs)):
            run = _Replay(root=self, device=device, budget=budget)
            return tuple(_run(run, self._graph, values, last_uses=self._last_uses))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replay:
    """One pass: the module, where its tensors are, and what the file may take."""

    root: torch.nn.Module
    device: torch.device
    budget: Budget


def check_graph(graph: Any, *, where: str) -> None:
    """Refuse a graph of too many operators, those of the graphs within it included, before it is replayed."""
    Budget(where).take_nodes(_count_nodes(graph, depth=0))


_DEEPEST = 32
"""Most levels of graphs within graphs, and of lists within an argument."""


def _count_nodes(graph: Mapping[str, Any], *, depth: int) -> int:
    if depth > _DEEPEST:
        raise ValueError(f"its graphs are nested more than {_DEEPEST} deep")
    inner = (
        argument["arg"]["as_graph"]["graph"]
        for node in graph["nodes"]
        for argument in node["inputs"]
        if "as_graph" in argument["arg"]
    )
    return len(graph["nodes"]) + sum(_count_nodes(part, depth=depth + 1) for part in inner)


def _input_name(spec: Mapping[str, Any]) -> str:
    ((kind, content),) = spec.items()
    if kind == "user_input":
        if "as_tensor" not in content["arg"]:
            raise UsageError(f"an exported program with an input of {next(iter(content['arg']))} cannot be replayed.")
        return str(content["arg"]["as_tensor"]["name"])
    return str(content["arg"]["name"])


def _module_path(node: Mapping[str, Any]) -> str:
    """Return the path of the module that a node came from, out of "L__self__,,Net;L__self___conv,conv,Conv2d"."""
    stack = node.get("metadata", {}).get("nn_module_stack", "")
    path = stack.rpartition(";")[2].split(",")[1] if stack.count(",") else ""
    parts = path.split(".")
    return path if len(parts) <= DEEPEST_SCOPE and all(part.isidentifier() or part.isdigit() for part in parts) else ""


def _run(
    run: _Replay, graph: Mapping[str, Any], values: dict[str, Any], *, last_uses: Sequence[Sequence[str]] = ()
) -> list[Any]:
    """Run a graph's nodes; a value is dropped after its last use, so that memory is freed as in the original."""
    device = run.device
    run.budget.take_nodes(len(graph["nodes"]))
    for index, node in enumerate(graph["nodes"]):
        if any(check in node["target"] for check in _CHECKS):
            continue
        call = _callable(run, node["target"])
        args = [_value(item["arg"], values, device) for item in node["inputs"] if item.get("kind") != 2]
        kwargs = {item["name"]: _value(item["arg"], values, device) for item in node["inputs"] if item.get("kind") == 2}
        if "device" in kwargs and kwargs["device"] is not None:
            kwargs["device"] = device  # as a text, too: the model's tensors have no memory anywhere
        path = _module_path(node)
        scope = scope_at(run.root, path) if path else None
        made = call(*args, **kwargs) if scope is None else scope(call, args, kwargs)
        outputs = node["outputs"]
        several = made if len(outputs) > 1 else [made]
        for output, value in zip(outputs, several, strict=False):
            ((kind, content),) = output.items()
            if kind in ("as_tensors", "as_optional_tensors"):
                for item, tensor in zip(content, value, strict=True):
                    with contextlib.suppress(KeyError):
                        values[(item.get("as_tensor") or item)["name"]] = tensor
            elif kind != "as_none" and isinstance(content, Mapping):
                alone = isinstance(value, list | tuple) and len(value) == 1
                values[str(content.get("name") or content.get("as_name"))] = value[0] if alone else value
        del args, kwargs, made
        for name in last_uses[index] if last_uses else ():
            values.pop(name, None)
    return [_value(output, values, device) for output in graph["outputs"]]


def _callable(run: _Replay, target: str) -> Callable[..., Any]:
    """Return the operator that a target names, out of PyTorch's own."""
    parts = target.split(".")
    if parts[:2] == ["torch", "ops"] and len(parts) == 5 and is_allowed(parts[2], parts[3]):
        if parts[3] == "sym_size":
            return lambda tensor, dim: tensor.shape[dim]
        overload = getattr(getattr(getattr(torch.ops, parts[2]), parts[3], None), parts[4], None)
        if overload is not None:
            return as_from_python(parts[3], overload)
    if parts[0] in ("_operator", "operator") and parts[-1] in _ARITHMETIC:
        return partial(_arithmetic, parts[-1])
    if parts[-1] in ("sym_max", "sym_min"):
        return {"sym_max": max, "sym_min": min}[parts[-1]]
    if parts[-1] == "sym_not":
        return operator.not_
    if parts[-1] == "wrap_with_set_grad_enabled":
        return lambda _enabled, graph, *args: _run_part(run, graph, args)
    if target == CONDITIONAL:
        # which branch runs depends on data, and is unknown without: the one with more operators is taken
        return lambda _holds, *branches: _run_part(
            run, max(branches[:2], key=lambda branch: len(branch["graph"]["nodes"])), branches[2]
        )
    if target in _LOOPS:
        return partial(_loop, run, getattr(torch.ops.higher_order, _LOOPS[target]))
    raise UsageError(
        f"the exported program calls {target[:100]}, which is none of PyTorch's operators; trace the code instead."
    )


_LARGEST_INT = 2**63


def _arithmetic(name: str, *values: Any) -> Any:
    """Compute with sizes, whose integers have 64 bits."""
    if name == "pow" and len(values) == 2 and all(isinstance(value, int) for value in values):
        base, exponent = values
        if abs(base) > 1 and exponent > 64:
            raise UsageError("the exported program computes an integer of more than 64 bits.")
    made = getattr(operator, name)(*values)
    if isinstance(made, int) and not -_LARGEST_INT <= made < _LARGEST_INT:
        raise UsageError("the exported program computes an integer of more than 64 bits.")
    return made


def _loop(run: _Replay, operator: Callable[..., Any], *args: Any) -> Any:
    """Call a loop's operator, to which an archive's graphs are given as functions."""
    return operator(*(_function(run, arg) if isinstance(arg, Mapping) and "graph" in arg else arg for arg in args))


def _function(run: _Replay, graph: Mapping[str, Any]) -> Callable[..., Any]:
    """Return a function that runs a graph and returns its only result by itself, as the condition of a loop."""

    def call(*args: Any) -> Any:
        results = _run_part(run, graph, args)
        is_condition = len(results) == 1 and isinstance(results[0], torch.Tensor) and results[0].dtype is torch.bool
        return results[0] if is_condition else results

    return call


def _run_part(run: _Replay, graph: Mapping[str, Any], args: Sequence[Any]) -> Any:
    names = [str(next(iter(item.values()))["name"]) for item in graph["graph"]["inputs"]]
    return _run(run, graph["graph"], dict(zip(names, args, strict=True)))


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "as_none": lambda _: None,
    "as_scalar_type": DTYPES.__getitem__,
    "as_memory_format": _MEMORY_FORMATS.__getitem__,
    "as_layout": lambda _: torch.strided,
    "as_complex": lambda content: complex(float(content["real"]), float(content["imag"])),
    "as_float": float,  # JSON has no infinity: archives write "-Infinity" and "NaN" as texts
    "as_floats": lambda content: [float(item) for item in content],
}
"""What makes the Python value of an argument, by its kind."""


def _value(arg: Mapping[str, Any], values: Mapping[str, Any], device: torch.device) -> Any:
    """Return the Python value of a serialized argument."""
    ((kind, content),) = arg.items()
    if kind in ("as_tensor", "as_sym_int", "as_sym_float", "as_sym_bool", "as_optional_tensor"):
        return _named(content, values)
    if kind in ("as_tensors", "as_sym_ints", "as_sym_floats", "as_sym_bools", "as_optional_tensors"):
        return [_named(item, values) for item in content]
    if kind == "as_device":
        return device
    if kind in _READERS:
        return _READERS[kind](content)
    if kind == "as_int" and not -_LARGEST_INT <= content < _LARGEST_INT:
        raise UsageError("the exported program holds an integer of more than 64 bits.")
    if kind in ("as_graph", "as_int", "as_bool", "as_string") or kind.endswith("s"):
        return content
    raise UsageError(f"the exported program has an argument of {kind.removeprefix('as_')}, which cannot be replayed.")


def _named(content: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    if "name" in content or "as_name" in content:
        return values[content.get("name") or content["as_name"]]
    ((kind, value),) = content.items()
    if kind == "as_tensor":
        return values[value["name"]]
    return None if kind == "as_none" else value


def _names(part: Any) -> Iterator[str]:
    """Yield every value's name within a part of a graph's description."""
    if isinstance(part, list):
        for item in part:
            yield from _names(item)
    elif isinstance(part, Mapping):
        for key, item in part.items():
            if key in ("as_tensor", "as_sym_int", "as_sym_float", "as_sym_bool") and isinstance(item, Mapping):
                yield str(item.get("name") or item.get("as_name"))
            elif key in ("name", "as_name") and len(part) == 1:
                yield str(item)
            elif key in ("arg", "as_graph") or key.startswith("as_"):
                yield from _names(item)
