"""Which implementation a kernel is taken to run."""

from capplan.core.latency.classes import kernel_class
from capplan.core.latency.op_table import instructions
from capplan.core.ops.convolutions import group_count
from capplan.core.ops.flops import kernel_macs, matmul_shape
from capplan.core.trace.affine import Affine
from capplan.core.trace.types import Kernel, Operand


def operand(*sizes: Affine | int, dtype: str = "half", is_weight: bool = False) -> Operand:
    shape = tuple(size if isinstance(size, Affine) else Affine(size) for size in sizes)
    return Operand(dtype=dtype, shape=shape, is_weight=is_weight)


def conditional(*, per_group: int, out: int, channels: int, window: int) -> Kernel:
    """A convolution whose filters are each sample's own: samples are groups of one image, as timm's CondConv2d."""
    return Kernel(
        name="aten.convolution",
        inputs=(operand(1, Affine(0, channels), 14, 14), operand(Affine(0, out), per_group, window, window)),
        outputs=(operand(1, Affine(0, out), 14, 14),),
        attributes={"stride": (1, 1), "padding": (window // 2,) * 2, "dilation": (1, 1), "transposed": False},
    )


def test_groups_that_grow_with_the_batch_follow_from_the_channels():
    pointwise = conditional(per_group=112, out=672, channels=112, window=1)
    assert group_count(pointwise, 1) == 1
    assert group_count(pointwise, 64) == 64
    shape = matmul_shape(pointwise, 64)
    assert (shape.groups, shape.m, shape.n, shape.k) == (64, 14 * 14, 672, 112)
    assert kernel_macs(pointwise, 64) == 64 * 14 * 14 * 672 * 112


def test_a_conditional_depthwise_convolution_runs_the_depthwise_kernels():
    assert kernel_class(conditional(per_group=1, out=672, channels=672, window=5)) == "depthwise 5x5"


def test_a_column_times_a_row_is_pointwise():
    pooled, gates, out = (
        operand(Affine(0, 1), 96, 1, 1),
        operand(Affine(0, 1), 1, 56, 56),
        operand(Affine(0, 1), 96, 56, 56),
    )
    assert kernel_class(Kernel(name="aten.mul", inputs=(pooled, gates), outputs=(out,))) == "pointwise"


def layer_norm(width: int) -> Kernel:
    tokens, weight = operand(Affine(0, 100), width), operand(width, is_weight=True)
    return Kernel(
        name="aten.native_layer_norm", inputs=(tokens, weight, weight), outputs=(tokens,),
        attributes={"normalized_shape": (width,)},
    )  # fmt: skip


def test_a_layer_norm_of_short_rows_occupies_a_block_for_each():
    # one block of 128 threads, vectors of 4, for each of 100 rows: 512 lanes, twice as many for 768 elements
    assert instructions(layer_norm(24), 1) == 100 * 512
    assert instructions(layer_norm(512), 1) == 100 * 512
    assert instructions(layer_norm(768), 1) == 100 * 1024
