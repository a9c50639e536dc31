"""CSV tables that somebody else wrote: plain, compressed, damaged, and too large."""

import gzip
import io
import struct
import zlib
from pathlib import Path

import pytest

from capplan import tables
from capplan.errors import UsageError
from capplan.tables import columns_of, read_cells, read_rows

TEXT = "a,b\n1,2\n3,\n4,5,6\n"
ROWS = [{"a": "1", "b": "2"}, {"a": "3", "b": ""}, {"a": "4", "b": "5"}]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "compressed"])
def test_rows_are_text_by_column_whatever_the_name(tmp_path: Path, name: str, pack: type[bytes]) -> None:
    path = tmp_path / name
    path.write_bytes(pack(TEXT.encode()))
    assert list(read_rows(path)) == ROWS
    assert columns_of(path) == {"a", "b"}
    assert next(iter(read_cells(path))) == ["a", "b"]


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    assert columns_of(path) == {"a", "b"}


def test_one_damaged_byte_of_a_compressed_table_is_refused(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"a,b\n" + b"".join(b"%d,%d\n" % (n, n * n) for n in range(5000))))
    packed[len(packed) // 2] ^= 0xFF
    path = tmp_path / "t.csv.gz"
    path.write_bytes(packed)
    with pytest.raises(UsageError, match=r"damaged|cannot read"):
        list(read_rows(path))


def test_two_gigabytes_are_refused_by_their_stated_size(tmp_path: Path) -> None:
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(TEXT.encode())[:-4] + struct.pack("<I", 2 * 10**9))
    with pytest.raises(UsageError, match="more than 512 MiB of text"):
        list(read_rows(path))


def test_a_bomb_that_states_a_small_size_is_refused_by_its_long_line(tmp_path: Path) -> None:
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(_zeros(2**26)[:-4] + bytes(4))
    with pytest.raises(UsageError, match="a line of more than 1,048,576 characters"):
        list(read_rows(path))


def test_a_bomb_of_short_lines_ends_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LARGEST_TABLE_BYTES", 4096)
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 5000)[:-4] + bytes(4))
    with pytest.raises(UsageError, match="the most that is read"):
        list(read_rows(path))


def _zeros(size: int) -> bytes:
    """Compress many zeros without holding them."""
    packer, packed = zlib.compressobj(9, zlib.DEFLATED, 31), io.BytesIO()
    block = bytes(2**24)
    for _ in range(size // len(block)):
        packed.write(packer.compress(block))
    packed.write(packer.flush())
    return packed.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (gzip.compress(TEXT.encode())[:-9], "cannot read"),
        (b"\x1f\x8b" + bytes(20), "cannot read"),
        (b"a,b\n\xff\xfe", "is no CSV file"),
        (b'a,b\n"' + b"x" * 200_000, "is no CSV file"),
        (b"", "lacks the columns a, b; a table has a, b at least"),
        (b"a\n1\n", "lacks the column b"),
    ],
    ids=["cut", "damaged", "not UTF-8", "a cell without end", "empty", "a column short"],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=words):
        list(read_rows(path, required=("a", "b")))


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        list(read_rows(tmp_path / "none.csv"))
