"""A model's counts as the tree of its modules: every module with all that lies below it, and its own parameters."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from capplan.core.ops.flops import kernel_flops, kernel_macs, traffic
from capplan.core.trace.types import Kernel, Trace
from capplan.core.workload import Configuration

NARROWER_DTYPES: Mapping[str, float] = {"float32": 4, "float16": 2, "float8": 1, "int8": 1, "int4": 0.5}
"""What the weights could be stored in, in bytes an element; float16 stands for bfloat16 too. Scales are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleNode:
    """One module with all below it: counts of a whole step at one batch.

    `depth` is 0 for the model itself. `activations` are elements that convolutions and matrix products write, as fvcore
    counts them. `size_bytes` is what its kernels read and write. `own_parameters` are the names, relative to the
    module, and shapes of the parameters that it holds itself.
    """

    path: str
    depth: int
    calls: int
    macs: int
    flops: int
    parameters: int
    activations: int
    size_bytes: int
    own_parameters: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def name(self) -> str:
        """Return the last word of the path; empty for the model itself."""
        return self.path.rpartition(".")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class DtypeShare:
    """The parameters of one dtype: how many tensors and elements, and their bytes."""

    dtype: str
    tensors: int
    parameters: int
    size_bytes: int

    def bytes_as(self, dtype: str) -> int:
        """Return the bytes that these parameters would take in another dtype, scales left out. [bytes]"""
        return int(self.parameters * NARROWER_DTYPES[dtype])


def module_tree(trace: Trace, *, configuration: Configuration, batch: int) -> tuple[ModuleNode, ...]:
    """Return every module of a model, parents before their children, in the order in which they run.

    The counts of a module are those of its own operators and of all modules below it, so that the first row, the model,
    holds the totals. A parameter that several modules share counts once, for the first of them.
    """
    recording = trace.recording(configuration)
    costs = [_costs(kernel, batch) for kernel in recording.kernels]
    sums: dict[str, list[int]] = defaultdict(lambda: [0] * 5)
    for op in recording.steady_ops():
        row = sums[recording.modules[op.module]]
        for place, amount in enumerate((1, *costs[op.kernel])):
            row[place] += amount
    own_counts = sums
    own_parameters: dict[str, list[tuple[str, tuple[int, ...]]]] = defaultdict(list)
    for parameter in trace.parameters:
        if not parameter.is_buffer:
            owner, _, name = parameter.names[0].rpartition(".")
            own_parameters[owner].append((name, parameter.shape))
    below: dict[str, list[int]] = defaultdict(lambda: [0] * 6)
    for path, counts in own_counts.items():
        _add(below, path, [*counts, 0])
    for path, tensors in own_parameters.items():
        _add(below, path, [0, 0, 0, 0, 0, sum(prod(shape) for _, shape in tensors)])
    return tuple(
        ModuleNode(
            path=path,
            depth=path.count(".") + 1 if path else 0,
            calls=below[path][0],
            macs=below[path][1],
            flops=below[path][2],
            size_bytes=below[path][3],
            activations=below[path][4],
            parameters=below[path][5],
            own_parameters=tuple(own_parameters.get(path, ())),
        )
        for path in _in_order([*own_counts, *own_parameters])
    )


def parameters_by_dtype(trace: Trace) -> tuple[DtypeShare, ...]:
    """Return the parameters by their own dtype, that of most bytes first; buffers are left out."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for parameter in trace.parameters:
        if not parameter.is_buffer:
            row = found[parameter.dtype]
            for place, amount in enumerate((1, parameter.elements, parameter.size_bytes)):
                row[place] += amount
    shares = [
        DtypeShare(dtype=dtype, tensors=tensors, parameters=elements, size_bytes=size)
        for dtype, (tensors, elements, size) in found.items()
    ]
    return tuple(sorted(shares, key=lambda share: -share.size_bytes))


def parameter_bytes_by_dtype(trace: Trace) -> dict[str, int]:
    """Return the bytes of the parameters by their own dtype, in the order of the model. [bytes]"""
    sizes: Counter[str] = Counter()
    for parameter in trace.parameters:
        if not parameter.is_buffer:
            sizes[parameter.dtype] += parameter.size_bytes
    return dict(sizes)


def _costs(kernel: Kernel, batch: int) -> tuple[int, int, int, int]:
    macs = kernel_macs(kernel, batch)
    written = prod(kernel.outputs[0].shape_at(batch)) if macs and kernel.outputs else 0
    return macs, kernel_flops(kernel, batch), traffic(kernel, batch).total_bytes, written


def _add(below: dict[str, list[int]], path: str, counts: Sequence[int]) -> None:
    for module in _with_parents(path):
        row = below[module]
        for place, amount in enumerate(counts):
            row[place] += amount


def _with_parents(path: str) -> list[str]:
    """Return the paths from the model down to a module: "", "a", "a.b" for "a.b"."""
    words = path.split(".") if path else []
    return [".".join(words[:depth]) for depth in range(len(words) + 1)]


def _in_order(paths: Sequence[str]) -> list[str]:
    """Return all paths and their parents, parents before children, siblings as they come first."""
    children: dict[str, dict[str, None]] = defaultdict(dict)
    for path in paths:
        steps = _with_parents(path)
        for parent, child in pairwise(steps):
            children[parent][child] = None
    found, waiting = [], [""]
    while waiting:
        found.append(waiting.pop())
        waiting += reversed(children[found[-1]])
    return found
