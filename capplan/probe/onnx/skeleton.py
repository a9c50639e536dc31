"""Read an ONNX file without its weights.

An ONNX file is one protocol buffer, and almost all of it are the values of weights, of which only shapes matter here.
The file is mapped into memory and walked field by field; values of large tensors are left out of the copy that the
onnx package parses. A file of gigabytes is read within a fraction of a second and a few megabytes.
"""

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from capplan.errors import UsageError
from capplan.files import is_file

LARGEST_VALUE_BYTES = 64 * 2**10
"""Values of tensors up to this size are kept: shapes, axes and scales, which decide what runs. [bytes]"""

LARGEST_SKELETON_BYTES = 256 * 2**20
"""Most bytes that a file may hold apart from the values of its weights. [bytes]"""

MOST_FIELDS = 4_000_000
"""Most protocol-buffer fields of a file; the largest exported models known have a few hundred thousand."""

DEEPEST = 48
"""Most levels of graphs within graphs, counted in protocol-buffer messages."""

_MESSAGES: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
"""Fields that hold messages with tensors in them, by kind of message; the rest is copied as it is."""

_DROPPED: Mapping[str, frozenset[int]] = {
    "model": frozenset({6, 14, 20}),  # documentation, metadata, training graphs
    "graph": frozenset({10, 16}),
    "node": frozenset({6, 9}),  # documentation, metadata such as the stack traces that torch.onnx writes
    "tensor": frozenset({12, 16}),
}
_TENSOR_VALUES = frozenset({4, 5, 6, 7, 9, 10, 11})
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """One field: its number, the bytes from `start` to `end` with its tag, and where its content begins."""

    number: int
    wire: int
    start: int
    content: int
    end: int


def read_skeleton(path: Path) -> bytes:
    """Read a file without the values of its large tensors, as bytes that the onnx package parses."""
    if not is_file(path):
        raise UsageError(f"there is no file {path}.")
    if path.stat().st_size == 0:
        raise UsageError(f"{path} is empty and not an ONNX file.")
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if content[:4] in (b"PK\x03\x04", b"\x1f\x8b\x08\x00"):
                raise UsageError(f"{path} is an archive and not an ONNX file: unpack it first.")
            return _Walk(path, content).copy()
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {error}.") from error


class _Walk:
    """Walks one file, counting fields and bytes against the limits."""

    def __init__(self, path: Path, content: mmap.mmap) -> None:
        self._path = path
        self._content = content
        self._fields = 0
        self._kept_bytes = 0

    def copy(self) -> bytes:
        """Return the whole file without large values."""
        return b"".join(self._message("model", 0, len(self._content), depth=0))

    def _message(self, kind: str, start: int, end: int, *, depth: int) -> list[bytes]:
        if depth > DEEPEST:
            raise self._damaged(start, f"graphs are nested more than {DEEPEST} messages deep")
        if kind == "tensor":
            return self._tensor(start, end)
        parts: list[bytes] = []
        for field in self._walk(start, end):
            if field.number in _DROPPED.get(kind, ()):
                continue
            inner = _MESSAGES[kind].get(field.number)
            if inner is None or field.wire != _BYTES:
                parts.append(self._kept(field.start, field.end))
                continue
            made = self._message(inner, field.content, field.end, depth=depth + 1)
            parts.append(_varint(field.number << 3 | _BYTES) + _varint(sum(map(len, made))))
            parts += made
        return parts

    def _tensor(self, start: int, end: int) -> list[bytes]:
        fields = [field for field in self._walk(start, end) if field.number not in _DROPPED["tensor"]]
        values_bytes = sum(field.end - field.content for field in fields if field.number in _TENSOR_VALUES)
        keeps = values_bytes <= LARGEST_VALUE_BYTES
        return [self._kept(field.start, field.end) for field in fields if keeps or field.number not in _TENSOR_VALUES]

    def _kept(self, start: int, end: int) -> bytes:
        self._kept_bytes += end - start
        if self._kept_bytes > LARGEST_SKELETON_BYTES:
            raise self._damaged(start, f"more than {LARGEST_SKELETON_BYTES // 2**20} MiB besides the weights")
        return self._content[start:end]

    def _walk(self, start: int, end: int) -> Iterator[_Field]:
        position = start
        while position < end:
            self._fields += 1
            if self._fields > MOST_FIELDS:
                raise self._damaged(position, f"more than {MOST_FIELDS:,} fields")
            key, content = self._number(position, end)
            number, wire = key >> 3, key & 7
            if number == 0:
                raise self._damaged(position, "a field of number 0")
            if wire == _BYTES:
                length, content = self._number(content, end)
                stop = content + length
            elif wire == _VARINT:
                _, stop = self._number(content, end)
            elif wire in (_FIXED_64, _FIXED_32):
                stop = content + (8 if wire == _FIXED_64 else 4)
            else:
                raise self._damaged(position, f"a field of the unknown kind {wire}")
            if stop > end:
                raise self._damaged(position, f"a field that ends {stop - end:,} bytes behind what holds it")
            yield _Field(number=number, wire=wire, start=position, content=content, end=stop)
            position = stop

    def _number(self, position: int, end: int) -> tuple[int, int]:
        """Read a variable-length number and return it with the position behind it."""
        value = shift = 0
        for index in range(position, min(end, position + 10)):
            byte = self._content[index]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, index + 1
            shift += 7
        raise self._damaged(position, "a number without an end")

    def _damaged(self, position: int, what: str) -> UsageError:
        return UsageError(f"{self._path} is damaged or not an ONNX file: at byte {position:,} there is {what}.")


def _varint(value: int) -> bytes:
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
