"""A timed operator is described as the same operator in a traced model is."""

from dataclasses import replace

import numpy as np
import pytest

from capplan.core.calibrate.kernels import (
    MeasuredOperator,
    batched_product_kernel,
    convolution_kernel,
    elementwise_kernel,
    kernel_step,
    layer_norm_kernel,
    linear_operator,
    softmax_kernel,
)
from capplan.core.latency import classes as kinds
from capplan.core.latency.classes import CLASS_INDEX
from capplan.core.workload import Precision, Workload
from capplan.specs import load_gpus
from tests.core.latency.latency_cases import LAWS

WORKLOAD = Workload(precision=Precision.FP32_IEEE, torch_version=(2, 1))


def step(kernel, *, gpu="v100-pcie-32gb", latency_s=1.0, torch_known=True):
    measured = MeasuredOperator(gpu=gpu, kernel=kernel, workload=WORKLOAD, torch_known=torch_known, latency_s=latency_s)
    return kernel_step(measured, load_gpus()[gpu], LAWS)


def test_a_convolution_by_hand():
    # 8 images, 16 to 24 channels, 5x5 on 14x14: m = 8 · 196, n = 24, k = 400; the weight is 24 · 400 floats.
    found = step(convolution_kernel(images=8, channels_in=16, channels_out=24, size=14, window=5, stride=1, padding=2))
    assert found.label.tolist() == [CLASS_INDEX[kinds.CONV]]
    assert found.work.flops.tolist() == [2 * 8 * 196 * 24 * 400]
    assert found.work.read_bytes.tolist() == [4 * 8 * 16 * 196]
    assert found.work.written_bytes.tolist() == [4 * 8 * 24 * 196]
    assert found.work.weight_bytes.tolist() == [4 * 24 * 400]
    assert found.work.k.tolist() == [400]


def test_3x3_runs_by_winograd_outside_tensor_cores():
    # F(2x2, 3x3) saves 9/4 of the multiplications; F(4x4, 3x3) makes 36 numbers of a filter's 9, written and read.
    kernel = convolution_kernel(images=8, channels_in=16, channels_out=24, size=14, window=3, stride=1, padding=1)
    found = step(kernel)
    assert found.work.flops.tolist() == [2 * 8 * 196 * 24 * 144 / 2.25]
    assert found.work.weight_bytes.tolist() == [4 * 24 * 144 * (1 + 4 + 4)]
    direct = convolution_kernel(images=8, channels_in=16, channels_out=24, size=14, window=3, stride=2, padding=1)
    assert step(direct).work.flops.tolist() == [2 * 8 * 49 * 24 * 144]


@pytest.mark.parametrize(("torch", "gain"), [((1, 4), 2.25), ((1, 7), 1.0)])
def test_3x3_in_16_bits_ran_by_winograd_before_cudnn_8_where_there_are_no_tensor_cores(
    torch: tuple[int, int], gain: float
) -> None:
    kernel = convolution_kernel(images=8, channels_in=16, channels_out=24, size=14, window=3, stride=1, padding=1)
    halved = replace(
        kernel,
        inputs=tuple(replace(each, dtype="half") for each in kernel.inputs),
        outputs=tuple(replace(each, dtype="half") for each in kernel.outputs),
    )
    workload = replace(WORKLOAD, precision=Precision.FP16, torch_version=torch)
    for gpu, expected in (("p100-pcie-16gb", gain), ("v100-pcie-32gb", 1.0)):
        measured = MeasuredOperator(gpu=gpu, kernel=halved, workload=workload, torch_known=True, latency_s=1.0)
        found = kernel_step(measured, load_gpus()[gpu], LAWS)
        assert found is not None
        assert found.work.flops.tolist() == [2 * 8 * 196 * 24 * 144 / expected]


def test_alignment_and_layout_trouble_tensor_cores_only():
    kernel = convolution_kernel(images=8, channels_in=20, channels_out=24, size=14, window=5, stride=1, padding=2)
    found = step(kernel)
    assert (found.work.misaligned.tolist(), found.work.foreign_layout.tolist()) == ([0.0], [0.0])
    tensor = replace(WORKLOAD, precision=Precision.TF32)
    measured = MeasuredOperator(gpu="a100-pcie-40gb", kernel=kernel, workload=tensor, torch_known=True, latency_s=1.0)
    on_tensor_cores = kernel_step(measured, load_gpus()["a100-pcie-40gb"], LAWS)
    assert (on_tensor_cores.work.misaligned.tolist(), on_tensor_cores.work.foreign_layout.tolist()) == ([1.0], [1.0])


