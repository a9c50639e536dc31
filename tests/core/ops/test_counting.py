"""FLOPs and bytes of single kernels, against derivations by hand."""

import pytest

from capplan.core.ops.catalogue import is_counted
from capplan.core.ops.flops import (
    OperatorClass,
    Traffic,
    counted_bytes_fraction,
    kernel_flops,
    kernel_macs,
    matmul_shape,
    operator_class,
    traffic,
    uncounted,
)
from capplan.core.trace.types import Affine, Kernel, Op, Operand, Recording
from capplan.core.workload import Configuration

BATCH = Affine(0, 1)


def operand(*shape: Affine | int, dtype: str = "float32", weight: bool = False, expanded: tuple[int, ...] = ()):
    dims = tuple(dim if isinstance(dim, Affine) else Affine(dim) for dim in shape)
    return Operand(dtype=dtype, shape=dims, is_weight=weight, expanded=expanded)


def kernel(name: str, inputs: list[Operand], outputs: list[Operand], **attributes: object) -> Kernel:
    return Kernel(name=name, inputs=tuple(inputs), outputs=tuple(outputs), attributes=attributes)  # type: ignore[arg-type]


def convolution(*, groups: int = 1, transposed: bool = False, x: tuple, weight: tuple, out: tuple) -> Kernel:
    return kernel(
        "aten.convolution",
        [operand(*x), operand(*weight, weight=True)],
        [operand(*out)],
        groups=groups,
        transposed=transposed,
    )


def test_a_linear_layer_by_hand():
    # y = x Wᵀ + b, x [32, 1000], W [10, 1000]: 320 000 MACs = 640 000 FLOPs; the bias is not counted
    linear = kernel(
        "aten.addmm",
        [operand(10, weight=True), operand(BATCH, 1000), operand(1000, 10, weight=True)],
        [operand(BATCH, 10)],
    )
    assert kernel_macs(linear, 32) == 320_000
    assert kernel_flops(linear, 32) == 640_000
    shape = matmul_shape(linear, 32)
    assert shape is not None
    assert (shape.groups, shape.m, shape.n, shape.k) == (1, 32, 10, 1000)


@pytest.mark.parametrize("name", ["bitsandbytes.gemm_4bit", "aten._weight_int4pack_mm"])
def test_a_linear_layer_of_packed_weights_counts_the_columns_of_its_output(name: str):
    # x [32, 64] by 128 rows of 64 weights, two of which share a byte: 32 · 64 · 128 MACs
    packed = kernel(name, [operand(BATCH, 64), operand(4096, 1, weight=True)], [operand(BATCH, 128)])
    assert kernel_macs(packed, 32) == 32 * 64 * 128


def test_resnets_first_convolution_by_hand():
    # 7x7, 3 -> 64 channels, 112x112 outputs: 112² · 64 · 3 · 49 = 118 013 952 MACs a sample
    stem = convolution(x=(BATCH, 3, 224, 224), weight=(64, 3, 7, 7), out=(BATCH, 64, 112, 112))
    assert kernel_macs(stem, 1) == 118_013_952
    assert kernel_macs(stem, 32) == 32 * 118_013_952
    shape = matmul_shape(stem, 2)
    assert shape is not None
    assert (shape.groups, shape.m, shape.n, shape.k) == (1, 2 * 112 * 112, 64, 147)


def test_a_depthwise_convolution_by_hand():
    # 32 groups of one channel, 3x3, 10x10 outputs: 32 · 100 · 9 MACs
    depthwise = convolution(groups=32, x=(BATCH, 32, 10, 10), weight=(32, 1, 3, 3), out=(BATCH, 32, 10, 10))
    assert kernel_macs(depthwise, 1) == 28_800


def test_a_transposed_convolution_counts_every_input_position():
    # ConvTranspose2d 8 -> 16, k4 s2 on 16x16: each of 256 · 8 inputs meets 16 · 16 weights = 524 288 MACs
    # (../shared/reference/counting.md has the same figure, which thop quadruples)
    transposed = convolution(transposed=True, x=(BATCH, 8, 16, 16), weight=(8, 16, 4, 4), out=(BATCH, 16, 34, 34))
    assert kernel_macs(transposed, 1) == 524_288


