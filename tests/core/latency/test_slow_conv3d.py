"""Convolutions of volumes in 16 bits: torch 2.9 runs them without cuDNN, sample by sample."""

from dataclasses import replace

import pytest

from capplan.core.latency.classes import BATCHED_MATMUL, CLASS_INDEX, CONV_OTHER, COPY
from capplan.core.latency.op_table import kernel_table
from capplan.core.latency.step import ExecutedStep
from capplan.core.trace.types import Affine, Kernel, Operand
from capplan.core.workload import Precision, Workload
from tests.core.latency.latency_cases import linear_recording


def volume(channels: int) -> Operand:
    return Operand(dtype="half", shape=(Affine(0, 1), Affine(channels), Affine(4), Affine(8), Affine(8)))


def labels_and_table(version: tuple[int, int]):
    weight = Operand(dtype="half", shape=(Affine(16), Affine(2), Affine(3), Affine(3), Affine(3)), is_weight=True)
    kernel = Kernel(
        name="aten.convolution", inputs=(volume(2), weight), outputs=(volume(16),), attributes={"groups": 1}
    )
    recording = linear_recording()
    kernels = (kernel, *recording.kernels[1:])
    workload = Workload(precision=Precision.FP16, torch_version=version)
    table = kernel_table(ExecutedStep.of(replace(recording, kernels=kernels), workload), batches=[10])
    return table.label.tolist(), table


def test_torch_2_9_writes_windows_out_and_multiplies_them_sample_by_sample() -> None:
    labels, table = labels_and_table((2, 9))
    assert labels[:2] == [CLASS_INDEX[COPY], CLASS_INDEX[BATCHED_MATMUL]]
    # 10 samples, 4 · 8 · 8 = 256 positions, windows of 2 · 27 = 54 elements of two bytes
    assert table.written_bytes[0, 0] == 10 * 256 * 54 * 2
    # two FLOPs a multiply-add, 16 output channels
    assert table.flops[1, 0] == 2 * 10 * 256 * 54 * 16
    # a thread writes its 54 elements in turn, and each sample is a launch of 20 steps
    assert table.serial[:2, 0].tolist() == [10 * (20 + 54), 10 * 20]


@pytest.mark.parametrize("version", [(2, 8), (2, 10)])
def test_other_releases_leave_them_to_cudnn(version: tuple[int, int]) -> None:
    labels, _ = labels_and_table(version)
    assert labels[0] == CLASS_INDEX[CONV_OTHER]
