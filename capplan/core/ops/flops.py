"""Count a kernel's multiply-accumulates, FLOPs and bytes from its shapes.

Counted are convolutions, linear layers, matrix products, attention and recurrent layers, as every counter that these
figures can be compared with does; one multiply-accumulate is two FLOPs. A causal mask is not credited. Elementwise
functions, reductions and factorisations (LU, QR, eigenvalues) count as no products, however much arithmetic they hold.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

from capplan.core.ops.attention import attention_call
from capplan.core.ops.catalogue import OperatorClass, find_row, is_counted, operator_class
from capplan.core.ops.convolutions import filter_shape, group_count, is_convolution
from capplan.core.trace.types import ITEM_BYTES, Attribute, Kernel, Operand, Recording, Trace
from capplan.errors import TraceFileError


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulShape:
    """A kernel seen as `groups` products of an [m, k] by a [k, n] matrix."""

    groups: int
    m: int
    n: int
    k: int

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all groups."""
        return self.groups * self.m * self.n * self.k


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bytes that a kernel must move at least: activations read, weights read, results written. [bytes]"""

    read_bytes: int
    weight_bytes: int
    written_bytes: int

    @property
    def total_bytes(self) -> int:
        """Return all of them. [bytes]"""
        return self.read_bytes + self.weight_bytes + self.written_bytes


def kernel_macs(kernel: Kernel, batch: int) -> int:
    """Count multiply-accumulates of convolutions, linear layers, matrix products, attention and recurrent layers.

    They are real ones: (a + bi) · (c + di) takes four products, so a product of complex matrices counts four times.
    """
    return _products(kernel, batch) * (
        _REAL_PER_COMPLEX if any(operand.dtype.startswith("complex") for operand in kernel.inputs) else 1
    )


_REAL_PER_COMPLEX = 4


def _products(kernel: Kernel, batch: int) -> int:
    row = find_row(kernel)
    products = (row.products if row is not None else None) or ""
    if products in MAC_FORMULAS:
        return MAC_FORMULAS[products](kernel, batch)
    return SHAPE_FORMULAS[products](kernel, batch).macs if products in SHAPE_FORMULAS else 0


def kernel_flops(kernel: Kernel, batch: int) -> int:
    """Count FLOPs: two per multiply-accumulate, or what a registered formula gave. [FLOP]"""
    return kernel.flops.at(batch) if kernel.flops is not None else 2 * kernel_macs(kernel, batch)


def matmul_shape(kernel: Kernel, batch: int) -> MatmulShape | None:
    """Return the matrix product that a convolution, linear layer or attention (its first product) amounts to.

    A convolution is [batch · output positions, input channels per group · kernel] by [.., output channels per group]
    per group. Backward kernels and recurrent layers, which hold several products, give None.
    """
    row = find_row(kernel)
    products = (row.products if row is not None else None) or ""
    return SHAPE_FORMULAS[products](kernel, batch) if products in SHAPE_FORMULAS else None


def traffic(kernel: Kernel, batch: int) -> Traffic:
    """Sum the bytes of a kernel's operands; broadcast dimensions count once, lookups count what they return."""
    kind = operator_class(kernel)
    if kind is OperatorClass.ALLOCATION:
        return Traffic(read_bytes=0, weight_bytes=0, written_bytes=0)
    written = sum(operand.size_bytes(batch) for operand in kernel.outputs)
    inputs = kernel.inputs
    read = weight = 0
    if kernel.name in _LOOKUPS | _BAGS and inputs and kernel.outputs:
        looked_up = min(_asked_bytes(kernel, batch), inputs[0].size_bytes(batch))
        read, weight = (0, looked_up) if inputs[0].is_weight else (looked_up, 0)
        inputs = inputs[1:]
    for operand in inputs:
        if operand.is_weight:
            weight += operand.size_bytes(batch)
        else:
            read += operand.size_bytes(batch)
    return Traffic(read_bytes=read, weight_bytes=weight, written_bytes=written)


def uncounted(recording: Recording) -> tuple[str, ...]:
    """Name the operators that may hold arithmetic which no formula counts, with how often each is called."""
    calls: dict[str, int] = {}
    for kernel, count in zip(recording.kernels, recording.calls_per_kernel(), strict=True):
        if not is_counted(kernel):
            calls[kernel.name] = calls.get(kernel.name, 0) + count
    return tuple(f"{count} × {name.replace('.', '::', 1)}" for name, count in sorted(calls.items()))