def test_the_gradients_of_a_convolution_take_its_products_once_each():
    gradients = kernel(
        "aten.convolution_backward",
        [operand(BATCH, 64, 112, 112), operand(BATCH, 3, 224, 224), operand(64, 3, 7, 7, weight=True)],
        [operand(BATCH, 3, 224, 224), operand(64, 3, 7, 7)],
        groups=1,
        transposed=False,
        output_mask=(1, 1, 0),
    )
    assert kernel_macs(gradients, 1) == 2 * 118_013_952


def test_attention_counts_both_products_and_ignores_the_mask():
    # 12 heads, 197 tokens, width 64: two products of 12 · 197² · 64 MACs
    heads = (BATCH, 12, 197, 64)
    attention = kernel("capplan.attention", [operand(*heads)] * 3, [operand(*heads)], is_causal=True)
    assert kernel_macs(attention, 1) == 2 * 12 * 197 * 197 * 64


def test_the_backward_of_attention_recomputes_the_scores():
    # five products (scores, dV, dP, dQ, dK) where the forward has two
    heads = (BATCH, 12, 197, 64)
    backward = kernel("capplan.attention_backward", [operand(*heads)] * 5, [operand(*heads)] * 3)
    assert kernel_macs(backward, 1) == 5 * 12 * 197 * 197 * 64


def test_a_recurrent_layer_uses_every_matrix_at_every_step():
    # LSTM(32, 64) over 10 steps: 10 · 4 · 64 · (32 + 64) = 245 760 MACs
    lstm = kernel(
        "capplan.rnn",
        [
            operand(10, BATCH, 32),
            operand(1, BATCH, 64),
            operand(1, BATCH, 64),
            operand(256, 32, weight=True),
            operand(256, 64, weight=True),
            operand(256, weight=True),
            operand(256, weight=True),
        ],
        [operand(10, BATCH, 64)],
    )
    assert kernel_macs(lstm, 1) == 245_760


def test_a_registered_formula_wins():
    custom = Kernel(name="my.op", inputs=(), outputs=(), flops=Affine(10, 7))
    assert kernel_flops(custom, 3) == 31


def test_traffic_separates_weights_and_reads_broadcast_values_once():
    add = kernel(
        "aten.add",
        [operand(BATCH, 197, 768), operand(1, 197, 768, weight=True)],
        [operand(BATCH, 197, 768)],
    )
    size = 197 * 768 * 4
    assert traffic(add, 8) == Traffic(read_bytes=8 * size, weight_bytes=size, written_bytes=8 * size)
    expanded = kernel("aten.clone", [operand(BATCH, 1, 768, expanded=(0,))], [operand(BATCH, 1, 768)])
    assert traffic(expanded, 8).read_bytes == 768 * 4


def test_half_takes_two_bytes():
    cast = kernel("aten._to_copy", [operand(BATCH, 10)], [operand(BATCH, 10, dtype="half")])
    assert traffic(cast, 3) == Traffic(read_bytes=120, weight_bytes=0, written_bytes=60)
    assert operator_class(cast) is OperatorClass.CAST


def test_a_lookup_reads_only_the_rows_it_returns():
    embedding = kernel(
        "aten.embedding",
        [operand(50257, 768, weight=True), operand(BATCH, 128, dtype="int64")],
        [operand(BATCH, 128, 768)],
    )
    rows = 2 * 128 * 768 * 4
    assert traffic(embedding, 2) == Traffic(read_bytes=2 * 128 * 8, weight_bytes=rows, written_bytes=rows)


