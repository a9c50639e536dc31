"""Fusion: what becomes one kernel, what it reads and writes, and Inductor's choice of layout."""

from math import prod

import pytest

from capplan.core.compiled.rewrite import executed_recording, fuse_recording, prefers_channels_last
from capplan.core.ops.flops import traffic
from capplan.core.trace.types import Role
from capplan.core.workload import Framework, Workload
from tests.core.compiled.fusion_cases import Tape, in_channels_last


def names(recording):
    return [recording.kernels[op.kernel].name.partition(".")[2] for op in recording.ops]


def fused_kernels(recording):
    kernels = [recording.kernels[op.kernel] for op in recording.ops]
    return [kernel for kernel in kernels if kernel.name == "capplan.fused"]


def residual_block():
    """conv - batch norm - relu - conv - batch norm - add the input - relu, 64 channels of 8x8."""
    tape = Tape()
    image = tape.tensor(1, 64, 8, 8, role=Role.INPUT)
    hidden = tape.batch_norm(tape.convolution(image, 64, 64), 64)
    hidden = tape.call("relu", (hidden,), into=hidden)
    branch = tape.batch_norm(tape.convolution(hidden, 64, 64), 64)
    total = tape.call("add", (branch, image), 1, 64, 8, 8)
    return tape.recording(tape.call("relu", (total,), into=total))


def test_a_residual_block_is_two_convolutions_and_two_fused_kernels():
    assert names(fuse_recording(residual_block())) == ["convolution", "fused", "convolution", "fused"]


def test_a_fused_kernel_reads_each_outside_tensor_once_and_writes_what_is_used():
    # Last kernel: reads the convolution and the block's input, 2 · 64 · 8 · 8 · 2 bytes = 16384 a sample; writes one of
    # them, 8192; four vectors of 64 floats are weights, 1024 bytes.
    moved = traffic(fused_kernels(fuse_recording(residual_block()))[-1], 1)
    assert (moved.read_bytes, moved.written_bytes, moved.weight_bytes) == (16384, 8192, 1024)


def test_eager_graphs_are_left_alone():
    recording = residual_block()
    assert executed_recording(recording, Workload()) is recording
    assert len(executed_recording(recording, Workload(framework=Framework.COMPILE)).ops) == 4


def test_every_kernel_runs_after_what_it_reads():
    fused = fuse_recording(residual_block())
    written: set[int] = set()
    for op in fused.ops:
        for storage in op.reads:
            assert fused.storages[storage].birth < 0 or storage in written
        written.update(op.writes)


def test_a_gate_of_squeeze_and_excitation_computes_the_features_again():
    # An activation of a convolution's result reads one buffer, so that Inductor never stores it: mean and
    # multiplication both read the convolution (realize_reads_threshold = 4 in torch/_inductor/config.py).
    tape = Tape()
    image = tape.tensor(1, 128, 8, 8, role=Role.INPUT)
    features = tape.call("silu", (tape.convolution(image, 128, 128),), 1, 128, 8, 8)
    squeezed = tape.call("mean", (features,), 1, 128, 1, 1, dim=(2, 3))
    gate = tape.call("sigmoid", (tape.convolution(squeezed, 128, 128, window=1, size=1),), 1, 128, 1, 1)
    fused = fuse_recording(tape.recording(tape.call("mul", (features, gate), 1, 128, 8, 8)))
    assert names(fused) == ["convolution", "fused", "convolution", "fused"]
    mean, gated = fused_kernels(fused)
    elements = 128 * 8 * 8
    assert traffic(mean, 1).read_bytes == 2 * elements
    assert traffic(gated, 1).read_bytes == pytest.approx(2 * elements, rel=0.02)
    assert min(mean.attributes["arithmetic"], gated.attributes["arithmetic"]) >= 25  # instructions of silu


def test_a_layer_norm_fuses_with_the_addition_before_it():
    tape = Tape()
    tokens = tape.tensor(1, 16, 32, role=Role.INPUT)
    weight = tape.tensor(32, 32, role=Role.PARAMETER)
    scale, shift = (tape.tensor(32, role=Role.PARAMETER) for _ in range(2))
    product = tape.call("mm", (tokens, weight), 1, 16, 32)
    total = tape.call("add", (product, tokens), 1, 16, 32)
    normal = tape.call("native_layer_norm", (total, scale, shift), 1, 16, 32, normalized_shape=(32,))
    last = tape.call("mm", (normal, weight), 1, 16, 32)
    fused = fuse_recording(tape.recording(tape.call("add", (last, total), 1, 16, 32)))
    assert names(fused) == ["mm", "fused", "mm", "fused"]
    (norm,) = [kernel for kernel in fused_kernels(fused) if "norm" in kernel.attributes]
    # The sum is used again after the next product. It reads two buffers, so that Inductor adds again there.
    assert len(norm.outputs) == 1
    assert traffic(fused_kernels(fused)[-1], 1).read_bytes == 3 * 16 * 32 * 2


