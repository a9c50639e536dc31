"""Group operators into kernels as Inductor's scheduler does, as far as it decides bytes and launches.

Convolutions, matrix products and attention end a group. So does whatever needs its input stored: pools, and a
reduction over other elements than the one before it. An operator's *level* is the largest number of such ends on
a path from the graph's inputs. Operators that feed one another at the same level share a kernel; no path can
leave such a kernel and come back.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod

from capplan.core.compiled.roles import (
    Reduced,
    elements,
    ends_kernel,
    needs_stored_input,
    part,
    reads_repeatedly,
    reduced,
    reduces_across_memory,
    subgraph_of_each,
)
from capplan.core.ops.catalogue import FusedRole
from capplan.core.trace.types import Op, Recording, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """A recording's operators with who feeds whom, by position.

    `producers` holds, per operator, the position of the last writer of each storage that it reads or overwrites,
    -1 for what existed before. `depends` marks the operators that depend on the model's input, `subgraph` which
    compiled graph they belong to.
    """

    ops: tuple[Op, ...]
    producers: tuple[tuple[int, ...], ...]
    depends: tuple[bool, ...]
    subgraph: tuple[int, ...]

    def consumers(self) -> dict[int, list[int]]:
        """Return the operators that read what an operator wrote."""
        found: dict[int, list[int]] = defaultdict(list)
        for index, sources in enumerate(self.producers):
            for source in dict.fromkeys(sources):
                if source >= 0:
                    found[source].append(index)
        return found


def trace_flow(recording: Recording) -> Flow:
    """Follow storages from writer to reader through one step."""
    ops = recording.steady_ops()
    writer: dict[int, int] = {}
    producers: list[tuple[int, ...]] = []
    depends: list[bool] = []
    for index, op in enumerate(ops):
        sources = tuple(writer.get(storage, -1) for storage in (*op.reads, *op.writes))
        producers.append(sources)
        reads_input = any(
            recording.storages[storage].role is Role.INPUT and storage not in writer for storage in op.reads
        )
        depends.append(reads_input or any(source >= 0 and depends[source] for source in sources))
        for storage in op.writes:
            writer[storage] = index
    subgraph = subgraph_of_each(recording.kernels, ops)
    return Flow(ops=ops, producers=tuple(producers), depends=tuple(depends), subgraph=subgraph)


class Fuser(StrEnum):
    """What fuses a graph: engines keep elementwise work for the product before it, Inductor for a reduction behind."""

    INDUCTOR = "inductor"
    ENGINE = "engine"


def group_operators(
    recording: Recording, flow: Flow, *, batch: int, fuser: Fuser = Fuser.INDUCTOR, reorders_loops: bool = False
) -> list[int]:
    """Number the kernel that each operator ends up in; operators with the same number are one kernel."""
    facts = [_Facts.of(recording, index, batch, reorders_loops) for index in range(len(recording.kernels))]
    by_op = [facts[op.kernel] for op in flow.ops]
    levels = _levels(flow, by_op)
    groups, place = _Groups(len(flow.ops)), list(zip(flow.depends, levels, flow.subgraph, strict=True))
    for index, sources in enumerate(flow.producers):
        if by_op[index].part is None:
            continue
        for source in sources:
            if source >= 0 and by_op[source].part is not None and place[source] == place[index]:
                groups.join(source, index)
    _join_siblings(recording, flow, by_op, levels, groups)
    _absorb(flow, by_op, groups, fuser)
    return [groups.find(index) for index in range(len(flow.ops))]


def _join_siblings(
    recording: Recording, flow: Flow, facts: "list[_Facts]", levels: Sequence[int], groups: "_Groups"
) -> None:
    """Join kernels of one level that read the same whole tensor over the same elements, so that it is read once."""
    seen: dict[tuple[int, int, int, int, int, Reduced | None], int] = {}
    for index, op in enumerate(flow.ops):
        here = facts[index]
        if here.part is None or here.needs_stored or not flow.depends[index]:
            continue
        kernel = recording.kernels[op.kernel]
        for storage, source, operand in zip(op.reads, flow.producers[index], kernel.inputs, strict=False):
            if operand.is_weight or prod(operand.shape_at(here.batch)) != here.span:
                continue
            key = (flow.subgraph[index], storage, source, levels[index], here.span, here.reduced)
            groups.join(seen.setdefault(key, index), index)


def _absorb(flow: Flow, facts: "list[_Facts]", groups: "_Groups", fuser: Fuser) -> None:
    """Inline an elementwise group into its only consumer; Inductor does so into a reduction across memory, too."""
    consumers = flow.consumers()
    members: dict[int, list[int]] = defaultdict(list)
    for index in range(len(flow.ops)):
        members[groups.find(index)].append(index)
    for root in sorted(members, key=lambda root: -members[root][-1]):
        inside = members[root]
        if not all(facts[index].can_be_inlined for index in inside):
            continue
        own = groups.find(root)
        users = [user for index in inside for user in consumers.get(index, []) if groups.find(user) != own]
        takes = all(
            facts[user].part is not None
            and not (facts[user].reads_repeatedly if fuser is Fuser.INDUCTOR else facts[user].needs_stored)
            and flow.subgraph[user] == flow.subgraph[root]
            for user in users
        )
        if users and takes and len({groups.find(user) for user in users}) == 1:
            groups.join(root, users[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    part: FusedRole | None
    needs_stored: bool
    reads_repeatedly: bool
    reduced: Reduced | None
    carried: Reduced | None
    ends: bool
    elements: int
    batch: int

    @property
    def can_be_inlined(self) -> bool:
        """Return True if the consumers of the operator's result can compute it themselves."""
        return self.part in (FusedRole.POINTWISE, FusedRole.COPY) and not self.needs_stored and not self.ends

    @property
    def span(self) -> int:
        """Return all elements that the operator runs over."""
        return self.reduced.results * self.reduced.elements if self.reduced else self.elements

    @classmethod
    def of(cls, recording: Recording, index: int, batch: int, reorders_loops: bool) -> "_Facts":
        kernel = recording.kernels[index]
        loops = reduced(kernel, batch)
        alone = loops is not None and reduces_across_memory(kernel)
        return cls(
            part=part(kernel),
            needs_stored=reads_repeatedly(kernel) if reorders_loops else needs_stored_input(kernel),
            reads_repeatedly=reads_repeatedly(kernel),
            reduced=loops,
            carried=Reduced(results=loops.results, elements=1) if loops and alone else loops,
            ends=ends_kernel(kernel),
            elements=elements(kernel, batch),
            batch=batch,
        )


