"""ONNX's own test cases for its operators, each a graph of one node with inputs and outputs, as the oracle."""

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from capplan.probe.onnx.infer import ShapeInference
from capplan.probe.onnx.network import OnnxNetwork
from capplan.probe.onnx.parse import model_from
from capplan.probe.onnx.rewrite import hoist_constants

OPERATORS = [
    "Abs",
    "Acos",
    "Acosh",
    "AffineGrid",
    "And",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "BlackmanWindow",
    "Ceil",
    "CenterCropPad",
    "Concat",
    "ConstantOfShape",
    "Conv",
    "ConvTranspose",
    "Cos",
    "Cosh",
    "DFT",
    "DepthToSpace",
    "Det",
    "DynamicQuantizeLinear",
    "Elu",
    "Erf",
    "Exp",
    "Expand",
    "Flatten",
    "Floor",
    "Gather",
    "GatherND",
    "Gelu",
    "Gemm",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "GridSample",
    "GroupNormalization",
    "HannWindow",
    "HardSigmoid",
    "HardSwish",
    "Hardmax",
    "Identity",
    "InstanceNormalization",
    "IsInf",
    "IsNaN",
    "LRN",
    "LayerNormalization",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "LpNormalization",
    "MatMul",
    "MatMulInteger",
    "Mean",
    "MeanVarianceNormalization",
    "Mish",
    "Neg",
    "NonZero",
    "OptionalGetElement",
    "Or",
    "PRelu",
    "Pad",
    "QLinearConv",
    "QLinearMatMul",
    "RMSNormalization",
    "Reciprocal",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMean",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    "Relu",
    "Reshape",
    "Round",
    "STFT",
    "Scatter",
    "SequenceInsert",
    "Shape",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Size",
    "Slice",
    "Softmax",
    "Softplus",
    "Softsign",
    "Split",
    "SplitToSequence",
    "Sqrt",
    "Squeeze",
    "Sum",
    "SwiGLU",
    "Swish",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
    "Tile",
    "Transpose",
    "Trilu",
    "Unsqueeze",
    "Upsample",
    "Where",
    "Xor",
]
"""Operators whose values agree with ONNX's in every test case that torch has the number formats for."""

SHAPES_ONLY = "ArgMax Attention AveragePool ConvInteger Dropout GRU LSTM MaxPool RNN Resize ReverseSequence Selu TopK"
"""Operators whose shapes and dtypes agree in every test case; values of some differ in a mode that PyTorch lacks."""


@cache
def all_cases() -> tuple[Any, ...]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():  # ONNX's cases divide by zero and overflow on purpose
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    return tuple(case for case in found if case.model is not None and len(case.model.graph.node) == 1)


def cases(operator: str) -> list[Any]:
    return [
        case
        for case in all_cases()
        if case.model.graph.node[0].op_type == operator and case.model.opset_import[0].version >= 7
    ]


def run(case: Any, inputs: list[Any]) -> list[Any]:
    model = hoist_constants(model_from(case.model, Path(case.name)))
    network = OnnxNetwork(model, ShapeInference(Path(case.name)))
    by_name = dict(zip((port.name for port in case.model.graph.input), inputs, strict=True))
    return list(network(*(as_tensors(by_name[port.name]) for port in model.graph.inputs)))


def as_tensors(value: Any) -> Any:
    return [as_tensors(each) for each in value] if isinstance(value, list) else torch.tensor(numpy.array(value))


def has_dtypes(values: list[Any]) -> bool:
    return all(
        has_dtypes(value) if isinstance(value, list) else numpy.asarray(value).dtype.name in NUMPY_DTYPES
        for value in values
        if value is not None
    )


NUMPY_DTYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_gives_what_onnx_expects(operator: str) -> None:
    checked = 0
    for case in cases(operator):
        for inputs, outputs in case.data_sets:
            if not has_dtypes([*inputs, *outputs]):
                continue
            for made, wanted in zip(run(case, inputs), outputs, strict=False):
                if isinstance(wanted, list):
                    continue
                assert made.shape == wanted.shape, case.name
                assert numpy.dtype(str(made.dtype).removeprefix("torch.")) == wanted.dtype, case.name
                numpy.testing.assert_allclose(made.numpy(), wanted, rtol=1e-3, atol=1e-3, err_msg=case.name)
                checked += 1
    assert checked or operator in ("OptionalGetElement", "SequenceInsert", "SplitToSequence")


@pytest.mark.parametrize("operator", SHAPES_ONLY.split())
def test_an_operator_gives_the_shapes_that_onnx_expects(operator: str) -> None:
    checked = 0
    for case in cases(operator):
        for inputs, outputs in case.data_sets:
            if not has_dtypes([*inputs, *outputs]):
                continue
            try:
                results = run(case, inputs)
            except KeyError:  # the score matrix of Attention, which no fused kernel gives out
                continue
            for made, wanted in zip(results, outputs, strict=False):
                assert made.shape == wanted.shape, case.name
                checked += 1
    assert checked


