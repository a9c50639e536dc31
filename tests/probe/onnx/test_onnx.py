import warnings
from pathlib import Path
from typing import Any

import numpy
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn

from capplan.app.models import open_model
from capplan.core.ops.flops import kernel_macs, uncounted
from capplan.core.workload import Configuration, Layout, Training, Variant
from capplan.errors import TraceError, UsageError
from capplan.probe.inputs.grammar import ModelRequest, parse_request
from capplan.probe.onnx.network import module_path
from capplan.probe.onnx.parse import read_model
from capplan.probe.onnx.skeleton import read_skeleton
from capplan.probe.target.resolve import load_target
from capplan.probe.target.types import Target
from capplan.probe.trace.tracer import trace_target


class Block(nn.Module):
    """Every pattern that an exporter takes apart: linear with bias, attention, GELU, SiLU, layer norm."""

    def __init__(self, *, by_hand: bool = False) -> None:
        super().__init__()
        self.by_hand = by_hand  # older opsets cannot say scaled_dot_product_attention
        self.norm = nn.LayerNorm(32)
        self.qkv = nn.Linear(32, 96)
        self.out = nn.Linear(32, 32)
        self.up = nn.Linear(32, 64)
        self.down = nn.Linear(64, 32)
        for parameter in self.parameters():  # the exporter writes weights of equal values once
            nn.init.normal_(parameter)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = x.shape
        query, key, value = self.qkv(self.norm(x)).reshape(batch, tokens, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        if self.by_hand:
            mixed = torch.softmax(query @ key.transpose(-2, -1) / 8**0.5, dim=-1) @ value
        else:
            mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, 32))
        return x + self.down(nn.functional.gelu(self.up(x))) + nn.functional.silu(x)


def export(path: Path, module: nn.Module, shape: tuple[int, ...], *, opset: int = 17, dynamic: bool = True) -> Path:
    axes = {"x": {0: "batch"}} if dynamic else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(), (torch.rand(shape),), str(path), dynamo=False, opset_version=opset, input_names=["x"],
            dynamic_axes=axes,
        )  # fmt: skip
    return path


def find(path: Path, **options: Any) -> Target:
    return load_target(str(path), request=parse_request(**options))


def operators(target: Target, configuration: Configuration = Configuration()) -> dict[str, int]:  # noqa: B008
    recording = trace_target(target, configurations=[configuration]).recording(configuration)
    counts = recording.calls_per_kernel()
    found: dict[str, int] = {}
    for kernel, count in zip(recording.kernels, counts, strict=True):
        found[kernel.name] = found.get(kernel.name, 0) + count
    return found


def macs(target: Target, batch: int, configuration: Configuration = Configuration()) -> int:  # noqa: B008
    recording = trace_target(target, configurations=[configuration]).recording(configuration)
    return sum(kernel_macs(recording.kernels[op.kernel], batch) for op in recording.ops)


# per token: qkv 32·96, out 32·32, up and down 32·64 each; attention of 10 tokens: 4 heads · 10 · 10 · (8 + 8)
BLOCK_MACS = 10 * (32 * 96 + 32 * 32 + 2 * 32 * 64) + 4 * 10 * 10 * 16
BLOCK_PARAMETERS = 64 + 33 * 96 + 33 * 32 + 33 * 64 + 65 * 32


