"""Parse an ONNX file with the onnx package, and check what it holds: this module is the package's only door."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from capplan.budget import LIMITS
from capplan.errors import UsageError
from capplan.probe.onnx.graph import Attribute, Constant, Dim, Graph, Node, OnnxModel, Port, names_read
from capplan.probe.onnx.skeleton import read_skeleton

OLDEST_OPSET = 7
"""Older opsets give some operators other arguments: broadcasting by axes, batch norm with a spatial flag."""

LARGEST_DIM = 2**40
MOST_NODES = LIMITS.nodes
"""Most operators of a file, those of its functions counted where these are called."""

DTYPES: Mapping[int, str] = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8_e4m3fn",
    18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4_e2m1fn_x2",
    24: "float8_e8m0fnu",
}  # fmt: skip
"""Dtypes as torch names them by their numbers in a file; "int4" and "uint4" hold two elements a byte."""


def import_onnx() -> ModuleType:
    try:
        import onnx
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        raise UsageError(
            "ONNX files need the package onnx: pip install 'capplan[onnx]', or pip install onnx."
        ) from error
    return onnx


def read_model(path: Path) -> OnnxModel:
    """Read a file's graph, without the values of its weights."""
    return model_from(parse_file(path), path)


def parse_file(path: Path) -> Any:
    """Parse a file into the onnx package's message, without the values of large tensors."""
    skeleton = read_skeleton(path)
    onnx = import_onnx()
    from google.protobuf.message import DecodeError

    try:
        return onnx.load_model_from_string(skeleton)
    except DecodeError as error:
        raise UsageError(f"{path} is damaged or not an ONNX file: {error}.") from error


def model_from(message: Any, path: Path) -> OnnxModel:
    """Make the plain values of a parsed file."""
    opsets = {"" if opset.domain == "ai.onnx" else opset.domain: opset.version for opset in message.opset_import}
    if not message.graph.node or not opsets:
        raise UsageError(f"{path} is not an ONNX file: it has no graph or states no opset.")
    if (opset := opsets.get("", OLDEST_OPSET)) < OLDEST_OPSET:
        raise UsageError(
            f"{path} is of opset {opset}; opsets from {OLDEST_OPSET} on are read: convert it with "
            "onnx.version_converter.convert_version."
        )
    if message.functions:
        message = _inlined(message, path)
    reader = _GraphReader(path, opset=opset)
    graph = reader.graph(message.graph, known=())
    return OnnxModel(graph=graph, opsets=opsets, producer=f"{message.producer_name} {message.producer_version}".strip())


def _inlined(message: Any, path: Path) -> Any:
    """Replace calls of a file's own functions by their bodies."""
    from onnx import inliner

    _check_expansion(message, path)
    try:
        return inliner.inline_local_functions(message)
    except (RuntimeError, ValueError) as error:
        raise UsageError(f"{path}: its functions cannot be put in the place of their calls ({error}).") from error


def _check_expansion(message: Any, path: Path) -> None:
    """Refuse functions that call themselves, or one another so often that the graph would fill the memory.

    Thirty functions that each call the next one twice are a file of 3 kB and a graph of a billion nodes.
    """
    bodies = {(function.domain, function.name): function.node for function in message.functions}
    counts: dict[tuple[str, str], int] = {}
    open_calls: list[tuple[str, str]] = []

    def nodes_in(nodes: Any) -> int:
        total = 0
        for node in nodes:
            key = (node.domain, node.op_type)
            total += calls(key) if key in bodies else 1
            for attribute in node.attribute:
                total += sum(nodes_in(graph.node) for graph in (attribute.g, *attribute.graphs))
        return total

    def calls(key: tuple[str, str]) -> int:
        if key in open_calls:
            raise UsageError(f"{path} breaks ONNX's rules: its function {key[1]!r} calls itself.")
        if key not in counts:
            open_calls.append(key)
            counts[key] = nodes_in(bodies[key])
            open_calls.pop()
        return counts[key]

    try:
        total = nodes_in(message.graph.node)
    except RecursionError as error:
        raise UsageError(f"{path}: its functions are nested too deeply.") from error
    if total > MOST_NODES:
        raise UsageError(
            f"{path}: its functions come to {total:,} nodes where they are called; at most {MOST_NODES:,} are read."
        )