def counted_bytes_fraction(recording: Recording, batch: int) -> float:
    """Return the share of all moved bytes that counted operators move."""
    counted = total = 0
    for kernel, count in zip(recording.kernels, recording.calls_per_kernel(), strict=True):
        size = count * traffic(kernel, batch).total_bytes
        total += size
        if is_counted(kernel):
            counted += size
    return counted / total if total else 1.0


_LOOKUPS = frozenset(
    {"aten.embedding", "aten.index", "aten.index_select", "aten.gather", "aten._unsafe_index", "aten.take"}
)
_BAGS = frozenset({"aten._embedding_bag", "aten._embedding_bag_forward_only"})
"""Lookups that sum the rows of a bag, so that they read a row for each index and return one for each bag."""


def _asked_bytes(kernel: Kernel, batch: int) -> int:
    """Return what a lookup reads of its table, each time that it is asked for: what it returns, or its bags' rows."""
    if kernel.name not in _BAGS:
        return sum(operand.size_bytes(batch) for operand in kernel.outputs)
    table, indices = kernel.inputs[:2]
    return int(prod(indices.shape_at(batch)) * table.shape_at(batch)[-1] * ITEM_BYTES[table.dtype])


def _matrix(operand: Operand, batch: int) -> tuple[int, int, int]:
    *groups, rows, columns = operand.shape_at(batch)
    return prod(groups), rows, columns


def _product(kernel: Kernel, batch: int) -> MatmulShape:
    """Count the product of [.., m, k] and [.., k, n], the last two matrix inputs, whatever is added."""
    first = 1 if kernel.name in _WITH_ADDEND else 0
    groups, m, k = _matrix(kernel.inputs[first], batch)
    _, _, n = _matrix(kernel.inputs[first + 1], batch)
    return MatmulShape(groups=groups, m=m, n=n, k=k)


_WITH_ADDEND = frozenset({"aten.addmm", "aten.baddbmm", "aten.addbmm", "aten._addmm_activation"})


_EXPONENTIAL_PRODUCTS = 5


def _matrix_exponential(kernel: Kernel, batch: int) -> MatmulShape:
    """Count the products of a matrix exponential's polynomial of degree 18: five of each matrix.

    The degree follows from the matrix's norm, which does not follow from shapes. `compute_T18` in
    aten/src/ATen/native/LinearAlgebra.cpp serves 1-norms from 1.46 to 3.01 in fp32; smaller ones take none to four
    products, larger ones a squaring more for each doubling (Bader, Blanes, Casas, Computing the Matrix Exponential with
    an Optimized Taylor Polynomial Approximation, 2019).
    """
    matrices, rows, columns = _matrix(kernel.inputs[0], batch)
    return MatmulShape(groups=_EXPONENTIAL_PRODUCTS * matrices, m=rows, n=columns, k=rows)


def _euclidean_distances(kernel: Kernel, batch: int) -> MatmulShape:
    """Count Euclidean distances of all pairs of rows as the product of [-2x, x², 1] by [y, 1, y²]ᵀ: two columns more.

    torch.cdist takes this way for more than 25 rows (`_euclidean_dist` in aten/src/ATen/native/Distance.cpp); its
    other one, `_cdist_forward`, subtracts pair by pair and holds no product.
    """
    *_, width = kernel.inputs[0].shape_at(batch)
    *groups, rows, columns = kernel.outputs[0].shape_at(batch)
    return MatmulShape(groups=prod(groups), m=rows, n=columns, k=width + 2)


def _matrix_vector(kernel: Kernel, batch: int) -> MatmulShape:
    matrix = kernel.inputs[1 if kernel.name == "aten.addmv" else 0]
    m, k = matrix.shape_at(batch)
    return MatmulShape(groups=1, m=m, n=1, k=k)


def _dot(kernel: Kernel, batch: int) -> MatmulShape:
    return MatmulShape(groups=1, m=1, n=1, k=prod(kernel.inputs[0].shape_at(batch)))


def _outer(kernel: Kernel, batch: int) -> MatmulShape:
    m, n = kernel.outputs[0].shape_at(batch)
    return MatmulShape(groups=1, m=m, n=n, k=1)


def _linear(kernel: Kernel, batch: int) -> MatmulShape:
    *rows, k = kernel.inputs[0].shape_at(batch)
    return MatmulShape(groups=1, m=prod(rows), n=kernel.inputs[1].shape_at(batch)[0], k=k)


