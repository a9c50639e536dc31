"""Attention in compiled graphs: written out where no fused kernel takes its operands."""

from dataclasses import replace

import pytest

from capplan.core.compiled.rewrite import fuse_recording
from capplan.core.ops.flops import kernel_flops, traffic
from capplan.core.trace.types import Affine, MemoryFormat, Operand, Role
from tests.core.compiled.fusion_cases import Tape, View


def windows(*, leading):
    """Attention over 64 tokens of 96 channels; query, key and value are parts of one product of 288 channels."""
    tape = Tape()
    tokens = tape.tensor(1, 3136, 96, role=Role.INPUT)
    joined = tape.call("addmm", (tokens, tape.tensor(96, 288, role=Role.PARAMETER)), 1, 3136, 288)
    shape = (Affine(0, 1), *map(Affine, leading), Affine(64), Affine(96))
    part = View(joined, Operand(dtype="half", shape=shape, memory_format=MemoryFormat.STRIDED))
    attended = tape.attention((part, part, part), 1, *leading, 64, 96, rank=len(shape))
    out = tape.call("mm", (attended, tape.tensor(96, 96, role=Role.PARAMETER)), 1, 3136, 96)
    return tape.recording(out)


def names(recording):
    return [recording.kernels[op.kernel].name for op in recording.ops]


def test_attention_of_five_dimensions_is_two_products_and_a_softmax_in_fp32():
    # Inductor of torch 2.13 for hiera_tiny_224 at batch 32: query, key and value are each read in 16 bits and written
    # in fp32 (3 * 57.8 MB), softmax reads and writes 25.7 MB, the result is written in 16 bits (57.8 MB).
    fused = fuse_recording(windows(leading=(1, 49)))
    assert names(fused) == [
        "aten.addmm", "capplan.fused", "aten.bmm", "capplan.fused", "aten.bmm", "capplan.fused", "aten.mm",
    ]  # fmt: skip
    kernels = [fused.kernels[op.kernel] for op in fused.ops]
    moved = [traffic(kernel, 32).read_bytes + traffic(kernel, 32).written_bytes for kernel in kernels]
    assert (moved[1], moved[3], moved[5]) == (173_408_256, 51_380_224, 57_802_752)
    # 32 * 49 windows of 64 x 64 scores over 96 channels, two FLOPs for each multiplication and addition
    assert [kernel_flops(kernels[at], 32) for at in (2, 4)] == [2 * 32 * 49 * 64 * 64 * 96] * 2
    assert all(operand.dtype == "float32" for at in (2, 4) for operand in (*kernels[at].inputs, *kernels[at].outputs))


def test_heads_of_queries_that_share_one_of_keys_are_written_out():
    # mobilenetv5_base at batch 256 calls scaled_dot_product_attention without enable_gqa: no fused kernel takes it.
    # Inductor of torch 2.13: keys of 256 tokens and 64 channels are read once in 16 bits (8.4 MB) and written for each
    # of 8 heads in fp32 (134 MB), the softmax reads and writes 537 MB.
    tape = Tape()
    query, shared = tape.tensor(1, 8, 256, 64, role=Role.INPUT), tape.tensor(1, 1, 256, 64, role=Role.INPUT)
    reads = tuple(View(storage, tape.operands[storage]) for storage in (query, shared, shared))
    fused = fuse_recording(tape.recording(tape.attention(reads, 1, 8, 256, 64, rank=4)))
    moved = [traffic(kernel, 256).read_bytes + traffic(kernel, 256).written_bytes for kernel in fused.kernels]
    assert moved.count(142_606_336) == 2
    assert 1_073_741_824 in moved
    products = [kernel for kernel in fused.kernels if kernel.name == "aten.bmm"]
    assert [kernel_flops(kernel, 256) for kernel in products] == [2 * 256 * 8 * 256 * 256 * 64] * 2


def test_until_torch_2_4_the_written_out_products_stay_in_16_bits():
    fused = fuse_recording(windows(leading=(1, 49)), torch_version=(2, 4))
    products = [fused.kernels[op.kernel] for op in fused.ops if fused.kernels[op.kernel].name == "aten.bmm"]
    assert {operand.dtype for kernel in products for operand in kernel.inputs} == {"half"}


def test_attention_of_four_dimensions_stays_one_kernel_of_a_library():
    assert names(fuse_recording(windows(leading=(49,)))) == ["aten.addmm", "capplan.attention", "aten.mm"]


@pytest.mark.parametrize("leading", [(1, 49), (49,)])
def test_the_scores_of_written_out_attention_take_memory_while_they_are_needed(leading):
    fused = fuse_recording(windows(leading=leading))
    scores = 49 * 64 * 64 * 4
    held = [each for each in fused.storages if each.size_bytes.at(1) == scores]
    assert len(held) == (2 if len(leading) == 2 else 0)
    assert all(each.birth < each.death < len(fused.ops) for each in held)


def test_the_mask_of_written_out_attention_is_computed_where_the_softmax_reads_it():
    # SAM's encoder: relative positions are added to the scores of three-dimensional operands.
    tape = Tape()
    tokens = tape.tensor(1, 196, 64, role=Role.INPUT)
    rows, columns = (tape.tensor(1, 196, 196, role=Role.INPUT) for _ in range(2))
    mask = tape.call("add", (rows, columns), 1, 196, 196)
    whole = View(tokens, tape.operands[tokens])
    biased = replace(whole, storage=mask, operand=tape.operands[mask])
    attended = tape.attention((whole, whole, whole, biased), 1, 196, 64, rank=3, has_mask=True)
    fused = fuse_recording(tape.recording(attended))
    assert names(fused) == ["capplan.fused", "aten.bmm", "capplan.fused", "aten.bmm", "capplan.fused"]
    softmax = fused.kernels[fused.ops[2].kernel]
    assert traffic(softmax, 1).read_bytes == 196 * 196 * (4 + 2 + 2)
