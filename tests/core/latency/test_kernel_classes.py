"""Which implementation a kernel is taken to run."""

import math

import numpy as np
import pytest

from capplan.core.latency.classes import ALL_CLASSES, CLASS_INDEX, kernel_class
from capplan.core.latency.device import DeviceRates, kernel_peaks
from capplan.core.latency.kernel_time import PeakUse
from capplan.core.latency.op_table import head_padding, instructions
from capplan.core.ops.convolutions import group_count
from capplan.core.ops.flops import kernel_macs, matmul_shape
from capplan.core.trace.types import Affine, Kernel, Operand


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


def test_a_conditional_pointwise_convolution_runs_grouped_kernels():
    # 64 samples are 64 groups of one image, each with its own filter
    assert kernel_class(conditional(per_group=112, out=672, channels=112, window=1)) == "conv grouped"


def test_another_librarys_convolution_is_no_convolution_of_pytorch():
    one = operand(4, 4)
    assert kernel_class(Kernel(name="my.convolution", inputs=(one,), outputs=(one,))) == "pointwise"


def test_folding_divides_for_each_pixel_and_each_window_over_it():
    # 3x3 windows at stride 2: at most 2x2 of them hold a pixel; 7 + 4 x 4 divisions of 4 units, 28x28 pixels, 5 samples
    fold = Kernel(
        name="aten.col2im",
        inputs=(operand(Affine(0, 1), 9, 196),),
        outputs=(operand(Affine(0, 1), 1, 28, 28),),
        attributes={"kernel_size": (3, 3), "stride": (2, 2)},
    )
    assert instructions(fold, 5) == 5 * 28 * 28 * 23 * 4


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


_ISSUE_SHARES = {"conv grouped": 0.75, "attention": 0.5}


def rates(*, issued_flops_per_s: float, has_tensor_cores: bool = True) -> DeviceRates:
    """A GPU whose tensor cores do 400 FLOP/s in 16 bits and 200 in TF32."""
    peaks = np.full(len(PeakUse), 50.0)
    peaks[PeakUse.HALF], peaks[PeakUse.CONVOLUTION_32] = 400.0, 200.0
    on_tensor_cores = np.zeros(len(PeakUse), dtype=bool)
    on_tensor_cores[[PeakUse.HALF, PeakUse.CONVOLUTION_32]] = has_tensor_cores
    return DeviceRates(
        peaks_flops_per_s=peaks,
        printed_flops_per_s=peaks,
        bandwidth_bytes_per_s=1.0,
        printed_bandwidth_bytes_per_s=1.0,
        l2_bytes=1.0,
        units=1.0,
        issued_flops_per_s=issued_flops_per_s,
        issue_share=np.array([_ISSUE_SHARES.get(label.removesuffix(" nhwc"), 0.0) for label in ALL_CLASSES]),
        block_bytes_per_s=np.inf,
        on_tensor_cores=on_tensor_cores,
    )


@pytest.mark.parametrize(
    ("label", "use", "peak"),
    [
        ("conv", PeakUse.HALF, 400.0),
        ("attention", PeakUse.HALF, 1 / (0.5 / 400 + 0.5 / 100)),
        ("conv grouped", PeakUse.HALF, 1 / (0.25 / 400 + 0.75 / 100)),
        (
            "conv grouped nhwc",
            PeakUse.CONVOLUTION_32,
            1 / (0.25 / 200 + 0.75 / 50),
        ),  # TF32: half as much an instruction
        ("conv grouped", PeakUse.VECTOR, 50.0),
    ],
)
def test_what_warps_issue_beside_tensor_cores_slows_groups_and_attention(label: str, use: PeakUse, peak: float) -> None:
    index, in_use = np.array([CLASS_INDEX[label]]), np.array([use])
    assert kernel_peaks(rates(issued_flops_per_s=100.0), label=index, peak_use=in_use) == pytest.approx(peak)
    unknown = kernel_peaks(rates(issued_flops_per_s=np.inf), label=index, peak_use=in_use)
    assert unknown == rates(issued_flops_per_s=100.0).peaks_flops_per_s[use]


def test_unaligned_batched_products_lose_by_what_tensor_cores_gain_over_vectors() -> None:
    """400 against 50 FLOP/s in 16 bits: a loss in logs of log 8, and none where the vector units run the product."""
    assert rates(issued_flops_per_s=np.inf).vector_loss[PeakUse.HALF] == pytest.approx(math.log(8))
    assert rates(issued_flops_per_s=np.inf, has_tensor_cores=False).vector_loss[PeakUse.HALF] == 0.0


@pytest.mark.parametrize(("width", "slowdown"), [(64, 1.0), (72, 96 / 72), (104, 128 / 104), (20, 32 / 20), (0, 1.0)])
def test_fused_attention_multiplies_heads_as_wide_as_the_next_kernel_is_built_for(width: int, slowdown: float) -> None:
    assert head_padding(width) == pytest.approx(slowdown)


def test_an_operator_of_capplan_that_is_not_known_is_not_attention() -> None:
    """A trace of somebody else's may name any; rows of attention need queries and keys."""
    assert kernel_class(Kernel(name="capplan.another", inputs=(operand(4, 4),), outputs=(operand(4),))) != "attention"
