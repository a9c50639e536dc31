"""Gradients and optimizers as rows of the latency model."""

from dataclasses import replace

import pytest

from capplan.core.gpus.rate_laws import GUESSED_LAWS
from capplan.core.latency.classes import ALL_CLASSES
from capplan.core.latency.device import DeviceRates, device_rates
from capplan.core.latency.op_table import kernel_table
from capplan.core.latency.predict import kernel_work
from capplan.core.latency.step import ExecutedStep
from capplan.core.trace.types import Affine, Kernel, MemoryFormat, Op, Operand, Phase, Recording
from capplan.core.workload import Configuration, ModelSharding, Training, Variant, Workload
from tests.core.compiled.fusion_cases import Tape
from tests.core.latency.latency_cases import gpu


def operand(*shape, weight=False, dtype="half"):
    first = Affine(shape[0]) if weight else Affine(0, shape[0])
    return Operand(dtype=dtype, shape=(first, *(Affine(dim) for dim in shape[1:])), is_weight=weight)


def step_of(*kernels):
    """A recording that is one training step of these kernels."""
    return Recording(
        configuration=Configuration(variant=Variant.AMP, training=Training()),
        modules=("",),
        kernels=kernels,
        ops=tuple(Op(kernel=index, module=0, reads=(), writes=()) for index in range(len(kernels))),
        storages=(),
        phases=(Phase(name="backward", step=1, first_op=0),),
        batches=(2, 3, 5),
    )


def convolution_backward(mask):
    """Of a 3x3 convolution from 32 to 64 channels on 8x8 images, one image a sample."""
    gradient, source, weight = operand(1, 64, 8, 8), operand(1, 32, 8, 8), operand(64, 32, 3, 3, weight=True)
    return Kernel(
        name="aten.convolution_backward", inputs=(gradient, source, weight), outputs=(source, weight),
        attributes={"groups": 1, "stride": (1, 1), "padding": (1, 1), "transposed": False, "output_mask": mask},
    )  # fmt: skip


WORKLOAD = Workload(training=Training(), torch_version=(2, 4))


def rows(kernel, workload=WORKLOAD, batch=4):
    table = kernel_table(ExecutedStep.of(step_of(kernel), workload), batches=[batch])
    return table, [ALL_CLASSES[label] for label in table.label]


def test_a_convolution_has_two_gradients_each_with_the_forwards_flops():
    # Forward: 4 images · 8 · 8 positions · 64 outputs · 32 · 9 products, two FLOPs each.
    table, labels = rows(convolution_backward((1, 1, 0)))
    assert labels == ["conv input gradient", "conv weight gradient"]
    assert table.flops[:, 0].tolist() == [2 * 4 * 64 * 64 * 32 * 9] * 2


def test_gradients_are_products_over_other_dimensions():
    # For the input: [4 · 64 positions] by [32 channels] over 64 · 9; for the weight: [64] by [32 · 9] over 4 · 64.
    table, _ = rows(convolution_backward((1, 1, 0)))
    assert [table.m[0, 0], table.n[0, 0], table.k[0, 0]] == [256, 32, 576]
    assert [table.m[1, 0], table.n[1, 0], table.k[1, 0]] == [64, 288, 256]


def test_the_first_convolution_needs_no_gradient_of_its_input():
    assert rows(convolution_backward((0, 1, 0)))[1] == ["conv weight gradient"]


def batch_norm(image):
    terms = tuple(operand(32, weight=True, dtype="float32") for _ in range(2))
    return Kernel(
        name="aten.native_batch_norm", inputs=(image, *terms), outputs=(image,), attributes={"training": True}
    )


def test_batch_norm_reads_its_input_twice_in_training():
    table, labels = rows(batch_norm(operand(1, 32, 8, 8)))
    assert labels == ["batch norm training"]
    assert table.read_bytes[0, 0] == 2 * 4 * 32 * 64 * 2


def test_a_batch_norm_of_row_major_images_has_a_thread_block_for_each_channel():
    # 32 blocks of 10 GB/s stream 320 GB/s where the memory gives 960: √(1 + 3²) times as long as all of it would take.
    held = device_rates(gpu(), WORKLOAD, GUESSED_LAWS)
    assert isinstance(held, DeviceRates)
    rates = replace(held, bandwidth_bytes_per_s=960e9, block_bytes_per_s=10e9)
    table, _ = rows(batch_norm(operand(1, 32, 8, 8)))
    assert kernel_work(table, [rates]).stretch.item() == pytest.approx(10**0.5)
    beside = replace(operand(1, 32, 8, 8), memory_format=MemoryFormat.CHANNELS_LAST)
    table, _ = rows(batch_norm(beside))
    assert kernel_work(table, [rates]).stretch.item() == 1


@pytest.mark.parametrize(("version", "launches"), [((1, 12), 120), ((2, 4), 3)])
def test_optimizers_take_a_launch_per_tensor_until_torch_2(version, launches):
    # 120 tensors, 50 of them in a multi-tensor kernel since torch 2.0.
    tensors = tuple(operand(64, weight=True, dtype="float32") for _ in range(120))
    kernel = Kernel(name="aten._foreach_mul", inputs=tensors, outputs=tensors)
    table, labels = rows(kernel, Workload(training=Training(), torch_version=version))
    assert labels == ["optimizer"]
    assert table.launches.tolist() == [launches]


@pytest.mark.parametrize(
    ("sharding", "share"), [(ModelSharding.DDP, 1), (ModelSharding.ZERO1, 8), (ModelSharding.FSDP, 8)]
)
def test_gpus_that_share_the_optimizers_states_update_a_share_each(sharding, share):
    # ZeRO, section 5.1: each of N ranks updates 1/N of the parameters; 4096 fp32 elements are read and written.
    weight = operand(64, 64, weight=True, dtype="float32")
    kernel = Kernel(name="aten._foreach_mul", inputs=(weight,), outputs=(weight,))
    workload = Workload(training=Training(), torch_version=(2, 4), gpu_count=8, sharding=sharding)
    table, _ = rows(kernel, workload)
    moved = table.read_bytes + table.written_bytes + table.weight_bytes
    assert moved.tolist() == [[2 * 4 * 4096 / share]]


def test_inference_has_no_such_rows():
    tape = Tape()
    image = tape.tensor(1, 64, 8, 8)
    recording = tape.recording(tape.batch_norm(image, 64))
    table = kernel_table(ExecutedStep.of(recording, Workload(torch_version=(2, 4))), batches=[1])
    assert [ALL_CLASSES[label] for label in table.label] == ["batch norm"]
