"""A sequence that several GPUs share: what each of them runs, and how long they wait for one another."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from capplan.core.trace.types import Affine, Kernel, Operand, Recording, Role
from capplan.errors import UsageError

_ATTENTION = "capplan.attention"
_HEADS, _QUERIES = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Degrees:
    """How many GPUs share a sequence: `ulysses` by heads times `ring` by blocks."""

    ulysses: int = 1
    ring: int = 1

    @property
    def gpu_count(self) -> int:
        return self.ulysses * self.ring


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedAttention:
    """An attention layer of which each GPU holds a share: how often it runs, and the size of its queries. [bytes]"""

    calls: int
    query: Operand

    def query_bytes(self, batch: int) -> int:
        """Return the size of a GPU's queries at a batch; keys, values and results are as large. [bytes]"""
        return self.query.size_bytes(batch)


def share_sequence(
    recording: Recording, degrees: Degrees, *, lengths: Sequence[int], name: str
) -> tuple[Recording, tuple[SharedAttention, ...]]:
    """Return what each GPU runs of a recording whose sequence is shared, and its attention layers."""
    lengths = [length for length in lengths if length > 1]
    kernels = [_shared(kernel, degrees, lengths, name) for kernel in recording.kernels]
    calls = recording.calls_per_kernel()
    own = [_attends_itself(kernel, lengths) for kernel in recording.kernels]
    counted = own if any(own) else [kernel.name == _ATTENTION for kernel in recording.kernels]
    attention = tuple(
        SharedAttention(calls=times, query=shared.inputs[0])
        for times, shared, is_counted in zip(calls, kernels, counted, strict=True)
        if is_counted and times
    )
    smaller: dict[int, Affine] = {}
    for op in recording.ops:
        before, after = recording.kernels[op.kernel], kernels[op.kernel]
        for storage, old, new in zip(op.writes, before.outputs, after.outputs, strict=True):
            held = recording.storages[storage]
            if old != new and held.role is Role.ACTIVATION and storage not in smaller:
                smaller[storage] = _scaled(held.size_bytes, old, new)
    storages = tuple(
        replace(storage, size_bytes=smaller[index]) if index in smaller else storage
        for index, storage in enumerate(recording.storages)
    )
    return replace(recording, kernels=tuple(kernels), storages=storages), attention


def _attends_itself(kernel: Kernel, lengths: Sequence[int]) -> bool:
    """Return True for attention of the shared sequence to itself."""
    if kernel.name != _ATTENTION:
        return False
    query, key = kernel.inputs[0].shape, kernel.inputs[1].shape
    return query[_QUERIES].constant in lengths and key[_QUERIES].constant in lengths


def _shared(kernel: Kernel, degrees: Degrees, lengths: Sequence[int], name: str) -> Kernel:
    if _attends_itself(kernel, lengths):
        heads = kernel.inputs[0].shape[_HEADS].constant
        if heads % degrees.ulysses:
            raise UsageError(
                f"{name}: {heads} heads cannot be dealt out to {degrees.ulysses} GPUs; ⟨ulysses⟩ must divide {heads}."
            )
        return replace(
            kernel,
            inputs=(
                _attending(kernel.inputs[0], degrees, splits_queries=True),
                *(_attending(operand, degrees, splits_queries=False) for operand in kernel.inputs[1:3]),
                *kernel.inputs[3:],
            ),
            outputs=tuple(
                _attending(output, degrees, splits_queries=True) if len(output.shape) == 4 else output
                for output in kernel.outputs
            ),
        )
    return replace(
        kernel,
        inputs=tuple(_own_tokens(operand, degrees.gpu_count, lengths) for operand in kernel.inputs),
        outputs=tuple(_own_tokens(output, degrees.gpu_count, lengths) for output in kernel.outputs),
    )


def _attending(operand: Operand, degrees: Degrees, *, splits_queries: bool) -> Operand:
    """Return a GPU's share of [batch, heads, sequence, width]: some heads, and for queries a block of the ring."""
    shape = list(operand.shape)
    shape[_HEADS] = _divided(shape[_HEADS], degrees.ulysses)
    if splits_queries:
        shape[_QUERIES] = _divided(shape[_QUERIES], degrees.ring)
    return replace(operand, shape=tuple(shape))


def _own_tokens(operand: Operand, gpu_count: int, lengths: Sequence[int]) -> Operand:
    """Return a GPU's share of a tensor over tokens, or over the grid of an image whose places are the tokens."""
    if operand.is_weight:
        return operand
    shape = operand.shape
    place = next((index for index, dim in enumerate(shape) if _holds(dim, lengths)), None)
    if place is None and len(shape) >= 4:
        grid = prod(dim.constant for dim in shape[-2:] if not dim.per_sample)
        place = len(shape) - 2 if grid in lengths else None
    if place is None:
        return operand
    return replace(
        operand, shape=tuple(_divided(dim, gpu_count) if at == place else dim for at, dim in enumerate(shape))
    )


def _holds(dim: Affine, lengths: Sequence[int]) -> bool:
    """Return True for a dimension of tokens, or of all samples' tokens in a row."""
    if dim.per_sample:
        return dim.constant == 0 and dim.per_sample in lengths
    return dim.constant in lengths


def _divided(dim: Affine, count: int) -> Affine:
    return Affine(-(-dim.constant // count), -(-dim.per_sample // count))


def _scaled(size: Affine, old: Operand, new: Operand) -> Affine:
    """Scale a storage as the tensor that is written into it shrinks."""
    before, after = old.distinct_elements(1), new.distinct_elements(1)
    return Affine(int(size.constant * after / before), int(size.per_sample * after / before)) if before else size


def exchange_s(
    shared: Sequence[SharedAttention],
    degrees: Degrees,
    *,
    batch: int,
    link_bytes_per_s: float,
    ulysses_share: float,
    ring_share: float,
) -> float:
    """Return how long GPUs wait for one another: all-to-alls of four tensors, keys and values in the ring. [s]"""
    sent = sum(layer.calls * layer.query_bytes(batch) for layer in shared)
    ulysses_s = 4 * sent * (degrees.ulysses - 1) / degrees.ulysses / (ulysses_share * link_bytes_per_s)
    ring_s = 2 * sent * (degrees.ring - 1) / (ring_share * link_bytes_per_s)
    return ulysses_s + ring_s