def _levels(flow: Flow, facts: list[_Facts]) -> list[int]:
    """Number each operator's level; reductions carry what they run over to those they feed."""
    levels: list[int] = []
    carried: list[Reduced | None] = []
    for index, sources in enumerate(flow.producers):
        here = facts[index]
        own = here.reduced
        level, inherited = 0, None
        for source in sources:
            if source < 0 or not flow.depends[source]:
                continue
            if here.part is None or facts[source].ends or here.needs_stored:
                at, carries = levels[source] + 1, None
            else:
                at, carries = levels[source], carried[source]
                if carries is not None and not _fits(here, carries):
                    at, carries = at + 1, None
            if at > level:
                level, inherited = at, carries
            elif at == level and inherited is None:
                inherited = carries
        if own is not None and inherited is not None and own != inherited:
            level, inherited = level + 1, None
        levels.append(level)
        carried.append(here.carried or inherited)
    return levels


def _fits(here: _Facts, carried: Reduced) -> bool:
    """Return True if an operator can run inside a reduction's loops, over the same elements or over its results."""
    if here.reduced is not None:
        return here.reduced == carried
    return here.elements <= carried.results * carried.elements


class _Groups:
    """Disjoint sets."""

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))

    def find(self, index: int) -> int:
        while self._parent[index] != index:
            self._parent[index] = self._parent[self._parent[index]]
            index = self._parent[index]
        return index

    def join(self, one: int, other: int) -> None:
        self._parent[self.find(one)] = self.find(other)
