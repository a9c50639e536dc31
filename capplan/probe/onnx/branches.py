"""Choose the branch of each `If` whose condition is only known once the model has data."""

from collections.abc import Collection
from dataclasses import replace

from capplan.probe.onnx.graph import Graph, Node, names_read
from capplan.probe.onnx.operators.products import HANDLERS as PRODUCTS

_TELL_SHAPES = ("Shape", "Size")
"""Operators whose results do not depend on what their input holds."""


def settle_branches(graph: Graph) -> tuple[Graph, int]:
    """Take the longer branch wherever data decides, as both branches, so that the condition no longer matters.

    The longer branch has more products (matrix products, convolutions), and of equal ones more operators.

    Returns:
        The graph, and in how many nodes data decided.
    """
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
    branches = [each for each in attributes.values() if isinstance(each, Graph)]
    if node.operator == "If" and not node.domain and node.inputs[0] in depending and len(branches) == 2:
        longer = max(branches, key=_length)
        return replace(node, attributes={**attributes, "then_branch": longer, "else_branch": longer}), count + 1
    return replace(node, attributes=attributes), count


def _length(graph: Graph) -> tuple[int, int]:
    inner = [_length(each) for node in graph.nodes for each in node.graphs]
    products = sum(node.full_operator in PRODUCTS for node in graph.nodes)
    return products + sum(each[0] for each in inner), len(graph.nodes) + sum(each[1] for each in inner)
