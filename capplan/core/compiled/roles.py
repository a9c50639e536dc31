"""Classify operators for compilation: their role in a fused kernel, and those at which torch.compile ends a graph."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from capplan.core.ops.catalogue import INSTRUCTIONS_UNLESS_STATED, FusedRole, OperatorClass, find_row, operator_class
from capplan.core.trace.types import Kernel, MemoryFormat, Op, Operand, Recording

FUSED = "capplan.fused"
"""The name of a kernel that a compiler made of several operators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """What a reduction runs over: how many results, and how many elements make one."""

    results: int
    elements: int


_LARGEST_INLINED_WINDOW = 25
_LONGEST_INLINED_CAT = 8
_FEWEST_REDUCED = 8
"""Shorter reductions are written out as sums: `unroll_reductions_threshold` in torch/_inductor/config.py, which
`Reduction.create` in ir.py asks."""


def part(kernel: Kernel) -> FusedRole | None:
    """Describe what an operator is inside a fused kernel; None for what always runs as a kernel of its own."""
    row = find_row(kernel)
    if row is None or row.fused_role is None or breaks_graph(kernel):
        return None
    found = FusedRole.COPY if operator_class(kernel) is OperatorClass.COPY else row.fused_role
    if found is FusedRole.NORM and normalises_with_constants(kernel):
        return FusedRole.POINTWISE
    if found is FusedRole.POOL:
        if _averages_everything(kernel):
            return FusedRole.REDUCTION
        window = kernel.attributes.get("kernel_size", (1,))
        if isinstance(window, tuple) and prod(window) > _LARGEST_INLINED_WINDOW:
            return None
    return FusedRole.POINTWISE if _is_written_out(kernel, found) else found


def _is_written_out(kernel: Kernel, found: FusedRole) -> bool:
    """Return True if a sum, maximum or softmax runs over so few elements that a compiler writes them out."""
    if not kernel.inputs or not kernel.outputs:
        return False
    if found is FusedRole.SOFTMAX:
        return _softmax_length(kernel, 2) < _FEWEST_REDUCED
    if found is not FusedRole.REDUCTION:
        return False
    results = max(1, min(prod(operand.shape_at(2)) for operand in kernel.outputs))
    return prod(kernel.inputs[0].shape_at(2)) < _FEWEST_REDUCED * results


def needs_stored_input(kernel: Kernel) -> bool:
    """Return True if the operator's input must be materialised, so that its producer cannot be fused into it."""
    return reduces_across_memory(kernel) or reads_repeatedly(kernel)


def reads_repeatedly(kernel: Kernel) -> bool:
    """Return True if the operator reads each element several times, so that nothing is computed where it reads."""
    row = find_row(kernel)
    return part(kernel) is FusedRole.POOL or (row is not None and row.needs_stored_input)


def ends_kernel(kernel: Kernel) -> bool:
    """Return True if the operator's consumers cannot join its kernel, as after a concatenation that takes several."""
    if part(kernel) is None:
        return True
    return kernel.name == "aten.cat" and len(kernel.inputs) > _LONGEST_INLINED_CAT


def reduces_across_memory(kernel: Kernel) -> bool:
    """Return True if a reduction keeps the contiguous dimension, such as the channels of a channels-last image."""
    if part(kernel) is not FusedRole.REDUCTION or not kernel.inputs:
        return False
    data = kernel.inputs[0]
    rank = len(data.shape)
    over = (2, 3) if "_adaptive_avg_pool" in kernel.name else kernel.attributes.get("dim", ())
    dims = {dim % rank for dim in (over if isinstance(over, tuple) else (over,)) if isinstance(dim, int) and rank}
    innermost = 1 if data.memory_format is MemoryFormat.CHANNELS_LAST else rank - 1
    return bool(dims) and data.memory_format is not MemoryFormat.STRIDED and innermost not in dims


def arithmetic(kernel: Kernel, batch: int) -> float:
    """Return roughly how many instructions a fused operator takes, loads and stores excluded. [FLOP]"""
    row = find_row(kernel)
    instructions = INSTRUCTIONS_UNLESS_STATED if row is None else row.instructions
    return float(
        instructions * max(elements(kernel, batch), *(prod(operand.shape_at(batch)) for operand in kernel.inputs), 0)
    )


