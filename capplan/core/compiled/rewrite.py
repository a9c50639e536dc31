"""Turn an eager recording into what torch.compile would launch, in the same types, so that its readers work unchanged.

Chains that Inductor fuses become one kernel `capplan.fused`, which reads each outside tensor once and writes only
what others need. Convolutions, matrix products and attention stay kernels of their own, as by Inductor's defaults
(without max-autotune their epilogues are not fused). The layout of images is Inductor's own choice.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from math import prod

from capplan.core.compiled.expansion import split_norms, write_out_attention
from capplan.core.compiled.grouping import Flow, Fuser, group_operators, trace_flow
from capplan.core.compiled.inlined import Inlining, inline_operators
from capplan.core.compiled.layout import in_channels_last, prefers_channels_last
from capplan.core.compiled.roles import FUSED, arithmetic, part, reduces_across_memory
from capplan.core.ops.attention import LATEST, Version
from capplan.core.ops.catalogue import FusedRole
from capplan.core.trace.types import (
    Affine,
    Kernel,
    MemoryFormat,
    Op,
    Operand,
    Phase,
    Recording,
    Storage,
    first_and_last_use,
)
from capplan.core.workload import Framework, Workload

_SAMPLE_BATCH = 64
_REORDERS_LOOPS_SINCE: Version = (2, 8)
"""`loop_ordering_after_fusion` in torch/_inductor/config.py, on by default: a norm of channels-last images and the mean
over positions that reads it become one kernel, unless the mean has so few results that it is split in two. 2.13 was
asked; timed steps of 2.9 fit one kernel better, those of 2.4 two. The release between them is not sure."""
WEIGHT_ONLY = "weight_only"
ACROSS = "across"
"""Attribute: how many reductions leave the dimension whose elements lie side by side."""
ARITHMETIC = "arithmetic"
"""Attribute: instructions per element of the largest operand."""


def executed_recording(recording: Recording, workload: Workload) -> Recording:
    """Return the recording whose kernels a framework launches: as traced, or fused."""
    if workload.framework is Framework.EAGER:
        return recording
    return fuse_recording(recording, torch_version=workload.torch_version)


def fuse_recording(
    recording: Recording, fuser: Fuser = Fuser.INDUCTOR, *, torch_version: Version = LATEST
) -> Recording:
    """Fuse one step of a recording as Inductor or an engine would; the result holds that step alone.

    Args:
        recording: one step, as traced.
        fuser: only Inductor computes results again in each kernel that reads them, and writes attention out.
        torch_version: the release whose composite operators are written out.
    """
    batch = recording.exact_batch or _SAMPLE_BATCH
    if fuser is Fuser.INDUCTOR:
        recording = write_out_attention(recording, torch_version)
    relaid = _relay(recording) if prefers_channels_last(recording, batch) else recording
    relaid = split_norms(relaid)
    flow = trace_flow(relaid)
    members: dict[int, list[int]] = defaultdict(list)
    reorders = fuser is Fuser.INDUCTOR and torch_version >= _REORDERS_LOOPS_SINCE
    groups = group_operators(relaid, flow, batch=batch, fuser=fuser, reorders_loops=reorders)
    order = _runnable_order(flow, groups)
    while len(order) < len(set(groups)):  # kernels that wait for one another run operator by operator
        circle = _in_circles(_waits(flow, groups), order)
        groups = [len(groups) + index if group in circle else group for index, group in enumerate(groups)]
        order = _runnable_order(flow, groups)
    for index, group in enumerate(groups):
        members[group].append(index)
    inlining = inline_operators(relaid, flow, batch) if fuser is Fuser.INDUCTOR else Inlining()
    return _Rewriting(relaid, flow, [members[group] for group in order], batch, inlining).recording()


def _waits(flow: Flow, groups: Sequence[int]) -> dict[int, set[int]]:
    """Return the other kernels whose results each kernel reads."""
    waits: dict[int, set[int]] = {group: set() for group in groups}
    for index, sources in enumerate(flow.producers):
        waits[groups[index]] |= {
            groups[source] for source in sources if source >= 0 and groups[source] != groups[index]
        }
    return waits


def _in_circles(waits: Mapping[int, set[int]], order: Sequence[int]) -> set[int]:
    """Return the kernels that wait for one another, and those between two such circles.

    Args:
        waits: the kernels that each kernel waits for.
        order: those that can run.
    """
    left = waits.keys() - set(order)
    while True:
        awaited = {other for group in left for other in waits[group]} & left
        if awaited == left:
            return left
        left = awaited


def _runnable_order(flow: Flow, groups: Sequence[int]) -> list[int]:
    """Sort kernels after all that they read, else in the order in which they were first needed.

    Kernels that wait for one another, and all behind them, are left out.
    """
    waits = _waits(flow, groups)
    feeds: dict[int, set[int]] = defaultdict(set)
    for group, others in waits.items():
        for other in others:
            feeds[other].add(group)
    first = {group: index for index, group in reversed(list(enumerate(groups)))}
    ready = [(first[group], group) for group, sources in waits.items() if not sources]
    heapify(ready)
    order: list[int] = []
    while ready:
        _, group = heappop(ready)
        order.append(group)
        for fed in feeds[group]:
            waits[fed].discard(group)
            if not waits[fed]:
                heappush(ready, (first[fed], fed))
    return order


def _relay(recording: Recording) -> Recording:
    return replace(recording, kernels=tuple(in_channels_last(kernel) for kernel in recording.kernels))


_Read = tuple[int, int, Operand]
"""The operator that wrote a storage last (-1 for what existed before), the storage, and the view that is read."""
_MOST_VISITS = 64


@dataclass(slots=True)
class _Contents:
    """What one kernel computes: operators by position, results that stay inside it included, and what it reads."""

    group: list[int]
    computed: list[int] = field(default_factory=list)
    reads: list[_Read] = field(default_factory=list)


@dataclass(slots=True)
class _Rewriting:
    """The making of the fused recording from groups of operators, in the order in which they run."""

    source: Recording
    flow: Flow
    groups: list[list[int]]
    batch: int
    inlining: Inlining

    def recording(self) -> Recording:
        contents = [self._contents(group) for group in self.groups]
        outside = self._read_outside(contents)
        kernels: dict[object, int] = {}
        table: list[Kernel] = []
        ops: list[Op] = []
        place: dict[int, int] = {}
        for group, inside in zip(self.groups, contents, strict=True):
            place |= dict.fromkeys(group, len(ops))
            if not inside.computed:
                continue  # every kernel that reads its results computes them
            kernel, reads, writes = self._merge(inside, outside)
            key = (kernel.name, kernel.inputs, kernel.outputs, tuple(kernel.attributes.items()), kernel.flops)
            if key not in kernels:
                kernels[key] = len(table)
                table.append(kernel)
            first = self.flow.ops[group[-1]]
            ops.append(Op(kernel=kernels[key], module=first.module, reads=reads, writes=writes, calls=1))
        return replace(
            self.source,
            kernels=tuple(table),
            ops=tuple(ops),
            storages=self._storages(ops),
            phases=self._phases(place, len(ops)),
        )

    def _contents(self, group: list[int]) -> _Contents:
        """Follow the stored results of a group back to what is read, through what is computed in place of reading."""
        found = _Contents(group)
        for index in group:
            if index not in self.inlining.inlined:
                self._compute(found, index, None)
        return found

    def _compute(self, found: _Contents, index: int, view: Operand | None) -> None:
        if index not in found.computed:
            found.computed.append(index)
        op = self.flow.ops[index]
        kernel = self.source.kernels[op.kernel]
        for operand, storage, source in zip(kernel.inputs, op.reads, self.flow.producers[index], strict=False):
            seen = operand if view is None else self._as_read(operand, kernel.outputs[0], view)
            if source in self.inlining.inlined and len(found.reads) < _MOST_VISITS:
                self._compute(found, source, seen)
            elif source not in found.group:
                found.reads.append((source, storage, seen))

    def _as_read(self, operand: Operand, result: Operand, view: Operand) -> Operand:
        """Return what is read of an operand if a view of the result is computed."""
        size = prod(result.shape_at(self.batch))
        if operand.expanded or prod(operand.shape_at(self.batch)) != size:
            return operand
        is_strided = operand.memory_format is MemoryFormat.STRIDED
        form = operand.memory_format if is_strided else view.memory_format
        return replace(view, dtype=operand.dtype, is_weight=operand.is_weight, memory_format=form)

    def _read_outside(self, contents: Sequence[_Contents]) -> set[tuple[int, int]]:
        """Return (operator, storage) of every result that another kernel or the caller reads."""
        end = len(self.source.ops)
        writer = {storage: index for index, op in enumerate(self.flow.ops) for storage in op.writes}
        kept = {storage for storage, facts in enumerate(self.source.storages) if facts.death >= end}
        found = {(source, storage) for inside in contents for source, storage, _ in inside.reads}
        return found | {(made, storage) for storage, made in writer.items() if storage in kept}

    def _merge(
        self, inside: _Contents, outside: set[tuple[int, int]]
    ) -> tuple[Kernel, tuple[int, ...], tuple[int, ...]]:
        first = self.flow.ops[inside.group[0]]
        kernel = self.source.kernels[first.kernel]
        if part(kernel) is None:
            return kernel, first.reads, first.writes
        read: dict[int, list[Operand]] = defaultdict(list)
        for source, storage, operand in inside.reads:
            read[storage].append(self._as_stored(operand, source))
        written: dict[int, Operand] = {}
        for index in inside.computed:
            op = self.flow.ops[index]
            for operand, storage in zip(self.source.kernels[op.kernel].outputs, op.writes, strict=True):
                if index in inside.group and (index, storage) in outside:
                    written[storage] = self._as_stored(operand, index)
        reading = [operand for operands in read.values() for operand in operands]
        operands = [(operand, storage) for storage in read for operand in self._distinct(storage, read[storage])]
        largest = max((operand.distinct_elements(self.batch) for operand in (*written.values(), *reading)), default=1)
        fused = Kernel(
            name=FUSED,
            inputs=tuple(operand for operand, _ in operands),
            outputs=tuple(written.values()),
            attributes=self._held(inside, max(1, largest)),
        )
        return fused, tuple(storage for _, storage in operands), tuple(written)

    def _held(self, inside: _Contents, largest: int) -> dict[str, int]:
        """Count a kernel's operators by their parts, and its instructions per element of the largest operand."""
        holds: dict[str, int] = defaultdict(int)
        for index in inside.computed:
            kernel = self.source.kernels[self.flow.ops[index].kernel]
            held = part(kernel)
            holds[held.value if held else FusedRole.POINTWISE.value] += 1
            if reduces_across_memory(kernel):
                holds[ACROSS] += 1
        attributes = {name: holds[name] for name in (*(part.value for part in FusedRole), ACROSS) if name in holds}
        if not any(self.flow.depends[index] for index in inside.group):
            attributes[WEIGHT_ONLY] = 1
        attributes[ARITHMETIC] = round(sum(self._instructions(index) for index in inside.computed) / largest)
        return attributes

    def _instructions(self, index: int) -> float:
        return arithmetic(self.source.kernels[self.flow.ops[index].kernel], self.batch)

    def _as_stored(self, operand: Operand, source: int) -> Operand:
        """Return an operand in the number format in which its writer leaves it."""
        return replace(operand, dtype="float32") if source in self.inlining.widened else operand

    def _distinct(self, storage: int, operands: Sequence[Operand]) -> list[Operand]:
        """Return the views of a storage that are read, larger ones first, until all of it is."""
        size = max(
            self.source.storages[storage].size_bytes.at(self.batch), *(each.size_bytes(self.batch) for each in operands)
        )
        kept: list[Operand] = []
        covered = 0
        for operand in sorted(operands, key=lambda operand: -operand.size_bytes(self.batch)):
            moved = operand.size_bytes(self.batch)
            if kept and covered + moved > size:
                break
            kept.append(operand)
            covered += moved
        return kept

    def _storages(self, ops: list[Op]) -> tuple[Storage, ...]:
        """Return births and deaths in the new order; storages that live inside one kernel get no size."""
        end = len(self.source.ops)
        first, last = first_and_last_use(ops)
        born = {storage for op in self.flow.ops for storage in op.writes}
        placed: list[Storage] = []
        for storage, facts in enumerate(self.source.storages):
            death = len(ops) if facts.death >= end else last.get(storage, 0)
            if facts.birth < 0 or storage not in born:
                placed.append(replace(facts, birth=-1, death=max(death, 0)))
            elif storage in first:
                placed.append(replace(facts, birth=first[storage], death=death))
            else:
                placed.append(replace(facts, size_bytes=Affine(0), birth=0, death=0))
        return tuple(placed)

    def _phases(self, place: dict[int, int], end: int) -> tuple[Phase, ...]:
        skipped = len(self.source.ops) - len(self.flow.ops)
        kept = [phase for phase in self.source.phases if phase.first_op >= skipped]
        places = [place[min(phase.first_op - skipped, len(self.flow.ops) - 1)] for phase in kept]
        return tuple(
            replace(phase, first_op=min(first, max(0, end - 1))) for phase, first in zip(kept, places, strict=True)
        )
