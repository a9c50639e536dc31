"""ONNX files of a few hundred bytes that ask for gigabytes: each is refused within a second and 200 MB."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
from onnx import TensorProto, helper
from typer.testing import CliRunner

from capplan.cli.main import app
from capplan.errors import UsageError
from capplan.probe.inputs.grammar import parse_request
from capplan.probe.onnx.parse import read_model
from capplan.probe.target.resolve import load_target
from capplan.probe.trace.tracer import trace_target
from tests.probe.onnx.test_onnx import functions_of, save, tensor
from tests.refusals import assert_refused


def numbers(name: str, *values: int) -> Any:
    return helper.make_tensor(name, TensorProto.INT64, [len(values)], values)


def number(name: str, value: int) -> Any:
    return helper.make_tensor(name, TensorProto.INT64, [], [value])


def graph_of(nodes: list[Any], *constants: Any) -> Any:
    made = helper.make_graph(nodes, "g", [tensor("x", ["n", 4])], [tensor("y", ["n", "m"])], list(constants))
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


def reshaped(levels: int) -> Any:
    """Join a constant with itself, and what comes of that: 20 levels are a million numbers, 34 are 17 billion."""
    nodes = [helper.make_node("Concat", [f"k{n}", f"k{n}"], [f"k{n + 1}"], axis=0) for n in range(levels)]
    return graph_of([*nodes, helper.make_node("Reshape", ["x", f"k{levels}"], ["y"])], numbers("k0", 1))


def ranged(levels: int) -> Any:
    """Give numbers that were doubled often for the start of a range, which is one number."""
    nodes = [helper.make_node("Concat", [f"k{n}", f"k{n}"], [f"k{n + 1}"], axis=0) for n in range(levels)]
    ends = [f"k{levels}"] * 3
    return graph_of(
        [*nodes, helper.make_node("Range", ends, ["r"]), helper.make_node("Add", ["x", "r"], ["y"])], numbers("k0", 1)
    )


def doubled_weights(levels: int) -> Any:
    """Double numbers of a weight beside a size that depends on data, so that the model is run with data in the end."""
    nodes = [helper.make_node("Concat", [f"k{n}", f"k{n}"], [f"k{n + 1}"], axis=0) for n in range(levels)]
    sized = helper.make_node("ConstantOfShape", ["x"], ["s"])
    joined = helper.make_node("Tile", [f"k{levels}", "s"], ["y"])
    return graph_of([*nodes, sized, joined], numbers("k0", 1))


def filled(size: int) -> Any:
    value = helper.make_tensor("value", TensorProto.INT64, [1], [1])
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["big"], value=value),
        helper.make_node("Concat", ["big", "big"], ["more"], axis=0),
        helper.make_node("Reshape", ["x", "more"], ["y"]),
    ]
    return graph_of(nodes, numbers("shape", size))


def looped(rounds: int) -> Any:
    """Make a loop in a loop in a loop, of so many rounds each."""

    def body(depth: int) -> Any:
        ins = [
            helper.make_tensor_value_info(f"i{depth}", TensorProto.INT64, []),
            helper.make_tensor_value_info(f"c{depth}", TensorProto.BOOL, []),
            tensor(f"v{depth}", ["n", 4]),
        ]
        loop = ["rounds", "", f"v{depth}"]
        inner = (
            helper.make_node("Loop", loop, [f"w{depth}"], body=body(depth + 1))
            if depth < 2
            else helper.make_node("Relu", [f"v{depth}"], [f"w{depth}"])
        )
        kept = helper.make_node("Identity", [f"c{depth}"], [f"d{depth}"])
        outs = [helper.make_tensor_value_info(f"d{depth}", TensorProto.BOOL, []), tensor(f"w{depth}", ["n", 4])]
        return helper.make_graph([inner, kept], f"b{depth}", ins, outs)

    return graph_of([helper.make_node("Loop", ["rounds", "", "x"], ["y"], body=body(0))], number("rounds", rounds))


EXPANDED = [
    helper.make_node("Expand", ["k", "s"], ["e"]),
    helper.make_node("Add", ["e", "k"], ["f"]),
    helper.make_node("Reshape", ["x", "f"], ["y"]),
]
RANGED = [helper.make_node("Range", ["a", "b", "c"], ["r"]), helper.make_node("Reshape", ["x", "r"], ["y"])]
MODELS = {
    "doubled 20 times": reshaped(20),
    "doubled 24 times": reshaped(24),
    "doubled 34 times": reshaped(34),
    "doubled 60 times": reshaped(60),
    "doubled 40 times with data": doubled_weights(40),
    "a range from 2^18 numbers": ranged(18),
    "filled": filled(2**22 - 1),
    "expanded": graph_of(EXPANDED, numbers("k", 1), numbers("s", 2**34)),
    "a long range": graph_of(RANGED, number("a", 0), number("b", 4_000_000), number("c", 1)),
    "functions of 2^18 nodes": functions_of(*[(f"F{n}", [f"F{n + 1}"] * 2) for n in range(18)], ("F18", ["Relu"])),
    "loops in loops": looped(4096),
}


def trace(path: Path) -> Any:
    return trace_target(load_target(str(path), request=parse_request()))


@pytest.fixture(scope="module", autouse=True)
def _loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Trace once, so that what is imported on first use is not counted to a refusal."""
    model = graph_of([helper.make_node("Relu", ["x"], ["y"])])
    trace(save(tmp_path_factory.mktemp("first") / "relu.onnx", model))


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_a_small_file_that_asks_for_much_is_refused_at_once(model: Any, tmp_path: Path) -> None:
    path = save(tmp_path / "hostile.onnx", model)
    assert_refused(lambda: trace(path), path=str(tmp_path))


