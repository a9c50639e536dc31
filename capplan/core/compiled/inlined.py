"""Which results a compiler never stores, because each kernel that reads them computes them itself.

Inductor writes an elementwise result into the kernels that read it, however many they are. It stores ("realises") the
result if a library reads it, if it leaves the graph, if it has several users and reads more than four buffers
(`realize_reads_threshold` in torch/_inductor/config.py, asked by `StorageBox.should_realize_on_reuse` in ir.py), or
if it reads more than eight (`realize_acc_reads_threshold`). A norm of images with running statistics reads five. What
follows it and uses its argument twice makes it stored: an activation such as SiLU, GELU or hardswish, which is computed
in fp32 (`pw_cast_for_opmath` in torch/_decomp/decompositions.py). There the norm's conversion to 16 bits meets the
activation's back to fp32, both are dropped (`pointless_convert` in fx_passes/joint_graph.py), and fp32 is stored.
Kernel lists of torch 2.13 show all this (docs/accuracy-compile.md).
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from capplan.core.compiled.grouping import Flow
from capplan.core.compiled.roles import ends_kernel, part, reads_repeatedly
from capplan.core.ops.catalogue import FusedRole
from capplan.core.trace.types import ITEM_BYTES, Kernel, Recording

_MOST_READS_IF_SHARED, _MOST_READS = 4, 8
_COMPUTED_IN_FP32 = frozenset(
    f"aten.{name}" for name in ("silu", "gelu", "hardswish", "hardsigmoid", "mish", "elu", "celu", "selu", "softplus")
)
_PADDING, _CONCATENATION = "aten.constant_pad_nd", "aten.cat"

_Buffer = tuple[int, int]
"""The operator that wrote a storage last (-1 for what existed before), and the storage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inlining:
    """Operators by position: those whose readers compute their results, and those that leave 16 bits in fp32."""

    inlined: frozenset[int] = frozenset()
    widened: frozenset[int] = frozenset()


def inline_operators(recording: Recording, flow: Flow, batch: int) -> Inlining:
    """Find the results that are never stored, and those that are stored in fp32.

    Args:
        recording: the step, images in the layout that they run in.
        flow: its operators with who feeds whom.
        batch: where sizes are compared.
    """
    kernels = [recording.kernels[op.kernel] for op in flow.ops]
    readers = _readers(flow)
    reads: list[set[_Buffer]] = []
    inlined: set[int] = set()
    widened: set[int] = set()
    for index, op in enumerate(flow.ops):
        buffers: set[_Buffer] = set()
        for storage, source in zip(op.reads, flow.producers[index], strict=False):
            if source in inlined and len(reads[source]) > _MOST_READS_IF_SHARED and _uses_twice(kernels[index]):
                inlined.discard(source)
                if kernels[index].name in _COMPUTED_IN_FP32 and ITEM_BYTES[kernels[source].outputs[0].dtype] == 2:
                    widened.add(source)
            buffers |= reads[source] if source in inlined else {(source, storage)}
        reads.append(buffers)
        if _may_be_inlined(recording, flow, index, readers[index], batch):
            most = _MOST_READS_IF_SHARED if len(readers[index]) > 1 else _MOST_READS
            if len(buffers) <= most:
                inlined.add(index)
    return Inlining(inlined=frozenset(inlined), widened=frozenset(widened))


def _readers(flow: Flow) -> dict[int, list[int]]:
    """Return the operators that read what an operator wrote, not those that only overwrite it."""
    found: dict[int, list[int]] = defaultdict(list)
    for index, (op, sources) in enumerate(zip(flow.ops, flow.producers, strict=True)):
        for source in dict.fromkeys(sources[: len(op.reads)]):
            found[source].append(index)
    return found


def _uses_twice(kernel: Kernel) -> bool:
    return kernel.name in _COMPUTED_IN_FP32 or part(kernel) in (FusedRole.NORM, FusedRole.SOFTMAX)


def _may_be_inlined(recording: Recording, flow: Flow, index: int, readers: Sequence[int], batch: int) -> bool:
    op = flow.ops[index]
    if not readers or not _is_elementwise(recording.kernels[op.kernel], batch):
        return False
    storage, result = op.writes[0], recording.kernels[op.kernel].outputs[0]
    held = recording.storages[storage]
    if held.death >= len(recording.ops) or result.size_bytes(batch) < held.size_bytes.at(batch):
        return False
    return all(
        _computes(recording.kernels[flow.ops[reader].kernel])
        and flow.subgraph[reader] == flow.subgraph[index]
        and not _overwrites_a_part(recording, flow, reader, storage, batch)
        for reader in readers
    )


def _is_elementwise(kernel: Kernel, batch: int) -> bool:
    """Return True if each element of the only result is computed from single elements."""
    if part(kernel) not in (FusedRole.POINTWISE, FusedRole.COPY) or len(kernel.outputs) != 1 or not kernel.inputs:
        return False
    if reads_repeatedly(kernel) or ends_kernel(kernel) or kernel.name in (_PADDING, _CONCATENATION):
        return False
    size = prod(kernel.outputs[0].shape_at(batch))
    return all(prod(operand.shape_at(batch)) <= size for operand in kernel.inputs)


def _computes(reader: Kernel) -> bool:
    """Return True if a kernel that reads a result can compute it; padding is a kernel of its own that does."""
    return part(reader) is not None and (reader.name == _PADDING or not reads_repeatedly(reader))


def _overwrites_a_part(recording: Recording, flow: Flow, reader: int, storage: int, batch: int) -> bool:
    op = flow.ops[reader]
    whole = recording.storages[storage].size_bytes.at(batch)
    return any(
        written == storage and operand.size_bytes(batch) < whole
        for operand, written in zip(recording.kernels[op.kernel].outputs, op.writes, strict=False)
    )
