"""Depthwise convolutions of channels-last images: cuDNN's kernels for that layout load vectors of 8 channels."""

from dataclasses import replace

import pytest

from capplan.core.gpus.rate_laws import GUESSED_LAWS
from capplan.core.latency.classes import ALL_CLASSES
from capplan.core.latency.device import DeviceRates, device_rates
from capplan.core.latency.op_table import kernel_table
from capplan.core.latency.predict import kernel_work
from capplan.core.latency.step import ExecutedStep
from capplan.core.trace.types import Affine, Kernel, MemoryFormat, Op, Operand, Recording
from capplan.core.workload import Configuration, Framework, Precision, Variant, Workload
from tests.core.latency.latency_cases import gpu


def depthwise(
    channels: int, *, dtype: str = "half", layout: MemoryFormat = MemoryFormat.CHANNELS_LAST, images: int = 1
) -> Recording:
    """One 3x3 depthwise convolution of some images of 14 pixels a side."""
    image = Operand(
        dtype=dtype, shape=(Affine(0, images), Affine(channels), Affine(14), Affine(14)), memory_format=layout
    )
    weight = Operand(
        dtype=dtype, shape=(Affine(channels), Affine(1), Affine(3), Affine(3)), is_weight=True, memory_format=layout
    )
    held = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": channels, "transposed": False}
    kernel = Kernel(name="aten.convolution", inputs=(image, weight), outputs=(image,), attributes=held)
    variant = Variant.HALF if dtype == "half" else Variant.FULL
    return Recording(
        configuration=Configuration(variant=variant), modules=("",), kernels=(kernel,), storages=(), batches=(1,),
        ops=(Op(kernel=0, module=0, reads=(), writes=()),), exact_batch=1,
    )  # fmt: skip


def is_slowed(recording: Recording, precision: Precision = Precision.FP16) -> bool:
    workload = Workload(precision=precision)
    rates = device_rates(gpu(), workload, GUESSED_LAWS)
    assert isinstance(rates, DeviceRates)
    table = kernel_table(ExecutedStep(recording=recording, workload=workload, calibration=None), batches=[1])
    return bool(kernel_work(table, [rates]).misaligned.any())


@pytest.mark.parametrize(("channels", "slowed"), [(64, False), (60, True), (61, True)])
def test_channels_that_are_no_multiple_of_8_slow_a_channels_last_depthwise_convolution(
    channels: int, slowed: bool
) -> None:
    assert is_slowed(depthwise(channels)) is slowed


def test_row_major_images_and_fp32_do_not_mind() -> None:
    assert not is_slowed(depthwise(60, layout=MemoryFormat.CONTIGUOUS))
    assert not is_slowed(depthwise(60, dtype="float32"), Precision.FP32)


def arithmetic(recording: Recording, *, torch: tuple[int, int], precision: Precision = Precision.FP16) -> float:
    """Return the FLOPs that the time model counts for a convolution."""
    workload = Workload(precision=precision, torch_version=torch)
    rates = device_rates(gpu(), workload, GUESSED_LAWS)
    assert isinstance(rates, DeviceRates)
    step = ExecutedStep(recording=recording, workload=workload, calibration=None)
    return float(kernel_work(kernel_table(step, batches=[1]), [rates]).flops.sum())


def test_a_depthwise_convolution_of_2_to_the_31_elements_is_not_split_since_torch_2() -> None:
    # 171,197 images of 64 channels and 14 x 14 pixels are 2,147,495,168 elements, 11,520 more than 2^31; one less is
    # below it. An output takes 9 products; unsplit, the law's 0.05 FLOP for each of its row's 64 x 14 elements.
    outputs = 171_197 * 64 * 196
    beyond, below = depthwise(64, images=171_197), depthwise(64, images=171_196)
    assert outputs >= 2**31 > outputs - 64 * 196
    assert arithmetic(beyond, torch=(2, 1)) == pytest.approx(outputs * 0.05 * 64 * 14)
    assert arithmetic(beyond, torch=(1, 13)) == pytest.approx(outputs * 18)
    assert arithmetic(below, torch=(2, 1)) == pytest.approx((outputs - 64 * 196) * 18)
    row_major = depthwise(64, images=171_197, layout=MemoryFormat.CONTIGUOUS)
    assert arithmetic(row_major, torch=(2, 1)) == pytest.approx(outputs * 18)
    single = depthwise(64, images=171_197, dtype="float32")
    assert arithmetic(single, torch=(2, 1), precision=Precision.FP32) == pytest.approx(outputs * 18)