@pytest.fixture(scope="module")
def block(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(tmp_path_factory.mktemp("block") / "block.onnx", Block(), (2, 10, 32))


def test_an_onnx_file_counts_as_the_code_that_it_was_exported_from(block: Path) -> None:
    target = find(block)
    assert [macs(target, batch) for batch in (1, 7)] == [BLOCK_MACS, 7 * BLOCK_MACS]
    trace = trace_target(target)
    assert trace.parameter_count == BLOCK_PARAMETERS
    assert trace.recordings[0].exact_batch is None
    assert "norm" in trace.recordings[0].modules


@pytest.mark.parametrize("opset", [11, 13, 14, 17, 20])
def test_patterns_are_found_in_every_opset(tmp_path: Path, opset: int) -> None:
    module = Block(by_hand=opset < 14)
    found = operators(find(export(tmp_path / "block.onnx", module, (2, 10, 32), opset=opset)))
    assert found["capplan.attention"] == 1
    assert found["aten.gelu"] == found["aten.silu"] == 1
    assert found["aten.native_layer_norm"] == 1
    assert found["aten.addmm"] == 4
    assert not {"aten.erf", "aten.pow", "aten._softmax", "aten.bmm", "aten.mm"} & set(found)


@pytest.mark.parametrize(
    "configuration",
    [
        Configuration(variant=Variant.HALF),
        Configuration(variant=Variant.AMP),
        Configuration(layout=Layout.NHWC),
        Configuration(training=Training()),
    ],
)
def test_it_is_recorded_in_every_configuration(block: Path, configuration: Configuration) -> None:
    factor = 1 if configuration.training is None else 2  # each backward takes at least as much again
    assert macs(find(block), 2, configuration) >= factor * 2 * BLOCK_MACS


def test_half_precision_reaches_casts_inside_the_graph(tmp_path: Path) -> None:
    class Casting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear((x > 0).float())

    target = find(export(tmp_path / "net.onnx", Casting(), (2, 4)))
    assert macs(target, 3, Configuration(variant=Variant.HALF)) == 3 * 16


def test_the_networks_own_values_are_kept(tmp_path: Path) -> None:
    """Run the same input through the module and through a network that was given its weights."""
    module = Block()
    path = export(tmp_path / "block.onnx", module, (2, 10, 32))
    network = find(path).build()
    values = {each.name: onnx.numpy_helper.to_array(each) for each in onnx.load(path).graph.initializer}
    by_constant = {weight.constant.name: weight for weight in network._weights}  # type: ignore[union-attr]
    for name, weight in by_constant.items():
        owner = network.get_submodule(weight.path)
        getattr(owner, weight.name).data.copy_(torch.tensor(values[name]))
    x = torch.rand(3, 10, 32).double()  # in double precision, so that the order of sums does not matter
    torch.testing.assert_close(network.double()(x)[0], module.double()(x), rtol=1e-9, atol=1e-6)


def test_a_fixed_batch_is_the_only_one(tmp_path: Path) -> None:
    path = export(tmp_path / "fixed.onnx", nn.Conv2d(3, 4, 3), (5, 3, 8, 8), dynamic=False)
    target = find(path)
    assert target.only_batch == 5
    assert macs(target, 5) == 5 * 36 * 4 * 27
    with pytest.raises(UsageError, match="fixed batch of 5"):
        target.make_inputs(4, device="meta")
    assert find(path, inputs=["x=Nx3x8x8"]).only_batch is None  # nothing inside fixes it
    assert macs(find(path, inputs=["x=Nx3x8x8"]), 4) == 4 * 36 * 4 * 27


def model_of(
    nodes: list[Any],
    inputs: list[Any],
    outputs: list[Any],
    initializers: list[Any] = [],  # noqa: B006
    *,
    opset: int = 17,
    **more: Any,
) -> Any:
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *more.pop("opsets", ())])


def tensor(name: str, shape: list[Any], kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def save(path: Path, model: Any) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def test_the_first_axis_that_varies_is_the_batch_and_others_are_assumed(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["ids", "w"], ["y"])]
    model = model_of(
        nodes, [tensor("ids", ["batch", "tokens", 8])], [tensor("y", None)],
        [helper.make_tensor("w", TensorProto.FLOAT, [8, 2], [0.0] * 16)],
    )  # fmt: skip
    path = save(tmp_path / "text.onnx", model)
    target = find(path)
    assert any("'tokens'" in note and "128" in note and "⟨seq-len⟩" in note for note in target.notes)
    assert macs(target, 2) == 2 * 128 * 16
    assert macs(find(path, seq_len=10), 2) == 2 * 10 * 16
    assert macs(find(path, inputs=["ids=Nx5x8"]), 2) == 2 * 5 * 16
    with pytest.raises(UsageError, match="takes ids"):
        find(path, inputs=["tokens=Nx5x8"])
    with pytest.raises(UsageError, match="3 dimensions"):
        find(path, inputs=["ids=Nx5"])


