"""Values that the onnx package computes beside the shapes are bounded, because joining one with itself doubles it."""

import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402

from capplan.probe.onnx.infer import _longest_value  # noqa: E402


def doubled(times: int) -> "onnx.ModelProto":
    """Return a graph whose constant of 3 elements is joined with itself."""
    start = helper.make_tensor("k0", TensorProto.INT64, [3], [1, 2, 3])
    joins = [helper.make_node("Concat", [f"k{n}", f"k{n}"], [f"k{n + 1}"], axis=0) for n in range(times)]
    return helper.make_model(helper.make_graph(joins, "joined", [], [], initializer=[start]))


def test_a_value_joined_with_itself_doubles() -> None:
    assert _longest_value(doubled(0)) == 0
    assert _longest_value(doubled(1)) == 6
    assert _longest_value(doubled(35)) == 3 * 2**35


def test_a_constant_node_counts_its_elements() -> None:
    value = helper.make_tensor("value", TensorProto.INT64, [4], [1, 2, 3, 4])
    nodes = [
        helper.make_node("Constant", [], ["a"], value=value),
        helper.make_node("Concat", ["a", "a", "a"], ["b"], axis=0),
        helper.make_node("Neg", ["b"], ["c"]),
    ]
    assert _longest_value(helper.make_model(helper.make_graph(nodes, "nodes", [], []))) == 12
