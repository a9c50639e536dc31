"""Read the header of a safetensors file: names, dtypes and sizes of tensors, without their data.

The format is eight bytes of header length, then JSON that maps each tensor to its dtype, shape and data offsets.
Everything is checked, because such files are downloaded.
"""

import json
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from capplan.errors import SpecError

LARGEST_HEADER_BYTES = 100_000_000
"""The format's own limit. [bytes]"""

MOST_TENSORS = 100_000
"""Most tensors of one file; the largest models have about 90,000, spread over more than a hundred files."""

_MARKS = 20
"""Commas and brackets that a tensor may take: a tensor of 16 dimensions has 19."""

_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16,
    "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "C64": 64,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """One tensor of a file: its name, how it is stored, its shape, and its size. [bytes]"""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int


def read_safetensors_header(path: Path) -> tuple[StoredTensor, ...]:
    """Return the tensors of a safetensors file without reading their data.

    Args:
        path: The file.

    Raises:
        SpecError: The file is damaged, truncated, or not a safetensors file.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            return parse_safetensors_header(stream, file_bytes=size, where=str(path))
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror or error}.") from error


def parse_safetensors_header(stream: BinaryIO, *, file_bytes: int, where: str) -> tuple[StoredTensor, ...]:
    """Return the tensors that the header at the start of a stream describes.

    Args:
        stream: The file's beginning.
        file_bytes: Size of the whole file. [bytes]
        where: What error messages call the file.

    Raises:
        SpecError: The header is damaged or does not fit the file.
    """
    prefix = stream.read(8)
    if len(prefix) < 8:
        raise SpecError(f"{where}: a safetensors file has at least 8 bytes, this one has {len(prefix)}.")
    (length,) = struct.unpack("<Q", prefix)
    if not 2 <= length <= min(LARGEST_HEADER_BYTES, max(0, file_bytes - 8)):
        raise SpecError(
            f"{where}: a header of {length} bytes is impossible in a safetensors file of {file_bytes} bytes "
            f"(at most {LARGEST_HEADER_BYTES} are allowed)."
        )
    text = stream.read(length)
    if text.count(b"{") > MOST_TENSORS or sum(text.count(mark) for mark in (b",", b"[")) > _MARKS * MOST_TENSORS:
        raise SpecError(f"{where}: the header lists more than {MOST_TENSORS:,} tensors, the most that are read.")
    if len(text) < length:
        raise SpecError(f"{where}: the header ends after {len(text)} of {length} bytes.")
    header = _parse_json(text, where)
    data_bytes = file_bytes - 8 - length
    return tuple(
        _tensor(name, entry, data_bytes=data_bytes, where=where)
        for name, entry in header.items()
        if name != "__metadata__"
    )


def _parse_json(text: bytes, where: str) -> dict[str, Any]:
    try:
        header = json.loads(text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise SpecError(f"{where}: the safetensors header is not valid JSON: {reason}.") from error
    if not isinstance(header, dict):
        raise SpecError(f"{where}: the safetensors header must be an object.")
    return header


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is repeated")
    return found


def _tensor(name: str, entry: Any, *, data_bytes: int, where: str) -> StoredTensor:
    shown = name if len(name) <= 80 else f"{name[:77]}..."
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise SpecError(f"{where}: tensor {shown!r} must have dtype, shape and data_offsets.")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if dtype not in _BITS:
        raise SpecError(f"{where}: tensor {shown!r} has the unknown dtype {str(dtype)[:20]!r}.")
    if not _are_sizes(shape) or len(shape) > 16:
        raise SpecError(f"{where}: tensor {shown!r} has the shape {str(shape)[:60]}, which is impossible.")
    if not _are_sizes(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1] <= data_bytes:
        raise SpecError(f"{where}: tensor {shown!r} has data_offsets {str(offsets)[:60]} outside the file's data.")
    size = offsets[1] - offsets[0]
    if prod(shape) * _BITS[dtype] != size * 8:
        raise SpecError(f"{where}: tensor {shown!r} of shape {shape} in {dtype} cannot take {size} bytes.")
    return StoredTensor(name=name, dtype=dtype, shape=tuple(shape), size_bytes=size)


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(
        isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 48 for value in values
    )
