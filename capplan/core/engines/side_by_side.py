"""Merge matrix products that read the same input into one, as inference engines do with queries, keys and values."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from capplan.core.trace.affine import Affine
from capplan.core.trace.types import Kernel, Op, Operand, Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Where a product keeps its input and its weight, and which dimension of the weight holds the output features."""

    source: int
    weight: int
    features: int


_PLACES = {
    "aten.addmm": _Places(source=1, weight=2, features=1),
    "aten.mm": _Places(source=0, weight=1, features=1),
    "aten.linear": _Places(source=0, weight=1, features=0),
}


def merged_products(recording: Recording, *, unmerged: str) -> Recording:
    """Return a recording whose products of one input and several weights run as one product of all weights.

    TensorRT calls it horizontal fusion, ONNX Runtime packs the weights of queries, keys and values. The weights stay
    where they are: only how many kernels run changes, and how well they fill a GPU.

    Args:
        recording: what an engine runs, its elementwise kernels fused.
        unmerged: the attribute of products that took in other kernels, which keep them apart.
    """
    groups: dict[object, list[int]] = defaultdict(list)
    written: dict[int, int] = defaultdict(int)
    for index, op in enumerate(recording.ops):
        key = _key(recording, op, written, unmerged)
        if key is not None:
            groups[key].append(index)
        for storage in op.writes:
            written[storage] += 1
    merged = {members[0]: members for members in groups.values() if len(members) > 1}
    return _with_merged(recording, merged) if merged else recording


def _key(recording: Recording, op: Op, written: dict[int, int], unmerged: str) -> object:
    """Return what products must have in common; None for what is not merged."""
    kernel = recording.kernels[op.kernel]
    places = _PLACES.get(kernel.name)
    if places is None or unmerged in kernel.attributes or len(kernel.inputs) <= places.weight or kernel.flops:
        return None
    source, weight = kernel.inputs[places.source], kernel.inputs[places.weight]
    others = [operand for index, operand in enumerate(kernel.inputs) if index != places.source]
    if source.is_weight or len(weight.shape) != 2 or not all(operand.is_weight for operand in others):
        return None
    storage = op.reads[places.source]
    depth = weight.shape[1 - places.features]
    return kernel.name, len(kernel.inputs), source, storage, written[storage], weight.dtype, depth


def _with_merged(recording: Recording, merged: dict[int, list[int]]) -> Recording:
    dropped = {index for members in merged.values() for index in members[1:]}
    kernels = list(recording.kernels)
    ops: list[Op] = []
    for index, op in enumerate(recording.ops):
        if index in merged:
            kernel, together = _merge(recording, [recording.ops[each] for each in merged[index]])
            ops.append(replace(together, kernel=len(kernels)))
            kernels.append(kernel)
        elif index not in dropped:
            ops.append(op)
    return _without_repeats(replace(recording, kernels=tuple(kernels), ops=tuple(ops)))


def _merge(recording: Recording, ops: Sequence[Op]) -> tuple[Kernel, Op]:
    """Return one product for several; the weights of the others stay inputs, of no size of their own."""
    first = ops[0]
    kernels = [recording.kernels[op.kernel] for op in ops]
    places = _PLACES[kernels[0].name]
    inputs = tuple(
        operand if index == places.source else _side_by_side(kernels, index, places)
        for index, operand in enumerate(kernels[0].inputs)
    )
    more = [
        (_empty(operand), storage)
        for op, kernel in zip(ops[1:], kernels[1:], strict=True)
        for index, (operand, storage) in enumerate(zip(kernel.inputs, op.reads, strict=True))
        if index != places.source
    ]
    kernel = replace(
        kernels[0],
        inputs=(*inputs, *(operand for operand, _ in more)),
        outputs=tuple(operand for each in kernels for operand in each.outputs),
    )
    op = replace(
        first,
        reads=(*first.reads, *(storage for _, storage in more)),
        writes=tuple(storage for each in ops for storage in each.writes),
        calls=sum(each.calls for each in ops),
    )
    return kernel, op


def _side_by_side(kernels: Sequence[Kernel], index: int, places: _Places) -> Operand:
    """Return the weight, or the bias, of all products side by side."""
    operands = [kernel.inputs[index] for kernel in kernels]
    shape = list(operands[0].shape)
    features = places.features if index == places.weight else len(shape) - 1
    shape[features] = Affine(sum(operand.shape[features].constant for operand in operands))
    return replace(operands[0], shape=tuple(shape))


def _empty(operand: Operand) -> Operand:
    return replace(operand, shape=tuple(Affine(0) for _ in operand.shape))


def _without_repeats(recording: Recording) -> Recording:
    """Return a recording whose equal kernels are one, and that holds no kernel which nothing runs."""
    found: dict[object, int] = {}
    table: list[Kernel] = []
    ops = []
    for op in recording.ops:
        kernel = recording.kernels[op.kernel]
        key = (kernel.name, kernel.inputs, kernel.outputs, tuple(kernel.attributes.items()), kernel.flops)
        if key not in found:
            found[key] = len(table)
            table.append(kernel)
        ops.append(replace(op, kernel=found[key]))
    return replace(recording, kernels=tuple(table), ops=tuple(ops))
