"""Find the batch above which a kernel refuses tensors for their size, however much memory there is.

Most of PyTorch's CUDA kernels take tensors of 2^31 elements and more: pointwise ones are split
(`TensorIterator::with_32bit_indexing`), cuDNN's convolutions run over parts of the batch
(`split_batch_to_32bit_conv_out` in aten/src/ATen/native/cudnn/ConvShared.cpp), matrix products count in 64 bits. What
does not:

* Depthwise convolutions. PyTorch's own kernel (DepthwiseConv2d.cu) takes `packed_accessor32`, which refuses more
  elements than an int32 counts ("numel needs to be smaller than int32_t max", ATen/core/TensorBase.h).
  `ConvParams::use_cudnn_depthwise` (Convolution.cpp) decides which calls go to it.
* Pooling whose output is so large: max and average pooling count the output's elements in an int
  (`safe_downcast<int>(output.numel())`, DilatedMaxPool2d.cu and AveragePool2d.cu).
* Reflection padding ("input tensor must fit into 32-bit index math", ReflectionPad.cu).
* Before torch 1.13, convolutions, batch norms and pooling of such tensors altogether.
* Fused attention over more than 65,535 batches, windows counted: FlashAttention and the memory-efficient kernel launch
  a block row for each (gridDim.y and gridDim.z of CUDA end there). In timm's tables no step ran beyond it, and all that
  passed it failed, with a tenth to a half of the memory needed (davit, sam2_hiera, twins_svt).

Which depthwise calls fail in which release was counted in timm's published tables, where a model's batch is lowered
until it runs (docs/evidence/memory.md): of 1,076 failing steps that pass a limit of this module, 794 needed less than
60 % of the memory; one step of all ran beyond the limit, and 236 ran with larger tensors in depthwise convolutions that
this module lets pass. Between torch 2.4 and 2.9 the rule turned around; the release in between is a guess (2.5).
"""

import math
from dataclasses import replace

from capplan.core.numbers import largest_true
from capplan.core.ops.attention import AttentionBackend, attention_backend
from capplan.core.ops.convolutions import (
    cudnn_runs_depthwise,
    filter_shape,
    is_channels_last,
    is_convolution,
    is_depthwise,
)
from capplan.core.trace.types import Kernel, Operand, Recording
from capplan.core.workload import Framework, Workload

INDEX_LIMIT = 2**31
"""Elements that a 32-bit index counts."""

_SPLIT_SINCE = (1, 13)
_CUDNN_TAKES_LARGE_SINCE = (2, 5)
_LARGEST_CUDNN_WINDOW = 3
_FUSED_SINCE, _ATTENTION_BATCHES = (2, 0), 65_535
_REFLECTIONS = ("aten.reflection_pad1d", "aten.reflection_pad2d", "aten.reflection_pad3d")
_POOLS = ("aten.max_pool2d", "aten.avg_pool2d", "aten.max_pool2d_with_indices")


def index_limit_batch(recording: Recording) -> int | None:
    """Return the largest batch at which every tensor has fewer than 2^31 elements; None where no tensor grows."""
    operands = [operand for kernel in recording.kernels for operand in (*kernel.inputs, *kernel.outputs)]
    return _largest_below(recording, operands, elements=INDEX_LIMIT)


def refused_above(recording: Recording, workload: Workload) -> int | None:
    """Return the largest batch that no kernel refuses for its tensors' size; None where none does at any batch."""
    refusing: list[Operand] = []
    for kernel in recording.kernels:
        refusing += _checked_operands(kernel, workload)
    limits = (
        _largest_below(recording, refusing, elements=INDEX_LIMIT),
        _largest_below(recording, _attention_batches(recording, workload), elements=_ATTENTION_BATCHES + 1),
    )
    return min((limit for limit in limits if limit is not None), default=None)


def _attention_batches(recording: Recording, workload: Workload) -> list[Operand]:
    """Return the queries of fused attention without heads, tokens and width, over which the kernel's grid runs."""
    if workload.torch_version < _FUSED_SINCE:
        return []
    return [
        replace(kernel.inputs[0], shape=kernel.inputs[0].shape[:-3])
        for kernel in recording.kernels
        if kernel.name.startswith("capplan.attention")
        and attention_backend(kernel, workload, batch=1, compute_capability=None) is not AttentionBackend.MATH
    ]


def _checked_operands(kernel: Kernel, workload: Workload) -> tuple[Operand, ...]:
    """Return the operands whose elements the kernel counts in 32 bits.

    A compiler writes pooling and padding itself, with 64-bit indices.
    """
    name, old = kernel.name.removesuffix("_backward"), workload.torch_version < _SPLIT_SINCE
    is_eager = workload.framework is Framework.EAGER
    every = (*kernel.inputs, *kernel.outputs)
    if name in _REFLECTIONS:
        return kernel.inputs if is_eager else ()
    if name in _POOLS and not old:
        return kernel.outputs if is_eager else ()
    if is_convolution(kernel):
        return every if old or (is_depthwise(kernel) and _depthwise_refuses(kernel, workload)) else ()
    return every if old and (name in _POOLS or "batch_norm" in name) else ()


def _depthwise_refuses(kernel: Kernel, workload: Workload) -> bool:
    is_eager = workload.framework is Framework.EAGER
    if workload.torch_version >= _CUDNN_TAKES_LARGE_SINCE:
        # Inductor lays networks with depthwise convolutions out channels-last.
        return is_channels_last(kernel) or not is_eager
    on_cudnn = max(filter_shape(kernel)[2:]) <= _LARGEST_CUDNN_WINDOW and cudnn_runs_depthwise(kernel)
    return is_eager and not is_channels_last(kernel) and not on_cudnn


def _largest_below(recording: Recording, operands: list[Operand], *, elements: int) -> int | None:
    """Return the largest batch at which every operand has fewer elements than a limit; None where none grows."""
    growing = {operand.shape: operand for operand in operands if any(dim.per_sample for dim in operand.shape)}
    if not growing or recording.exact_batch is not None:
        return None

    def are_small(batch: int) -> bool:
        return all(math.prod(operand.shape_at(batch)) < elements for operand in growing.values())

    return largest_true(are_small, 0, INDEX_LIMIT)
