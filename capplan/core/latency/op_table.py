"""Reduce a recording to the numbers that decide its kernels' speed, at every batch at once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from capplan.core.gpus.rate_laws import QuantisedLaws, RateLaws
from capplan.core.latency import classes as kinds
from capplan.core.latency.decompositions import (
    FUSED_RMS_NORM_SINCE,
    SERIAL_STEPS_PER_LAUNCH,
    AttentionPath,
    runs_slow_conv3d,
    slow_conv3d,
    training_rows,
    unfused_attention,
    unfused_rms_norm,
)
from capplan.core.latency.kernel_time import PeakUse
from capplan.core.latency.step import ExecutedStep
from capplan.core.numbers import BoolArray, FloatArray, IntArray
from capplan.core.ops.attention import asked_backend
from capplan.core.ops.flops import kernel_flops, matmul_shape, traffic
from capplan.core.quantisation.rewrite import WIDEN
from capplan.core.trace.types import HALF, ITEM_BYTES, Kernel, MemoryFormat
from capplan.core.workload import Framework, Variant, Workload

_USE_BY_DTYPE = {
    HALF: PeakUse.HALF, "float16": PeakUse.HALF, "bfloat16": PeakUse.HALF, "float64": PeakUse.DOUBLE,
    "int8": PeakUse.INT8, "uint8": PeakUse.INT8, "qint8": PeakUse.INT8, "quint8": PeakUse.INT8,
    "float8_e4m3fn": PeakUse.FP8, "float8_e5m2": PeakUse.FP8, "float4_e2m1fn": PeakUse.FP4,
}  # fmt: skip
_FEWEST_WINOGRAD_CHANNELS = 16
_CUDNN_9_SINCE, _WIDEST_GROUP = (2, 4), 64
"""Before, channels-last convolutions whose groups are wider had a fast kernel only where whole tiles of 64 channels
make up a group: seen in timm's tables (128 and 640 are fast, 72, 112, 168 and 264 are not)."""
_FEWEST_GROUPED = 4
"""Channels-last groups of 4 channels run as fast for their work as those of 8 and more, groups of 2 and 3 some forty
times slower: timm's tables of dla46x_c, dpn92 and senet154, eager and compiled, on three GPUs."""
_CUDNN_8_SINCE = (1, 7)
"""Before, a GPU without tensor cores ran convolutions of 16-bit images by Winograd's algorithm, too: a GTX 1080 Ti took
VGG-16 0.91 of its time in fp32. Under torch 1.7 a Titan Xp took it 1.16 of that, as without the algorithm."""
_GEMM_LIKE = {
    *(label + suffix for label in kinds.CONVOLUTIONS for suffix in ("", kinds.CHANNELS_LAST_SUFFIX)),
    kinds.CONV_GROUPED_WIDE + kinds.CHANNELS_LAST_SUFFIX, kinds.CONV_GROUPED_NARROW + kinds.CHANNELS_LAST_SUFFIX,
    kinds.LINEAR, kinds.BATCHED_MATMUL, kinds.ATTENTION, kinds.RECURRENT,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTable:
    """Kernels by row, batches by column; `count` is how often a step runs each row.

    Reads and writes are activations [bytes]; weights apart, since their bytes do not grow with the
    batch. `m`, `n`, `k`, `groups` describe matrix products, `m` = 0 elsewhere. `serial` counts steps that
    one thread must take in turn. `path` marks rows that exist only for one attention backend. `winograd` marks
    convolutions that cuDNN can do with fewer multiplications, which it does where no tensor core does them.
    `slowdown` is how much longer arithmetic takes than that of a 16-bit product at the same share of its peak, `spread`
    how far a quantised kernel may lie from that, in logs. `unsplit_flops` is the arithmetic of an output where a tensor
    has 2³¹ elements and more, 0 where that makes no difference. [FLOP] `gathered_bytes` are what reads of single
    elements, each from another line of the cache, count as beyond their size. `blocks` are the thread blocks of kernels
    that may have too few of them for a GPU, 0 of all others.
    """

    batches: tuple[int, ...]
    kernel: IntArray
    label: IntArray
    peak_use: IntArray
    path: IntArray
    count: FloatArray
    launches: FloatArray
    host_calls: float
    flops: FloatArray
    read_bytes: FloatArray
    written_bytes: FloatArray
    weight_bytes: FloatArray
    m: FloatArray
    n: FloatArray
    k: FloatArray
    groups: FloatArray
    serial: FloatArray
    misaligned: BoolArray
    strided: BoolArray
    foreign_layout: BoolArray
    winograd: BoolArray
    slowdown: FloatArray
    spread: FloatArray
    unsplit_flops: FloatArray
    gathered_bytes: FloatArray
    blocks: FloatArray

    @property
    def fused_count(self) -> FloatArray:
        """Return how often a step runs each row where attention is fused."""
        return np.where(self.path != AttentionPath.UNFUSED, self.count, 0.0)

    @property
    def moved_bytes(self) -> FloatArray:
        """Return the bytes of all operands, [kernel, batch]. [bytes]"""
        return self.read_bytes + self.written_bytes + self.weight_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRow:
    """One row of the table before it is stacked: the kernel's numbers at one batch."""

    label: str
    peak_use: PeakUse
    flops: float = 0.0
    read_bytes: float = 0.0
    written_bytes: float = 0.0
    weight_bytes: float = 0.0
    m: float = 0.0
    n: float = 0.0
    k: float = 0.0
    groups: float = 0.0
    serial: float = 0.0
    misaligned: bool = False
    strided: bool = False
    foreign_layout: bool = False
    winograd: bool = False
    slowdown: float = 1.0
    spread: float = 0.0
    unsplit_flops: float = 0.0
    gathered_bytes: float = 0.0
    launches: float = 1.0
    blocks: float = 0.0
    path: AttentionPath = AttentionPath.ALWAYS


_OVER_BATCHES = (
    "flops", "read_bytes", "written_bytes", "weight_bytes", "gathered_bytes", "m", "n", "k", "groups", "serial",
)  # fmt: skip
_FLAGS = ("misaligned", "strided", "foreign_layout", "winograd")
_AT_ANY_BATCH = ("launches", "slowdown", "spread", "unsplit_flops", "blocks")


def kernel_table(step: ExecutedStep, *, batches: Sequence[int], anchors: Sequence[int] = ()) -> KernelTable:
    """Tabulate a step's kernels at some batches; attention appears once per path that a GPU may take."""
    exact = step.recording.exact_batch
    if anchors and not exact:
        return _interpolated(kernel_table(step, batches=anchors), tuple(batches))
    wanted = (exact,) if exact else tuple(batches)
    table: KernelTable = step.tables.pop(wanted, None) or _tabulate(step, wanted)
    while len(step.tables) >= _MOST_TABLES:
        step.tables.pop(next(iter(step.tables)))
    step.tables[wanted] = table
    return table


_MOST_TABLES = 4
"""Tables that a step keeps, of those that were asked for last: an answer needs those of its batches and its curves."""


def _interpolated(table: KernelTable, batches: tuple[int, ...]) -> KernelTable:
    """Return the table of other batches, from the same samples as those of a table were made from."""
    samples = _samples(table.batches)
    columns = [table.batches.index(sample) for sample in samples]
    weights = _weights(samples, batches)
    counts: dict[str, Any] = {name: _whole(getattr(table, name)[:, columns] @ weights) for name in _OVER_BATCHES}
    return replace(table, batches=batches, **counts)


def _tabulate(step: ExecutedStep, wanted: tuple[int, ...]) -> KernelTable:
    recording, workload = step.recording, step.workload
    calls = recording.calls_per_kernel()
    samples = _samples(wanted)
    weights = _weights(samples, wanted)
    columns: list[list[KernelRow]] = []
    owners: list[int] = []
    for index, kernel in enumerate(recording.kernels):
        by_sample = [_rows(kernel, workload, batch, step.laws) for batch in samples]
        columns += [list(rows) for rows in zip(*by_sample, strict=True)]
        owners += [index] * len(by_sample[0])

    def expand(name: str) -> FloatArray:
        values = [[getattr(row, name) for row in rows] for rows in columns]
        return _whole(np.array(values, dtype=np.float64).reshape(-1, len(samples)) @ weights)

    first = [rows[0] for rows in columns]
    flags = {name: np.array([getattr(row, name) for row in first], dtype=bool) for name in _FLAGS}
    figures = {name: np.array([getattr(row, name) for row in first], dtype=np.float64) for name in _AT_ANY_BATCH}
    named: dict[str, Any] = {**flags, **figures, **{name: expand(name) for name in _OVER_BATCHES}}
    return KernelTable(
        **named,
        batches=wanted,
        kernel=np.array(owners, dtype=np.int64),
        label=np.array([kinds.CLASS_INDEX[row.label] for row in first], dtype=np.int64),
        peak_use=np.array([row.peak_use for row in first], dtype=np.int64),
        path=np.array([row.path for row in first], dtype=np.int64),
        count=np.array([calls[owner] for owner in owners], dtype=np.float64),
        host_calls=float(sum(op.calls for op in recording.steady_ops())),
    )


def counted_flops(table: KernelTable) -> FloatArray:
    """Return FLOPs, [kernel, batch]; 0 for kernels without products, whose `flops` column estimates instructions."""
    return np.where(np.isin(table.label, _PRODUCTS)[:, None], table.flops, 0.0)


_PRODUCTS = [
    index
    for index, label in enumerate(kinds.ALL_CLASSES)
    if label in {*_GEMM_LIKE, kinds.ATTENTION_GRADIENT}
    or label.endswith((kinds.INPUT_GRADIENT_SUFFIX, kinds.WEIGHT_GRADIENT_SUFFIX))
]


def convolution_calls(table: KernelTable) -> float:
    """Return how many convolutions a step calls."""
    return float(table.count @ np.isin(table.label, _CONVOLUTION_LABELS))


_CONVOLUTION_LABELS = [index for index, label in enumerate(kinds.ALL_CLASSES) if label in kinds.FORWARD_CONVOLUTIONS]


def _samples(batches: Sequence[int]) -> tuple[int, ...]:
    """Choose three of the batches, which determine the others: no count has three factors that grow with the batch."""
    distinct = sorted(set(batches))
    return tuple(distinct) if len(distinct) <= 3 else (distinct[0], distinct[len(distinct) // 2], distinct[-1])


def _weights(sampled: Sequence[int], batches: Sequence[int]) -> FloatArray:
    """Return how much each sampled batch counts in each other one, [sample, batch]."""
    samples = np.array(sampled, dtype=np.float64)
    wanted = np.array(batches, dtype=np.float64)
    weights = np.ones((len(samples), len(wanted)))
    for i, here in enumerate(samples):
        for other in np.delete(samples, i):
            weights[i] *= (wanted - other) / (here - other)
    return weights


def _whole(counts: FloatArray) -> FloatArray:
    """Round counts: what a weighted sum misses by rounding would make a tile too many of a full one."""
    return np.rint(np.maximum(counts, 0.0))


def _rows(kernel: Kernel, workload: Workload, batch: int, laws: RateLaws) -> list[KernelRow]:
    label = _class_under(kernel, workload)
    if kernel.name == "aten._fused_rms_norm" and workload.torch_version < FUSED_RMS_NORM_SINCE:
        return [KernelRow(**piece) for piece in unfused_rms_norm(kernel, batch)]
    if runs_slow_conv3d(kernel, workload):
        return [KernelRow(**piece) for piece in slow_conv3d(kernel, batch, use=_peak_use(kernel, label))]
    training = training_rows(kernel, workload, batch, use=_peak_use(kernel, label))
    if training is not None:
        return [KernelRow(**piece) for piece in training]
    row = _row(kernel, label, batch, laws.quantised)
    if kernel.name == WIDEN:
        kernels = laws.unpacking.get(str(kernel.attributes["scheme"]), 1.0)
        if workload.framework is not Framework.EAGER:
            kernels = min(kernels, 2.0)  # a compiler makes one of those over the wide copy
        wide_bytes = (kernels - 1.0) * float(kernel.outputs[0].size_bytes(batch))
        row = replace(
            row, flops=row.flops * kernels, launches=kernels, weight_bytes=row.weight_bytes + wide_bytes,
            written_bytes=row.written_bytes + wide_bytes,
        )  # fmt: skip
    if row.winograd and row.peak_use is PeakUse.HALF and workload.torch_version >= _CUDNN_8_SINCE:
        row = replace(row, winograd=False)
    if _is_never_split(kernel, label, workload):
        # The elements of one row of a channels-last image: the slow kernel's time for an output grows with it.
        shape = kernel.inputs[0].shape_at(batch)
        row = replace(row, unsplit_flops=laws.unsplit_flops * float(shape[1] * shape[3]))
    if label in kinds.FORWARD_CONVOLUTIONS:
        row = replace(row, slowdown=row.slowdown * _slowdown(kernel, label, workload, laws))
    if label in _REORDERING and not workload.framework.is_engine:
        row = replace(row, gathered_bytes=_gathered_bytes(kernel, batch, laws.gathered_bytes))
    if label != kinds.ATTENTION or kernel.name.endswith("backward"):
        return [row]
    if workload.framework.is_engine:  # a thread block takes some queries and passes over all keys, which fill no other
        row = replace(row, n=float(kernel.inputs[0].shape_at(batch)[-1]))
    fused = replace(row, path=AttentionPath.FUSED)
    return [fused, *(KernelRow(**piece) for piece in unfused_attention(kernel, workload, batch))]


def _class_under(kernel: Kernel, workload: Workload) -> str:
    """Return the kernel's class with the libraries of a torch version."""
    label = kinds.kernel_class(kernel)
    if label != kinds.CONV_GROUPED + kinds.CHANNELS_LAST_SUFFIX:
        return label
    per_group = kernel.inputs[1].shape_at(1)[1]
    if per_group < _FEWEST_GROUPED:
        return kinds.CONV_GROUPED_NARROW + kinds.CHANNELS_LAST_SUFFIX
    if workload.torch_version >= _CUDNN_9_SINCE:
        return label
    is_slow = per_group > _WIDEST_GROUP and per_group % _WIDEST_GROUP != 0
    return kinds.CONV_GROUPED_WIDE + kinds.CHANNELS_LAST_SUFFIX if is_slow else label


def _row(kernel: Kernel, label: str, batch: int, quantised: QuantisedLaws) -> KernelRow:
    moved = traffic(kernel, batch)
    gemm_like = label in _GEMM_LIKE
    shape = matmul_shape(kernel, batch) if gemm_like else None
    use = _peak_use(kernel, label) if gemm_like else PeakUse.VECTOR
    asked = asked_backend(kernel) if label == kinds.ATTENTION else None
    scheme = asked.value if asked else str(kernel.attributes.get("scheme"))
    is_attention_in_half = label == kinds.ATTENTION and use is PeakUse.HALF
    padding = head_padding(shape.k) if shape and is_attention_in_half else 1.0
    return KernelRow(
        label=label,
        peak_use=use,
        flops=float(kernel_flops(kernel, batch)) if gemm_like else instructions(kernel, batch),
        read_bytes=float(moved.read_bytes),
        written_bytes=float(moved.written_bytes),
        weight_bytes=float(moved.weight_bytes),
        m=float(shape.m) if shape else 0.0,
        n=float(shape.n) if shape else 0.0,
        k=float(shape.k) if shape else _LONG_PRODUCT if label == kinds.LINEAR else 0.0,
        groups=float(shape.groups) if shape else 0.0,
        serial=_serial_steps(kernel, batch),
        misaligned=_is_misaligned(kernel, label, batch),
        strided=not gemm_like
        and any(operand.memory_format is MemoryFormat.STRIDED and (not operand.is_weight) for operand in kernel.inputs),
        foreign_layout=_has_foreign_layout(kernel, label, use, batch),
        winograd=_is_winograd(kernel, label, use),
        slowdown=quantised.slowdown.get(scheme, 1.0) * padding,
        spread=quantised.half_width.get(scheme, 0.0),
    )


_LONG_PRODUCT = 4096.0
"""The inner dimension of what a user's formula counts, which states none: products reach their full rate there."""
_HEAD_WIDTHS = (32, 64, 96, 128, 160, 192, 224, 256)
"""Head widths that FlashAttention's kernels are built for: `HEADDIM_SWITCH` in csrc/flash_attn/src/static_switch.h."""


def head_padding(width: float) -> float:
    """Return how much more than the head's width fused attention multiplies: it rounds up to the next kernel's."""
    return next((built / width for built in _HEAD_WIDTHS if built >= width > 0), 1.0)


def instructions(kernel: Kernel, batch: int) -> float:
    """Return the arithmetic of a kernel without products: as a compiler counted, else one per element. [FLOP]

    A class's efficiency says what an element costs beyond that: addresses, conversions, functions.
    """
    stated = kernel.attributes.get("arithmetic", 1)
    per_element = stated if isinstance(stated, int) else 1  # a damaged trace file may hold anything
    operands = (*kernel.inputs, *kernel.outputs)
    elements = max((operand.distinct_elements(batch) for operand in operands), default=0)
    if kernel.name == "aten.native_layer_norm":
        # The lanes that a layer norm occupies: a whole block for each row, however short the row is.
        shape = _counts(kernel, "normalized_shape")
        width = prod(shape) if shape else kernel.inputs[0].shape_at(1)[-1]
        passes = -(-width // _LAYER_NORM_LANES)
        layer_norm_lanes = elements // max(1, width) * passes * _LAYER_NORM_LANES
        return float(layer_norm_lanes)
    if kernel.name == "aten.col2im":
        # The arithmetic of one pixel of F.fold, whose place, and the windows over it, are found by divisions.
        # `col2im_device` in aten/src/ATen/native/cuda/im2col.cuh.
        sizes, strides = (_counts(kernel, name) or (1, 1) for name in ("kernel_size", "stride"))
        windows = prod(-(-size // max(1, stride)) for size, stride in zip(sizes, strides, strict=False))
        folding_per_pixel = _DIVISION * (_DIVISIONS_PER_PIXEL + _DIVISIONS_PER_WINDOW * windows)
        return float(folding_per_pixel * kernel.outputs[0].distinct_elements(batch))
    return float(per_element * elements)


_DIVISION = 4.0
"""A division of 64-bit integers, some 130 lane cycles, in units of an element of a simple kernel, some 30."""
_DIVISIONS_PER_PIXEL, _DIVISIONS_PER_WINDOW = 7, 4


_LAYER_NORM_LANES = 512
"""Elements that one pass of a layer norm's thread block takes: 128 threads, vectors of 4
(launch_vectorized_layer_norm_kernel in aten/src/ATen/native/cuda/layer_norm_kernel.cu)."""


def _counts(kernel: Kernel, name: str) -> tuple[int, ...] | None:
    """Return an attribute that holds whole numbers; None where it is missing, or a trace file holds something else."""
    values = kernel.attributes.get(name)
    if not isinstance(values, tuple):
        return None
    numbers = tuple(value for value in values if isinstance(value, int))
    return numbers if len(numbers) == len(values) else None


def _peak_use(kernel: Kernel, label: str) -> PeakUse:
    dtype = kernel.inputs[0].dtype if kernel.inputs else "float32"
    use = _USE_BY_DTYPE.get(dtype)
    if kinds.is_depthwise(label):
        return PeakUse.DOUBLE if use is PeakUse.DOUBLE else PeakUse.VECTOR
    if label == kinds.ATTENTION and use in (PeakUse.INT8, PeakUse.FP8):
        return PeakUse.HALF  # its exponentials, not its products, take the time: int8 gains nothing in NVIDIA's BERT
    if use is not None:
        return use
    return PeakUse.CONVOLUTION_32 if kinds.is_convolution(label) or label == kinds.RECURRENT else PeakUse.MATMUL_32


def _has_foreign_layout(kernel: Kernel, label: str, use: PeakUse, batch: int) -> bool:
    """Return True for images that cuDNN converts before and after a convolution on tensor cores.

    Row-major ones become channels-last and back. Of channels-last ones in 16 bits those whose channels are not a
    multiple of 8 are copied to padded ones (cuDNN's `nhwcAddPaddingKernel`).
    """
    if label in _PADDED:
        out, channels, *_ = kernel.inputs[1].shape_at(batch)
        return use is PeakUse.HALF and (channels % 8 != 0 or out % 8 != 0)
    return use in (PeakUse.HALF, PeakUse.CONVOLUTION_32) and label in kinds.CONVOLUTIONS


_PADDED = (kinds.CONV + kinds.CHANNELS_LAST_SUFFIX, kinds.CONV_1X1 + kinds.CHANNELS_LAST_SUFFIX)


def _is_misaligned(kernel: Kernel, label: str, batch: int) -> bool:
    """Return True if a dimension that is not a multiple of 8 keeps tensor cores from loading whole vectors.

    Narrow groups of channels share tiles of 16, 32 or 64: other widths leave a part of them idle.
    """
    if label == kinds.ATTENTION:
        return bool(kernel.attributes.get("has_mask", False))
    if label in (kinds.LINEAR, kinds.BATCHED_MATMUL):
        shape = matmul_shape(kernel, batch)
        return shape is not None and (shape.k % 8 != 0 or shape.n % 8 != 0)
    if kinds.is_depthwise(label):
        # PyTorch gives every depthwise convolution of a channels-last image to cuDNN (`ConvParams::use_cudnn_depthwise`
        # in aten/src/ATen/native/Convolution.cpp), whose kernels for that layout load vectors of 8 channels of 16 bits.
        is_half = _USE_BY_DTYPE.get(kernel.inputs[0].dtype) is PeakUse.HALF
        return label.endswith(kinds.CHANNELS_LAST_SUFFIX) and is_half and kernel.inputs[1].shape_at(batch)[0] % 8 != 0
    if not label.startswith("conv") or label.startswith(kinds.CONV_STEM):
        return False
    channels = kernel.inputs[1].shape_at(batch)[1]
    if label.startswith(kinds.CONV_GROUPED):
        is_uneven = channels % 8 != 0 or (channels < _WIDEST_GROUP and channels & (channels - 1) != 0)
        return is_uneven and (channels > _FEWEST_GROUPED or not label.endswith(kinds.CHANNELS_LAST_SUFFIX))
    return channels % 8 != 0


_UNSPLIT_SINCE = (2, 0)


def _is_never_split(kernel: Kernel, label: str, workload: Workload) -> bool:
    """Return True for depthwise convolutions in 16 bits and channels-last, which slow down from 2³¹ elements on.

    Until torch 1.13 PyTorch cut the batch so that cuDNN counts in 32 bits (`split_batch_dim_to_32bit_out` in
    aten/src/ATen/native/cudnn/Conv_v7.cpp). Through cuDNN's newer interface it hands the whole over (Conv_v8.cpp), and
    depthwise kernels that count in 64 bits are slow: the 37 such models of timm's tables take 1.1 to 1.6 times as long
    on an RTX 3090 from torch 2.1 on, those just below 2³¹ elements what they took before.
    """
    is_depthwise = kinds.is_depthwise(label) and label.endswith(kinds.CHANNELS_LAST_SUFFIX)
    is_eager = not workload.framework.is_engine and workload.torch_version >= _UNSPLIT_SINCE
    return is_depthwise and is_eager and _USE_BY_DTYPE.get(kernel.inputs[0].dtype) is PeakUse.HALF


_MOST_UNPADDED_CHANNELS = 16


def _slowdown(kernel: Kernel, label: str, workload: Workload, laws: RateLaws) -> float:
    """Return how many times as long the arithmetic of a channels-last convolution takes that has no fast kernel.

    In compiled graphs whose weights are kept in 16 bits, images of up to 16 channels, or of a number that 8 does not
    divide, have none under windows of more than a pixel. Under autocast, where the graph itself converts the weights,
    they have: a ResNet's first convolution of 224 pixels takes 6 µs an image less, HRNet-W18's 3x3 ones 90 µs (timm's
    tables of an RTX PRO 6000, torch 2.9; which kernels run was not published).
    """
    plain = label.removesuffix(kinds.CHANNELS_LAST_SUFFIX)
    if workload.framework not in (Framework.COMPILE, Framework.COMPILE_GRAPHS) or plain == label:
        return 1.0
    channels = kernel.inputs[1].shape_at(1)[1]
    is_unpadded = channels <= _MOST_UNPADDED_CHANNELS or channels % 8 != 0
    is_slow = is_unpadded and workload.precision.variant is Variant.HALF
    return laws.slow_convolutions.get(plain, 1.0) if is_slow else 1.0


def _is_winograd(kernel: Kernel, label: str, use: PeakUse) -> bool:
    """Return True for dense 3x3 convolutions of row-major images at stride 1 (Lavin and Gray, 2016)."""
    if label != kinds.CONV or use not in (PeakUse.CONVOLUTION_32, PeakUse.HALF):
        return False
    weight, held = kernel.inputs[1].shape_at(1), kernel.attributes
    every_pixel = held.get("stride", (1, 1)) == (1, 1) and held.get("dilation", (1, 1)) == (1, 1)
    return weight[2:] == (3, 3) and every_pixel and weight[1] >= _FEWEST_WINOGRAD_CHANNELS


_REORDERING = frozenset({kinds.COPY, kinds.CAST, kinds.ADD, kinds.POINTWISE, kinds.ACTIVATION})
_LINE_BYTES = 128
"""A line of the GPU's caches, which one request of a warp reads."""


def _gathered_bytes(kernel: Kernel, batch: int, element_bytes: float) -> float:
    """Return what an elementwise kernel reads beyond its operands' sizes from channels-last images into row-major ones.

    `TensorIterator::reorder_dimensions` follows the output, so that neighbouring threads write side by side and read
    one element each of another pixel (the legacy kernel of aten/src/ATen/native/cuda/CUDALoops.cuh). The other
    direction reads single elements, too, but a block's next rows hit the lines that it has read.
    """
    if not kernel.outputs or kernel.outputs[0].memory_format is not MemoryFormat.CONTIGUOUS:
        return 0.0
    extra = 0.0
    for operand in kernel.inputs:
        if operand.memory_format is MemoryFormat.CHANNELS_LAST and not operand.is_weight:
            item, channels = ITEM_BYTES[operand.dtype], operand.shape_at(batch)[1]
            counted = element_bytes * min(1.0, channels * item / _LINE_BYTES)
            extra += operand.distinct_elements(batch) * max(0.0, counted - item)
    return extra


def _serial_steps(kernel: Kernel, batch: int) -> float:
    """Return what one thread takes in turn: images × channels where a thread resizes a pixel, windows where it unfolds.

    F.unfold has a launch for each sample, whose threads write a window's pixels one after another: `im2col_out_cuda`
    in aten/src/ATen/native/cuda/Im2Col.cu.
    """
    if kernel.name == "aten.im2col":
        window = _counts(kernel, "kernel_size") or (1, 1)
        return float(kernel.inputs[0].shape_at(batch)[0] * (SERIAL_STEPS_PER_LAUNCH + prod(window)))
    if kernel.name not in ("aten.upsample_bilinear2d", "aten.upsample_bicubic2d"):
        return 0.0
    if kernel.inputs[0].memory_format is MemoryFormat.CHANNELS_LAST:
        return 0.0
    images, channels, *_ = kernel.outputs[0].shape_at(batch)
    return float(images * channels)
