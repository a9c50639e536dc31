"""Turn a trace into that of the same model with its linear layers quantised."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from math import prod

from capplan.core.quantisation.schemes import Execution, PackedPart, PackedWeight, Scheme, pack
from capplan.core.trace.types import (
    ALWAYS,
    HALF,
    ITEM_BYTES,
    QUANTISED,
    Affine,
    Attribute,
    Kernel,
    Op,
    Operand,
    Parameter,
    Phase,
    Recording,
    Role,
    Storage,
    Trace,
    distinct_kernels,
)
from capplan.core.workload import Variant
from capplan.errors import UsageError

QUANTISED_LINEAR = "capplan.quantised_linear"
"""A product with packed weights: [.., k] by [n, k], scales, perhaps a bias."""
WIDEN, QUANTISE, RESCALE = "capplan.widen", "capplan.quantise", "capplan.rescale"

_BIAS_FIRST = frozenset({"aten.addmm"})
_PRODUCTS = frozenset({"aten.addmm", "aten.mm", "aten.linear"})
_EXPERT_PRODUCTS = frozenset({"aten.bmm", "aten._grouped_mm", "aten.baddbmm", "aten.index_select", "aten.index"})
_KEPT = ("*lm_head*", "*embed_out*")
"""Output embeddings, which transformers keeps as they are unless a configuration names them."""


def quantise_trace(trace: Trace, scheme: Scheme) -> Trace:
    """Return a trace whose linear layers run with quantised weights, as `torchao.quantize_` or a checkpoint would.

    Embeddings, norms, biases, convolutions, and output embeddings of language models stay in the model's own dtype.
    """
    for recording in trace.recordings:
        _refuse(recording, scheme)
    found: dict[int, PackedWeight] = {}
    uses = _uses(trace)
    for index, parameter in enumerate(trace.parameters):
        roles = uses.get(index, set())
        ranks = (2, 3) if scheme.covers_experts else (2,)
        if (
            parameter.is_buffer
            or len(parameter.shape) not in ranks
            or not roles
            or parameter.dtype not in ("float32", "float16", "bfloat16", "float64", HALF)
        ):
            continue
        if not roles <= (_PRODUCTS if len(parameter.shape) == 2 else _EXPERT_PRODUCTS):
            continue
        if any(side % scheme.multiple for side in parameter.shape[-2:]) or _is_skipped(parameter, scheme):
            continue
        found[index] = pack(scheme, parameter.shape)
    chosen = found
    if not chosen:
        where = f" among {', '.join(scheme.only)}" if scheme.only else ""
        raise UsageError(
            f"{trace.name} has no linear layer{where} that {scheme.name} quantises; drop ⟨weights⟩, or the "
            "quantization_config of its config."
        )
    parameters = _packed_parameters(trace, chosen)
    notes = (*trace.provenance.notes, _note(trace, scheme, chosen))
    return replace(
        trace,
        parameters=parameters,
        recordings=tuple(
            _Quantising(recording, scheme, chosen, parameters).recording() for recording in trace.recordings
        ),
        provenance=replace(trace.provenance, notes=notes),
    )


def scheme_name(recording: Recording) -> str | None:
    """Return the name of the scheme that a recording's linear layers are quantised by; None at full width."""
    named = (kernel.attributes.get("scheme") for kernel in recording.kernels)
    return next((str(scheme) for scheme in named if scheme is not None), None)


def _refuse(recording: Recording, scheme: Scheme) -> None:
    if recording.configuration.training is not None:
        raise UsageError(f"{scheme.name}: quantised weights are for inference: drop ⟨train⟩.")
    if recording.configuration.variant is Variant.AMP:
        raise UsageError(f"{scheme.name}: quantised weights are for models in fp16, bf16 or fp32, not under autocast.")


def _note(trace: Trace, scheme: Scheme, chosen: Mapping[int, PackedWeight]) -> str:
    whole = sum(parameter.elements for parameter in trace.parameters if not parameter.is_buffer)
    narrow = sum(trace.parameters[index].elements for index in chosen)
    activations = f"activations quantised to {scheme.activations}" if scheme.activations else "activations as they are"
    return (
        f"{QUANTISED}{scheme.name}: {len(chosen)} linear layers with {narrow / max(1, whole):.1%} of the parameters "
        f"have {scheme.weights} weights, {activations}; embeddings, norms, biases and all else keep their dtype."
    )


def _is_skipped(parameter: Parameter, scheme: Scheme) -> bool:
    names = [name.rpartition(".")[0] for name in parameter.names]
    patterns = scheme.skipped or _KEPT
    if scheme.only and not any(_matches(name, scheme.only) for name in names):
        return True
    return any(_matches(name, patterns) for name in names)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """Return True if a pattern names a module or one around it: a glob, or a path."""
    return any(fnmatchcase(name, pattern) or f".{pattern}." in f".{name}." for pattern in patterns)