@pytest.mark.parametrize(("additions", "outputs"), [(3, 1), (4, 2)])
def test_a_sum_that_two_kernels_read_is_stored_if_it_reads_more_than_four_buffers(additions, outputs):
    # realize_reads_threshold = 4 in torch/_inductor/config.py: three additions read four buffers, four read five.
    tape = Tape()
    weight = tape.tensor(32, 32, role=Role.PARAMETER)
    tokens = tape.tensor(1, 16, 32, role=Role.INPUT)
    scale, shift = (tape.tensor(32, role=Role.PARAMETER) for _ in range(2))
    total = tokens
    for _ in range(additions):
        total = tape.call("add", (total, tape.call("mm", (tokens, weight), 1, 16, 32)), 1, 16, 32)
    normal = tape.call("native_layer_norm", (total, scale, shift), 1, 16, 32, normalized_shape=(32,))
    last = tape.call("mm", (normal, weight), 1, 16, 32)
    fused = fuse_recording(tape.recording(tape.call("add", (last, total), 1, 16, 32)))
    (norm,) = [kernel for kernel in fused_kernels(fused) if "norm" in kernel.attributes]
    assert len(norm.outputs) == outputs


def test_a_gate_reads_half_of_a_product_whose_activation_is_stored_nowhere():
    # gMLP: Inductor's norm of one half reads that half of the product and writes it normalised; the gate reads the
    # other half. GELU of the whole product is stored nowhere: it reads one buffer.
    tape = Tape()
    tokens, weight = tape.tensor(1, 16, 32, role=Role.INPUT), tape.tensor(32, 64, role=Role.PARAMETER)
    scale, shift = (tape.tensor(32, role=Role.PARAMETER) for _ in range(2))
    active = tape.call("gelu", (tape.call("mm", (tokens, weight), 1, 16, 64),), 1, 16, 64)
    left, right = (tape.view(active, 1, 16, 32) for _ in range(2))
    normal = tape.call("native_layer_norm", (right, scale, shift), 1, 16, 32, normalized_shape=(32,))
    square = tape.tensor(32, 32, role=Role.PARAMETER)
    mixed = tape.call("mm", (normal, square), 1, 16, 32)
    fused = fuse_recording(tape.recording(tape.call("mul", (left, mixed), 1, 16, 32)))
    norm, gate = fused_kernels(fused)
    half = 16 * 32 * 2
    assert (traffic(norm, 1).read_bytes, traffic(norm, 1).written_bytes) == (half, half)
    assert (traffic(gate, 1).read_bytes, traffic(gate, 1).written_bytes) == (2 * half, half)


def test_two_reductions_over_different_elements_are_two_kernels():
    tape = Tape()
    tokens = tape.tensor(1, 16, 32, role=Role.INPUT)
    rows = tape.call("_softmax", (tokens,), 1, 16, 32, dim=-1)
    total = tape.call("sum", (rows,), 1, dim=(1, 2))
    fused = fuse_recording(tape.recording(total))
    assert [sorted(set(k.attributes) & {"softmax", "reduction"}) for k in fused_kernels(fused)] == [
        ["softmax"], ["reduction"],
    ]  # fmt: skip


def test_group_norm_reads_its_input_for_statistics_and_again_to_use_them():
    tape = Tape()
    image = tape.tensor(1, 64, 8, 8, role=Role.INPUT)
    terms = tuple(tape.tensor(64, role=Role.PARAMETER) for _ in range(2))
    features = tape.convolution(image, 64, 64)
    fused = fuse_recording(tape.recording(tape.call("native_group_norm", (features, *terms), 1, 64, 8, 8, group=8)))
    reads = sum(traffic(kernel, 1).read_bytes for kernel in fused_kernels(fused))
    assert reads == pytest.approx(2 * 64 * 8 * 8 * 2, rel=0.02)


