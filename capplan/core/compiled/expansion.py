"""Replace operators of one step by several of simpler kind, before they are grouped into kernels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

from capplan.core.compiled.roles import normalises_with_constants
from capplan.core.ops.attention import Version, broadcasts_heads
from capplan.core.trace.types import (
    ITEM_BYTES,
    Affine,
    Kernel,
    MemoryFormat,
    Op,
    Operand,
    Phase,
    Recording,
    Role,
    Storage,
)


@dataclass(slots=True)
class Expansion:
    """The kernels and storages of a recording that is being expanded, and those added to it."""

    kernels: list[Kernel]
    storages: list[Storage]

    def add_kernels(self, kernels: Sequence[Kernel]) -> tuple[int, ...]:
        first = len(self.kernels)
        self.kernels += kernels
        return tuple(range(first, len(self.kernels)))

    def add_storages(self, sizes: Sequence[Affine]) -> tuple[int, ...]:
        """Add storages of some sizes in bytes and return their indices; their lifetimes follow from the operators."""
        first = len(self.storages)
        self.storages += [Storage(size_bytes=size, role=Role.ACTIVATION, birth=0, death=0) for size in sizes]
        return tuple(range(first, len(self.storages)))


def expand_operators(
    recording: Recording,
    is_expanded: Callable[[Kernel], bool],
    pieces: Callable[[Expansion, Op], Sequence[Op]],
) -> Recording:
    """Return one step with some operators replaced by others."""
    chosen = [is_expanded(kernel) for kernel in recording.kernels]
    if not any(chosen):
        return recording
    steady = recording.steady_ops()
    skipped = len(recording.ops) - len(steady)
    expansion = Expansion(list(recording.kernels), list(recording.storages))
    ops: list[Op] = []
    place: list[int] = []
    for op in steady:
        place.append(len(ops))
        ops += pieces(expansion, op) if chosen[op.kernel] else [op]
    return replace(
        recording,
        kernels=tuple(expansion.kernels),
        ops=tuple(ops),
        storages=tuple(_moved(storage, place, skipped, len(recording.ops), len(ops)) for storage in expansion.storages),
        phases=tuple(
            Phase(name=phase.name, step=phase.step, first_op=place[phase.first_op - skipped])
            for phase in recording.phases
            if skipped <= phase.first_op < len(recording.ops)
        ),
    )


def _moved(storage: Storage, place: list[int], skipped: int, end: int, new_end: int) -> Storage:
    birth = storage.birth if storage.birth < 0 else place[max(0, min(storage.birth - skipped, len(place) - 1))]
    if storage.death >= end:
        return replace(storage, birth=birth, death=new_end)
    return replace(storage, birth=birth, death=place[max(0, min(storage.death - skipped, len(place) - 1))])


def split_norms(recording: Recording) -> Recording:
    """Return one step with group norms and training batch norms split into statistics and an elementwise rest."""
    pieces: dict[int, tuple[int, ...]] = {}

    def split(expansion: Expansion, op: Op) -> Sequence[Op]:
        if op.kernel not in pieces:
            pieces[op.kernel] = expansion.add_kernels(_pieces(expansion.kernels[op.kernel]))
        statistics, normalise = pieces[op.kernel]
        missing = len(expansion.kernels[statistics].outputs) - len(op.writes[1:3])
        written = op.writes[1:3] + expansion.add_storages([Affine(4)] * missing)
        return (
            replace(op, kernel=statistics, reads=op.reads[:1], writes=written),
            replace(op, kernel=normalise, reads=(op.reads[0], *written, *op.reads[1:]), writes=op.writes[:1]),
        )

    return expand_operators(recording, _is_split, split)


def _is_split(kernel: Kernel) -> bool:
    return (
        kernel.name in ("aten.native_group_norm", "aten.native_batch_norm", "aten._native_batch_norm_legit")
        and bool(kernel.inputs)
        and not normalises_with_constants(kernel)
    )


def _pieces(kernel: Kernel) -> tuple[Kernel, Kernel]:
    data = kernel.inputs[0]
    shape: tuple[Affine, ...] = (data.shape[1],)
    if "group_norm" in kernel.name:
        groups = kernel.attributes.get("group", kernel.attributes.get("num_groups", 1))
        shape = (data.shape[0], Affine(groups if isinstance(groups, int) else 1))
    result = Operand(dtype="float32", shape=shape)
    dims = tuple(dim for dim in range(len(data.shape)) if dim != 1 and (dim or "batch_norm" in kernel.name))
    statistics = Kernel(name="aten.var_mean", inputs=(data,), outputs=(result, result), attributes={"dim": dims})
    normalise = Kernel(name="aten.mul", inputs=(data, result, result, *kernel.inputs[1:]), outputs=kernel.outputs[:1])
    return statistics, normalise


_WIDENED_SINCE: Version = (2, 5)
_FUSED_RANK = 4


def write_out_attention(recording: Recording, torch_version: Version) -> Recording:
    """Return one step of inference with attention that no fused kernel takes for its operands' shapes written out."""
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
    # an operand with the leading dimensions of the query as one; heads that are shared are written for each
    query, key, value = (
        Operand(dtype=dtype, shape=(_product(heads), *operand.shape[-2:])) for operand in kernel.inputs[:3]
    )
    scores = replace(query, shape=(*query.shape[:2], key.shape[1]))
    result = replace(query, shape=(*query.shape[:2], value.shape[2]))
    of_query, of_key, of_value, *mask = op.reads
    to_query, to_key, to_scores, to_weights, to_value, to_result = expansion.add_storages(
        [_size_bytes(operand) for operand in (query, key, scores, scores, value, result)]
    )
    last = "aten._to_copy" if is_widened else "aten.clone"
    groups, length, width = key.shape
    steps = [
        (Kernel(name="aten.mul", inputs=kernel.inputs[:1], outputs=(query,)), (of_query,), (to_query,)),
        (Kernel(name="aten.mul", inputs=kernel.inputs[1:2], outputs=(key,)), (of_key,), (to_key,)),
        (
            _bmm(query, replace(key, shape=(groups, width, length), memory_format=MemoryFormat.STRIDED), scores),
            (to_query, to_key),
            (to_scores,),
        ),
        (_softmax(scores, kernel.inputs[3:]), (to_scores, *mask), (to_weights,)),
        (Kernel(name=last, inputs=kernel.inputs[2:3], outputs=(value,)), (of_value,), (to_value,)),
        (_bmm(scores, value, result), (to_weights, to_value), (to_result,)),
        (Kernel(name=last, inputs=(result,), outputs=kernel.outputs[:1]), (to_result,), op.writes[:1]),
    ]
    indices = expansion.add_kernels([kernel for kernel, _, _ in steps])
    return [
        replace(op, kernel=index, reads=reads, writes=writes)
        for index, (_, reads, writes) in zip(indices, steps, strict=True)
    ]


def _bmm(one: Operand, other: Operand, result: Operand) -> Kernel:
    return Kernel(name="aten.bmm", inputs=(one, other), outputs=(result,))


def _softmax(scores: Operand, mask: tuple[Operand, ...]) -> Kernel:
    return Kernel(name="aten._softmax", inputs=(scores, *mask), outputs=(scores,), attributes={"dim": -1})


def _product(dims: Sequence[Affine]) -> Affine:
    """Multiply dimensions of which at most one grows with the batch."""
    return reduce(lambda product, other: Affine(
        product.constant * other.constant, product.constant * other.per_sample + product.per_sample * other.constant
    ), dims, Affine(1))  # fmt: skip


def _size_bytes(operand: Operand) -> Affine:
    size = _product(operand.shape)
    item = ITEM_BYTES[operand.dtype]
    return Affine(int(size.constant * item), int(size.per_sample * item))
