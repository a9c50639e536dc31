"""Recover operators that an exporter decomposed: linear layers, attention, GELU, SiLU and layer norms.

ONNX has no operator for some of PyTorch's, or had none in the opset of a file, so that exporters write several in the
place of one. Run one by one they would take more memory and time than the network that was exported. A pattern's last
node is replaced by the operator that it came from; nodes that nothing reads any more are dropped.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from capplan.probe.onnx.graph import Attribute, Graph, Node, names_read

DOMAIN = "capplan"
"""Domain of the operators that are put in the place of patterns."""

_ON_HOST = frozenset(
    {"Cast", "Sqrt", "Div", "Mul", "Add", "Sub", "Slice", "Gather", "Unsqueeze", "Squeeze", "Concat", "Reshape",
     "Identity", "Pow", "Reciprocal"}
)  # fmt: skip
"""Operators on shapes, which the host computes where all that they read comes from shapes."""

_LAST_AXES = (-1, 2, 3)
"""Axes of a softmax over keys: tensors of attention have three or four dimensions."""


def find_patterns(graph: Graph) -> Graph:
    """Return a graph with the operators that patterns came from in their place."""
    for find in (_linear, _gelu, _silu, _layer_norm, _attention):
        view = _View(graph)
        operators = (find(view, node) for node in graph.nodes if not node.domain)
        recovered = {operator.outputs[0]: operator for operator in operators if operator is not None}
        nodes = tuple(recovered.get(node.outputs[0], node) if node.outputs else node for node in graph.nodes)
        graph = _without_dead_nodes(replace(graph, nodes=nodes))
    return graph


def _without_dead_nodes(graph: Graph) -> Graph:
    """Drop the nodes that nothing reads."""
    live = {port.name for port in graph.outputs}
    kept = []
    for node in reversed(graph.nodes):
        if any(name in live for name in node.outputs):
            kept.append(node)
            live.update(names_read(node))
    return replace(graph, nodes=tuple(reversed(kept)))


class _View:
    """A graph with who makes and who reads each value."""

    def __init__(self, graph: Graph) -> None:
        self._constants = graph.constants
        self.makers = {name: node for node in graph.nodes for name in node.outputs}
        self._readers: dict[str, list[Node]] = {}
        for node in graph.nodes:
            for name in names_read(node):
                self._readers.setdefault(name, []).append(node)
        self._outputs = {port.name for port in graph.outputs}
        self._host: set[str] = set()
        for node in graph.nodes:
            if node.operator in ("Shape", "Size") or (
                node.operator in _ON_HOST and not node.domain and all(map(self.is_host, node.inputs))
            ):
                self._host.update(node.outputs)

    def is_host(self, name: str) -> bool:
        """Return True if a value comes from shapes and numbers alone."""
        constant = self._constants.get(name)
        return name in self._host or (constant is not None and constant.values is not None and constant.elements <= 8)

    def made_by(self, name: str, *operators: str) -> Node | None:
        """Return the node that makes a value, if it is one of these operators."""
        node = self.makers.get(name)
        return node if node is not None and node.operator in operators and not node.domain else None

    def only_reader(self, name: str, *operators: str) -> Node | None:
        """Return the one node that reads a value, if it is one of these operators."""
        readers = self._readers.get(name, ())
        if len(readers) != 1 or name in self._outputs or readers[0].domain or readers[0].operator not in operators:
            return None
        return readers[0]

    def number(self, name: str) -> float | None:
        """Return the value of a constant of one element."""
        constant = self._constants.get(name)
        if constant is None or constant.values is None or constant.elements != 1:
            return None
        return float(constant.values.reshape(-1).tolist()[0])

    def rank(self, name: str) -> int | None:
        """Return the number of dimensions of a constant."""
        constant = self._constants.get(name)
        return None if constant is None else len(constant.shape)

    def split(self, node: Node, wanted: float) -> str | None:
        """Return the other operand of a node one of whose two operands is a number."""
        for at, name in enumerate(node.inputs):
            if _close(self.number(name), wanted):
                return node.inputs[1 - at]
        return None


def _close(value: float | None, wanted: float) -> bool:
    return value is not None and abs(value - wanted) <= 1e-3 * abs(wanted)


def _made(operator: str, last: Node, inputs: Sequence[str], attributes: Mapping[str, Attribute] | None = None) -> Node:
    """Make the node that replaces a pattern's last node."""
    return Node(
        name=last.name, operator=operator, domain=DOMAIN, inputs=tuple(inputs), outputs=last.outputs,
        attributes=attributes or {},
    )  # fmt: skip


