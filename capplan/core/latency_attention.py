"""What PyTorch runs instead of a fused operator: attention without one, RMS norms before torch 2.9."""

from enum import IntEnum
from math import prod
from typing import Any

from capplan.core import latency_classes as kinds
from capplan.core.roofline import PeakUse
from capplan.core.trace import ITEM_BYTES, Kernel, MemoryFormat
from capplan.core.workload import Workload


class AttentionPath(IntEnum):
    """Which rows of a kernel table run: those of every GPU, of fused attention only, of unfused only."""

    ALWAYS = 0
    FUSED = 1
    UNFUSED = 2


def unfused_attention(kernel: Kernel, workload: Workload, batch: int) -> list[dict[str, Any]]:
    """List the rows of softmax(q kᵀ) v as PyTorch's math path runs it.

    Since torch 2.5 it computes 16-bit inputs in fp32 (TF32 where allowed). Before 2.0 there is no fused
    operator at all: the model's own products and softmax run, which autocast takes to fp32 and back. Batched
    products copy strided operands, and heads are gathered again at the end.
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
    strided = [operand for operand in kernel.inputs[:3] if operand.memory_format is MemoryFormat.STRIDED]
    rows += [_elementwise(kinds.COPY, float(operand.distinct_elements(batch)), item=item) for operand in strided]
    rows.append(_elementwise(kinds.COPY, float(groups) * queries * width, item=item))
    if kernel.attributes.get("has_mask"):
        rows.append(_elementwise(kinds.ADD, scores, item=item))
    return [{**row, "path": AttentionPath.UNFUSED} for row in rows]


FUSED_RMS_NORM_SINCE = (2, 9)


def unfused_rms_norm(kernel: Kernel, batch: int) -> list[dict[str, Any]]:
    """List the rows of an RMS norm as torch before 2.9 runs it: in fp32, one kernel per step of the formula."""
    elements = float(kernel.outputs[0].distinct_elements(batch))
    stored = ITEM_BYTES[kernel.inputs[0].dtype]
    rows = [_elementwise(kinds.POINTWISE, elements, item=4.0) for _ in range(2 + len(kernel.inputs[1:]))]
    rows.append({"label": kinds.REDUCTION, "peak_use": PeakUse.VECTOR, "flops": elements, "read_bytes": 4 * elements})
    return rows + ([_cast(elements, stored, 4.0), _cast(elements, 4.0, stored)] if stored < 4 else [])


def _product(use: PeakUse, *, groups: int, m: int, n: int, k: int, item: float) -> dict[str, Any]:
    return {
        "label": kinds.BATCHED_MATMUL, "peak_use": use, "flops": 2.0 * groups * m * n * k,
        "read_bytes": item * groups * (m + n) * k, "written_bytes": item * groups * m * n,
        "m": float(m), "n": float(n), "k": float(k), "groups": float(groups), "misaligned": bool(n % 8 or k % 8),
    }  # fmt: skip


def _elementwise(label: str, elements: float, *, item: float) -> dict[str, Any]:
    return {
        "label": label, "peak_use": PeakUse.VECTOR, "flops": elements,
        "read_bytes": elements * item, "written_bytes": elements * item,
    }  # fmt: skip


def _cast(elements: float, item_from: float, item_to: float) -> dict[str, Any]:
    return {
        "label": kinds.CAST, "peak_use": PeakUse.VECTOR, "flops": elements,
        "read_bytes": elements * item_from, "written_bytes": elements * item_to,
    }  # fmt: skip
