"""Read CSV tables of unknown origin, plain or gzip-compressed, within limits.

The limits are stated in docs/reference/files.md. Rows are read one at a time: a table takes no memory as a whole.
"""

import csv
import gzip
import io
import struct
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from capplan.errors import UsageError
from capplan.files import open_file
from capplan.strict_json import GZIP_MAGIC

LARGEST_TABLE_BYTES = 512 * 2**20
"""Largest table that is read, decompressed: about three million rows. [bytes]"""

LONGEST_LINE = 2**20
"""Longest line of a table. [characters]"""


class UnreadableRowError(ValueError):
    """A row that is left out; the message says why."""


def read_rows(path: Path, *, required: Collection[str] = (), what: str = "a table") -> Iterator[dict[str, str]]:
    """Read the rows of a CSV file as text by column; cells beyond the header's columns are dropped.

    Args:
        path: A file, plain or gzip-compressed, whatever its name.
        required: Columns that the header must have.
        what: What the table holds, for refusals.

    Raises:
        UsageError: The file cannot be read, is not CSV, exceeds a limit, or lacks a column. It is raised when the first
            row is asked for, or at the row where reading fails.
    """
    with _refusals(path), _opened(path) as stream:
        reader = csv.DictReader(_lines(stream, path), restkey="")
        missing = [name for name in required if name not in (reader.fieldnames or ())]
        if missing:
            columns = "column" if len(missing) == 1 else "columns"
            raise UsageError(
                f"{path} lacks the {columns} {', '.join(missing)}; {what} has {', '.join(required)} at least."
            )
        for row in reader:
            row.pop("", None)
            yield {name: cell or "" for name, cell in row.items()}


def read_cells(path: Path, parted_by: str = ",") -> Iterator[list[str]]:
    """Read the rows of a CSV file as lists of cells, the header first.

    Raises:
        UsageError: As `read_rows`.
    """
    with _refusals(path), _opened(path) as stream:
        yield from csv.reader(_lines(stream, path), delimiter=parted_by)


def is_parted_by_semicolons(path: Path) -> bool:
    """Return True if the header of a table has semicolons and no comma: spreadsheets of countries with decimal commas.

    Raises:
        UsageError: As `read_rows`.
    """
    with _refusals(path), _opened(path) as stream:
        head = next(_lines(stream, path), "")
    return ";" in head and "," not in head


def read_lines(path: Path) -> Iterator[str]:
    """Read the lines of a table, for a reader that finds out at the first of them what it is.

    Raises:
        UsageError: As `read_rows`.
    """
    with _refusals(path), _opened(path) as stream:
        yield from _lines(stream, path)


def columns_of(path: Path) -> frozenset[str]:
    """Return the names of a CSV file's columns.

    Raises:
        UsageError: As `read_rows`.
    """
    with _refusals(path), _opened(path) as stream:
        return frozenset(csv.DictReader(_lines(stream, path)).fieldnames or ())


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    try:
        yield
    except zlib.error as error:
        raise UsageError(f"{path} is a damaged compressed file ({error}).") from error
    except (OSError, EOFError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} is no CSV file: {error}.") from error


@contextmanager
def _opened(path: Path) -> Iterator[io.TextIOBase]:
    with open_file(path) as raw:
        if raw.read(2) == GZIP_MAGIC:
            if raw.seek(0, io.SEEK_END) >= 8:
                raw.seek(-4, io.SEEK_END)
                [size] = struct.unpack("<I", raw.read(4))
                if size > LARGEST_TABLE_BYTES:
                    raise _too_large(path)
            raw.seek(0)
            with gzip.open(raw, "rt", newline="", encoding="utf-8-sig") as text:
                yield text
            return
        raw.seek(0)
        with io.TextIOWrapper(raw, newline="", encoding="utf-8-sig") as plain:
            yield plain


def _lines(stream: io.TextIOBase, path: Path) -> Iterator[str]:
    size = 0
    while line := stream.readline(LONGEST_LINE + 1):
        size += len(line)
        if len(line) > LONGEST_LINE:
            raise UsageError(f"{path} has a line of more than {LONGEST_LINE:,} characters, the most that are read.")
        if size > LARGEST_TABLE_BYTES:
            raise _too_large(path)
        yield line


def _too_large(path: Path) -> UsageError:
    return UsageError(f"{path} holds more than {LARGEST_TABLE_BYTES // 2**20} MiB of text, the most that is read.")