def test_an_unknown_operator_is_counted_as_uncounted_and_named(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["h"]),
        helper.make_node("Fancy", ["h"], ["y"], domain="my.ops"),
    ]
    domain = helper.make_opsetid("my.ops", 1)
    path = save(
        tmp_path / "net.onnx", model_of(nodes, [tensor("x", ["n", 4])], [tensor("y", ["n", 6])], opsets=[domain])
    )
    target = find(path)
    (note,) = [each for each in target.notes if "Fancy" in each]
    assert "formulas={'my_ops::Fancy'" in note
    recording = trace_target(target).recording(Configuration())
    assert uncounted(recording) == ("1 × my_ops::Fancy",)
    kernel = next(each for each in recording.kernels if each.name == "my_ops.Fancy")
    assert kernel.outputs[0].shape_at(3) == (3, 6)  # as the file states
    model = open_model(
        ModelRequest(words=str(path)),
        formulas={"my_ops::Fancy": lambda call: 10 * call.inputs[0][0] * call.inputs[0][1]},
    )
    counted = model.recording(Configuration())
    (with_formula,) = [each for each in counted.kernels if each.name == "my_ops.Fancy"]
    assert with_formula.flops is not None
    assert with_formula.flops.at(3) == 120


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", ["int4", "uint4"])
def test_weights_of_four_bits_are_counted_packed_and_multiplied_whole(kind: str, axis: int, tmp_path: Path) -> None:
    """Weights [16, 24] with a scale and zero point for each block of 8 along an axis, as opset 21 writes them."""
    code = getattr(TensorProto, kind.upper())
    scales = (2, 24) if axis == 0 else (16, 3)
    zeros = helper.make_tensor("zero", code, scales, [0] * (scales[0] * scales[1]))
    nodes = [
        helper.make_node("DequantizeLinear", ["packed", "scale", "zero"], ["w"], axis=axis, block_size=8),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    model = model_of(nodes, [tensor("x", ["n", 16])], [tensor("y", ["n", 24])], opset=21)
    packed = helper.make_tensor("packed", code, (16, 24), [1] * 384)
    scale = helper.make_tensor("scale", TensorProto.FLOAT, scales, [1.0] * (scales[0] * scales[1]))
    model.graph.initializer.extend([packed, scale, zeros])
    target = find(save(tmp_path / "net.onnx", model))
    assert macs(target, 5) == 5 * 16 * 24
    trace = trace_target(target)
    (weight,) = [each for each in trace.parameters if each.names == ("packed",)]
    assert weight.elements == 16 * 24 // 2  # bytes


@pytest.mark.parametrize(
    ("operator", "attributes", "shapes"),
    [
        ("TreeEnsembleClassifier", {"classlabels_int64s": [0, 1, 2]}, [(7,), (7, 3)]),
        ("SVMClassifier", {"classlabels_strings": ["a", "b"]}, [(7,), (7, 2)]),
        ("TreeEnsembleRegressor", {"n_targets": 4}, [(7, 4)]),
    ],
)
def test_trees_and_support_vectors_are_recorded_by_name(
    operator: str, attributes: dict[str, Any], shapes: list[tuple[int, ...]], tmp_path: Path
) -> None:
    """Shapes by the operators' descriptions: a label to each row and a score to each class, or the row's targets.

    As skl2onnx writes them: the file says neither the rows nor, between two operators, any shape.
    """
    names = [f"y{index}" for index in range(len(shapes))]
    nodes = [helper.make_node(operator, ["x"], names, domain="ai.onnx.ml", **attributes)]
    outputs = [
        helper.make_tensor_value_info(names[0], TensorProto.INT64 if len(shapes) > 1 else 1, [None] * len(shapes[0]))
    ]
    model = model_of(nodes, [tensor("x", ["n", 8])], outputs, opsets=[helper.make_opsetid("ai.onnx.ml", 3)])
    recording = trace_target(find(save(tmp_path / "net.onnx", model))).recording(Configuration())
    assert uncounted(recording) == (f"1 × ai_onnx_ml::{operator}",)
    (kernel,) = [each for each in recording.kernels if each.name == f"ai_onnx_ml.{operator}"]
    assert [output.shape_at(7) for output in kernel.outputs] == shapes


def test_an_unknown_operator_without_inputs_lies_where_the_network_does(tmp_path: Path) -> None:
    nodes = [helper.make_node("Table", [], ["t"], domain="my.ops"), helper.make_node("Add", ["x", "t"], ["y"])]
    model = model_of(nodes, [tensor("x", ["n", 4])], [tensor("y", ["n", 4])], opsets=[helper.make_opsetid("my.ops", 1)])
    model.graph.value_info.append(tensor("t", [1, 4]))
    target = find(save(tmp_path / "net.onnx", model))
    recording = trace_target(target).recording(Configuration())
    assert uncounted(recording) == ("1 × my_ops::Table",)
    kernel = next(each for each in recording.kernels if each.name == "my_ops.Table")
    assert kernel.outputs[0].shape_at(3) == (1, 4)


@pytest.mark.parametrize("is_outside", [False, True])
def test_a_single_number_is_no_parameter_wherever_it_is_kept(is_outside: bool, tmp_path: Path) -> None:
    """PyTorch's code holds such a scale in Python; the weights are 8 by 4 numbers."""
    weight, scale = (
        onnx.numpy_helper.from_array(numpy.full(shape, 0.5, numpy.float32), name)
        for shape, name in (((8, 4), "w"), ((), "s"))
    )
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Mul", ["y", "s"], ["z"])]
    model = model_of(nodes, [tensor("x", ["N", 8])], [tensor("z", ["N", 4])], [weight, scale])
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=is_outside, location="m.data", size_threshold=0)
    assert trace_target(find(tmp_path / "m.onnx")).parameter_count == 32


