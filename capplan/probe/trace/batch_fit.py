"""Turn passes at several batch sizes into one recording whose sizes are functions of the batch."""

from collections.abc import Sequence
from typing import TypeAlias

import torch

from capplan.core.ops.flops import Formula, Formulas, OperatorCall, find_formula
from capplan.core.trace.types import (
    HALF,
    Affine,
    AssumedValue,
    Attribute,
    InputTensor,
    Kernel,
    MemoryFormat,
    Op,
    Operand,
    Phase,
    Recording,
    Storage,
    fit_affine,
)
from capplan.core.workload import Configuration
from capplan.errors import UsageError
from capplan.probe.foreign.code import model_code
from capplan.probe.record.assumed_values import SELECTING
from capplan.probe.record.types import Pass, RawKernel


class DoesNotFitError(Exception):
    """The passes do not run the same operators, or a size is not an integer affine function of the batch."""


def fit_recording(
    passes: Sequence[Pass],
    batches: Sequence[int],
    *,
    configuration: Configuration,
    modules: Sequence[str],
    half: torch.dtype | None,
    parameters: dict[int, int],
    backend: str,
    formulas: Formulas,
) -> Recording:
    """Fit the first two passes and check the rest; one pass alone is exact for its batch."""
    fit = _Fit(passes, batches, half, formulas)
    fit.require_same_structure()
    first = passes[0]
    kernels, ops, used_modules = fit.kernels_and_ops()
    return Recording(
        configuration=configuration,
        modules=tuple(modules[i] for i in used_modules),
        kernels=kernels,
        ops=ops,
        storages=fit.storages(parameters),
        phases=tuple(Phase(name=name, step=step, first_op=op) for name, step, op in first.phases),
        batches=tuple(batches),
        exact_batch=batches[0] if len(batches) == 1 else None,
        backend=backend,
        assumed_values=tuple(
            AssumedValue(
                what=what,
                count=assumed.count,
                share=first.selected_share if what in SELECTING else None,
                lines=tuple(assumed.lines),
                first_op=assumed.first_op,
            )
            for what, assumed in sorted(first.assumed.items())
        ),
    )


SeenInput: TypeAlias = tuple[str, torch.dtype, tuple[int, ...]]
"""Name, dtype and shape of an input at one batch size."""


def fit_inputs(seen: Sequence[Sequence[SeenInput]], batches: Sequence[int]) -> tuple[InputTensor, ...]:
    if any(len(other) != len(seen[0]) for other in seen):
        raise DoesNotFitError
    found = []
    for column in zip(*seen, strict=True):
        dims = tuple(fit_dimension(values, batches) for values in zip(*(shape for _, _, shape in column), strict=True))
        name, dtype, _ = column[0]
        found.append(InputTensor(name=name, dtype=str(dtype).removeprefix("torch."), shape=dims))
    return tuple(found)


def fit_dimension(values: Sequence[int], batches: Sequence[int]) -> Affine:
    """Find the affine function of the batch through values at several batches."""
    if len(values) == 1:
        return Affine(values[0])
    pairs = list(zip(batches, values, strict=True))
    fitted = fit_affine(first=pairs[0], second=pairs[1])
    if fitted is None or any(fitted.at(batch) != value for batch, value in pairs[2:]):
        raise DoesNotFitError
    return fitted


_STRUCTURE = ("op_modules", "op_reads", "op_writes", "births", "deaths", "roles", "phases")
"""What passes at all batches must have in common."""