def test_what_weights_alone_make_is_apart_and_does_not_grow():
    tape = Tape()
    image = tape.tensor(1, 64, 8, 8, role=Role.INPUT)
    stored = tape.tensor(64, 64, 3, 3, role=Role.PARAMETER, dtype="float32")
    cast = tape.tensor(64, 64, 3, 3, role=Role.ACTIVATION)
    tape.operands[cast] = tape.operands[tape.tensor(64, 64, 3, 3, role=Role.PARAMETER)]
    tape.call("_to_copy", (stored,), into=cast)
    out = tape.call("convolution", (image, cast), 1, 64, 8, 8, stride=(1, 1), padding=(1, 1), groups=1)
    fused = fuse_recording(tape.recording(out))
    (kernel,) = fused_kernels(fused)
    assert kernel.attributes["weight_only"] == 1
    assert traffic(kernel, 1) == traffic(kernel, 100)


def test_a_dense_network_turns_channels_last_and_a_grouped_one_does_not():
    # Inductor's weights: dense convolutions count 0.823 (0.783 small), grouped ones 1.358; above 1 it keeps row-major.
    dense = residual_block()
    assert prefers_channels_last(dense, 4)
    convolution = next(kernel for kernel in fuse_recording(dense).kernels if kernel.name == "aten.convolution")
    assert all(in_channels_last(operand) for operand in (*convolution.inputs, *convolution.outputs))
    tape = Tape()
    image = tape.tensor(1, 128, 8, 8, role=Role.INPUT)
    weight = tape.tensor(128, 32, 3, 3, role=Role.PARAMETER)
    out = tape.call("convolution", (image, weight), 1, 128, 8, 8, stride=(1, 1), padding=(1, 1), groups=4)
    assert not prefers_channels_last(tape.recording(out), 4)


def test_a_network_of_few_convolutions_keeps_its_layout():
    # 300 operators or more for each convolution: Inductor leaves the layout.
    tape = Tape()
    image = tape.convolution(tape.tensor(1, 64, 8, 8, role=Role.INPUT), 64, 64)
    for _ in range(300):
        image = tape.call("relu", (image,), into=image)
    assert not prefers_channels_last(tape.recording(image), 4)


@pytest.mark.parametrize(("pieces", "kernels"), [(8, 1), (9, 2)])
def test_a_long_concatenation_is_a_kernel_of_its_own(pieces, kernels):
    # Inductor computes a concatenation of up to eight tensors where it is read (max_pointwise_cat_inputs).
    tape = Tape()
    parts = tuple(tape.tensor(1, 16, role=Role.INPUT) for _ in range(pieces))
    joined = tape.call("cat", parts, 1, 16 * pieces)
    fused = fuse_recording(tape.recording(tape.call("relu", (joined,), 1, 16 * pieces)))
    assert len(fused.ops) == kernels


def test_storages_of_the_fused_recording_hold_only_what_kernels_exchange():
    # Alive at the end: the input, the result; the two convolutions' results die with the kernels that read them.
    fused = fuse_recording(residual_block())
    activations = [
        storage for storage in fused.storages if storage.role is Role.ACTIVATION and storage.size_bytes.at(1)
    ]
    assert sorted(storage.size_bytes.at(1) for storage in activations) == [prod((64, 8, 8)) * 2] * 4
    assert max(storage.death for storage in activations) == len(fused.ops)


def test_an_activation_of_a_norm_is_computed_by_each_reader_and_the_norm_stored_in_fp32():
    # Inductor of torch 2.13, asked for EfficientNet under autocast: the norm reads 2 bytes an element and writes
    # 4, the mean and the gate read these 4 and compute the activation (docs/evidence/compile.md).
    tape = Tape()
    image = tape.tensor(1, 128, 8, 8, role=Role.INPUT)
    norm = tape.batch_norm(tape.convolution(image, 128, 128), 128)
    features = tape.call("silu", (norm,), 1, 128, 8, 8)
    squeezed = tape.call("mean", (features,), 1, 128, 1, 1, dim=(2, 3))
    gate = tape.call("sigmoid", (tape.convolution(squeezed, 128, 128, window=1, size=1),), 1, 128, 1, 1)
    product = tape.call("mul", (features, gate), 1, 128, 8, 8)
    recording = tape.recording(tape.convolution(product, 128, 128))
    stored, mean, gated = fused_kernels(fuse_recording(recording, torch_version=(2, 7)))
    elements = 128 * 8 * 8
    assert traffic(stored, 1).written_bytes == 4 * elements
    assert traffic(mean, 1).read_bytes == 4 * elements
    assert traffic(gated, 1).read_bytes == pytest.approx(4 * elements, rel=0.02)
    assert traffic(gated, 1).written_bytes == 2 * elements
    # 25 instructions of silu in both readers, none in the norm's kernel
    assert stored.attributes["arithmetic"] < 25 <= min(mean.attributes["arithmetic"], gated.attributes["arithmetic"])
    # Since 2.8 loops are reordered, and the norm's kernel takes the mean as well: it reads nothing back.
    both, gated = fused_kernels(fuse_recording(recording))
    assert traffic(both, 1).written_bytes == pytest.approx(4 * elements, rel=0.02)
    assert traffic(both, 1).read_bytes == 2 * elements
    assert traffic(gated, 1).read_bytes == pytest.approx(4 * elements, rel=0.02)


