"""Write attention out where no fused kernel takes it: its products stay library calls, the rest is fused.

`check_tensor_shapes` in aten/src/ATen/native/transformers/cuda/sdp_utils.cpp lets operands of four dimensions alone to
the fused kernels. Attention over windows with a dimension of their own has five, and runs as its composite operator,
`_scaled_dot_product_attention_math`, as that of many heads of queries over one of keys and values does. torch.compile
sees that one's operators: it scales query and key, which the batched product wants side by side in memory, and makes a
kernel of the softmax. Since torch 2.5 16-bit operands are widened to fp32 for it.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

from capplan.core.compiled.expansion import Expansion, expand_operators
from capplan.core.ops.attention import Version, broadcasts_heads
from capplan.core.trace.affine import Affine
from capplan.core.trace.types import ITEM_BYTES, Kernel, MemoryFormat, Op, Operand, Recording

_WIDENED_SINCE: Version = (2, 5)
_FUSED_RANK = 4


def write_out_attention(recording: Recording, torch_version: Version) -> Recording:
    """Return one step of inference with attention that no fused kernel takes for its operands' shapes written out.

    Args:
        recording: one step, as traced.
        torch_version: the release that runs it.
    """
    if recording.configuration.training is not None:
        return recording
    return expand_operators(recording, _is_written_out, partial(_operators, torch_version=torch_version))


def _is_written_out(kernel: Kernel) -> bool:
    if kernel.name != "capplan.attention" or kernel.attributes.get("enable_gqa"):
        return False
    query = kernel.inputs[0].shape
    is_unfused = len(query) != _FUSED_RANK or broadcasts_heads(kernel)
    return is_unfused and sum(bool(dim.per_sample) for dim in query[:-2]) <= 1


def _operators(expansion: Expansion, op: Op, *, torch_version: Version) -> Sequence[Op]:
    """Return what scales query and key, their product, the softmax, and its product with the values."""
    kernel = expansion.kernels[op.kernel]
    stored = kernel.inputs[0].dtype
    is_widened = torch_version >= _WIDENED_SINCE and ITEM_BYTES[stored] == 2
    heads, dtype = kernel.inputs[0].shape[:-2], "float32" if is_widened else stored
    query, key, value = (_merged(operand, heads, dtype) for operand in kernel.inputs[:3])
    scores = replace(query, shape=(*query.shape[:2], key.shape[1]))
    result = replace(query, shape=(*query.shape[:2], value.shape[2]))
    of_query, of_key, of_value, *mask = op.reads
    to_query, to_key, to_scores, to_weights, to_value, to_result = expansion.add_storages(
        [_size_bytes(each) for each in (query, key, scores, scores, value, result)]
    )
    last = "aten._to_copy" if is_widened else "aten.clone"
    steps = [
        (Kernel(name="aten.mul", inputs=kernel.inputs[:1], outputs=(query,)), (of_query,), (to_query,)),
        (Kernel(name="aten.mul", inputs=kernel.inputs[1:2], outputs=(key,)), (of_key,), (to_key,)),
        (_bmm(query, _transposed(key), scores), (to_query, to_key), (to_scores,)),
        (_softmax(scores, kernel.inputs[3:]), (to_scores, *mask), (to_weights,)),
        (Kernel(name=last, inputs=kernel.inputs[2:3], outputs=(value,)), (of_value,), (to_value,)),
        (_bmm(scores, value, result), (to_weights, to_value), (to_result,)),
        (Kernel(name=last, inputs=(result,), outputs=kernel.outputs[:1]), (to_result,), op.writes[:1]),
    ]
    indices = expansion.add_kernels([made for made, _, _ in steps])
    return [
        replace(op, kernel=index, reads=reads, writes=writes)
        for index, (_, reads, writes) in zip(indices, steps, strict=True)
    ]


def _bmm(one: Operand, other: Operand, result: Operand) -> Kernel:
    return Kernel(name="aten.bmm", inputs=(one, other), outputs=(result,))


def _softmax(scores: Operand, mask: tuple[Operand, ...]) -> Kernel:
    return Kernel(name="aten._softmax", inputs=(scores, *mask), outputs=(scores,), attributes={"dim": -1})


def _merged(operand: Operand, heads: Sequence[Affine], dtype: str) -> Operand:
    """Return an operand with the leading dimensions of the query as one; heads that are shared are written for each."""
    return Operand(dtype=dtype, shape=(_product(heads), *operand.shape[-2:]))


def _transposed(operand: Operand) -> Operand:
    groups, length, width = operand.shape
    return replace(operand, shape=(groups, width, length), memory_format=MemoryFormat.STRIDED)


def _product(dims: Sequence[Affine]) -> Affine:
    """Multiply dimensions of which at most one grows with the batch."""
    return reduce(lambda one, other: Affine(
        one.constant * other.constant, one.constant * other.per_sample + one.per_sample * other.constant
    ), dims, Affine(1))  # fmt: skip


def _size_bytes(operand: Operand) -> Affine:
    size = _product(operand.shape)
    item = ITEM_BYTES[operand.dtype]
    return Affine(int(size.constant * item), int(size.per_sample * item))