@pytest.mark.parametrize("count", [1, 5])
def test_a_node_with_another_number_of_inputs_than_its_operator_takes_is_refused(count: int, tmp_path: Path) -> None:
    path = save(tmp_path / "inputs.onnx", graph_of([helper.make_node("Mul", ["x"] * count, ["y"])]))
    with pytest.raises(UsageError, match=f"a node of Mul has {count} inputs; it takes 2"):
        trace(path)


def test_a_node_without_its_output_is_refused(tmp_path: Path) -> None:
    nodes = [helper.make_node("Identity", ["x"], []), helper.make_node("Relu", ["x"], ["y"])]
    path = save(tmp_path / "outputs.onnx", graph_of(nodes))
    with pytest.raises(UsageError, match="a node of Identity has 0 outputs of 1"):
        trace(path)


def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    model = graph_of([helper.make_node("Fancy", ["x"], ["y"], domain="com.example")])
    path = tmp_path / "name.onnx"
    path.write_bytes(model.SerializeToString().replace(b"com.example", b"com.ex\xffmple"))
    with pytest.raises(UsageError, match=r"not UTF-8|damaged"):
        read_model(path)


@pytest.mark.parametrize("domain", ["aten", "prim", "9lives", "d\u00e9j\u00e0"])
def test_an_operator_of_any_domain_is_uncounted_and_defines_nothing_else(domain: str, tmp_path: Path) -> None:
    path = save(tmp_path / "odd.onnx", graph_of([helper.make_node("Fancy", ["x"], ["y"], domain=domain)]))
    assert trace(path).parameter_count == 0


@pytest.mark.parametrize("command", ["plan", "analyze"])
@pytest.mark.slow
def test_a_name_is_no_markup_in_an_answer_in_markdown(command: str, tmp_path: Path) -> None:
    path = save(tmp_path / "<script>alert(1).onnx", graph_of([helper.make_node("Relu", ["x"], ["y"])]))
    more = ["--gpu", "l4", "--batch", "2"] if command == "plan" else []
    done = CliRunner().invoke(app, [command, str(path), *more, "--format", "md"])
    assert done.exit_code == 0
    assert "<script" not in done.output
    assert "&lt;script" in done.output
