"""Replace operators of one step by several of simpler kind, before they are grouped into kernels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from capplan.core.trace.affine import Affine
from capplan.core.trace.types import Kernel, Op, Phase, Recording, Role, Storage


@dataclass(slots=True)
class Expansion:
    """The kernels and storages of a recording that is being expanded, and those added to it."""

    kernels: list[Kernel]
    storages: list[Storage]

    def add_kernels(self, kernels: Sequence[Kernel]) -> tuple[int, ...]:
        """Add kernels and return their indices."""
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
    """Return one step with some operators replaced by others.

    Args:
        recording: one step, as traced.
        is_expanded: whether the operators of a kernel are replaced.
        pieces: the operators in the place of one, whose new kernels and storages it adds to the expansion.
    """
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
