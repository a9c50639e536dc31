"""What a table is: columns with headings, and rows of text."""

from dataclasses import dataclass
from enum import StrEnum


class Align(StrEnum):
    """Where a column's cells stand; numbers stand right."""

    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column's heading and alignment; those of the highest rank are the first to be left out on a terminal."""

    title: str
    align: Align = Align.LEFT
    rank: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Headings and rows of text, ready to be rendered."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
