"""Looks of the workbook's cells, and how much room text takes."""

import math
from collections.abc import Sequence
from typing import Any

MOST_DECIMALS = 6
LINE_POINTS = 15.0
"""Height of a line of text. [points]"""
CHARACTER_POINTS = 5.25
"""Width of one character of a column's width: seven pixels of 96 an inch. [points]"""
_MAX_CELL = 32_000


def cell_text(words: str) -> str:
    """Return text that a cell takes: without control characters, and no longer than a cell may be."""
    kept = "".join(character if character >= " " or character in "\n\t" else " " for character in words)
    return kept[:_MAX_CELL]


def column_width(cells: Sequence[str]) -> float:
    """Return a width that most cells fit in, the longest over several lines. [characters]"""
    return float(min(70, max(10, *(1 + 1.1 * len(cell) for cell in cells))))


def row_height(cells: Sequence[str], widths: Sequence[float], *, letter: float = 1.1) -> float:
    """Return how high a row must be for its wrapped text. [points]

    Args:
        cells: The text of its cells.
        widths: Widths of their columns. [characters]
        letter: Width of a letter; blanks at the ends of lines are counted with it. [characters]
    """
    lines = [math.ceil(letter * len(words) / width) for words, width in zip(cells, widths, strict=False) if words]
    return LINE_POINTS * max([1, *lines])


def heading_height(titles: Sequence[str], widths: Sequence[float]) -> float:
    """Return how high a row of bold headings must be, whose long words leave lines unfilled. [points]"""
    return row_height(titles, widths, letter=1.4)


def decimals_of(written: str) -> int:
    """Return how many decimals a written figure has."""
    return min(MOST_DECIMALS, len(written.partition(".")[2]))


def _number_format(decimals: int) -> str:
    return f"#,##0{'.' * bool(decimals)}{'0' * decimals}"


class Looks:
    """The formats of cells, made once for a workbook; `inputs` are those of cells that a reader may change."""

    def __init__(self, book: Any) -> None:
        top = {"valign": "top"}
        head = {"bold": True, "bottom": 1, "text_wrap": True, "valign": "bottom"}
        shaded = {"bg_color": "#FFF6D6", "border": 1, "border_color": "#D8C88A", **top}
        self.head = book.add_format(head)
        self.head_right = book.add_format({**head, "align": "right"})
        self.head_after_number = book.add_format({**head, "align": "left", "indent": 1})
        self.right = book.add_format({"align": "right", **top})
        self.bold = book.add_format({"bold": True})
        self.title = book.add_format({"bold": True, "font_size": 16, "text_wrap": True, "valign": "vcenter"})
        self.wrap = book.add_format({"text_wrap": True, **top})
        self.left = book.add_format({"align": "left", "indent": 1, **top})
        self.after_number = book.add_format({"text_wrap": True, "align": "left", "indent": 1, **top})
        self.small = book.add_format({"font_color": "#555555", "text_wrap": True, **top})
        self.chosen = book.add_format({"bold": True, "bg_color": "#E7F0FA"})
        counts = range(MOST_DECIMALS + 1)
        self.inputs = [book.add_format({**shaded, "num_format": _number_format(count)}) for count in counts]
        self.decimals = [book.add_format({"num_format": _number_format(count), **top}) for count in counts]
        self.number = {
            digits: book.add_format({"num_format": digits, **top})
            for digits in ("#,##0", "#,##0.00", "0.0000", "0.00E+00", "0.000000")
        }
        self.big = {
            digits: book.add_format({"bold": True, "num_format": digits, "align": "left"})
            for digits in ("#,##0", "0.0000")
        }
