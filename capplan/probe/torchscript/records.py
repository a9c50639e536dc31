"""Objects of a TorchScript archive, unpickled into plain records: no class or function of the file's choice is called.

The pickle that TorchScript writes names its own types (`__torch__...`), tensors over numbered storages, and lists with
their types. Anything else is refused by name.
"""

import io
import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from capplan.budget import ITEM_BYTES, STATEMENT_STEPS, Budget
from capplan.errors import UsageError

MOST_ELEMENTS = 2**48
"""Most elements of one tensor, far above what any machine holds; sizes above are damage or an attack."""

MOST_OBJECTS = 2_000_000
"""Most lists, tuples, tables and calls of one pickle; a network of 10,000 layers has about 200,000."""

DTYPES: Mapping[str, tuple[str, int]] = {
    "ByteStorage": ("uint8", 1), "CharStorage": ("int8", 1), "ShortStorage": ("int16", 2), "IntStorage": ("int32", 4),
    "LongStorage": ("int64", 8), "HalfStorage": ("float16", 2), "BFloat16Storage": ("bfloat16", 2),
    "FloatStorage": ("float32", 4), "DoubleStorage": ("float64", 8), "BoolStorage": ("bool", 1),
    "ComplexFloatStorage": ("complex64", 8), "ComplexDoubleStorage": ("complex128", 16),
}  # fmt: skip
"""Dtype and bytes of an element, by the class that the pickle names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageRecord:
    """A numbered storage: `key` is its file, `content` its bytes where they are few and may decide shapes."""

    key: str
    dtype: str
    elements: int
    item_bytes: int
    content: bytes | None = None

    @property
    def size_bytes(self) -> int:
        return self.elements * self.item_bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TensorRecord:
    """A tensor: shape, strides [elements], where it lies in its storage, and whether it is trained."""

    storage: StorageRecord
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool

    @property
    def dtype(self) -> str:
        return self.storage.dtype


@dataclass(slots=True, eq=False, repr=False)
class ObjectRecord:
    """An object of a class of the archive: its attributes by name, or the values of a named tuple or an enum member."""

    class_name: str
    state: dict[str, Any] = field(default_factory=dict)
    values: tuple[Any, ...] = ()

    def __setstate__(self, state: Any) -> None:
        """Store the attributes; called by the unpickler."""
        if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
            raise pickle.UnpicklingError(f"{self.class_name} has a state that is no table of attributes")
        self.state = state


_LEFT_OUT = (pickle.BYTEARRAY8[0], pickle.FRAME[0], pickle.ADDITEMS[0], pickle.FROZENSET[0])
_MOST_DIMS = 64
"""Most dimensions of a tensor, as in PyTorch."""


class _Counted(io.BytesIO):
    """A pickle whose opcodes are counted: each is read as one byte."""

    def __init__(self, content: bytes, budget: Budget) -> None:
        super().__init__(content)
        self._budget = budget

    def read(self, size: int | None = -1, /) -> bytes:
        self._budget.take_steps(STATEMENT_STEPS)
        return super().read(size)


class Unpickler(pickle._Unpickler):
    """Unpickles an archive's objects; the base is the one written in Python, whose memo is a dictionary.

    Args:
        where: the file and part, for messages.
        storage: what checks a storage and returns its bytes where they are kept.
    """

    def load_reduce(self) -> None:
        """Call what stands for a class or function; a member of an enum has its value alone as arguments, no tuple."""
        stack: list[Any] = self.stack  # type: ignore[attr-defined]  # an attribute of the base that is written in Python
        given = stack.pop()
        stack[-1] = stack[-1](*(given if isinstance(given, tuple) else (given,)))

    def load_setitem(self) -> None:
        """Put one pair into a table."""
        stack: list[Any] = self.stack  # type: ignore[attr-defined]
        _check_keys(stack[-2:])
        super().load_setitem()  # type: ignore[misc]  # as above

    def load_setitems(self) -> None:
        """Put the pairs since the last mark into a table."""
        stack: list[Any] = self.stack  # type: ignore[attr-defined]
        _check_keys(stack)
        super().load_setitems()  # type: ignore[misc]  # as above

    dispatch: ClassVar[dict[int, Any]] = {
        **{code: load for code, load in pickle._Unpickler.dispatch.items() if code not in _LEFT_OUT},
        pickle.REDUCE[0]: load_reduce,
        pickle.SETITEM[0]: load_setitem,
        pickle.SETITEMS[0]: load_setitems,
    }
    """Without the operation that allocates whatever size the file states, frames, read uncounted, and sets."""

    def __init__(
        self, content: bytes, *, where: str, storage: Callable[[StorageRecord], bytes | None], budget: Budget
    ) -> None:
        if sum(content.count(mark) for mark in (b"}", b"]", b")", b"(")) > MOST_OBJECTS:
            raise UsageError(f"{where} holds more than {MOST_OBJECTS:,} objects, the most that are read.")
        super().__init__(_Counted(content, budget))
        self._budget = budget
        self._classes: dict[str, type[ObjectRecord]] = {}
        self._where = where
        self._storage = storage
        self._storages: dict[str, StorageRecord] = {}

    def load(self) -> Any:
        """Return the object that the pickle describes."""
        try:
            return super().load()
        except UsageError:
            raise
        except (
            pickle.UnpicklingError, ValueError, TypeError, AttributeError, IndexError, KeyError, EOFError,
            RecursionError, UnicodeDecodeError, OverflowError, AssertionError, MemoryError, ImportError,
        ) as error:  # fmt: skip
            raise UsageError(f"{self._where} is damaged ({type(error).__name__}: {str(error)[:150]}).") from error

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a class that the pickle names."""
        if module.split(".", maxsplit=1)[0] == "__torch__":
            full = f"{module}.{name}"
            if full not in self._classes:
                self._classes[full] = _class_of(full)
            return self._classes[full]
        if module == "torch" and name in DTYPES:
            return name
        known: Mapping[tuple[str, str], Any] = {
            ("torch._utils", "_rebuild_tensor_v2"): _tensor,
            ("torch._utils", "_rebuild_tensor"): _tensor,
            ("collections", "OrderedDict"): _ordered,
            ("torch.jit._pickle", "restore_type_tag"): lambda value, _type: value,
            ("torch.jit._pickle", "build_tensorlist"): self._as_list,
            ("torch.jit._pickle", "build_intlist"): self._as_list,
            ("torch.jit._pickle", "build_doublelist"): self._as_list,
            ("torch.jit._pickle", "build_boollist"): self._as_list,
            ("torch", "device"): lambda kind, *_index: kind if isinstance(kind, str) else "cpu",
        }
        if (module, name) in known:
            return known[module, name]
        raise UsageError(
            f"{self._where} names {module}.{name}, which is not read (packed and quantised weights, custom classes): "
            "give the code as FILE.py:Name, or an .onnx file."
        )

    def _as_list(self, value: Any) -> list[Any]:
        """Return a list of its own, as TorchScript's lists of one type are written."""
        if not isinstance(value, list | tuple):
            raise pickle.UnpicklingError("a list is made of something else")
        self._budget.take_bytes(len(value) * ITEM_BYTES)
        return list(value)

    def persistent_load(self, pid: Any) -> StorageRecord:
        """Return the storage that a persistent id describes: ("storage", class, key, device, elements)."""
        kind, type_name, key, _device, elements = pid
        if kind != "storage" or not isinstance(key, str) or type_name not in DTYPES or not _is_count(elements):
            raise pickle.UnpicklingError("a storage is described otherwise than by its class, name and elements")
        dtype, item_bytes = DTYPES[type_name]
        if key not in self._storages:
            bare = StorageRecord(key=key, dtype=dtype, elements=elements, item_bytes=item_bytes)
            self._storages[key] = StorageRecord(
                key=key, dtype=dtype, elements=elements, item_bytes=item_bytes, content=self._storage(bare)
            )
        return self._storages[key]


