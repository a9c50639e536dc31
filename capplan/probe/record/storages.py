"""The storages that a pass's tensors lie in, watched until they are freed, and the shapes that its operators see.

Storages are watched through weak references to torch's own storage objects, so that a death is the moment at which
reference counting frees the block on the device.
"""

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from capplan.core.trace.types import ALWAYS, Role
from capplan.probe.record.types import Pass, RawOperand, classify_layout


class Tag:
    """The recorder's entry on one tensor object: the recorder's token, its storage, its operand."""

    __slots__ = ("is_view", "operand", "storage", "token")

    def __init__(self, token: object, storage: int) -> None:
        self.token = token
        self.storage = storage
        self.operand = -1
        self.is_view = False


class _StorageRef(weakref.ref):  # type: ignore[type-arg]  # subclassed for its slots; torch's storages are untyped here
    __slots__ = ("address", "index")
    index: int
    address: int


class Storages:
    """Numbers a pass's storages, and writes their births and deaths into its record."""

    def __init__(self, record: Pass) -> None:
        self.is_weight: list[bool] = []
        self._record = record
        self._births = record.births  # by the numbers given here; `accumulate_in_place` renumbers the record's own
        self._by_address: dict[int, _StorageRef] = {}
        self._closed = False
        self.live_bytes = 0

    def index_of(
        self, tensor: Tensor, *, birth: int = ALWAYS, role: Role = Role.ACTIVATION, weight: bool = False
    ) -> int:
        """Return the number of a tensor's storage; one not seen before is born."""
        storage, size_bytes = _backing(tensor)
        address = storage._cdata
        known = self._by_address.get(address)
        if known is not None:
            return known.index
        record = self._record
        reference = _StorageRef(storage, self._freed)
        reference.address = address
        reference.index = len(record.sizes_bytes)
        self._by_address[address] = reference
        record.sizes_bytes.append(size_bytes)
        self.live_bytes += size_bytes
        record.roles.append(role)
        record.births.append(birth)
        record.deaths.append(None)
        self.is_weight.append(weight)
        return reference.index

    def close(self) -> None:
        """Stop recording releases."""
        self._closed = True

    def outlived(self) -> bool:
        """Return True if something keeps storages that the pass made, once its output is gone."""
        return any(self._births[reference.index] != ALWAYS for reference in self._by_address.values())

    def _freed(self, reference: Any) -> None:
        address: int = reference.address
        if self._by_address.get(address) is reference:
            del self._by_address[address]
        if not self._closed:
            self.live_bytes -= self._record.sizes_bytes[reference.index]
            self._record.deaths[reference.index] = len(self._record.op_kernels) - 1


def stored_elements(tensor: Tensor) -> Tensor:
    return tensor._values() if tensor.layout is torch.sparse_coo else tensor.values()


def _backing(tensor: Tensor) -> tuple[Any, int]:
    """Return a tensor's storage and its bytes; a sparse tensor's indices count with its elements. [bytes]"""
    if tensor.layout is torch.strided:
        storage = tensor.untyped_storage()
        return storage, storage.nbytes()
    elements = stored_elements(tensor)
    storage = elements.untyped_storage()
    if tensor.layout is torch.sparse_coo:
        return storage, storage.nbytes() + tensor._indices().nbytes
    by_rows = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
    pointers, others = (
        (tensor.crow_indices(), tensor.col_indices()) if by_rows else (tensor.ccol_indices(), tensor.row_indices())
    )
    return storage, storage.nbytes() + pointers.nbytes + others.nbytes


class Operands:
    """Numbers the shapes, dtypes and layouts that a pass's operators see."""

    def __init__(self, record: Pass) -> None:
        self._record = record
        self._ids: dict[Any, int] = {}
        self._raw_ids: dict[RawOperand, int] = {}

    def index_of(self, tensor: Tensor) -> int:
        """Return the number of a tensor's shape, dtype and layout."""
        if tensor.layout is not torch.strided:
            tensor = stored_elements(tensor)
        dtype, shape, strides = tensor.dtype, tensor.shape, tensor.stride()
        key = (dtype, shape, strides)
        index = self._ids.get(key)
        if index is None:
            raw = (dtype, tuple(shape), *classify_layout(tensor))
            index = self._raw_ids.get(raw)
            if index is None:
                index = self._raw_ids[raw] = len(self._record.operands)
                self._record.operands.append(raw)
            self._ids[key] = index
        return index


def accumulate_in_place(record: Pass, sums: Iterable[int]) -> None:
    """Assign each sum's output the storage of its first operand, if sizes match and the operand is released there."""
    kept_in: dict[int, int] = {}
    for op in sums:
        (out,) = record.op_writes[op]
        first = record.op_reads[op][0]
        storage = kept_in.get(first, first)
        is_released = record.births[storage] != ALWAYS and record.deaths[storage] == op
        if is_released and record.sizes_bytes[storage] == record.sizes_bytes[out]:
            kept_in[out] = storage
            record.deaths[storage], record.roles[storage] = record.deaths[out], record.roles[out]
    if kept_in:
        # Renumber the storages without those that live in another.
        kept = [index for index in range(len(record.sizes_bytes)) if index not in kept_in]
        numbers = {old: new for new, old in enumerate(kept)}
        numbers |= {out: numbers[storage] for out, storage in kept_in.items()}
        record.op_reads = [tuple(numbers[index] for index in reads) for reads in record.op_reads]
        record.op_writes = [tuple(numbers[index] for index in writes) for writes in record.op_writes]
        for name in ("sizes_bytes", "roles", "births", "deaths"):
            setattr(record, name, [getattr(record, name)[index] for index in kept])
