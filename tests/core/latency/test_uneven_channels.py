"""Depthwise convolutions of channels-last images: cuDNN's kernels for that layout load vectors of 8 channels."""

import pytest

from capplan.core.gpus.rate_laws import GUESSED_LAWS
from capplan.core.latency.device import DeviceRates, device_rates
from capplan.core.latency.op_table import kernel_table
from capplan.core.latency.predict import kernel_work
from capplan.core.latency.step import ExecutedStep
from capplan.core.trace.affine import Affine
from capplan.core.trace.types import Kernel, MemoryFormat, Op, Operand, Recording
from capplan.core.workload import Configuration, Precision, Variant, Workload
from tests.core.latency.latency_cases import gpu


def depthwise(channels: int, *, dtype: str = "half", layout: MemoryFormat = MemoryFormat.CHANNELS_LAST) -> Recording:
    """One 3x3 depthwise convolution of an image of 14 pixels a side."""
    image = Operand(
        dtype=dtype, shape=(Affine(0, 1), Affine(channels), Affine(14), Affine(14)), memory_format=layout
    )  # fmt: skip
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