def _other(node: Node, name: str) -> str | None:
    if name not in node.inputs or len(node.inputs) != 2:
        return None
    return node.inputs[1] if node.inputs[0] == name else node.inputs[0]


def _linear(view: _View, node: Node) -> Node | None:
    """Match MatMul with a matrix of weights, then Add of a vector of weights."""
    if node.operator != "Add" or len(node.inputs) != 2:
        return None
    for name in node.inputs:
        product, bias = view.made_by(name, "MatMul"), _other(node, name)
        if product is None or bias is None or view.rank(bias) != 1 or view.rank(product.inputs[1]) != 2:
            continue
        if view.only_reader(name, "Add") is node:
            return _made("Linear", node, (*product.inputs, bias))
    return None


def _gelu(view: _View, node: Node) -> Node | None:
    """Match GELU: half of x times one plus erf(x/√2), or the tanh of its polynomial, multiplied in any order."""
    if node.operator != "Mul":
        return None
    for sum_name, half_x in _factors(view, node):
        added = view.made_by(sum_name, "Add")
        inner = None if added is None else view.split(added, 1.0)
        if inner is None:
            continue
        for operator, approximate, find in (("Erf", "none", _erf_source), ("Tanh", "tanh", _tanh_source)):
            curve = view.made_by(inner, operator)
            if curve is not None and find(view, curve) == half_x:
                return replace(_made("Gelu", node, (half_x,), {"approximate": approximate}), domain="")
    return None


def _factors(view: _View, node: Node) -> Iterator[tuple[str, str]]:
    """Yield pairs of factors of a product of three, one of which is a half."""
    first, second = node.inputs
    for alone, other in ((first, second), (second, first)):
        product = view.made_by(other, "Mul")
        if product is not None and _close(view.number(alone), 0.5):
            yield product.inputs[0], product.inputs[1]
            yield product.inputs[1], product.inputs[0]
        if product is not None and (rest := view.split(product, 0.5)) is not None:
            yield alone, rest
            yield rest, alone


def _erf_source(view: _View, erf: Node) -> str | None:
    scaled = view.made_by(erf.inputs[0], "Div", "Mul")
    return None if scaled is None else view.split(scaled, 2**0.5 if scaled.operator == "Div" else 0.5**0.5)


def _tanh_source(view: _View, tanh: Node) -> str | None:
    scaled = view.made_by(tanh.inputs[0], "Mul")
    inner = None if scaled is None else view.split(scaled, 0.7978845608)
    added = None if inner is None else view.made_by(inner, "Add")
    for name in () if added is None else added.inputs:
        cubed = view.made_by(name, "Mul")
        if added is not None and cubed is not None and view.split(cubed, 0.044715) is not None:
            return _other(added, name)
    return None


def _silu(view: _View, node: Node) -> Node | None:
    """Match x times its own sigmoid."""
    if node.operator != "Mul":
        return None
    for name in node.inputs:
        gate = view.made_by(name, "Sigmoid")
        if gate is not None and _other(node, name) == gate.inputs[0] and view.only_reader(name, "Mul") is node:
            return _made("Silu", node, gate.inputs)
    return None


def _layer_norm(view: _View, node: Node) -> Node | None:
    """Return what torch.onnx writes before opset 17: the difference to the mean over the root of its mean square."""
    if node.operator != "Add" or len(node.inputs) != 2:
        return None
    for name in node.inputs:
        scaled, shift = view.made_by(name, "Mul"), _other(node, name)
        if scaled is None or shift is None or view.rank(shift) is None:
            continue
        for quotient_name in scaled.inputs:
            quotient, scale = view.made_by(quotient_name, "Div"), _other(scaled, quotient_name)
            if quotient is None or scale is None or view.rank(scale) is None:
                continue
            if (normalised := _normalised(view, quotient)) is not None:
                source, epsilon = normalised
                attributes: dict[str, Attribute] = {"axis": -(view.rank(scale) or 1), "epsilon": epsilon}
                return _made("LayerNormalization", node, (source, scale, shift), attributes)
    return None


