"""Split norms that exceed one thread block: one pass for their statistics, another one to apply them."""

from dataclasses import replace

from capplan.core.compiled.roles import normalises_with_constants
from capplan.core.trace.affine import Affine
from capplan.core.trace.types import Kernel, Op, Operand, Phase, Recording, Role, Storage


def split_norms(recording: Recording) -> Recording:
    """Return one step with group norms and training batch norms split into statistics and an elementwise rest."""
    steady = recording.steady_ops()
    skipped = len(recording.ops) - len(steady)
    kernels, storages = list(recording.kernels), list(recording.storages)
    pieces: dict[int, tuple[int, int]] = {}
    ops: list[Op] = []
    place: list[int] = []
    for op in steady:
        place.append(len(ops))
        kernel = recording.kernels[op.kernel]
        if not _is_split(kernel):
            ops.append(op)
            continue
        if op.kernel not in pieces:
            pieces[op.kernel] = (len(kernels), len(kernels) + 1)
            kernels += _pieces(kernel)
        statistics, normalise = pieces[op.kernel]
        missing = len(kernels[statistics].outputs) - len(op.writes[1:3])
        made = tuple(range(len(storages), len(storages) + missing))
        storages += [Storage(size_bytes=Affine(4), role=Role.ACTIVATION, birth=0, death=0)] * missing
        written = op.writes[1:3] + made
        ops.append(replace(op, kernel=statistics, reads=op.reads[:1], writes=written))
        ops.append(replace(op, kernel=normalise, reads=(op.reads[0], *written, *op.reads[1:]), writes=op.writes[:1]))
    return replace(
        recording,
        kernels=tuple(kernels),
        ops=tuple(ops),
        storages=tuple(_moved(storage, place, skipped, len(recording.ops), len(ops)) for storage in storages),
        phases=tuple(
            Phase(name=phase.name, step=phase.step, first_op=place[phase.first_op - skipped])
            for phase in recording.phases
            if skipped <= phase.first_op < len(recording.ops)
        ),
    )


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


def _moved(storage: Storage, place: list[int], skipped: int, end: int, new_end: int) -> Storage:
    birth = storage.birth if storage.birth < 0 else place[max(0, min(storage.birth - skipped, len(place) - 1))]
    if storage.death >= end:
        return replace(storage, birth=birth, death=new_end)
    return replace(storage, birth=birth, death=place[max(0, min(storage.death - skipped, len(place) - 1))])