def _uses(trace: Trace) -> dict[int, set[str]]:
    """Return the operators that read each parameter as a matrix; anything else makes it no weight of a linear layer."""
    found: dict[int, set[str]] = {}
    for recording in trace.recordings:
        owners = {index: storage.parameter for index, storage in enumerate(recording.storages)}
        for op in recording.ops:
            kernel = recording.kernels[op.kernel]
            for place, storage in enumerate(op.reads):
                owner = owners[storage]
                if owner is not None:
                    matrix = _matrix_place(kernel.name)
                    is_matrix = kernel.name in _EXPERT_PRODUCTS or place == matrix
                    found.setdefault(owner, set()).add(kernel.name if is_matrix else f"{kernel.name}: {place}")
    return found


def _matrix_place(name: str) -> int:
    return 2 if name in _BIAS_FIRST else 1


def _packed_parameters(trace: Trace, chosen: Mapping[int, PackedWeight]) -> tuple[Parameter, ...]:
    """Return the parameters with those chosen packed, and scales, zero points and permutations behind all."""
    narrow = [
        replace(parameter, dtype=chosen[index].weight.dtype) if index in chosen else parameter
        for index, parameter in enumerate(trace.parameters)
    ]
    others = [
        Parameter(
            names=tuple(f"{name}.{part.name}" for name in trace.parameters[index].names),
            dtype=part.dtype,
            shape=part.shape,
            is_buffer=True,
            trainable=False,
        )
        for index, packed in chosen.items()
        for part in packed.others
    ]
    return (*narrow, *others)


