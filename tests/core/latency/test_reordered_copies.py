"""Copies between layouts: what neighbouring threads read lies in other lines of the cache."""

from dataclasses import replace

import pytest

from capplan.core.gpus.rate_laws import GUESSED_LAWS
from capplan.core.latency.device import DeviceRates, device_rates
from capplan.core.latency.op_table import kernel_table
from capplan.core.latency.predict import kernel_work
from capplan.core.latency.step import ExecutedStep
from capplan.core.trace.types import Affine, Kernel, MemoryFormat, Operand
from capplan.core.workload import Framework, Precision, Workload
from tests.core.latency.latency_cases import gpu
from tests.core.latency.test_uneven_channels import depthwise

ROWS, CHANNELS = MemoryFormat.CONTIGUOUS, MemoryFormat.CHANNELS_LAST


def read_bytes(
    source: MemoryFormat, target: MemoryFormat, *, channels: int = 64, framework: Framework = Framework.EAGER
) -> float:
    """Return what the time model takes as read by a copy of one 16-bit image of 14 pixels a side."""
    shape = tuple(map(Affine, (1, channels, 14, 14)))
    image = Operand(dtype="half", shape=shape, memory_format=source)
    kernel = Kernel(name="aten.clone", inputs=(image,), outputs=(replace(image, memory_format=target),))
    workload = Workload(precision=Precision.FP16, framework=framework)
    rates = device_rates(gpu(), workload, GUESSED_LAWS)
    assert isinstance(rates, DeviceRates)
    step = ExecutedStep(recording=replace(depthwise(64), kernels=(kernel,)), workload=workload, calibration=None)
    return float(kernel_work(kernel_table(step, batches=[1]), [rates]).read_bytes.sum())


def test_a_row_major_copy_of_a_channels_last_image_reads_single_elements() -> None:
    # The law's 8 bytes for each of 64 x 196 elements, each in a line of 128 bytes of its own.
    assert read_bytes(CHANNELS, ROWS) == 8 * 64 * 196
    assert read_bytes(ROWS, CHANNELS) == read_bytes(ROWS, ROWS) == 2 * 64 * 196


@pytest.mark.parametrize(("channels", "each_bytes"), [(128, 8), (32, 4), (8, 2)])
def test_pixels_of_few_channels_share_a_line(channels: int, each_bytes: int) -> None:
    # 32 channels of 2 bytes: two pixels in 128 bytes; of 8 channels eight, and no element counts less than its size.
    assert read_bytes(CHANNELS, ROWS, channels=channels) == each_bytes * channels * 196


def test_engines_have_kernels_of_their_own_for_it() -> None:
    assert read_bytes(CHANNELS, ROWS, framework=Framework.TENSORRT) == 2 * 64 * 196
