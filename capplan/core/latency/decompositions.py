"""Kernels that PyTorch runs for one operator: unfused attention, old RMS norms, gradients, optimizer steps.

A convolution's gradients are two products over other dimensions than the forward's. Norms read their data once for
statistics or sums, and again to use them. Optimizers run over lists of tensors, fused from torch 2.0 on.
"""

from enum import IntEnum
from math import ceil, prod
from typing import Any

from capplan.core.latency import classes as kinds
from capplan.core.latency.kernel_time import PeakUse
from capplan.core.ops.catalogue import OperatorClass, operator_class
from capplan.core.ops.convolutions import group_count, is_channels_last
from capplan.core.ops.flops import kernel_flops, traffic
from capplan.core.trace.types import ITEM_BYTES, Kernel, MemoryFormat
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
    if workload.framework.is_engine:
        # List the rows of softmax(q kᵀ) v in an engine without fused attention: two products, and what lies between.
        query, key = kernel.inputs[0].shape_at(batch), kernel.inputs[1].shape_at(batch)
        groups, queries, keys, width = prod(query[:-2]), query[-2], key[-2], query[-1]
        item = max(ITEM_BYTES[kernel.inputs[0].dtype], 2.0)
        use = PeakUse.MATMUL_32 if item == 4 else PeakUse.HALF
        rows = [
            _product(use, groups=groups, m=queries, n=keys, k=width, item=item),
            _elementwise(kinds.FUSED_SOFTMAX, float(groups) * queries * keys, item=item),
            _product(use, groups=groups, m=queries, n=width, k=keys, item=item),
        ]
        return [{**row, "path": AttentionPath.UNFUSED} for row in rows]
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


SERIAL_STEPS_PER_LAUNCH = 20
"""A small kernel's time on the device (6 µs in the shipped fit) in steps of one thread (0.3 µs)."""


def runs_slow_conv3d(kernel: Kernel, workload: Workload) -> bool:
    """Return True if a convolution of volumes in 16 bits runs without cuDNN.

    PyTorch 2.9 keeps them from the cuDNN that it ships (9.8 to 9.14), whose kernels were wrong: `ConvParams::use_cudnn`
    in aten/src/ATen/native/Convolution.cpp. 2.10 ships a cuDNN that it uses again.
    """
    if kernel.name != "aten.convolution" or workload.torch_version != (2, 9) or workload.precision.half_dtype is None:
        return False
    weight = kernel.inputs[1]
    return len(weight.shape) == 5 and ITEM_BYTES[weight.dtype] == 2 and not kernel.attributes.get("transposed")


def slow_conv3d(kernel: Kernel, batch: int, *, use: PeakUse) -> list[dict[str, Any]]:
    """List the rows of a convolution of volumes without cuDNN: windows written out, then a product for each sample.

    `slow_conv3d_forward` in aten/src/ATen/native/cuda/ConvolutionMM3d.cu. Each sample has its own two launches, which
    the device takes in turn; `vol2col_kernel` writes a window's elements in a loop.
    """
    out, weight = kernel.outputs[0].shape_at(batch), kernel.inputs[1].shape_at(batch)
    positions, window = float(prod(out[2:])), float(prod(weight[1:]))
    item = float(ITEM_BYTES[kernel.inputs[0].dtype])
    columns = batch * positions * window
    product = _product(use, groups=batch, m=int(positions), n=weight[0], k=int(window), item=item)
    # One sample alone does not fill the multiprocessors: a thread writes its window's elements one after another.
    writing = {"serial": float(batch * (SERIAL_STEPS_PER_LAUNCH + window))}
    in_turn = {"serial": float(batch * SERIAL_STEPS_PER_LAUNCH)}
    return [{**_elementwise(kinds.COPY, columns, item=item), **writing}, {**product, **in_turn, "groups": 1.0}]


def _product(use: PeakUse, *, groups: int, m: int, n: int, k: int, item: float) -> dict[str, Any]:
    return {
        "label": kinds.BATCHED_MATMUL, "peak_use": use, "flops": 2.0 * groups * m * n * k,
        "read_bytes": item * groups * (m + n) * k, "written_bytes": item * groups * m * n,
        "m": float(m), "n": float(n), "k": float(k), "groups": float(groups), "misaligned": bool(n % 8 or k % 8),
    }  # fmt: skip


def _elementwise(label: str, elements: float, *, item: float, written: float | None = None) -> dict[str, Any]:
    """Describe an elementwise kernel; `item` and `written` are the bytes of an element read and written."""
    return {
        "label": label, "peak_use": PeakUse.VECTOR, "flops": elements,
        "read_bytes": elements * item, "written_bytes": elements * (item if written is None else written),
    }  # fmt: skip


def _cast(elements: float, item_from: float, item_to: float) -> dict[str, Any]:
    return _elementwise(kinds.CAST, elements, item=item_from, written=item_to)


_FOREACH_SINCE = (2, 0)
_TENSORS_PER_LAUNCH = 50
"""Tensors whose addresses fit the arguments of one multi-tensor kernel, of two to four lists."""
_WIDEST_GROUP, _GROUPS_TOGETHER = 32, 32
"""Grouped gradients are fast up to these channels a group, and for multiples of these groups: seen on an RTX 3090."""