def test_weights_outside_the_file_are_never_needed(tmp_path: Path) -> None:
    weight = helper.make_tensor("w", TensorProto.FLOAT, [64, 64], numpy.zeros(4096, numpy.float32).tobytes(), raw=True)
    model = model_of(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], [tensor("x", ["n", 64])], [tensor("y", None)], [weight]
    )
    path = tmp_path / "net.onnx"
    onnx.save(model, path, save_as_external_data=True, location="net.data", size_threshold=0)
    (tmp_path / "net.data").unlink()
    assert macs(find(path), 2) == 2 * 64 * 64
    assert trace_target(find(path)).parameter_count == 4096


def test_weights_are_left_out_of_what_is_parsed(tmp_path: Path) -> None:
    path = export(tmp_path / "net.onnx", nn.Linear(512, 512), (2, 512))
    assert path.stat().st_size > 2**20
    assert len(read_skeleton(path)) < 2**12
    assert [each.shape for each in read_model(path).graph.constants.values()] == [(512, 512), (512,)]


def test_branches_and_loops_run_their_graphs(tmp_path: Path) -> None:
    body = helper.make_graph(
        [helper.make_node("MatMul", ["state", "w"], ["next"]), helper.make_node("Identity", ["go"], ["going"])],
        "body",
        [tensor("step", [], TensorProto.INT64), tensor("go", [], TensorProto.BOOL), tensor("state", None)],
        [tensor("going", [], TensorProto.BOOL), tensor("next", None)],
    )
    constants = [
        helper.make_tensor("w", TensorProto.FLOAT, [8, 8], [0.0] * 64),
        helper.make_tensor("trips", TensorProto.INT64, [], [5]),
        helper.make_tensor("start", TensorProto.BOOL, [], [True]),
    ]
    node = helper.make_node("Loop", ["trips", "start", "x"], ["y"], body=body)
    path = save(tmp_path / "loop.onnx", model_of([node], [tensor("x", ["n", 8])], [tensor("y", None)], constants))
    assert macs(find(path), 3) == 5 * 3 * 64