def _class_of(name: str) -> type[ObjectRecord]:
    """Return a class whose instances carry the archive's name of their class."""

    class Named(ObjectRecord):
        __slots__ = ()

        def __new__(cls, *values: Any) -> Any:
            made = object.__new__(cls)
            made.class_name, made.state, made.values = name, {}, values
            return made

        def __init__(self, *_values: Any) -> None:
            pass

    return Named


def _ordered(pairs: Any = ()) -> OrderedDict[Any, Any]:
    """Make a table that keeps its order."""
    made = [tuple(pair) for pair in pairs]
    _check_keys([part for pair in made for part in pair])
    return OrderedDict(made)


def _check_keys(pairs: list[Any]) -> None:
    """Refuse keys other than text and numbers: a tuple keeps no hash, and one that is held twice is walked twice."""
    if not all(isinstance(key, str | int | float) for key in pairs[::2]):
        raise pickle.UnpicklingError("a key of a table is neither text nor a number")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_ELEMENTS


def _tensor(
    storage: Any, offset: Any, shape: Any, strides: Any, requires_grad: Any = False, *_hooks_and_metadata: Any
) -> TensorRecord:
    if not isinstance(storage, StorageRecord) or not _is_count(offset):
        raise pickle.UnpicklingError("a tensor without a storage")
    if not isinstance(shape, tuple) or not isinstance(strides, tuple) or len(shape) != len(strides):
        raise pickle.UnpicklingError("a tensor whose shape and strides do not belong together")
    if len(shape) > _MOST_DIMS or not all(_is_count(size) for size in (*shape, *strides)):
        raise pickle.UnpicklingError("a tensor whose shape or strides are no counts")
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if 0 not in shape and last >= storage.elements:
        raise pickle.UnpicklingError(f"a tensor of shape {shape} reaches past its {storage.elements} elements")
    return TensorRecord(storage=storage, offset=offset, shape=shape, strides=strides, requires_grad=bool(requires_grad))