def training_rows(kernel: Kernel, workload: Workload, batch: int, *, use: PeakUse) -> list[dict[str, Any]] | None:
    """List the rows of a kernel that only training runs; None for all others. `use` is the rate of its products."""
    name = kernel.name.partition(".")[2]
    if name == "convolution_backward":
        return _convolution_gradients(kernel, batch, use)
    if name == "attention_backward":
        return [_attention_gradient(kernel, batch, use)]
    if name.startswith("native_batch_norm") and bool(
        kernel.attributes.get("training", kernel.attributes.get("train", False))
    ):
        blocks = 0.0 if is_channels_last(kernel) else float(kernel.inputs[0].shape_at(batch)[1])
        return [{**_moved(kernel, batch, kinds.BATCH_NORM_TRAINING, passes=2), "blocks": blocks}]
    if name in ("native_layer_norm_backward", "native_group_norm_backward", "_fused_rms_norm_backward"):
        return [_moved(kernel, batch, kinds.NORM_GRADIENT, passes=2)]
    if name.endswith("pool2d_with_indices_backward") or name.endswith("pool2d_backward"):
        return [_moved(kernel, batch, kinds.POOL_GRADIENT, passes=1)]
    if operator_class(kernel) is OperatorClass.OPTIMIZER:
        # Describe an update of the optimizer; of GPUs that share its states, each updates its own (ZeRO, section
        # 5.1).
        tensors = max(1, len(kernel.outputs))
        together = workload.torch_version >= _FOREACH_SINCE or "fused" in kernel.name
        row = _moved(kernel, batch, kinds.OPTIMIZER, passes=1)
        if workload.sharding.spreads_optimizer:
            row |= {name: row[name] / workload.gpu_count for name in ("read_bytes", "written_bytes", "weight_bytes")}
        optimizer = {**row, "launches": float(ceil(tensors / _TENSORS_PER_LAUNCH) if together else tensors)}
        return [optimizer]
    return None


def _moved(kernel: Kernel, batch: int, label: str, *, passes: int) -> dict[str, Any]:
    moved = traffic(kernel, batch)
    return {
        "label": label, "peak_use": PeakUse.NONE, "read_bytes": float(passes * moved.read_bytes),
        "written_bytes": float(moved.written_bytes), "weight_bytes": float(moved.weight_bytes),
        "launches": float(passes),
    }  # fmt: skip


def _attention_gradient(kernel: Kernel, batch: int, use: PeakUse) -> dict[str, Any]:
    query, key = kernel.inputs[1].shape_at(batch), kernel.inputs[2].shape_at(batch)
    return {
        **_moved(kernel, batch, kinds.ATTENTION_GRADIENT, passes=1), "peak_use": use,
        "flops": float(kernel_flops(kernel, batch)), "m": float(query[-2]), "n": float(key[-2]),
        "k": float(query[-1]), "groups": float(prod(query[:-2])),
        "misaligned": bool(kernel.attributes.get("has_mask", False)),
    }  # fmt: skip


def _convolution_gradients(kernel: Kernel, batch: int, use: PeakUse) -> list[dict[str, Any]]:
    gradient, source, weight = kernel.inputs[:3]
    mask = kernel.attributes.get("output_mask", (1, 1, 1))
    assert isinstance(mask, tuple)
    wanted = [bool(flag) for flag in mask[:2]]
    groups = group_count(kernel, batch)
    out, per_group, *window = weight.shape_at(batch)
    flops = kernel_flops(kernel, batch) / max(1, sum(wanted))
    images, _, *positions = gradient.shape_at(batch)
    sources, _, *source_positions = source.shape_at(batch)
    moved_gradient, moved_source = float(gradient.size_bytes(batch)), float(source.size_bytes(batch))
    moved_weight = float(weight.size_bytes(batch))
    label = kinds.kernel_class(kernel)
    if label.startswith(kinds.CONV_GROUPED) and (per_group > _WIDEST_GROUP or groups % _GROUPS_TOGETHER):
        label = label.replace(kinds.CONV_GROUPED, kinds.CONV_GROUPED_WIDE)
    shared = {
        "peak_use": use, "flops": float(flops), "groups": float(groups),
        "misaligned": not kinds.is_depthwise(label) and bool(per_group % 8 or (out // groups) % 8),
        "foreign_layout": use in (PeakUse.HALF, PeakUse.CONVOLUTION_32)
        and source.memory_format is not MemoryFormat.CHANNELS_LAST,
    }  # fmt: skip
    for_input = {
        **shared, "label": label + kinds.INPUT_GRADIENT_SUFFIX,
        "read_bytes": moved_gradient, "written_bytes": moved_source, "weight_bytes": moved_weight,
        "m": float(sources * prod(source_positions)), "n": float(per_group), "k": float(out // groups * prod(window)),
    }  # fmt: skip
    for_weight = {
        **shared, "label": label + kinds.WEIGHT_GRADIENT_SUFFIX,
        "read_bytes": moved_gradient + moved_source, "weight_bytes": moved_weight,
        "m": float(out // groups), "n": float(per_group * prod(window)), "k": float(images * prod(positions)),
    }  # fmt: skip
    return [row for row, asked in zip((for_input, for_weight), wanted, strict=True) if asked]