def branches() -> dict[str, Any]:
    """Return two branches for an input x of 64 channels: x @ W, of 64 x 64 MACs a sample, and x itself."""
    product, same = helper.make_node("MatMul", ["x", "W"], ["p"]), helper.make_node("Identity", ["x"], ["s"])
    return {
        "product": helper.make_graph([product], "product", [], [tensor("p", ["N", 64])]),
        "same": helper.make_graph([same], "same", [], [tensor("s", ["N", 64])]),
    }


def deciding(path: Path, nodes: list[Any], constants: dict[str, Any]) -> Target:
    weights = [onnx.numpy_helper.from_array(numpy.asarray(value), name) for name, value in constants.items()]
    weights.append(onnx.numpy_helper.from_array(numpy.zeros((64, 64), numpy.float32), "W"))
    return find(save(path, model_of(nodes, [tensor("x", ["N", 64])], [tensor("y", ["N", 64])], weights)))


@pytest.mark.parametrize("names", [("product", "same"), ("same", "product")])
def test_where_data_decides_the_longer_branch_is_counted(names: tuple[str, str], tmp_path: Path) -> None:
    holds, fails = (branches()[name] for name in names)
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Greater", ["total", "zero"], ["holds"]),
        helper.make_node("If", ["holds"], ["y"], then_branch=holds, else_branch=fails),
    ]
    target = deciding(tmp_path / "if.onnx", nodes, {"zero": numpy.float32(0)})
    assert macs(target, 3) == 3 * 64 * 64
    assert "data decide which branch of an If runs; the longer one is counted." in target.notes


