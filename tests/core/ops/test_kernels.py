"""The attention kernel that CUDA would choose, against the rules torch documents for its backends."""

import pytest

from capplan.core.ops.attention import AttentionBackend, choose_attention
from tests.core.small_recordings import BATCH, kernel, operand

FLASH, EFFICIENT, CUDNN, MATH = (
    AttentionBackend.FLASH, AttentionBackend.EFFICIENT, AttentionBackend.CUDNN, AttentionBackend.MATH,
)  # fmt: skip


def choose(
    *, dtype="half", half="float16", head_dim=64, query=128, key=128, heads=(8, 8), training=False,
    torch=(2, 7), capability=(8, 0), **attributes,
):  # fmt: skip
    q = operand(BATCH, heads[0], query, head_dim, dtype=dtype)
    k = operand(BATCH, heads[1], key, head_dim, dtype=dtype)
    outputs = [q, operand(BATCH, heads[0], query)] if training else [q]
    attention = kernel("capplan.attention", [q, k, k], outputs, **attributes)
    return choose_attention(attention, batch=2, dtype=half, torch_version=torch, compute_capability=capability)


@pytest.mark.parametrize(
    ("expected", "given"),
    [
        # PyTorch 2.2 release notes: FlashAttention-2; needs Ampere or later and 16-bit inputs
        (FLASH, {}),
        (FLASH, {"half": "bfloat16"}),
        (EFFICIENT, {"dtype": "float32"}),
        (EFFICIENT, {"capability": (7, 5)}),
        (FLASH, {"capability": (7, 5), "torch": (2, 1)}),
        # documentation of scaled_dot_product_attention: flash attention takes no mask
        (EFFICIENT, {"has_mask": True}),
        (MATH, {"has_mask": True, "torch": (2, 0)}),
        # before 2.0 there is no fused attention
        (MATH, {"torch": (1, 13)}),
        # FlashAttention's own limit: heads of up to 256
        (FLASH, {"head_dim": 256}),
        (EFFICIENT, {"head_dim": 512}),
        # memory-efficient attention wants rows of 16 bytes: 8 elements of 16 bits, 4 of 32
        (MATH, {"dtype": "float32", "head_dim": 18}),
        (MATH, {"head_dim": 36, "has_mask": True}),
        # bfloat16 needs Ampere
        (MATH, {"half": "bfloat16", "capability": (7, 5)}),
        # enable_gqa: flash from 2.5; memory-efficient attention does not take it
        (FLASH, {"heads": (8, 2), "enable_gqa": True}),
        (MATH, {"heads": (8, 2), "enable_gqa": True, "dtype": "float32"}),
        # without enable_gqa, sdp_utils_cpp.h asks for one number of heads: one head of keys for all falls to math
        (MATH, {"heads": (8, 1)}),
        (MATH, {"heads": (8, 1), "capability": (9, 0), "torch": (2, 9)}),
        # top-left and bottom-right causal masks differ unless there are as many keys as queries
        (EFFICIENT, {"is_causal": True, "query": 64}),
        # check_requires_grad_and_head_dim_gt192_constraints_on_sm86_89_or_120 of sdp_utils.cpp: heads of 193 to 224 on
        # 8.6 to 8.9, 8.7 of Orin included, and of 12.0 and 12.1; FlashAttention 2.5.5 has the gradient of 256
        (EFFICIENT, {"head_dim": 224, "training": True, "capability": (8, 6)}),
        (EFFICIENT, {"head_dim": 224, "training": True, "capability": (8, 7)}),
        (EFFICIENT, {"head_dim": 224, "training": True, "capability": (12, 1)}),
        (FLASH, {"head_dim": 256, "training": True, "capability": (8, 6)}),
        (EFFICIENT, {"head_dim": 256, "training": True, "capability": (8, 6), "torch": (2, 2)}),
        (FLASH, {"head_dim": 256, "training": True, "capability": (8, 0)}),
        # pytorch#162073, "for 2.9"; 2.10's wheels hold an older cuDNN than 9.15.1 (transformers#48163), 2.11's do not
        (CUDNN, {"capability": (9, 0), "torch": (2, 9)}),
        (FLASH, {"capability": (9, 0), "torch": (2, 8)}),
        (FLASH, {"capability": (9, 0), "torch": (2, 10)}),
        (CUDNN, {"capability": (9, 0), "torch": (2, 11)}),
        # Blackwell Ultra since pytorch#170800 of December 2025
        (FLASH, {"capability": (10, 3), "torch": (2, 9)}),
        (CUDNN, {"capability": (10, 3), "torch": (2, 11)}),
    ],
)
def test_choice(expected, given):
    assert choose(**given) is expected


def test_a_device_without_compute_capability_is_taken_for_an_ampere():
    assert choose(capability=None) is FLASH