def test_a_stride_shrinks_the_output():
    # 224 + 2 · 1 - 3 = 223, // 2 + 1 = 112.
    kernel = convolution_kernel(images=1, channels_in=3, channels_out=32, size=224, window=3, stride=2, padding=1)
    assert kernel.outputs[0].shape_at(1) == (1, 32, 112, 112)
    assert step(kernel).label.tolist() == [CLASS_INDEX[kinds.CONV_STEM]]


def test_a_step_of_one_kernel_asks_nothing_of_the_host():
    found = step(softmax_kernel(rows=512, columns=1024))
    assert (found.host_calls, found.host_launches, found.cell) == (0.0, 0.0, "kernels")
    assert found.levels == {"architecture": "7.0", "torch": "2.1", "precision": "single"}


def test_an_unknown_torch_counts_for_no_version():
    assert step(softmax_kernel(rows=512, columns=1024), torch_known=False).levels["torch"] == ""


def test_tf32_is_off():
    # The A100 prints 19.5 TFLOP/s in fp32 and 156 in TF32; of the former it sustains 0.85 to 0.95.
    (rate,) = step(linear_operator(m=64, n=64, k=64), gpu="a100-pcie-40gb").peak_flops_per_s
    assert 0.85 * 19.5e12 < rate < 0.95 * 19.5e12


def test_what_beats_the_memory_bus_is_no_measurement():
    # Two of 4 GB read, one written, at 900 GB/s: 13.3 ms.
    kernel = elementwise_kernel("add", rows=1_000_000, columns=1000, operands=2)
    assert step(kernel, latency_s=14e-3) is not None
    assert step(kernel, latency_s=12e-3) is None


def test_what_beats_the_arithmetic_is_no_measurement():
    # 2 · 4096³ = 137 GFLOP at 14 TFLOP/s: 9.8 ms; a convolution may do a quarter of the products, not less.
    kernel = linear_operator(m=4096, n=4096, k=4096)
    assert step(kernel, latency_s=9.9e-3) is not None
    assert step(kernel, latency_s=9.0e-3) is None
    convolution = convolution_kernel(
        images=64, channels_in=512, channels_out=512, size=56, window=3, stride=1, padding=1
    )  # 2 · 64 · 3136 · 512 · 4608 = 947 GFLOP: 67.6 ms, 16.9 ms with F(4x4, 3x3).
    assert step(convolution, latency_s=18e-3) is not None
    assert step(convolution, latency_s=15e-3) is None


@pytest.mark.parametrize("name", ["linear", "conv", "bmm", "softmax", "layer norm", "add", "mul by number", "gelu"])
def test_it_is_the_kernel_that_tracing_finds(name):
    import torch
    from torch import nn

    class Of(nn.Module):
        def __init__(self, function):
            super().__init__()
            self.function = function

        def forward(self, *inputs):
            return self.function(*inputs)

    cases = {
        "linear": (nn.Linear(64, 48), ["Nx64"], linear_operator(m=8, n=48, k=64)),
        "conv": (
            nn.Conv2d(16, 24, 5, padding=2, bias=False), ["Nx16x14x14"],
            convolution_kernel(images=8, channels_in=16, channels_out=24, size=14, window=5, stride=1, padding=2),
        ),
        "bmm": (Of(torch.bmm), ["Nx16x24", "Nx24x40"], batched_product_kernel(groups=8, m=16, n=40, k=24)),
        "softmax": (nn.Softmax(-1), ["Nx64"], softmax_kernel(rows=8, columns=64)),
        "layer norm": (nn.LayerNorm(64), ["Nx64"], layer_norm_kernel(rows=8, columns=64)),
        "add": (Of(torch.add), ["Nx64", "Nx64"], elementwise_kernel("add", rows=8, columns=64, operands=2)),
        "mul by number": (Of(lambda x: x * 3.0), ["Nx64"], elementwise_kernel("mul", rows=8, columns=64, operands=1)),
        "gelu": (nn.GELU(), ["Nx64"], elementwise_kernel("gelu", rows=8, columns=64, operands=1)),
    }  # fmt: skip
    module, shapes, made = cases[name]
    recording, table = _tables(module, shapes)
    found = step(made)
    assert recording == made.name
    for quantity in ("flops", "read_bytes", "written_bytes", "weight_bytes"):
        assert np.array_equal(getattr(table, quantity)[0], getattr(found.work, quantity)), quantity
    assert table.label[0] == found.label[0]
    assert max(float(table.k[0, 0]), 1.0) == found.work.k[0]


def _tables(module, shapes):
    import capplan
    from capplan.core.latency.op_table import kernel_table
    from capplan.core.latency.step import ExecutedStep

    recording = capplan.trace(module, inputs=[shape.removeprefix("Nx") for shape in shapes]).recordings[0]
    table = kernel_table(ExecutedStep.of(recording, WORKLOAD), batches=[8])
    return recording.kernels[0].name, table