def reduced(kernel: Kernel, batch: int) -> Reduced | None:
    """Return what a reduction iterates over at a batch; None for operators that reduce nothing."""
    found = part(kernel)
    if found not in (FusedRole.NORM, FusedRole.SOFTMAX, FusedRole.REDUCTION) or not kernel.inputs or not kernel.outputs:
        return None
    elements = prod(kernel.inputs[0].shape_at(batch))
    if found is FusedRole.REDUCTION:
        results = max(1, min(prod(operand.shape_at(batch)) for operand in kernel.outputs))
    elif found is FusedRole.SOFTMAX:
        results = elements // max(1, _softmax_length(kernel, batch))
    else:
        results = _normalised_groups(kernel, batch)
    return Reduced(results=results, elements=max(1, elements // max(1, results)))


def elements(kernel: Kernel, batch: int) -> int:
    """Return the elements that an operator's largest result has, views broadcast."""
    return max((prod(operand.shape_at(batch)) for operand in kernel.outputs), default=0)


def normalises_with_constants(kernel: Kernel) -> bool:
    """Return True for batch norm with running statistics, which is a multiplication and an addition."""
    return (
        "batch_norm" in kernel.name and "backward" not in kernel.name and not kernel.attributes.get("training", False)
    )


def _averages_everything(kernel: Kernel) -> bool:
    if "_adaptive_avg_pool" not in kernel.name or not kernel.outputs:
        return False
    positions: tuple[int, ...] = kernel.outputs[0].shape_at(1)[2:]
    return "backward" not in kernel.name and prod(positions) == 1


def _softmax_length(kernel: Kernel, batch: int) -> int:
    shape = kernel.inputs[0].shape_at(batch)
    dim = kernel.attributes.get("dim", -1)
    return shape[dim] if isinstance(dim, int) and shape else 1


def _normalised_groups(kernel: Kernel, batch: int) -> int:
    data: Operand = kernel.inputs[0]
    shape = data.shape_at(batch)
    if "batch_norm" in kernel.name:
        return shape[1] if len(shape) > 1 else 1
    if "group_norm" in kernel.name:
        groups = kernel.attributes.get("group", kernel.attributes.get("num_groups", 1))
        return shape[0] * (groups if isinstance(groups, int) else 1)
    width = kernel.attributes.get("normalized_shape")
    normalised = prod(width) if isinstance(width, tuple) else shape[-1]
    return prod(shape) // max(1, normalised)


_MASKS = frozenset({"bool", "uint8"})


def breaks_graph(kernel: Kernel) -> bool:
    row = find_row(kernel)
    if row is None:
        return False
    return row.ends_graph or (
        row.ends_graph_if_masked and any(operand.dtype in _MASKS for operand in kernel.inputs[1:])
    )


def subgraph_of_each(kernels: Sequence[Kernel], ops: Sequence[Op]) -> tuple[int, ...]:
    """Number the compiled graph that each operator belongs to; what breaks a graph runs between two."""
    subgraphs: list[int] = []
    subgraph = 0
    for op in ops:
        broken = breaks_graph(kernels[op.kernel])
        subgraphs.append(subgraph + broken)
        subgraph += 2 * broken
    return tuple(subgraphs)


def graph_break_notes(recording: Recording) -> tuple[str, ...]:
    """Return one sentence on a recording's graph breaks; empty without any."""
    ops = [op for op in recording.steady_ops() if breaks_graph(recording.kernels[op.kernel])]
    if not ops:
        return ()
    found = Counter((recording.kernels[op.kernel].name, recording.modules[op.module] or "the model") for op in ops)
    shown = [f"{name} in {module}" for name, module in list(found)[:3]]
    rest = f" and {len(found) - 3} more places" if len(found) > 3 else ""
    breaks = "1 graph break" if len(ops) == 1 else f"{len(ops)} graph breaks"
    by = f"{breaks} by {', '.join(shown)}{rest}"
    return (f"{by}: estimated subgraph by subgraph, without what each new graph costs Python",)
