"""Find where torch.compile ends a graph: operators whose result size, or Python's next step, depends on values.

By TorchDynamo's defaults (capture_scalar_outputs and capture_dynamic_output_shape_ops off) a graph ends where Python
reads a tensor's value and where an operator's output has as many elements as its data say. What cannot be seen in a
trace (code that Dynamo does not understand, functions taken out by hand) breaks graphs unseen.
"""

from collections import Counter
from collections.abc import Sequence

from capplan.core.ops.catalogue import operator_rows
from capplan.core.trace.types import Kernel, Op, Recording

_MASKS = frozenset({"bool", "uint8"})


def breaks_graph(kernel: Kernel) -> bool:
    """Return True if an operator ends a compiled graph."""
    row = operator_rows().get(kernel.name.rpartition(".")[2])
    if row is None:
        return False
    return row.ends_graph or (row.ends_graph_if_masked and any(each.dtype in _MASKS for each in kernel.inputs[1:]))


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
    """Return one sentence on a recording's graph breaks; None without any."""
    ops = [op for op in recording.steady_ops() if breaks_graph(recording.kernels[op.kernel])]
    if not ops:
        return ()
    found = Counter((recording.kernels[op.kernel].name, recording.modules[op.module] or "the model") for op in ops)
    shown = [f"{name} in {module}" for name, module in list(found)[:3]]
    rest = f" and {len(found) - 3} more places" if len(found) > 3 else ""
    breaks = "1 graph break" if len(ops) == 1 else f"{len(ops)} graph breaks"
    by = f"{breaks} by {', '.join(shown)}{rest}"
    return (f"{by}: estimated subgraph by subgraph, without what each new graph costs Python",)
