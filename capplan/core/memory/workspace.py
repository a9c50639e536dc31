"""Memory that kernels take besides their outputs: library workspaces and temporaries, as intervals.

Three kinds. *Kept*: cuBLAS's workspace, one allocator block from the first matrix product to the end of the
process. *Passing*: cuBLASLt's and cuDNN's workspaces and the buffers inside an operator, taken and given
back within the call. *Saved*: what an unfused attention keeps for its backward.

Sizes that torch fixes are tables here, each row with its origin. cuDNN's choice of algorithm is not public:
its share of the tensors it reads and writes comes from a calibration.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from capplan.core.memory.types import CudaSize, MemoryCalibration
from capplan.core.numbers import Interval
from capplan.core.ops.attention import AttentionBackend, Version
from capplan.core.trace.types import ITEM_BYTES, Affine, Kernel, MemoryFormat, Operand

_MIB = 2**20
CPU: Version = (0, 0)
"""Stands for a CPU where a compute capability is asked for: CUDA's libraries take nothing there."""


CUBLAS_KEPT: Sequence[CudaSize] = (
    CudaSize(
        since=(1, 11), capabilities=((9, 0), (9, 0)), size_bytes=Interval.exact(32 * _MIB),
        origin="torch's default for Hopper, 32 MiB",
    ),
    CudaSize(
        since=(1, 11), capabilities=((10, 0), (99, 9)),
        size_bytes=Interval(low=8_519_680, expected=8_519_680, high=32 * _MIB),
        origin="torch's default 8.125 MiB; releases for Blackwell use up to 32 MiB",
    ),
    CudaSize(
        since=(1, 11), capabilities=((0, 0), (8, 9)), size_bytes=Interval.exact(8_519_680),
        origin="torch's default :4096:2:16:8, 8.125 MiB",
    ),
)  # fmt: skip
"""cuBLAS's workspace per handle and stream: 2 · 4096 KiB + 8 · 16 KiB, seen as 8,519,680 bytes in a public memory
snapshot; 32 MiB on Hopper. Before 1.11 cuBLAS took its own, outside the allocator."""

CUBLASLT_PASSING: Sequence[CudaSize] = (
    CudaSize(
        since=(2, 3), capabilities=((9, 0), (99, 9)), size_bytes=Interval(low=0, expected=32 * _MIB, high=32 * _MIB),
        origin="torch's default from 2.3; later releases share cuBLAS's workspace",
    ),
    CudaSize(
        since=(2, 3), capabilities=((8, 0), (8, 9)), size_bytes=Interval(low=0, expected=1 * _MIB, high=4 * _MIB),
        origin="1 MiB, 4 MiB on large cards from 2.3; later releases share cuBLAS's workspace",
    ),
    CudaSize(
        since=(1, 11), size_bytes=Interval(low=0, expected=1 * _MIB, high=1 * _MIB), origin="torch's default, 1 MiB"
    ),
)  # fmt: skip
"""cuBLASLt's workspace, for one call of a linear layer with bias."""


def library_workspace(
    table: Sequence[CudaSize], *, torch_version: Version, compute_capability: Version | None
) -> CudaSize | None:
    """Find a release's workspace for a compute capability, unknown ones as Ampere's; None before the first row."""
    if compute_capability == CPU:
        return None
    capability = compute_capability or (8, 0)
    for row in table:
        if torch_version >= row.since and row.capabilities[0] <= capability <= row.capabilities[1]:
            return row
    return None


_MATRIX_PRODUCTS = frozenset({"aten.mm", "aten.bmm", "aten.addmm", "aten.baddbmm", "aten.addbmm", "aten.addmv"})


def takes_cublas(kernel: Kernel) -> bool:
    """Return True if a kernel runs on cuBLAS, whose workspace is kept from its first use."""
    return kernel.name in _MATRIX_PRODUCTS


def takes_cublaslt(kernel: Kernel) -> bool:
    """Return True if a kernel is a linear layer with a bias vector, which torch sends to cuBLASLt."""
    return kernel.name == "aten.addmm" and bool(kernel.inputs) and len(kernel.inputs[0].shape) == 1


