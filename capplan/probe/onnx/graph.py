"""An ONNX graph as plain values: nodes, constants, inputs and outputs, checked before anything is made of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

import numpy
from numpy.typing import NDArray

Values: TypeAlias = NDArray[numpy.generic]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A tensor of the file: its shape and dtype as torch names it; `values` is None where they were not read."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    values: Values | None = None

    @property
    def elements(self) -> int:
        return prod(self.shape)


Dim: TypeAlias = int | str | None
"""A dimension of an input: fixed, named, or varying without a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """An input or output of a graph; `dtype` and `shape` are None where the file does not state them."""

    name: str
    dtype: str | None
    shape: tuple[Dim, ...] | None


Attribute: TypeAlias = "int | float | str | Constant | Graph | tuple[int | float | str, ...] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One operator of a graph; an absent optional input or output has an empty name."""

    name: str
    operator: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)

    @property
    def full_operator(self) -> str:
        """Return the operator with its domain, as `com.microsoft.FusedConv`; ONNX's own without."""
        return f"{self.domain}.{self.operator}" if self.domain else self.operator

    @property
    def graphs(self) -> "tuple[Graph, ...]":
        """Return the graphs within the node: branches and loop bodies."""
        return tuple(value for value in self.attributes.values() if isinstance(value, Graph))

    def describe(self) -> str:
        """Describe the node in a message."""
        return f"node {self.name!r} ({self.full_operator})" if self.name else f"a node of {self.full_operator}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Nodes in the order in which they run, with what they read and make."""

    name: str
    nodes: tuple[Node, ...]
    constants: Mapping[str, Constant]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxModel:
    """A model of a file: its graph, the opset of each domain and the program that wrote it.

    `computed` names the constants that the file has as nodes, not as weights.
    """

    graph: Graph
    opsets: Mapping[str, int]
    producer: str
    computed: frozenset[str] = frozenset()

    @property
    def opset(self) -> int:
        """Return the opset of ONNX's own operators."""
        return self.opsets.get("", 1)


def names_read(node: Node) -> Iterator[str]:
    """Yield the names that a node reads, those that the graphs within it take from outside included."""
    yield from (name for name in node.inputs if name)
    for graph in node.graphs:
        yield from names_from_outside(graph)


def names_from_outside(graph: Graph) -> Iterator[str]:
    """Yield the names that a graph reads and does not make."""
    made = {*graph.constants, *(port.name for port in graph.inputs)}
    for node in graph.nodes:
        yield from (name for name in names_read(node) if name not in made)
        made.update(node.outputs)
    yield from (port.name for port in graph.outputs if port.name not in made)
