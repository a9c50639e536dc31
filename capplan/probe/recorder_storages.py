"""The storages that a pass's tensors lie in, watched until they are freed, and the shapes that its operators see.

Storages are watched through weak references to torch's own storage objects, so that a death is the moment at which
reference counting frees the block on the device.
"""

import weakref
from typing import Any

from torch import Tensor

from capplan.core.trace import ALWAYS, Role
from capplan.probe.recorder_pass import Pass, RawOperand, classify_layout


class Tag:
    """What the recorder knows of one tensor object: the owning recorder's token, its storage, its operand."""

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
        self._by_address: dict[int, _StorageRef] = {}
        self._closed = False

    def index_of(
        self, tensor: Tensor, *, birth: int = ALWAYS, role: Role = Role.ACTIVATION, weight: bool = False
    ) -> int:
        """Give the number of a tensor's storage; one not seen before is born."""
        storage = tensor.untyped_storage()
        address = storage._cdata
        known = self._by_address.get(address)
        if known is not None:
            return known.index
        record = self._record
        reference = _StorageRef(storage, self._freed)
        reference.address = address
        reference.index = len(record.sizes_bytes)
        self._by_address[address] = reference
        record.sizes_bytes.append(storage.nbytes())
        record.roles.append(role)
        record.births.append(birth)
        record.deaths.append(None)
        self.is_weight.append(weight)
        return reference.index

    def close(self) -> None:
        """Take down no more deaths."""
        self._closed = True

    def outlived(self) -> bool:
        """Tell whether something keeps storages that the pass made, once its output is gone."""
        births = self._record.births
        return any(births[reference.index] != ALWAYS for reference in self._by_address.values())

    def _freed(self, reference: Any) -> None:
        address: int = reference.address
        if self._by_address.get(address) is reference:
            del self._by_address[address]
        if not self._closed:
            self._record.deaths[reference.index] = len(self._record.op_kernels) - 1


class Operands:
    """Numbers the shapes, dtypes and layouts that a pass's operators see."""

    def __init__(self, record: Pass) -> None:
        self._record = record
        self._ids: dict[Any, int] = {}
        self._raw_ids: dict[RawOperand, int] = {}

    def index_of(self, tensor: Tensor) -> int:
        """Give the number of a tensor's shape, dtype and layout."""
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
