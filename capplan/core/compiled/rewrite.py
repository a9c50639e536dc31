"""Turn an eager recording into what torch.compile would launch: its fusions, what it never stores, and its layouts."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from math import prod

from capplan.core.compiled.expansion import split_norms, write_out_attention
from capplan.core.compiled.grouping import Flow, Fuser, group_operators, trace_flow
from capplan.core.compiled.roles import FUSED, arithmetic, ends_kernel, part, reads_repeatedly, reduces_across_memory
from capplan.core.ops.attention import LATEST, Version
from capplan.core.ops.catalogue import FusedRole, OperatorClass, operator_class
from capplan.core.ops.convolutions import group_count
from capplan.core.ops.flops import kernel_flops
from capplan.core.trace.types import (
    ITEM_BYTES,
    Affine,
    Kernel,
    MemoryFormat,
    Op,
    Operand,
    Phase,
    Recording,
    Storage,
    distinct_kernels,
    first_and_last_use,
)
from capplan.core.workload import Framework, Workload

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
    """Find the results that are never stored, and those that are stored in fp32."""
    kernels = [recording.kernels[op.kernel] for op in flow.ops]
    readers = _readers(flow)
    reads: list[set[_Buffer]] = []
    inlined: set[int] = set()
    widened: set[int] = set()
    for index, op in enumerate(flow.ops):
        buffers: set[_Buffer] = set()
        in_fp32 = kernels[index].name in _COMPUTED_IN_FP32
        uses_twice = in_fp32 or part(kernels[index]) in (FusedRole.NORM, FusedRole.SOFTMAX)
        for storage, source in zip(op.reads, flow.producers[index], strict=False):
            if source in inlined and len(reads[source]) > _MOST_READS_IF_SHARED and uses_twice:
                inlined.discard(source)
                if in_fp32 and ITEM_BYTES[kernels[source].outputs[0].dtype] == 2:
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
    """Fuse one step of a recording as Inductor or an engine would; the result holds that step alone."""
    batch = recording.exact_batch or _SAMPLE_BATCH
    if fuser is Fuser.INDUCTOR:
        recording = write_out_attention(recording, torch_version)
    relaid = (
        replace(recording, kernels=tuple(in_channels_last(kernel) for kernel in recording.kernels))
        if prefers_channels_last(recording, batch)
        else recording
    )
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
    """Return the kernels that wait for one another, and those between two such circles."""
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
        end = len(self.source.ops)
        writer = {storage: index for index, op in enumerate(self.flow.ops) for storage in op.writes}
        kept = {storage for storage, facts in enumerate(self.source.storages) if facts.death >= end}
        found = {(source, storage) for inside in contents for source, storage, _ in inside.reads}
        outside = found | {(source_index, storage) for storage, source_index in writer.items() if storage in kept}
        calls: list[tuple[Kernel, Op]] = []
        place: dict[int, int] = {}
        for group, inside in zip(self.groups, contents, strict=True):
            place |= dict.fromkeys(group, len(calls))
            if not inside.computed:
                continue  # every kernel that reads its results computes them
            kernel, reads, writes = self._merge(inside, outside)
            module = self.flow.ops[group[-1]].module
            calls.append((kernel, Op(kernel=0, module=module, reads=reads, writes=writes, calls=1)))
        kernels, ops = distinct_kernels(calls)
        # Births and deaths in the new order; storages that live inside one kernel get no size.
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
        return replace(
            self.source,
            kernels=kernels,
            ops=ops,
            storages=tuple(placed),
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
        # Count a kernel's operators by their parts, and its instructions per element of the largest operand.
        holds: dict[str, int] = defaultdict(int)
        instructions = 0.0
        for index in inside.computed:
            kernel = self.source.kernels[self.flow.ops[index].kernel]
            held = part(kernel)
            holds[held.value if held else FusedRole.POINTWISE.value] += 1
            instructions += arithmetic(kernel, self.batch)
            if reduces_across_memory(kernel):
                holds[ACROSS] += 1
        attributes = {name: holds[name] for name in (*(part.value for part in FusedRole), ACROSS) if name in holds}
        if not any(self.flow.depends[index] for index in inside.group):
            attributes[WEIGHT_ONLY] = 1
        attributes[ARITHMETIC] = round(instructions / max(1, largest))
        fused = Kernel(
            name=FUSED,
            inputs=tuple(operand for operand, _ in operands),
            outputs=tuple(written.values()),
            attributes=attributes,
        )
        return fused, tuple(storage for _, storage in operands), tuple(written)

    def _as_stored(self, operand: Operand, source: int) -> Operand:
        """Return an operand in the number format in which its writer leaves it."""
        return replace(operand, dtype="float32") if source in self.inlining.widened else operand

    def _distinct(self, storage: int, operands: Sequence[Operand]) -> list[Operand]:
        """Return the views of a storage that are read, larger ones first, until all of it is."""
        size = max(
            self.source.storages[storage].size_bytes.at(self.batch),
            *(operand.size_bytes(self.batch) for operand in operands),
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

    def _phases(self, place: dict[int, int], end: int) -> tuple[Phase, ...]:
        skipped = len(self.source.ops) - len(self.flow.ops)
        kept = [phase for phase in self.source.phases if phase.first_op >= skipped]
        places = [place[min(phase.first_op - skipped, len(self.flow.ops) - 1)] for phase in kept]
        return tuple(
            replace(phase, first_op=min(first, max(0, end - 1))) for phase, first in zip(kept, places, strict=True)
        )


_NODES_PER_CONVOLUTION = 300
_SLOWDOWN = {"grouped": 1.358, "small": 0.783, "in_out": 0.725, "other": 0.823}
"""Time of channels-last over row-major convolutions, as Inductor's `decide_layout_opt` weighs them (torch 2.1 on)."""

