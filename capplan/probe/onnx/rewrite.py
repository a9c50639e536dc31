"""Rewrite a graph before it is run: constants of nodes and branches become constants of the graph."""

from collections.abc import Callable, Collection, Iterator, Mapping, Set
from dataclasses import replace

import numpy

from capplan.probe.onnx.graph import Constant, Graph, Node, OnnxModel, names_read
from capplan.probe.onnx.operators.products import HANDLERS as PRODUCTS


def hoist_constants(model: OnnxModel) -> OnnxModel:
    """Make constants of Constant nodes, and of graphs within nodes, constants of the graph.

    A name that two branches give to different constants stays a constant of each branch.
    """
    computed = list(_constants_of_nodes(model.graph))
    held = [constant for node in model.graph.nodes for graph in node.graphs for constant in _held(graph)]
    inner: dict[str, Constant] = {}
    differing: set[str] = set(model.graph.constants)
    for constant in (*held, *computed):
        if not _alike(inner.setdefault(constant.name, constant), constant):
            differing.add(constant.name)
    hoisted = {name: constant for name, constant in inner.items() if name not in differing}
    graph = _without(model.graph, hoisted.keys())
    graph = replace(graph, constants={**graph.constants, **hoisted})
    names = frozenset(constant.name for constant in computed)
    # The constant behind each name that is only another name for one, as torch.onnx writes tied weights.
    found: dict[str, str] = {}
    outputs = {port.name for port in graph.outputs}
    for node in graph.nodes:
        if node.operator == "Identity" and not node.domain and node.outputs[0] not in outputs:
            source = found.get(node.inputs[0], node.inputs[0])
            if source in graph.constants:
                found[node.outputs[0]] = source
    return replace(model, graph=_renamed(graph, found), computed=names)


def _alike(first: Constant, second: Constant) -> bool:
    """Return True if two constants have the same shape, dtype and values."""
    if (first.shape, first.dtype) != (second.shape, second.dtype) or (first.values is None) != (second.values is None):
        return False
    return first.values is None or numpy.array_equal(first.values, second.values)  # type: ignore[arg-type]  # both have them


def _renamed(graph: Graph, names: Mapping[str, str]) -> Graph:
    """Return a graph that reads constants by their own names."""
    if not names:
        return graph
    nodes = (
        replace(node, inputs=tuple(names.get(name, name) for name in node.inputs))
        for node in graph.nodes
        if node.outputs[0] not in names
    )
    return replace(graph, nodes=tuple(_with_graphs(node, lambda inner: _renamed(inner, names)) for node in nodes))


def _with_graphs(node: Node, change: Callable[[Graph], Graph]) -> Node:
    if not node.graphs:
        return node
    changed = {name: change(value) if isinstance(value, Graph) else value for name, value in node.attributes.items()}
    return replace(node, attributes=changed)


def _constants_of_nodes(graph: Graph) -> Iterator[Constant]:
    for node in graph.nodes:
        value = node.attributes.get("value")
        if node.operator == "Constant" and isinstance(value, Constant):
            yield replace(value, name=node.outputs[0])
        for inner in node.graphs:
            yield from _constants_of_nodes(inner)


def _held(graph: Graph) -> Iterator[Constant]:
    yield from graph.constants.values()
    for node in graph.nodes:
        for inner in node.graphs:
            yield from _held(inner)


def _without(graph: Graph, hoisted: Set[str]) -> Graph:
    """Return a graph without the constants that went outside; its nodes of constants that stay become constants."""
    constants = {name: constant for name, constant in graph.constants.items() if name not in hoisted}
    nodes = []
    for node in graph.nodes:
        value = node.attributes.get("value")
        if node.operator != "Constant" or not isinstance(value, Constant):
            nodes.append(_with_graphs(node, lambda inner: _without(inner, hoisted)))
        elif node.outputs[0] not in hoisted:
            constants[node.outputs[0]] = replace(value, name=node.outputs[0])
    return replace(graph, nodes=tuple(nodes), constants=constants)


_TELL_SHAPES = ("Shape", "Size")
"""Operators whose results do not depend on what their input holds."""


def settle_branches(graph: Graph) -> tuple[Graph, int]:
    """Take the longer branch wherever data decides, as both branches, so that the condition no longer matters."""
    return _settled(graph, {port.name for port in graph.inputs} - graph.constants.keys())


def _settled(graph: Graph, outside: Collection[str]) -> tuple[Graph, int]:
    """Settle a graph; `outside` names the values, its own inputs included, that depend on data."""
    depending, nodes, count = set(outside), [], 0
    for node in graph.nodes:
        settled, decided = _node_settled(node, depending)
        nodes.append(settled)
        count += decided
        if node.operator not in _TELL_SHAPES and any(name in depending for name in names_read(node)):
            depending.update(node.outputs)
    return (replace(graph, nodes=tuple(nodes)), count) if count else (graph, 0)


def _node_settled(node: Node, depending: Collection[str]) -> tuple[Node, int]:
    if not node.graphs:
        return node, 0
    attributes, count = dict(node.attributes), 0
    for name, value in node.attributes.items():
        if isinstance(value, Graph):
            carried = {port.name for port in value.inputs}  # of a loop, all of which may come from data
            attributes[name], found = _settled(value, {*depending, *carried})
            count += found
    branches = [attribute for attribute in attributes.values() if isinstance(attribute, Graph)]
    if node.operator == "If" and not node.domain and node.inputs[0] in depending and len(branches) == 2:
        longer = max(branches, key=_length)
        return replace(node, attributes={**attributes, "then_branch": longer, "else_branch": longer}), count + 1
    return replace(node, attributes=attributes), count


def _length(graph: Graph) -> tuple[int, int]:
    inner = [_length(branch) for node in graph.nodes for branch in node.graphs]
    products = sum(node.full_operator in PRODUCTS for node in graph.nodes)
    return products + sum(length[0] for length in inner), len(graph.nodes) + sum(length[1] for length in inner)