def dense(
    channels: int, out: int, *, window: int, layout: MemoryFormat = MemoryFormat.CHANNELS_LAST, groups: int = 1
) -> Recording:
    """One convolution of an image of 14 pixels a side, dense unless in groups."""
    shape = (Affine(0, 1), Affine(channels), Affine(14), Affine(14))
    image = Operand(dtype="half", shape=shape, memory_format=layout)
    weight = Operand(
        dtype="half",
        shape=tuple(map(Affine, (out, channels // groups, window, window))),
        is_weight=True,
        memory_format=layout,
    )
    result = replace(image, shape=(shape[0], Affine(out), *shape[2:]))
    padding = (window // 2, window // 2)
    held = {"stride": (1, 1), "padding": padding, "dilation": (1, 1), "groups": groups, "transposed": False}
    kernel = Kernel(name="aten.convolution", inputs=(image, weight), outputs=(result,), attributes=held)
    return replace(depthwise(64), kernels=(kernel,))


@pytest.mark.parametrize(
    ("channels", "out", "padded"), [(64, 64, False), (60, 64, True), (64, 60, True), (72, 40, False)]
)
def test_dense_channels_last_convolutions_of_uneven_channels_are_padded(channels: int, out: int, padded: bool) -> None:
    workload = Workload(precision=Precision.FP16)
    rates = device_rates(gpu(), workload, GUESSED_LAWS)
    assert isinstance(rates, DeviceRates)
    step = ExecutedStep(recording=dense(channels, out, window=1), workload=workload, calibration=None)
    table = kernel_table(step, batches=[1])
    assert bool(kernel_work(table, [rates]).foreign_layout.any()) is padded


@pytest.mark.parametrize(
    ("channels", "window", "times"), [(3, 7, 2), (16, 3, 3), (18, 3, 3), (24, 3, 1), (64, 3, 1), (18, 1, 1)]
)
def test_compiled_graphs_in_16_bits_leave_few_and_uneven_channels_to_slow_kernels(
    channels: int, window: int, times: int
) -> None:
    # 2 FLOPs for each of the window's products; the guessed law has 3 times as many, of a first layer 2 times. Under
    # autocast, in eager mode and of row-major images the same convolution takes what its products are.
    products = 2 * 14 * 14 * 64 * channels * window**2
    rates = device_rates(gpu(), Workload(precision=Precision.BF16), GUESSED_LAWS)
    assert isinstance(rates, DeviceRates)
    for precision, framework, layout, factor in (
        (Precision.BF16, Framework.COMPILE, MemoryFormat.CHANNELS_LAST, times),
        (Precision.AMP_BF16, Framework.COMPILE, MemoryFormat.CHANNELS_LAST, 1),
        (Precision.BF16, Framework.EAGER, MemoryFormat.CHANNELS_LAST, 1),
        (Precision.BF16, Framework.COMPILE, MemoryFormat.CONTIGUOUS, 1),
    ):
        workload = Workload(precision=precision, framework=framework)
        recording = dense(channels, 64, window=window, layout=layout)
        table = kernel_table(ExecutedStep(recording=recording, workload=workload, calibration=None), batches=[1])
        assert float(kernel_work(table, [rates]).flops.sum()) == pytest.approx(factor * products)


@pytest.mark.parametrize(("width", "narrow", "uneven"), [(2, True, False), (3, True, False), (4, False, False),
    (6, False, True), (8, False, False)])  # fmt: skip
def test_channels_last_groups_of_two_and_three_channels_have_no_fast_kernel(
    width: int, narrow: bool, uneven: bool
) -> None:
    # ResNeXt's groups of 4 channels run at the speed of groups of 8; DLA-46's of 2 and DPN-92's of 3 do not.
    for framework in (Framework.EAGER, Framework.COMPILE):
        workload = Workload(precision=Precision.AMP_FP16, framework=framework)
        rates = device_rates(gpu(), workload, GUESSED_LAWS)
        assert isinstance(rates, DeviceRates)
        recording = dense(32 * width, 32 * width, window=3, groups=32)
        table = kernel_table(ExecutedStep(recording=recording, workload=workload, calibration=None), batches=[1])
        assert (ALL_CLASSES[int(table.label[0])] == "conv grouped narrow nhwc") is narrow
        assert bool(kernel_work(table, [rates]).misaligned.any()) is uneven
        assert float(kernel_work(table, [rates]).flops.sum()) == pytest.approx(2 * 196 * 32 * width * width * 9)