def test_where_a_shape_decides_its_branch_is_counted(tmp_path: Path) -> None:
    """The 64 channels are not above 65: the branch without a product runs, and no note is needed."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["channels"]),
        helper.make_node("Greater", ["channels", "limit"], ["holds"]),
        helper.make_node("If", ["holds"], ["y"], then_branch=branches()["product"], else_branch=branches()["same"]),
    ]
    target = deciding(tmp_path / "if.onnx", nodes, {"one": numpy.int64(1), "limit": numpy.int64(65)})
    assert macs(target, 3) == 0
    assert not any("branch" in note for note in target.notes)


@pytest.mark.parametrize("comparison", ["Greater", "Less"])
@pytest.mark.parametrize("as_nodes", [True, False], ids=["nodes", "initializers"])
def test_branches_that_call_different_constants_alike_keep_their_own(
    as_nodes: bool, comparison: str, tmp_path: Path
) -> None:
    """The 64 channels are greater than 1: one branch reshapes to [N, 2, 32], the other to [N, 64]."""

    def branch(shape: list[int]) -> Any:
        values = helper.make_tensor("shape", TensorProto.INT64, [len(shape)], shape)
        nodes = [helper.make_node("Constant", [], ["shape"], value=values)] if as_nodes else []
        nodes.append(helper.make_node("Reshape", ["x", "shape"], [f"made{len(shape)}"]))
        return helper.make_graph(nodes, "b", [], [tensor(f"made{len(shape)}", None)], [] if as_nodes else [values])

    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "one"], ["channels"]),
        helper.make_node(comparison, ["channels", "one"], ["holds"]),
        helper.make_node("If", ["holds"], ["y"], then_branch=branch([-1, 2, 32]), else_branch=branch([-1, 64])),
    ]
    one = onnx.numpy_helper.from_array(numpy.int64(1), "one")
    path = save(tmp_path / "if.onnx", model_of(nodes, [tensor("x", ["N", 64])], [tensor("y", None)], [one]))
    (made,) = find(path).build()(torch.zeros(3, 64))
    assert made.shape == ((3, 2, 32) if comparison == "Greater" else (3, 64))


def test_module_paths_come_from_the_names_of_nodes() -> None:
    assert module_path("/layer1/layer1.0/conv1/Conv") == "layer1.0.conv1"
    assert module_path("/encoder/layers/layers.0/self_attention/Add") == "encoder.layers.0.self_attention"
    assert module_path("Conv_12") == ""
    assert module_path("/Relu") == ""


HOSTILE = {
    "empty": b"",
    "text": b"this is not a protocol buffer, whatever its name says",
    "archive": b"PK\x03\x04" + bytes(100),
    "field past the end": b"\x3a\xff\xff\xff\xff\x0f" + bytes(10),
    "endless number": b"\xff" * 64,
    "group": b"\x3b\x3c",
    "deep": b"",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_damaged_files_are_refused_with_the_byte_at_fault(tmp_path: Path, kind: str) -> None:
    content = HOSTILE[kind]
    if kind == "deep":  # graphs in attributes of nodes of graphs, 400 levels
        for _ in range(400):
            content = b"".join(bytes([tag]) + _varint(len(inner)) + inner for tag, inner in [(0x32, content)])
            content = b"\x2a" + _varint(len(content)) + content
            content = b"\x0a" + _varint(len(content)) + content
        content = b"\x3a" + _varint(len(content)) + content
    path = tmp_path / "hostile.onnx"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"byte|empty|archive|not an ONNX file"):
        find(path)


def _varint(value: int) -> bytes:
    made = b""
    while value >= 0x80:
        made += bytes([value & 0x7F | 0x80])
        value >>= 7
    return made + bytes([value])


def test_a_file_cut_off_anywhere_is_refused(tmp_path: Path, block: Path) -> None:
    content = block.read_bytes()
    path = tmp_path / "cut.onnx"
    for at in range(1, len(content), len(content) // 40):
        path.write_bytes(content[:at])
        with pytest.raises(UsageError):
            find(path)


def functions_of(*calls: tuple[str, list[str]]) -> Any:
    """A model whose graph calls the first of some functions, each of which calls others."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    made = [
        helper.make_function(
            "my", name, ["a"], ["o"],
            [helper.make_node(called, ["a"], [f"o{index}" if index else "o"], domain="my" if called[0] == "F" else "")
             for index, called in enumerate(others)],
            opsets,
        )
        for name, others in calls
    ]  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node(calls[0][0], ["x"], ["y"], domain="my")],
        "g",
        [tensor("x", ["n", 4])],
        [tensor("y", ["n", 4])],
    )
    model = helper.make_model(graph, opset_imports=opsets, functions=made)
    model.ir_version = 8
    return model


def test_functions_that_call_themselves_or_multiply_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="its function 'F0' calls itself"):
        read_model(save(tmp_path / "a.onnx", functions_of(("F0", ["F1"]), ("F1", ["F0"]))))
    doubling = [(f"F{index}", [f"F{index + 1}"] * 2) for index in range(30)]
    with pytest.raises(UsageError, match="come to 1,073,741,824 nodes"):  # 2^30
        read_model(save(tmp_path / "b.onnx", functions_of(*doubling, ("F30", ["Relu"]))))
    graph = read_model(save(tmp_path / "c.onnx", functions_of(("F0", ["F1", "F1"]), ("F1", ["Relu"])))).graph
    assert [node.operator for node in graph.nodes] == ["Relu", "Relu"]


