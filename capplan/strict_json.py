"""Read JSON of unknown origin within limits: size, number of values, depth, length of numbers.

The limits are stated in docs/reference/files.md. What exceeds them is refused before it takes memory or time.
"""

import json
import re
import zlib
from typing import Any, NoReturn

LARGEST_TEXT_BYTES = 64 * 2**20
"""Longest JSON text that is read, decompressed. The largest trace known is 1.5 MB. [bytes]"""

MOST_VALUES = 4_000_000
"""Most values that a JSON text may hold. The largest trace known holds 240,000."""

GZIP_MAGIC = b"\x1f\x8b"
_FED_BYTES = 2**16
_PADDING = re.compile(rb"\x00*")
"""What may follow a member, as tape drives write it."""
_STEP_BYTES = 2**20

MOST_MEMBERS = 4096
"""Most gzip members of one file; bgzip writes one for every 64 KiB, which is 1,024 for the longest text."""


class JsonError(ValueError):
    """Why a text is refused, worded to follow the name of its file."""


def read_json(content: bytes | str, *, allow_infinite: bool = False) -> Any:
    """Read a JSON text.

    Args:
        content: the text, as UTF-8 where it is bytes.
        allow_infinite: accept NaN and Infinity, which JSON itself does not know but Python writes.

    Raises:
        JsonError: the text is not JSON or exceeds a limit.
    """
    _check_size(content)
    try:
        return json.loads(content, parse_constant=float if allow_infinite else _refuse_constant)
    except UnicodeDecodeError as error:
        raise JsonError(f"is no UTF-8 (byte {error.start})") from error
    except json.JSONDecodeError as error:
        raise JsonError(f"is not JSON, or is truncated ({error})") from error
    except RecursionError as error:
        raise JsonError("is nested too deeply") from error
    except JsonError:
        raise
    except ValueError as error:  # Python refuses to read an integer of more than 4,300 digits
        raise JsonError(f"holds a number that is too long ({str(error).partition(';')[0]})") from error


def _refuse_constant(word: str) -> NoReturn:
    raise JsonError(f"holds {word}, which is not a number in JSON")


def _check_size(content: bytes | str) -> None:
    if len(content) > LARGEST_TEXT_BYTES:
        raise JsonError(f"is longer than {LARGEST_TEXT_BYTES // 2**20} MiB, the most that is read")
    text = content if isinstance(content, bytes) else content.encode(errors="replace")
    if sum(map(text.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise JsonError(f"holds more than {MOST_VALUES:,} values, the most that are read")


def decompress(content: bytes, *, at_most: int = LARGEST_TEXT_BYTES) -> bytes:
    """Decompress gzip in time proportional to its bytes, and stop where the result would exceed a limit.

    Args:
        content: one or more gzip members, of which at most `MOST_MEMBERS` are read.
        at_most: largest result. [bytes]

    Raises:
        JsonError: truncated, damaged, or larger than the limits.
    """
    pieces: list[bytes] = []
    size, members, position = 0, 0, 0
    while position < len(content):
        members += 1
        if members > MOST_MEMBERS:
            raise JsonError(f"holds more than {MOST_MEMBERS:,} gzip members, the most that are read")
        stream = zlib.decompressobj(wbits=31)
        tail = b""
        while not stream.eof:
            # fed in short steps, because what a member leaves over is copied
            step = tail or content[position : position + _FED_BYTES]
            if not step:
                raise JsonError("is a truncated compressed file")
            position += 0 if tail else len(step)
            try:
                piece = stream.decompress(step, _STEP_BYTES)
            except zlib.error as error:
                raise JsonError(f"is a damaged compressed file ({error})") from error
            tail = stream.unconsumed_tail
            size += len(piece)
            if size > at_most:
                raise JsonError(f"decompresses to more than {at_most // 2**20} MiB, the most that is read")
            pieces.append(piece)
        position -= len(stream.unused_data)
        if (padding := _PADDING.match(content, position)) is not None:
            position = padding.end()
    return b"".join(pieces)
