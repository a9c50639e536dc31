"""The unfused attention that PyTorch falls back to, as the kernels it runs."""

from enum import IntEnum
from math import prod
from typing import Any

from capplan.core import latency_classes as kinds
from capplan.core.roofline import PeakUse
from capplan.core.trace import ITEM_BYTES, Kernel
from capplan.core.workload import Workload


class AttentionPath(IntEnum):
    """Which rows of a kernel table run: those of every GPU, of fused attention only, of unfused only."""

    ALWAYS = 0
    FUSED = 1
    UNFUSED = 2


def unfused_attention(kernel: Kernel, workload: Workload, batch: int) -> list[dict[str, Any]]:
    """List the rows of softmax(q kᵀ) v as PyTorch's math path runs it.

    Since torch 2.5 it computes 16-bit inputs in fp32 (TF32 where allowed). Before 2.0 there is no fused
    operator at all: the model's own products and softmax run, which autocast takes to fp32 and back.
    """
    query, key = kernel.inputs[0].shape_at(batch), kernel.inputs[1].shape_at(batch)
    groups, queries, keys, width = prod(query[:-2]), query[-2], key[-2], query[-1]
    stored = ITEM_BYTES[kernel.inputs[0].dtype]
    upcast = stored == 2 and workload.torch_version >= (2, 5)
    item = 4.0 if upcast else stored
    scores = float(groups) * queries * keys
    ends = float(groups) * (queries + keys) * width
    use = PeakUse.MATMUL_32 if upcast or stored == 4 else PeakUse.HALF
    rows = [
        _product(use, groups=groups, m=queries, n=keys, k=width, item=item),
        _elementwise(kinds.SOFTMAX, scores, item=item),
        _product(use, groups=groups, m=queries, n=width, k=keys, item=item),
        _elementwise(kinds.POINTWISE, ends, item=item),
    ]
    if upcast:
        rows += [_cast(ends * 1.5, stored, item), _cast(float(groups) * queries * width, item, stored)]
    elif stored == 2 and workload.torch_version < (2, 0) and workload.precision.value.startswith("amp"):
        rows += [_cast(scores, item, 4.0)]
    if kernel.attributes.get("has_mask"):
        rows.append(_elementwise(kinds.ADD, scores, item=item))
    return [{**row, "path": AttentionPath.UNFUSED} for row in rows]


def _product(use: PeakUse, *, groups: int, m: int, n: int, k: int, item: float) -> dict[str, Any]:
    return {
        "label": kinds.BATCHED_MATMUL, "peak_use": use, "flops": 2.0 * groups * m * n * k,
        "read_bytes": item * groups * (m + n) * k, "written_bytes": item * groups * m * n,
        "m": float(m), "n": float(n), "k": float(k), "groups": float(groups), "misaligned": bool(n % 8 or k % 8),
    }  # fmt: skip


def _elementwise(label: str, elements: float, *, item: float) -> dict[str, Any]:
    return {"label": label, "peak_use": PeakUse.NONE, "read_bytes": elements * item, "written_bytes": elements * item}


def _cast(elements: float, item_from: float, item_to: float) -> dict[str, Any]:
    return {
        "label": kinds.CAST, "peak_use": PeakUse.NONE,
        "read_bytes": elements * item_from, "written_bytes": elements * item_to,
    }  # fmt: skip