def test_a_negative_shape_is_refused_where_it_is_not_the_sign_of_one_that_varies(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    with pytest.raises(UsageError, match="an input has a dimension of -5"):
        find(save(tmp_path / "a.onnx", model_of([node], [tensor("x", [-5, 4])], [tensor("y", [-5, 4])])))
    assert find(save(tmp_path / "b.onnx", model_of([node], [tensor("x", [-1, 4])], [tensor("y", [-1, 4])]))).name


def test_the_batch_is_the_dimension_that_is_called_so(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    weight = onnx.numpy_helper.from_array(numpy.zeros((8, 4), numpy.float32), "w")
    path = save(
        tmp_path / "a.onnx", model_of([node], [tensor("x", ["T", "N", 8])], [tensor("y", ["T", "N", 4])], [weight])
    )
    target = find(path, seq_len=10)
    assert macs(target, 3) == 10 * 3 * 8 * 4
    assert not any("'N'" in note for note in target.notes)


def test_a_cycle_is_named(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="second"),
    ]
    path = save(tmp_path / "net.onnx", model_of(nodes, [tensor("x", [1])], [tensor("b", [1])]))
    with pytest.raises(UsageError, match=r"node 'first' .* reads 'b'.*cycle"):
        find(path)


def test_a_negative_shape_is_named(tmp_path: Path) -> None:
    bad = TensorProto(name="w", data_type=1, dims=[-3, 4])
    path = save(
        tmp_path / "n.onnx",
        model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], [tensor("x", [1, 3])], [tensor("y", None)], [bad]),
    )
    with pytest.raises(UsageError, match=r"'w' has the shape \[-3, 4\]"):
        find(path)


def test_two_gigabytes_of_zeros_are_read_without_memory(tmp_path: Path) -> None:
    """A sparse file that claims 2 GB of values in one initialiser: nothing of it is read."""
    size = 2 * 2**30
    header = TensorProto(name="w", data_type=1, dims=[2**15, 2**14]).SerializeToString()
    raw = b"\x4a" + _varint(size)
    before = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], [tensor("x", ["n", 2**15])], [tensor("y", None)])
    graph = before.graph.SerializeToString()
    before.ClearField("graph")
    initializer = b"\x2a" + _varint(len(header) + len(raw) + size) + header + raw
    path = tmp_path / "huge.onnx"
    with path.open("wb") as file:
        file.write(before.SerializeToString())
        file.write(b"\x3a" + _varint(len(graph) + len(initializer) + size) + graph + initializer)
        file.truncate(file.tell() + size)
    assert macs(find(path), 1) == 2**29


def test_a_bomb_of_shapes_takes_no_memory(tmp_path: Path) -> None:
    """Two ranges of ten million, added as a table of 10^14 elements."""
    constants = [
        helper.make_tensor("a", TensorProto.INT64, [], [0]),
        helper.make_tensor("b", TensorProto.INT64, [], [10_000_000]),
        helper.make_tensor("c", TensorProto.INT64, [], [1]),
        helper.make_tensor("axis", TensorProto.INT64, [1], [1]),
    ]
    nodes = [
        helper.make_node("Range", ["a", "b", "c"], ["r"]), helper.make_node("Unsqueeze", ["r", "axis"], ["column"]),
        helper.make_node("Add", ["r", "column"], ["table"]), helper.make_node("Relu", ["x"], ["y"]),
        helper.make_node("ReduceMax", ["table"], ["z"]),
    ]  # fmt: skip
    path = save(
        tmp_path / "bomb.onnx",
        model_of(nodes, [tensor("x", ["n", 4])], [tensor("y", None), tensor("z", None, TensorProto.INT64)], constants),
    )
    assert trace_target(find(path)).recordings[0].kernels


def test_what_cannot_run_names_its_node(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="/head/MatMul")]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [5, 2], [0.0] * 10)
    path = save(tmp_path / "net.onnx", model_of(nodes, [tensor("x", ["n", 4])], [tensor("y", None)], [weight]))
    with pytest.raises(TraceError, match=r"node '/head/MatMul' .MatMul."):
        trace_target(find(path))


def test_nothing_but_shapes_can_be_given(block: Path) -> None:
    with pytest.raises(UsageError, match="ONNX file"):
        find(block, arg=["depth=2"])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no model or file .*none\.onnx"):
        find(tmp_path / "none.onnx")


def test_old_opsets_are_refused_with_the_way_out(tmp_path: Path) -> None:
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], [tensor("x", [1])], [tensor("y", [1])])
    model.opset_import[0].version = 3
    with pytest.raises(UsageError, match=r"opset 3.*convert_version"):
        find(save(tmp_path / "old.onnx", model))