class _Fit:
    def __init__(
        self, passes: Sequence[Pass], batches: Sequence[int], half: torch.dtype | None, formulas: Formulas
    ) -> None:
        self._formulas = formulas
        self._passes = passes
        self._batches = batches
        self._half = half
        self._operands: dict[tuple[int, ...], Operand] = {}

    def require_same_structure(self) -> None:
        """Raise unless all passes run the same operators in the same modules, on storages of the same lives."""
        first, *rest = self._passes
        if any(getattr(other, part) != getattr(first, part) for part in _STRUCTURE for other in rest):
            raise DoesNotFitError

    def kernels_and_ops(self) -> tuple[tuple[Kernel, ...], tuple[Op, ...], tuple[int, ...]]:
        """Return the distinct kernels, the ops that refer to them, and the indices of the modules that run ops."""
        first = self._passes[0]
        kernels: dict[tuple[int, ...], int] = {}
        modules: dict[int, int] = {}
        ops = []
        for position, key in enumerate(zip(*(record.op_kernels for record in self._passes), strict=True)):
            ops.append(
                Op(
                    kernel=kernels.setdefault(key, len(kernels)),
                    module=modules.setdefault(first.op_modules[position], len(modules)),
                    reads=first.op_reads[position],
                    writes=first.op_writes[position],
                    calls=first.op_calls[position],
                )
            )
        return tuple(map(self.kernel, kernels)), tuple(ops), tuple(modules)

    def storages(self, parameters: dict[int, int]) -> tuple[Storage, ...]:
        """Return the storages; `parameters` maps those of the model's weights to their parameter's index."""
        first = self._passes[0]
        end = len(first.op_kernels)
        return tuple(
            Storage(
                size_bytes=self.affine([record.sizes_bytes[i] for record in self._passes]),
                role=first.roles[i],
                birth=first.births[i],
                death=end if death is None else max(death, 0),
                parameter=parameters.get(i),
            )
            for i, death in enumerate(first.deaths)
        )

    def affine(self, values: Sequence[int]) -> Affine:
        return fit_dimension(values, self._batches)

    def kernel(self, indices: tuple[int, ...]) -> Kernel:
        raw = [p.kernels[i] for p, i in zip(self._passes, indices, strict=True)]
        name = raw[0][0]
        if any(other[0] != name or list(map(len, other[2:])) != list(map(len, raw[0][2:])) for other in raw):
            raise DoesNotFitError
        common: dict[str, Attribute] = {
            key: value for key, value in raw[0][1] if all((key, value) in other[1] for other in raw[1:])
        }
        inputs, outputs = (
            tuple(self._operand(column) for column in zip(*(r[side] for r in raw), strict=True)) for side in (2, 3)
        )
        formula = find_formula(self._formulas, name)
        flops = None
        if formula is not None:
            flops = self.affine([self._count(formula, *pair) for pair in zip(self._passes, raw, strict=True)])
        return Kernel(name=name, inputs=inputs, outputs=outputs, attributes=common, flops=flops)

    @staticmethod
    def _count(formula: Formula, one_pass: Pass, kernel: RawKernel) -> int:
        name, attributes, *sides = kernel
        inputs, outputs = ([one_pass.operands[code >> 1][1] for code in codes] for codes in sides)
        with model_code(f"the formula of {name.replace('.', '::', 1)}", error=UsageError):
            return int(formula(OperatorCall(inputs=inputs, outputs=outputs, attributes=dict(attributes))))

    def _operand(self, codes: tuple[int, ...]) -> Operand:
        known = self._operands.get(codes)
        if known is not None:
            return known
        raw = [p.operands[code >> 1] for p, code in zip(self._passes, codes, strict=True)]
        dtype, shape, layout, expanded = raw[0]
        if any(
            other[0] is not dtype or len(other[1]) != len(shape) or other[2] != layout or other[3] != expanded
            for other in raw
        ):
            raise DoesNotFitError
        dims = tuple(self.affine(column) for column in zip(*(r[1] for r in raw), strict=True))
        scales = any(dim.per_sample for axis, dim in enumerate(dims) if axis not in expanded)
        made = self._operands[codes] = Operand(
            dtype=HALF if dtype is self._half else str(dtype).removeprefix("torch."),
            shape=dims,
            memory_format=MemoryFormat(layout),
            is_weight=bool(codes[0] & 1) and not scales,
            expanded=expanded,
        )
        return made