def network_of(node: Any, inputs: dict[str, list[int]], *, opset: int) -> OnnxNetwork:
    from onnx import TensorProto, helper

    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    axis = helper.make_tensor("axis", TensorProto.INT64, [], [-2])
    model = helper.make_model(
        helper.make_graph([node], "g", ports, [output], [axis]),
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)],
    )
    return OnnxNetwork(model_from(model, Path("net.onnx")), ShapeInference(Path("net.onnx")))


@pytest.mark.parametrize("inputs", [["x", "", "axis"], ["x"]], ids=["stated", "by default"])
def test_the_axis_of_a_fourier_transform_counts_the_two_parts_of_a_number(inputs: list[str]) -> None:
    """ONNX's DFT of opset 20 transforms axis -2 of [batch, time, 1], the time, if nothing else is stated."""
    from onnx import helper

    network = network_of(helper.make_node("DFT", inputs, ["y"], onesided=1), {"x": [4, 3, 16, 1]}, opset=20)
    (made,) = network(torch.ones(4, 3, 16, 1))
    assert made.shape == (4, 3, 9, 2)
    assert made[..., 0, 0].flatten().tolist() == [16.0] * 12  # the sum of each row stands first


@pytest.mark.parametrize(("opset", "channels_of_a_scale"), [(18, 2), (21, 1)])
def test_opset_18_scales_groups_and_opset_21_channels(opset: int, channels_of_a_scale: int) -> None:
    """ONNX's GroupNormalization: `scale` and `bias` are of shape (num_groups) in opset 18, of shape (C) in opset 21."""
    from onnx import helper

    data = numpy.random.default_rng(0).standard_normal((2, 4, 3, 3)).astype(numpy.float32)
    scale, bias = (numpy.arange(first, first + 4 // channels_of_a_scale, dtype=numpy.float32) for first in (1, 5))
    groups = data.reshape(2, 2, -1)
    unit = (groups - groups.mean(2, keepdims=True)) / numpy.sqrt(groups.var(2, keepdims=True) + 1e-5)
    by_channel = (values.repeat(channels_of_a_scale).reshape(1, 4, 1, 1) for values in (scale, bias))
    wanted = unit.reshape(data.shape) * next(by_channel) + next(by_channel)
    node = helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)
    network = network_of(node, {"x": [2, 4, 3, 3], "s": [len(scale)], "b": [len(bias)]}, opset=opset)
    (made,) = network(*map(torch.tensor, (data, scale, bias)))
    numpy.testing.assert_allclose(made.numpy(), wanted, rtol=1e-4, atol=1e-4)


def test_the_bias_of_a_product_of_few_bits_is_added() -> None:
    """Weights are not read: a linear layer of zeros gives its bias, the sixth input (com.microsoft.MatMulNBits)."""
    from onnx import helper

    node = helper.make_node(
        "MatMulNBits", ["x", "b", "s", "", "", "bias"], ["y"], domain="com.microsoft", K=32, N=4, bits=4, block_size=32
    )
    shapes = {"x": [2, 32], "b": [4, 1, 16], "s": [4], "bias": [4]}
    network = network_of(node, shapes, opset=17)
    (made,) = network(torch.ones(2, 32), torch.zeros(4, 1, 16), torch.ones(4), torch.arange(4.0))
    assert made.tolist() == [[0.0, 1.0, 2.0, 3.0]] * 2


@pytest.mark.parametrize(
    ("attributes", "sizes"),
    [
        ({"pads": [1, 0, 0, 0]}, (3, 2)),  # one row above: (3 + 1 - 2) + 1 rows, (3 - 2) + 1 columns
        ({"auto_pad": "SAME_UPPER"}, (3, 3)),  # as many as the input has
        ({"auto_pad": "SAME_UPPER", "strides": [2, 2]}, (2, 2)),  # ceil(3 / 2)
    ],
)
def test_a_convolution_of_integers_is_padded_as_one_of_floats_is(
    attributes: dict[str, Any], sizes: tuple[int, int]
) -> None:
    from onnx import TensorProto, helper

    ports = [
        helper.make_tensor_value_info(name, TensorProto.UINT8, shape)
        for name, shape in (("x", [1, 1, 3, 3]), ("w", [1, 1, 2, 2]))
    ]
    output = helper.make_tensor_value_info("y", TensorProto.INT32, [1, 1, *sizes])
    graph = helper.make_graph([helper.make_node("ConvInteger", ["x", "w"], ["y"], **attributes)], "g", ports, [output])
    network = OnnxNetwork(model_from(helper.make_model(graph), Path("net.onnx")), ShapeInference(Path("net.onnx")))
    (result,) = network(torch.ones(1, 1, 3, 3, dtype=torch.uint8), torch.ones(1, 1, 2, 2, dtype=torch.uint8))
    assert result.shape == (1, 1, *sizes)
    assert int(result.max()) == 4  # a window of ones that no padding touches