@dataclass(slots=True)
class _Quantising:
    """The making of one recording: operators are added before and after products, and storages beside weights."""

    source: Recording
    scheme: Scheme
    packed: Mapping[int, PackedWeight]
    parameters: tuple[Parameter, ...]
    calls: list[tuple[Kernel, Op]] = field(default_factory=list)
    storages: list[Storage] = field(default_factory=list)
    scales: dict[int, list[int]] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)

    def recording(self) -> Recording:
        self.storages = list(self.source.storages)
        self._pack_storages()
        first: list[int] = []
        last: list[int] = []
        for op in self.source.ops:
            first.append(len(self.calls))
            self._add(op)
            last.append(len(self.calls) - 1)
        end, new_end = len(self.source.ops), len(self.calls)
        old = len(self.source.storages)
        moved = [
            replace(
                storage,
                birth=ALWAYS if storage.birth == ALWAYS else last[storage.birth],
                death=new_end if storage.death >= end else last[storage.death],
            )
            for storage in self.storages[:old]
        ]
        added = [
            replace(storage, death=new_end) if storage.birth == ALWAYS else storage for storage in self.storages[old:]
        ]
        starts = [*first, new_end]
        phases = tuple(
            Phase(name=phase.name, step=phase.step, first_op=starts[phase.first_op]) for phase in self.source.phases
        )
        kernels, ops = distinct_kernels(self.calls)
        return replace(self.source, kernels=kernels, ops=ops, storages=(*moved, *added), phases=phases)

    def _pack_storages(self) -> None:
        """Resize weights to their packed size, and add storages for their scales."""
        base = len(self.parameters) - sum(len(packed.others) for packed in self.packed.values())
        scale_index = {}
        for index, packed in self.packed.items():
            scale_index[index] = base
            base += len(packed.others)
        for place, storage in enumerate(self.source.storages):
            owner = storage.parameter
            if owner is None or owner not in self.packed:
                continue
            packed = self.packed[owner]
            self.storages[place] = replace(storage, size_bytes=Affine(_size(packed.weight)))
            self.scales[place] = []
            for offset, part in enumerate(packed.others):
                self.scales[place].append(len(self.storages))
                self.storages.append(
                    Storage(
                        size_bytes=Affine(_size(part)), role=Role.PARAMETER, birth=ALWAYS, death=0,
                        parameter=scale_index[owner] + offset,
                    )
                )  # fmt: skip

    def _add(self, op: Op) -> None:
        kernel = self.source.kernels[op.kernel]
        matrix = _matrix_place(kernel.name)
        is_product = kernel.name in _PRODUCTS and matrix < len(op.reads) and op.reads[matrix] in self.scales
        if is_product:
            self._add_product(op, kernel, matrix)
            return
        if kernel.name in _EXPERT_PRODUCTS and any(storage in self.scales for storage in op.reads):
            inputs = tuple(
                replace(operand, dtype=self.scheme.weights) if storage in self.scales else operand
                for operand, storage in zip(kernel.inputs, op.reads, strict=True)
            )
            kernel = replace(kernel, inputs=inputs)
        self._append(kernel, op)

    def _add_product(self, op: Op, kernel: Kernel, matrix: int) -> None:
        scheme = self.scheme
        data, weight = kernel.inputs[matrix - 1], kernel.inputs[matrix]
        place = op.reads[matrix]
        owner = self.source.storages[place].parameter
        assert owner is not None
        packed = self.packed[owner]
        bias = (kernel.inputs[0], op.reads[0]) if kernel.name in _BIAS_FIRST else None
        if kernel.name == "aten.linear" and len(kernel.inputs) > 2:
            bias = (kernel.inputs[2], op.reads[2])
        scales = [
            (_weight_operand(part, data.dtype), storage)
            for part, storage in zip(packed.others, self.scales[place], strict=True)
        ]
        stored = (_weight_operand(packed.weight, data.dtype), place)
        rows = data.shape[:-1]
        single = all(dim == Affine(1) for dim in rows)
        if scheme.execution is Execution.WIDENED and not (single and scheme.has_vector_kernel):
            self._add_widened(op, kernel, [stored, *scales], weight)
            return
        source: tuple[Operand, int] = (data, op.reads[matrix - 1])
        if scheme.activations is not None:
            source = self._quantised_activation(op, data, source[1])
        attributes = self._attributes(scheme)
        inputs = [source, stored, *scales, *(() if bias is None else (bias,))]
        if scheme.execution is Execution.INTEGER:
            self._add_integer(op, kernel, inputs[:2], [*scales, *(() if bias is None else (bias,))], attributes)
            return
        made = Kernel(
            name=QUANTISED_LINEAR,
            inputs=tuple(operand for operand, _ in inputs),
            outputs=kernel.outputs,
            attributes=attributes,
        )
        self._append(made, replace(op, reads=tuple(storage for _, storage in inputs)))

    @staticmethod
    def _attributes(scheme: Scheme) -> dict[str, Attribute]:
        major, minor = scheme.capability
        return {"scheme": scheme.name, "capability": 10 * major + minor}

    def _add_widened(self, op: Op, kernel: Kernel, reads: Sequence[tuple[Operand, int]], weight: Operand) -> None:
        """Write a wide copy of the weights, then run the product as it was."""
        matrix = _matrix_place(kernel.name)
        wide = replace(weight, is_weight=True)
        copy = self._temporary(wide)
        widen = Kernel(
            name=WIDEN, inputs=tuple(operand for operand, _ in reads), outputs=(wide,),
            attributes=self._attributes(self.scheme),
        )  # fmt: skip
        self._append(widen, Op(kernel=0, module=op.module, reads=tuple(at for _, at in reads), writes=(copy,)))
        places = tuple(copy if place == matrix else storage for place, storage in enumerate(op.reads))
        self._append(kernel, replace(op, reads=places))
        self._release(copy)

    def _quantised_activation(self, op: Op, data: Operand, storage: int) -> tuple[Operand, int]:
        """Quantise activations row by row, in a kernel of its own."""
        narrow = replace(data, dtype=self.scheme.activations or data.dtype, is_weight=False, expanded=())
        made = self._temporary(narrow)
        kernel = Kernel(name=QUANTISE, inputs=(data,), outputs=(narrow,), attributes=self._attributes(self.scheme))
        self._append(kernel, Op(kernel=0, module=op.module, reads=(storage,), writes=(made,)))
        self.waiting.append(made)
        return narrow, made

    def _add_integer(
        self,
        op: Op,
        kernel: Kernel,
        factors: Sequence[tuple[Operand, int]],
        scales: Sequence[tuple[Operand, int]],
        attributes: Mapping[str, Attribute],
    ) -> None:
        """Multiply integers into 32-bit sums, then scale them to the output."""
        sums = replace(kernel.outputs[0], dtype="int32")
        held = self._temporary(sums)
        product = Kernel(
            name=QUANTISED_LINEAR,
            inputs=tuple(operand for operand, _ in factors),
            outputs=(sums,),
            attributes=attributes,
        )
        reads = tuple(storage for _, storage in factors)
        self._append(product, Op(kernel=0, module=op.module, reads=reads, writes=(held,)))
        rescale = Kernel(
            name=RESCALE,
            inputs=(sums, *(operand for operand, _ in scales)),
            outputs=kernel.outputs,
            attributes=attributes,
        )
        self._append(rescale, replace(op, reads=(held, *(storage for _, storage in scales))))
        self._release(held)

    def _temporary(self, operand: Operand) -> int:
        """Add a storage that is born with the next operator."""
        per_batch = [int(prod(operand.shape_at(batch)) * ITEM_BYTES[operand.dtype]) for batch in (0, 1)]
        size = Affine(per_batch[0], per_batch[1] - per_batch[0])
        birth = len(self.calls)
        self.storages.append(Storage(size_bytes=size, role=Role.ACTIVATION, birth=birth, death=birth))
        return len(self.storages) - 1

    def _release(self, storage: int) -> None:
        """Release storages with the operator that was added last."""
        self.storages[storage] = replace(self.storages[storage], death=len(self.calls) - 1)

    def _append(self, kernel: Kernel, op: Op) -> None:
        self.calls.append((kernel, op))
        if self.waiting and kernel.name == QUANTISED_LINEAR:
            self._release(self.waiting.pop())


def _size(part: PackedPart) -> int:
    return -(-int(2 * prod(part.shape) * ITEM_BYTES[part.dtype]) // 2)


def _weight_operand(part: PackedPart, dtype: str) -> Operand:
    """Return a part of a packed weight as a kernel meets it; 16-bit scales have the dtype of the data."""
    stored = part.dtype if part.dtype != HALF or dtype == "float32" else dtype
    return Operand(dtype=stored, shape=tuple(Affine(dim) for dim in part.shape), is_weight=True)
