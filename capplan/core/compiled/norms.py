"""Split norms that exceed one thread block: one pass for their statistics, another one to apply them."""

from collections.abc import Sequence
from dataclasses import replace

from capplan.core.compiled.expansion import Expansion, expand_operators
from capplan.core.compiled.roles import normalises_with_constants
from capplan.core.trace.affine import Affine
from capplan.core.trace.types import Kernel, Op, Operand, Recording


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