def _normalised(view: _View, quotient: Node) -> tuple[str, float] | None:
    """Return what is normalised by a quotient, and what is added to its variance."""
    difference = view.made_by(quotient.inputs[0], "Sub")
    root = view.made_by(quotient.inputs[1], "Sqrt")
    shifted = None if root is None else view.made_by(root.inputs[0], "Add")
    if difference is None or shifted is None or view.made_by(difference.inputs[1], "ReduceMean") is None:
        return None
    for name in shifted.inputs:
        epsilon = view.number(_other(shifted, name) or "")
        variance = view.made_by(name, "ReduceMean")
        squared = None if variance is None else view.made_by(variance.inputs[0], "Pow", "Mul")
        if epsilon is not None and squared is not None and squared.inputs[0] == quotient.inputs[0]:
            return difference.inputs[0], epsilon
    return None


def _attention(view: _View, node: Node) -> Node | None:
    """Return a product of queries and keys, scaled and masked, its softmax, and the product with values."""
    if node.operator != "MatMul":
        return None
    softmax = _softmax_behind(view, node.inputs[0])
    if softmax is None or softmax.attributes.get("axis", -1) not in _LAST_AXES:
        return None
    scores = _scores(view, softmax)
    if scores is None:
        return None
    product, factors, mask = scores
    query, factors = _unscaled(view, product.inputs[0], factors)
    key, factors = _unscaled(view, product.inputs[1], factors)
    attributes: dict[str, Attribute] = {
        "factors": len(factors),
        "divisors": tuple(at for at, (_, divides) in enumerate(factors) if divides),
    }
    names = (query, key, node.inputs[1], *(name for name, _ in factors), *(() if mask is None else (mask,)))
    return _made("Attention", node, names, attributes)


def _softmax_behind(view: _View, name: str) -> Node | None:
    """Return the softmax that makes a value, also where rows without any key are set to zero."""
    softmax = view.made_by(name, "Softmax")
    if softmax is not None:
        return softmax if view.only_reader(name, "MatMul") is not None else None
    chosen = view.made_by(name, "Where")
    if chosen is None or view.made_by(chosen.inputs[0], "IsNaN") is None:
        return None
    return view.made_by(chosen.inputs[2], "Softmax")


_Factors = tuple[tuple[str, bool], ...]
"""Numbers that scores are multiplied with, and whether they divide instead."""


def _scores(view: _View, softmax: Node) -> tuple[Node, _Factors, str | None] | None:
    """Return the product behind a softmax, the numbers that it is scaled by, and the mask that is added."""
    name: str = softmax.inputs[0]
    factors: _Factors = ()
    mask: str | None = None
    for _ in range(4):
        if (product := view.made_by(name, "MatMul")) is not None:
            return product, factors, mask
        added = view.made_by(name, "Add")
        if added is not None and mask is None:
            scaled = ((term, _unscaled(view, term, ())[0]) for term in added.inputs)
            ahead = next((term for term, bare in scaled if view.made_by(bare, "MatMul") is not None), None)
            if ahead is None:
                return None
            name, mask = ahead, _other(added, ahead)
            continue
        rest, more = _unscaled(view, name, factors)
        if rest == name:
            return None
        name, factors = rest, more
    return None


def _unscaled(view: _View, name: str, factors: _Factors) -> tuple[str, _Factors]:
    """Remove a multiplication by a number of the host from a value."""
    node = view.made_by(name, "Mul", "Div")
    if node is None:
        return name, factors
    first, second = node.inputs
    if view.is_host(second):
        return first, (*factors, (second, node.operator == "Div"))
    if node.operator == "Mul" and view.is_host(first):
        return second, (*factors, (first, False))
    return name, factors