class _GraphReader:
    def __init__(self, path: Path, *, opset: int) -> None:
        self._path = path
        self._opset = opset
        self._nodes = 0

    def graph(self, message: Any, *, known: Iterable[str]) -> Graph:
        """Read a graph; `known` are the names that the graph around it made before."""
        constants = {tensor.name: self.constant(tensor) for tensor in message.initializer}
        for tensor in message.sparse_initializer:
            values = self.constant(tensor.values)
            constants[values.name] = Constant(name=values.name, shape=tuple(tensor.dims), dtype=values.dtype)
        inputs = tuple(self._port(port) for port in message.input if port.name not in constants)
        made = {*known, *constants, *(port.name for port in inputs)}
        nodes = []
        for index, operator in enumerate(message.node):
            domain = "" if operator.domain == "ai.onnx" else operator.domain
            named = (operator.name, operator.op_type, domain, *operator.input, *operator.output)
            self._check_texts(*named, *(attribute.name for attribute in operator.attribute))
            if not domain:
                self._check_counts(operator)
            node = Node(
                name=operator.name,
                operator=operator.op_type,
                domain=domain,
                inputs=tuple(operator.input),
                outputs=tuple(operator.output),
                attributes={attribute.name: self._attribute(attribute, made) for attribute in operator.attribute},
            )
            self._nodes += 1
            if self._nodes > MOST_NODES:
                raise self._broken(f"more than {MOST_NODES:,} nodes")
            if (missing := next((name for name in names_read(node) if name not in made), None)) is not None:
                raise self._broken(
                    f"{node.describe()}, number {index} of its graph, reads {missing!r}, which nothing before it "
                    "makes: the graph has a cycle or lacks a node"
                )
            if (again := next((name for name in node.outputs if name and name in made), None)) is not None:
                raise self._broken(f"{node.describe()}, number {index} of its graph, makes {again!r} a second time")
            made.update(name for name in node.outputs if name)
            nodes.append(node)
        outputs = tuple(map(self._port, message.output))
        for port in outputs:
            if port.name not in made:
                raise self._broken(f"no node makes the output {port.name!r}")
        return Graph(name=message.name, nodes=tuple(nodes), constants=constants, inputs=inputs, outputs=outputs)

    def _check_counts(self, message: Any) -> None:
        """Refuse a node with other inputs than its operator takes in the file's opset, or with too few outputs."""
        from onnx import defs

        try:
            schema = defs.get_schema(message.op_type, self._opset, "")
        except defs.SchemaError:  # an operator that is not ONNX's own is reported where it is run
            return
        if not schema.min_input <= len(message.input) <= schema.max_input:
            takes = " to ".join(map(str, sorted({schema.min_input, schema.max_input})))
            raise self._broken(f"a node of {message.op_type} has {len(message.input)} inputs; it takes {takes}")
        if len(message.output) < schema.min_output:
            raise self._broken(f"a node of {message.op_type} has {len(message.output)} outputs of {schema.min_output}")

    def _check_texts(self, *texts: Any) -> None:
        """Refuse names that are not UTF-8, which the onnx package hands over as bytes."""
        if (damaged := next((text for text in texts if not isinstance(text, str)), None)) is not None:
            raise self._broken(f"the name {damaged[:40]!r} is not UTF-8")

    def _attribute(self, message: Any, known: set[str]) -> Attribute:
        kind = message.type
        if kind == 5:
            return self.graph(message.g, known=known)
        if kind == 4:
            return self.constant(message.t)
        if kind in (1, 2):
            return message.f if kind == 1 else message.i  # type: ignore[no-any-return] # a float or an int
        if kind == 3:
            return str(message.s.decode(errors="replace"))
        if kind == 6:
            return tuple(message.floats)
        if kind == 7:
            return tuple(message.ints)
        return tuple(string.decode(errors="replace") for string in message.strings) if kind == 8 else None

    def constant(self, message: Any) -> Constant:
        """Read a tensor: shape, dtype, and its values where the skeleton has them."""
        self._check_texts(message.name)
        what = f"the tensor {message.name[:100]!r}"
        if (dtype := DTYPES.get(message.data_type)) is None:
            raise self._broken(f"{what} has no numbers (type {message.data_type})")
        shape = tuple(int(dim) for dim in message.dims)
        size = 1
        for dim in shape:
            size *= dim
            if not 0 <= dim <= LARGEST_DIM or size > LARGEST_DIM:
                raise self._broken(f"{what} has the shape {list(shape)}")
        return Constant(name=message.name, shape=shape, dtype=dtype, values=self._values(message, dtype, what))

    def _values(self, message: Any, dtype: str, what: str) -> Any:
        has_values = any(
            len(part) for part in (
                message.raw_data, message.float_data, message.int32_data, message.int64_data, message.double_data,
                message.uint64_data,
            )
        )  # fmt: skip
        if not has_values or dtype.startswith(("float8", "float4", "bfloat", "int4", "uint4")):
            return None
        from onnx import numpy_helper

        try:
            return numpy_helper.to_array(message)
        except (ValueError, TypeError) as error:
            raise self._broken(
                f"{what} has values that do not fill its shape {list(message.dims)} ({error})"
            ) from error

    def _port(self, message: Any) -> Port:
        self._check_texts(message.name)
        if not message.type.HasField("tensor_type"):
            return Port(name=message.name, dtype=None, shape=None)
        tensor = message.type.tensor_type
        shape = tuple(map(self._dim, tensor.shape.dim)) if tensor.HasField("shape") else None
        return Port(name=message.name, dtype=DTYPES.get(tensor.elem_type), shape=shape)

    def _dim(self, message: Any) -> Dim:
        if message.HasField("dim_value"):
            value = int(message.dim_value)
            if value > LARGEST_DIM or value < -1:
                raise self._broken(f"an input has a dimension of {value}")
            return value if value > 0 else None  # some exporters write -1 or 0 for a dimension that varies
        self._check_texts(message.dim_param)
        return message.dim_param or None

    def _broken(self, what: str) -> UsageError:
        return UsageError(f"{self._path} breaks ONNX's rules: {what}.")
