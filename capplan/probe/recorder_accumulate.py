"""Gradients that autograd sums in place, though a dispatch mode makes it sum them out of place.

`InputBuffer::accumulate` (torch/csrc/autograd/input_buffer.cpp) adds into the gradient that came first if nobody else
holds it, unless a dispatch mode is active. Views are not added into, as the profiler shows of real backward passes.
A sum whose first operand is no view and dies with it is therefore rewritten as in place.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from capplan.core.trace import ALWAYS

if TYPE_CHECKING:
    from capplan.probe.recorder_pass import Pass


def accumulate_in_place(record: "Pass", sums: Iterable[int]) -> None:
    """Give each sum's output the storage of its first operand, if that has its size and dies with it."""
    kept_in: dict[int, int] = {}
    for op in sums:
        (out,) = record.op_writes[op]
        first = record.op_reads[op][0]
        storage = kept_in.get(first, first)
        if _may_be_reused(record, storage, op) and record.sizes_bytes[storage] == record.sizes_bytes[out]:
            kept_in[out] = storage
            record.deaths[storage], record.roles[storage] = record.deaths[out], record.roles[out]
    if kept_in:
        _drop(record, kept_in)


def _may_be_reused(record: "Pass", storage: int, op: int) -> bool:
    return record.births[storage] != ALWAYS and record.deaths[storage] == op


def _drop(record: "Pass", kept_in: dict[int, int]) -> None:
    """Renumber the storages without those that live in another."""
    kept = [index for index in range(len(record.sizes_bytes)) if index not in kept_in]
    numbers = {old: new for new, old in enumerate(kept)}
    numbers |= {out: numbers[storage] for out, storage in kept_in.items()}
    record.op_reads = [tuple(numbers[index] for index in reads) for reads in record.op_reads]
    record.op_writes = [tuple(numbers[index] for index in writes) for writes in record.op_writes]
    for name in ("sizes_bytes", "roles", "births", "deaths"):
        setattr(record, name, [getattr(record, name)[index] for index in kept])