@pytest.mark.parametrize("name", ["aten._embedding_bag", "aten._embedding_bag_forward_only"])
def test_an_embedding_bag_reads_a_row_for_each_index(name: str):
    # 300 indices of 8 bytes pick rows of 64 · 4 bytes of a table of 10,000; ten bags of 64 · 4 bytes are written.
    bags = kernel(
        name, [operand(10_000, 64, weight=True), operand(300, dtype="int64"), operand(10, dtype="int64")],
        [operand(10, 64)],
    )  # fmt: skip
    assert traffic(bags, 1) == Traffic(read_bytes=310 * 8, weight_bytes=300 * 256, written_bytes=2560)


def test_a_bilinear_layer_multiplies_with_a_matrix_that_need_not_be_a_weight():
    # 5 samples of x₁ᵀ W x₂ for 7 outputs, W [7, 3, 4]: 5 · 7 · 3 · 4 = 420 multiply-accumulates
    factors = [operand(5, 3), operand(7, 3, 4), operand(5, 4)]
    assert kernel_macs(kernel("aten._trilinear", factors, [operand(5, 7)]), 1) == 420


def test_euclidean_distances_are_a_product_of_two_columns_more():
    # 30 by 40 pairs of rows of 5 numbers, 8 times: the norms stand in two more columns
    pairs = kernel("aten._euclidean_dist", [operand(8, 30, 5), operand(8, 40, 5)], [operand(8, 30, 40)])
    assert kernel_macs(pairs, 1) == 8 * 30 * 40 * (5 + 2)
    pairwise = kernel("aten._cdist_forward", [operand(8, 20, 5), operand(8, 20, 5)], [operand(8, 20, 20)])
    assert (kernel_macs(pairwise, 1), is_counted(pairwise)) == (0, True)


@pytest.mark.parametrize(("left", "shape"), [(True, (8, 4)), (False, (4, 8))])
def test_reflectors_take_a_dot_product_and_an_update_each(left, shape):
    # six reflectors of length 8, 7, ..., 3 on 4 columns or rows: 2 · 4 · (8 + 7 + 6 + 5 + 4 + 3) = 264, twice
    inputs = [operand(2, 8, 6), operand(2, 6), operand(2, *shape)]
    applied = kernel("aten.ormqr", inputs, [operand(2, *shape)], left=left)
    assert kernel_macs(applied, 1) == 2 * 264


def test_a_matrix_exponential_is_five_products_of_each_matrix():
    # A polynomial of degree 18 in five products (Bader, Blanes, Casas 2019): 5 · 3³ multiply-accumulates for each of 8.
    exponential = kernel("aten.linalg_matrix_exp", [operand(8, 3, 3)], [operand(8, 3, 3)])
    assert kernel_macs(exponential, 1) == 8 * 5 * 27
    assert kernel_flops(exponential, 1) == 2 * 8 * 5 * 27


def test_what_no_formula_knows_is_named_and_weighed():
    known = kernel("aten.relu", [operand(BATCH, 100)], [operand(BATCH, 100)])
    unknown = kernel("my.op", [operand(BATCH, 50)], [operand(BATCH, 50)])
    ops = tuple(Op(kernel=index, module=0, reads=(0,), writes=(1,)) for index in (0, 0, 0, 1, 1))
    recording = Recording(
        configuration=Configuration(),
        modules=("",),
        kernels=(known, unknown),
        ops=ops,
        storages=(),
        batches=(2, 3, 5),
    )
    assert uncounted(recording) == ("2 × my::op",)
    # three relus move 3 · 200 elements, two my::op 2 · 100
    assert counted_bytes_fraction(recording, 1) == 600 / 800


def test_a_complex_product_takes_four_real_ones():
    # [batch, 64] by [64, 64]: 64 · 64 complex products a sample; (a + bi)(c + di) = ac - bd + (ad + bc)i takes four.
    inputs = [operand(BATCH, 64, dtype="complex64"), operand(64, 64, dtype="complex64", weight=True)]
    product = kernel("aten.mm", inputs, [operand(BATCH, 64, dtype="complex64")])
    assert kernel_macs(product, 2) == 4 * 2 * 64 * 64
    assert kernel_flops(product, 2) == 8 * 2 * 64 * 64