def takes_cudnn(kernel: Kernel) -> bool:
    """Return True if a kernel runs on cuDNN, which chooses its algorithm and the workspace that goes with it."""
    return kernel.name.startswith(("aten.convolution", "capplan.rnn"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What decides an unfused attention's temporaries: the torch release, and whether autocast is on."""

    torch_version: Version
    autocast: bool

    def scores_bytes(self, item_bytes: float) -> float:
        """Return the bytes per score at the peak: the score and its softmax. [bytes]

        Before 2.0 models wrote attention out, and autocast ran its softmax in fp32; from 2.5 torch's own unfused
        attention computes 16-bit inputs in fp32.
        """
        if item_bytes == 2 and self.autocast and self.torch_version < (2, 0):
            return 6
        return 8 if item_bytes == 2 and self.torch_version >= (2, 5) else 2 * item_bytes

    def item_bytes(self, item_bytes: float) -> float:
        """Return the bytes of one element of unfused attention. [bytes]"""
        return 4 if item_bytes == 2 and self.torch_version >= (2, 5) else item_bytes


def passing_bytes(
    kernel: Kernel,
    *,
    batch: int,
    backend: AttentionBackend | None,
    calibration: MemoryCalibration,
    release: Release,
    on_cpu: bool = False,
) -> Interval:
    """Estimate a kernel's workspace without library handles; `backend` counts for attention alone. [bytes]"""
    if kernel.name.startswith("capplan.attention"):
        query, key = kernel.inputs[0].shape_at(batch), kernel.inputs[1].shape_at(batch)
        rows = math.prod(query[:-1])
        item = ITEM_BYTES[kernel.inputs[0].dtype]
        if backend is AttentionBackend.MATH:
            scores = rows * key[-2] * release.scores_bytes(item)
            cast = sum(math.prod(operand.shape_at(batch)) for operand in kernel.inputs[:3]) * release.item_bytes(item)
            return Interval(low=scores, expected=scores + cast, high=1.6 * scores + 2 * cast)
        logsumexp = 4 * rows
        if not kernel.name.endswith("_backward"):
            mask = _expanded_mask_bytes(kernel, rows=rows, keys=key[-2], item=item, backend=backend, release=release)
            return Interval.exact(mask + (logsumexp if len(kernel.outputs) == 1 else 0))
        accumulator = 4 * rows * query[-1] if item == 2 else 0
        return Interval(low=logsumexp, expected=logsumexp + accumulator, high=logsumexp + 1.5 * accumulator)
    if takes_cudnn(kernel):
        touched = sum(operand.size_bytes(batch) for operand in (*kernel.inputs, *kernel.outputs))
        share = _convolution_share(kernel, calibration, on_cpu)
        relaid = sum(operand.size_bytes(batch) for operand in kernel.inputs[:2] if _is_relaid(kernel, operand))
        return Interval.exact(relaid) + share * touched
    if kernel.name in _SORTING:
        # keys and indices once more each, and the radix sort's own storage
        size = 2 * sum(operand.size_bytes(batch) for operand in kernel.outputs)
        return Interval(low=0, expected=size, high=1.5 * size)
    return Interval.exact(0)


_SORTING = frozenset({"aten.sort", "aten.argsort", "aten.topk", "aten.unique", "aten._unique2", "aten.nonzero"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionBytes:
    """What cuDNN takes for a convolution at any batch: bytes that it copies, and a share of those that it touches."""

    relaid: Affine
    touched: Affine
    share: Interval


def convolution_bytes(kernel: Kernel, *, calibration: MemoryCalibration, on_cpu: bool) -> ConvolutionBytes | None:
    """Return what a convolution takes; None for other kernels, and where a size is not affine in the batch."""
    if not takes_cudnn(kernel):
        return None
    sizes = {id(operand): affine_bytes(operand) for operand in (*kernel.inputs, *kernel.outputs)}
    if None in sizes.values():
        return None
    relaid = [sizes[id(operand)] for operand in kernel.inputs[:2] if _is_relaid(kernel, operand)]
    touched = [sizes[id(operand)] for operand in (*kernel.inputs, *kernel.outputs)]
    return ConvolutionBytes(
        relaid=_sum(relaid), touched=_sum(touched), share=_convolution_share(kernel, calibration, on_cpu)
    )


def affine_bytes(operand: Operand) -> Affine | None:
    """Return an operand's size as an affine function of the batch; None where two dimensions grow with it. [bytes]"""
    constant, growing = ITEM_BYTES[operand.dtype], []
    for index, dim in enumerate(operand.shape):
        if dim.per_sample:
            growing.append((index, dim))
        elif dim.constant == 0:
            return Affine(0)
        elif index not in operand.expanded:
            constant *= dim.constant
    if len(growing) > 1 or constant != int(constant) or any(min(dim) < 0 for _, dim in growing):
        return None
    if not growing or growing[0][0] in operand.expanded:
        return Affine(int(constant))
    return Affine(int(constant) * growing[0][1].constant, int(constant) * growing[0][1].per_sample)


def _sum(sizes: Sequence[Affine | None]) -> Affine:
    known = [size for size in sizes if size is not None]
    return Affine(sum(size.constant for size in known), sum(size.per_sample for size in known))


def _convolution_share(kernel: Kernel, calibration: MemoryCalibration, on_cpu: bool) -> Interval:
    first = kernel.inputs[0]
    is_half, is_row_major = ITEM_BYTES[first.dtype] == 2, first.memory_format is not MemoryFormat.CHANNELS_LAST
    if on_cpu:
        copies = calibration.cpu_workspaces
        return (copies.row_major_half if is_half else copies.row_major) if is_row_major else copies.channels_last
    shares = calibration.convolution_workspaces
    return shares.nchw_half if is_half and is_row_major else shares.other


def _is_relaid(kernel: Kernel, operand: Operand) -> bool:
    """Return True for a strided input, and for a weight not laid out as its input: a convolution copies these."""
    differs = operand.is_weight and operand.memory_format is not kernel.inputs[0].memory_format
    return operand.memory_format is MemoryFormat.STRIDED or differs


def unfused_scores_bytes(kernel: Kernel, *, batch: int, backend: AttentionBackend | None, release: Release) -> float:
    """Return the size of the matrix of scores of unfused attention, and of its softmax: a block each. [bytes]"""
    if backend is not AttentionBackend.MATH:
        return 0.0
    query, key = kernel.inputs[0].shape_at(batch), kernel.inputs[1].shape_at(batch)
    return math.prod(query[:-1]) * key[-2] * release.scores_bytes(ITEM_BYTES[kernel.inputs[0].dtype]) / 2


_EXPANDS_MASKS, _PADS_MASKS_FIRST, _MASK_ALIGNMENT = (2, 1), (2, 2), 16


def _expanded_mask_bytes(
    kernel: Kernel, *, rows: int, keys: int, item: float, backend: AttentionBackend | None, release: Release
) -> float:
    """Return what torch 2.1 takes to pad a mask for memory-efficient attention, for every sample and head. [bytes]

    `preprocess_mask` in aten/src/ATen/native/transformers/attention.cpp expanded a mask before it padded its rows to
    16 elements; later releases pad first. timm's BEiT-large at 512 pixels ran at batch 256 under 2.1 on an RTX 3090,
    at 512 under 2.4.
    """
    pads = _EXPANDS_MASKS <= release.torch_version < _PADS_MASKS_FIRST and keys % _MASK_ALIGNMENT != 0
    if backend is not AttentionBackend.EFFICIENT or not kernel.attributes.get("has_mask") or not pads:
        return 0.0
    return rows * math.ceil(keys / _MASK_ALIGNMENT) * _MASK_ALIGNMENT * item


def saved_bytes(kernel: Kernel, *, batch: int, release: Release) -> int:
    """Return what an unfused attention saves for its backward: scaled queries and keys, and the softmax. [bytes]"""
    query, key = kernel.inputs[0].shape_at(batch), kernel.inputs[1].shape_at(batch)
    item = ITEM_BYTES[kernel.inputs[0].dtype]
    scaled = release.item_bytes(item) * (math.prod(query) + math.prod(key))
    softmax = release.scores_bytes(item) if item == 2 and release.torch_version < (2, 0) else release.item_bytes(item)
    return int(scaled + softmax * math.prod(query[:-1]) * key[-2])
