"""Compressed texts of unknown origin: many members, padding, damage, and more than is read."""

import gzip

import pytest

from capplan.strict_json import MOST_MEMBERS, JsonError, decompress
from tests.limits import within


def test_members_and_the_padding_between_them_are_read() -> None:
    packed = gzip.compress(b"one ") + bytes(700) + gzip.compress(b"") + gzip.compress(b"two") + bytes(100_000)
    assert decompress(packed) == b"one two"


def test_blocks_as_bgzip_writes_them_are_read() -> None:
    """bgzip writes a member for every 64 KiB: 64 MiB are 1,024."""
    blocks = [bytes([index]) * 60_000 for index in range(200)]
    assert decompress(b"".join(map(gzip.compress, blocks))) == b"".join(blocks)


def test_a_file_of_400_000_empty_members_is_refused_at_once() -> None:
    """8 MB that once took 45 CPU-seconds, because the rest of the file was copied for each member."""
    packed = gzip.compress(b"") * 400_000
    with within(cpu_s=5), pytest.raises(JsonError, match=f"more than {MOST_MEMBERS:,} gzip members"):
        decompress(packed)


def test_a_bomb_ends_at_the_limit() -> None:
    with pytest.raises(JsonError, match="decompresses to more than 1 MiB"):
        decompress(gzip.compress(bytes(50_000_000)), at_most=2**20)


@pytest.mark.parametrize(
    ("packed", "words"),
    [
        (gzip.compress(b"text" * 100, mtime=0)[:20], "truncated"),
        (gzip.compress(b"text", mtime=0) + b"\x1f\x8b", "truncated"),
        (gzip.compress(b"text", mtime=0) + b"rest", "damaged"),
        (gzip.compress(b"text", mtime=0)[:-8] + bytes(8), "damaged"),
    ],
)
def test_what_is_cut_or_damaged_is_refused(packed: bytes, words: str) -> None:
    with pytest.raises(JsonError, match=words):
        decompress(packed)