_ON_IMAGES = (OperatorClass.CONVOLUTION, OperatorClass.POOL, OperatorClass.RESIZE)


def prefers_channels_last(recording: Recording, batch: int) -> bool:
    """Decide as Inductor does whether all convolutions of a graph run channels-last."""
    convolutions = [
        recording.kernels[op.kernel]
        for op in recording.steady_ops()
        if recording.kernels[op.kernel].name == "aten.convolution"
    ]
    calls = sum(op.calls for op in recording.steady_ops())
    if not convolutions or calls >= _NODES_PER_CONVOLUTION * len(convolutions):
        return False
    if recording.configuration.training is not None:
        if any(_kind(kernel) == "grouped" or _shrinks(kernel) for kernel in convolutions):
            return False
        return any(not _is_small(kernel) for kernel in convolutions)
    flops = [(kernel_flops(kernel, batch), _SLOWDOWN[_kind(kernel)]) for kernel in convolutions]
    return sum(count * slowdown for count, slowdown in flops) <= sum(count for count, _ in flops)


def in_channels_last(kernel: Kernel) -> Kernel:
    """Return the same kernel on channels-last images, if it takes images."""
    by_channel = "batch_norm" in kernel.name or "group_norm" in kernel.name
    if not (by_channel or operator_class(kernel) in _ON_IMAGES or _reduces_images(kernel)):
        return kernel
    return replace(
        kernel,
        inputs=tuple(_channels_last(operand) for operand in kernel.inputs),
        outputs=tuple(_channels_last(operand) for operand in kernel.outputs),
    )


def _channels_last(operand: Operand) -> Operand:
    if len(operand.shape) != 4:
        return operand
    return replace(operand, memory_format=MemoryFormat.CHANNELS_LAST)


def _reduces_images(kernel: Kernel) -> bool:
    """Return True for sums over the positions of images, and over their channels (RMS norms of images)."""
    if operator_class(kernel) is not OperatorClass.REDUCTION or len(kernel.inputs[0].shape) != 4:
        return False
    dims = kernel.attributes.get("dim", ())
    return isinstance(dims, tuple) and {dim % 4 for dim in dims} in ({2, 3}, {1})


def _kind(kernel: Kernel) -> str:
    if _weight(kernel)[1] > 1 and group_count(kernel, 2) != 1:  # samples with filters of their own are groups
        return "grouped"
    if _is_small(kernel):
        return "small"
    return "in_out" if _shrinks(kernel) else "other"


def _is_small(kernel: Kernel) -> bool:
    out, per_group, *_ = _weight(kernel)
    return out <= 64 and per_group <= 64


def _shrinks(kernel: Kernel) -> bool:
    out, per_group, *window = _weight(kernel)
    return out * 2 <= per_group and bool(window) and window[0] > 1


def _weight(kernel: Kernel) -> tuple[int, ...]:
    return kernel.inputs[1].shape_at(1)
