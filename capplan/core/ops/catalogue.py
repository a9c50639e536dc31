"""Look operators up in the catalogue: class, efficiency class, role in fusion, formula, profiler names."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from capplan.core.ops.rows import ROWS
from capplan.core.trace.types import PUBLIC_LIBRARIES, Kernel


class OperatorClass(StrEnum):
    """Kinds of kernels that behave alike."""

    CONVOLUTION = "convolution"
    MATMUL = "matmul"
    ATTENTION = "attention"
    RNN = "rnn"
    NORM = "norm"
    SOFTMAX = "softmax"
    ACTIVATION = "activation"
    POINTWISE = "pointwise"
    REDUCTION = "reduction"
    COPY = "copy"
    CAST = "cast"
    POOL = "pool"
    RESIZE = "resize"
    INDEX = "index"
    SCAN = "scan"
    RANDOM = "random"
    FILL = "fill"
    LOSS = "loss"
    OPTIMIZER = "optimizer"
    ALLOCATION = "allocation"
    FFT = "fft"
    CUSTOM = "custom"
    OTHER = "other"


class FusedRole(StrEnum):
    """What an operator is inside a kernel that a compiler makes of several."""

    NORM = "norm"
    SOFTMAX = "softmax"
    REDUCTION = "reduction"
    POOL = "pool"
    COPY = "copy"
    POINTWISE = "pointwise"


BY_FILTER = "by filter"
"""Efficiency of convolutions: their class follows from the filter, the groups and the stride."""
BY_SHAPE = "by shape"
"""Efficiency of operators without a class of their own: pointwise or other, by the shapes of their operands."""
UNCOUNTED = "uncounted"
"""Products of operators that hold matrix products which no formula counts."""

_OWN_KERNEL = "own kernel"
INSTRUCTIONS_UNLESS_STATED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRow:
    """One operator of the catalogue; the columns are explained in `capplan.core.ops.rows`.

    `fused_role` is None for operators that always run as a kernel of their own. `instructions` is per element.
    `products` names a formula of `capplan.core.ops.flops`, None where there is no matrix product.
    """

    name: str
    operator_class: OperatorClass
    efficiency: str
    fused_role: FusedRole | None
    instructions: int
    products: str | None
    notes: frozenset[str]
    profiler_names: tuple[str, ...]

    @property
    def needs_stored_input(self) -> bool:
        """Return True if its input must be materialised, so that the input's producer cannot be fused into it."""
        return "stored input" in self.notes

    @property
    def ends_graph(self) -> bool:
        """Return True if torch.compile ends a graph here: Python reads a value, or values decide the result's size."""
        return bool(self.notes & {"reads a value", "sized by values"})

    @property
    def ends_graph_if_masked(self) -> bool:
        """Return True if torch.compile ends a graph here where an index is a boolean mask."""
        return "sized by masks" in self.notes


@cache
def operator_rows() -> Mapping[str, OperatorRow]:
    """Return the catalogue by operator name, without library."""
    lines = ROWS.strip().replace("\n ", " ").splitlines()[1:]
    rows = [row for line in lines for row in _parse_rows([cell.strip() for cell in line.split("|")])]
    return {row.name: row for row in rows}


def _parse_rows(cells: list[str]) -> Iterator[OperatorRow]:
    operator_class, efficiency, role, instructions, products, notes, operators = cells
    for operator in operators.split():
        name, _, profiled = operator.removesuffix(")").partition("(")
        yield OperatorRow(
            name=name,
            operator_class=OperatorClass(operator_class),
            efficiency=efficiency,
            fused_role=None if role == _OWN_KERNEL else FusedRole(role),
            instructions=int(instructions) if instructions else INSTRUCTIONS_UNLESS_STATED,
            products=products or None,
            notes=frozenset(notes.split("; ") if notes else ()),
            profiler_names=tuple(profiled.split(",")) if profiled else (),
        )


def find_row(kernel: Kernel) -> OperatorRow | None:
    """Return a kernel's row; None for operators of other libraries and those that the catalogue lacks."""
    namespace, _, name = kernel.name.partition(".")
    return operator_rows().get(name) if namespace in PUBLIC_LIBRARIES else None


def operator_class(kernel: Kernel) -> OperatorClass:
    """Classify a kernel by its operator; `CUSTOM` outside PyTorch's own, `OTHER` where it is not known."""
    namespace, _, name = kernel.name.partition(".")
    if namespace not in PUBLIC_LIBRARIES:
        return OperatorClass.CUSTOM
    if name.startswith("_foreach_"):
        return OperatorClass.OPTIMIZER
    row = operator_rows().get(name)
    found = OperatorClass.OTHER if row is None else row.operator_class
    if found is OperatorClass.CAST and kernel.inputs and kernel.outputs[0].dtype == kernel.inputs[0].dtype:
        return OperatorClass.COPY
    return found


def is_counted(kernel: Kernel) -> bool:
    """Return True if it is certain which matrix products, if any, a kernel holds."""
    if kernel.flops is not None:
        return True
    row = find_row(kernel)
    if row is None:
        namespace, _, name = kernel.name.partition(".")
        return namespace in PUBLIC_LIBRARIES and name.startswith("_foreach_")
    return row.products != UNCOUNTED


@cache
def recorded_name(profiled: str) -> str | None:
    """Return the catalogue's name of an operator that profilers report under another; None if there is none."""
    return next((row.name for row in operator_rows().values() if profiled in row.profiler_names), None)