def test_an_activation_that_a_convolution_alone_reads_stays_in_16_bits():
    tape = Tape()
    image = tape.tensor(1, 128, 8, 8, role=Role.INPUT)
    features = tape.call("silu", (tape.batch_norm(tape.convolution(image, 128, 128), 128),), 1, 128, 8, 8)
    fused = fuse_recording(tape.recording(tape.convolution(features, 128, 128)))
    (stored,) = fused_kernels(fused)
    assert traffic(stored, 1).written_bytes == 2 * 128 * 8 * 8


@pytest.mark.parametrize(("branches", "role"), [(2, "pointwise"), (7, "pointwise"), (8, "reduction")])
def test_sums_over_fewer_than_eight_elements_are_written_out(branches, role):
    # unroll_reductions_threshold = 8 in torch/_inductor/config.py
    tape = Tape()
    paths = tape.tensor(1, branches, 64, role=Role.INPUT)
    (kernel,) = fused_kernels(fuse_recording(tape.recording(tape.call("sum", (paths,), 1, 64, dim=(1,)))))
    assert role in kernel.attributes


def test_a_square_is_computed_where_a_mean_over_positions_reads_it():
    # Filter response norms: Inductor's reduction reads the convolution's 16 bits, not stored squares in fp32.
    tape = Tape()
    image = tape.tensor(1, 128, 8, 8, role=Role.INPUT)
    square = tape.call("pow", (tape.convolution(image, 128, 128),), 1, 128, 8, 8)
    mean = tape.call("mean", (square,), 1, 128, 1, 1, dim=(2, 3))
    fused = fuse_recording(tape.recording(tape.convolution(mean, 128, 128, window=1, size=1)))
    assert names(fused) == ["convolution", "fused", "convolution"]


def test_an_rms_norm_of_images_is_one_kernel_between_channels_last_convolutions():
    # Inductor of torch 2.13, mobilenetv5: "add convert_element_type mean mul pow reshape rsqrt" in one kernel, whose
    # rows are the channels of a pixel; it reads and writes 128 x 64 elements of 2 bytes.
    tape = Tape()
    features = tape.convolution(tape.tensor(1, 128, 8, 8, role=Role.INPUT), 128, 128)
    square = tape.call("pow", (features,), 1, 128, 8, 8)
    mean = tape.call("mean", (square,), 1, 1, 8, 8, dim=(1,))
    normed = tape.call("mul", (features, tape.call("rsqrt", (mean,), 1, 1, 8, 8)), 1, 128, 8, 8)
    fused = fuse_recording(tape.recording(tape.convolution(normed, 128, 128)))
    assert names(fused) == ["convolution", "fused", "convolution"]
    (norm,) = fused_kernels(fused)
    assert "across" not in norm.attributes
    assert traffic(norm, 1).read_bytes == traffic(norm, 1).written_bytes == 2 * 128 * 64


def test_kernels_that_would_wait_for_one_another_run_operator_by_operator():
    # A matrix made of weights: what is added reads both the first product's input and its result, so that the
    # multiplications before and after that product would share a kernel that waits for itself.
    tape = Tape()
    tokens, weight = tape.tensor(1, 16, 32, role=Role.INPUT), tape.tensor(32, 32, role=Role.PARAMETER)
    shared = tape.call("neg", (weight,), 32, 32)
    total = tape.call("add", (tape.call("mm", (shared, weight), 32, 32), shared), 32, 32)
    fused = fuse_recording(tape.recording(tape.call("mm", (tokens, total), 1, 16, 32)))
    assert names(fused)[-1] == "mm"
    written: set[int] = set()
    for op in fused.ops:
        assert all(fused.storages[storage].birth < 0 or storage in written for storage in op.reads)
        written.update(op.writes)