def _linear_of_packed(kernel: Kernel, batch: int) -> MatmulShape:
    """Count a linear layer whose weights are packed in a shape of their own: its columns are those of its output."""
    *rows, k = kernel.inputs[0].shape_at(batch)
    return MatmulShape(groups=1, m=prod(rows), n=kernel.outputs[0].shape_at(batch)[-1], k=k)


def _grouped_product(kernel: Kernel, batch: int) -> MatmulShape:
    """Count the product of each row of the first matrix and one group's matrix: tokens routed to experts."""
    rows = kernel.inputs[0].shape_at(batch)
    *_, k, n = kernel.inputs[1].shape_at(batch)
    return MatmulShape(groups=1, m=prod(rows[:-1]), n=n, k=k)


def _convolution(kernel: Kernel, batch: int) -> MatmulShape:
    return _convolution_shape(kernel, batch, source=kernel.inputs[0], weight=kernel.inputs[1], out=kernel.outputs[0])


def _convolution_shape(kernel: Kernel, batch: int, *, source: Operand, weight: Operand, out: Operand) -> MatmulShape:
    groups = group_count(kernel, batch)
    first, second, *window = weight.shape_at(batch)
    if kernel.attributes.get("transposed"):
        samples, _, *positions = _with_batch(source, batch, len(window))
        return MatmulShape(groups=groups, m=samples * prod(positions), n=second * prod(window), k=first // groups)
    samples, _, *positions = _with_batch(out, batch, len(window))
    return MatmulShape(groups=groups, m=samples * prod(positions), n=first // groups, k=second * prod(window))


def _with_batch(operand: Operand, batch: int, spatial: int) -> tuple[int, ...]:
    shape = operand.shape_at(batch)
    return shape if len(shape) == spatial + 2 else (1, *shape)


def _convolution_backward_macs(kernel: Kernel, batch: int) -> int:
    """Count gradients of input and weight: each takes the forward's products (Goodfellow et al. 2016, 9.5)."""
    gradient, source, weight = kernel.inputs[:3]
    forward = _convolution_shape(kernel, batch, source=source, weight=weight, out=gradient).macs
    mask = kernel.attributes.get("output_mask", (1, 1, 1))
    assert isinstance(mask, tuple)
    return forward * sum(mask[:2])


def _deformable_macs(kernel: Kernel, batch: int) -> int:
    *_, channels, height, width = kernel.inputs[1].shape_at(batch)
    return prod(kernel.outputs[0].shape_at(batch)) * channels * height * width


def _attention(kernel: Kernel, batch: int) -> MatmulShape:
    query, key = kernel.inputs[0].shape_at(batch), kernel.inputs[1].shape_at(batch)
    return MatmulShape(groups=prod(query[:-2]), m=query[-2], n=key[-2], k=query[-1])


def _attention_macs(kernel: Kernel, batch: int) -> int:
    """Count Q Kᵀ and the weights times V: batch · heads · query · key · (dim + value dim)."""
    return _attention_products(kernel.inputs[0], kernel.inputs[1], kernel.inputs[2], batch)


def _attention_products(query: Operand, key: Operand, value: Operand, batch: int) -> int:
    *groups, length, width = query.shape_at(batch)
    return prod(groups) * length * key.shape_at(batch)[-2] * (width + value.shape_at(batch)[-1])


def _attention_backward_macs(kernel: Kernel, batch: int) -> int:
    """Count five products: the scores again, and the gradients of V, scores, Q and K (Dao 2022)."""
    return _attention_products(kernel.inputs[1], kernel.inputs[2], kernel.inputs[3], batch) * 5 // 2


def _rnn_macs(kernel: Kernel, batch: int) -> int:
    """Count every weight matrix once per time step and sample."""
    steps_and_samples = prod(kernel.inputs[0].shape_at(batch)[:-1])
    matrices = [operand for operand in kernel.inputs[1:] if operand.is_weight and len(operand.shape) == 2]
    return steps_and_samples * sum(prod(operand.shape_at(batch)) for operand in matrices)


def _rnn_backward_macs(kernel: Kernel, batch: int) -> int:
    return 2 * _rnn_macs(kernel, batch)


def _trilinear_macs(kernel: Kernel, batch: int) -> int:
    """Count a bilinear layer: x₁ᵀ W x₂ per output, all of W, the second of the three factors, per sample."""
    samples = prod(kernel.inputs[0].shape_at(batch)[:-1])
    return samples * prod(kernel.inputs[1].shape_at(batch))


def _reflectors_macs(kernel: Kernel, batch: int) -> int:
    """Count k Householder reflectors applied to an [m, n] matrix: from the left n · k · (2m − k + 1).

    The i-th reflector has length m − i + 1, and takes a dot product and an update of it for each of n columns (Golub
    and Van Loan, Matrix Computations, 5.1.4; the additions of xORMQR in LAPACK Working Note 41, appendix C).
    """
    reflectors = kernel.inputs[1].shape_at(batch)[-1]
    *groups, rows, columns = kernel.inputs[2].shape_at(batch)
    length, others = (rows, columns) if kernel.attributes.get("left", True) else (columns, rows)
    return prod(groups) * others * reflectors * (2 * length - reflectors + 1)


def _sparse_macs(kernel: Kernel, batch: int) -> int:
    """Multiply each stored element with a row of the dense matrix: elements × columns.

    A sparse operand is recorded by its stored elements, as a vector.
    """
    shapes = [operand.shape_at(batch) for operand in kernel.inputs]
    stored = [shape[0] for shape in shapes if len(shape) == 1]
    dense = [shape for shape in shapes if len(shape) > 1]
    return stored[0] * dense[-1][-1] if stored and dense else 0


SHAPE_FORMULAS: Mapping[str, Callable[[Kernel, int], MatmulShape]] = {
    "convolution": _convolution,
    "product": _product,
    "grouped_product": _grouped_product,
    "matrix_exponential": _matrix_exponential,
    "euclidean_distances": _euclidean_distances,
    "matrix_vector": _matrix_vector,
    "dot": _dot,
    "outer": _outer,
    "linear": _linear,
    "linear_of_packed": _linear_of_packed,
    "attention": _attention,
}
"""Formulas of operators that are products of one shape, by the catalogue's column `products`."""

MAC_FORMULAS: Mapping[str, Callable[[Kernel, int], int]] = {
    "convolution_backward": _convolution_backward_macs,
    "deformable": _deformable_macs,
    "attention": _attention_macs,
    "attention_backward": _attention_backward_macs,
    "rnn": _rnn_macs,
    "rnn_backward": _rnn_backward_macs,
    "trilinear": _trilinear_macs,
    "reflectors": _reflectors_macs,
    "sparse_product": _sparse_macs,
}
"""Formulas of operators that hold several products, by the catalogue's column `products`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCall:
    """One call in concrete numbers: shapes of its tensors in argument order, scalar arguments by name."""

    inputs: Sequence[tuple[int, ...]]
    outputs: Sequence[tuple[int, ...]]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


Formula: TypeAlias = Callable[[OperatorCall], int]
"""Counts the FLOPs of a call, two per multiply-accumulate. [FLOP]"""

Formulas: TypeAlias = Mapping[str, Formula]
"""Formulas by operator, as torch writes it: `my::op`."""


def find_formula(formulas: Formulas, kernel_name: str) -> Formula | None:
    """Find the formula of a kernel by its name in a trace (`my.op` for `my::op`)."""
    return formulas.get(kernel_name.replace(".", "::", 1)) if formulas else None


def check_operators(trace: Trace, *, where: str) -> None:
    """Count every kernel of a trace once, so that one that cannot be counted is refused where it enters."""
    for recording_index, recording in enumerate(trace.recordings):
        batch = recording.exact_batch or min(recording.batches)
        for index, kernel in enumerate(recording.kernels):
            if not _can_be_counted(kernel, batch):
                raise TraceFileError(
                    f"{where} is a damaged trace file: recordings[{recording_index}].kernels[{index}] lacks the "
                    f"tensors or attributes that {kernel.name} takes."
                )


def _can_be_counted(kernel: Kernel, batch: int) -> bool:
    try:
        kernel_flops(kernel, batch)
        kernel_macs(kernel, batch)  # also where the file says how many FLOPs it takes
        if kernel.name.startswith("capplan.attention"):
            attention_call(kernel, batch=batch, dtype="float16")
        if is_convolution(kernel) and len(filter_shape(kernel)) < 3:
            return False
        matmul_shape(kernel, batch)
        traffic(kernel, batch)
    except (AssertionError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError):
        return False
    return True
