"""A workbook that is being written: its sheets and tables, how cells look, and how they print."""

import io
import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import xlsxwriter

from capplan.report.narrow import Grid
from capplan.report.procurement.types import Report
from capplan.report.sections import Align

_MARGINS = {"left": 0.4, "right": 0.4, "top": 0.5, "bottom": 0.6}
"""Margins of a page. [inches]"""
_PAGE_POINTS = (842.0 - 72 * 0.8, 595.0 - 72 * 1.1)
"""Width and height of A4 in landscape within the margins. [points]"""
_LEGIBLE_SCALE = 0.62
"""How far a list is made smaller so that more of it fits on its page: text of 10 points is then six points high."""


class Book:
    """A workbook with its formats; a sheet is written from the top, row by row."""

    def __init__(self, report: Report) -> None:
        self.stream = io.BytesIO()
        self.file = xlsxwriter.Workbook(
            self.stream,
            {
                "in_memory": True,
                "strings_to_formulas": False,
                "strings_to_urls": False,
                "strings_to_numbers": False,
                "default_format_properties": {"font_name": "Arial", "font_size": 10},
            },
        )
        self.title = cell_text(report.title)
        moment = datetime(report.created.year, report.created.month, report.created.day)
        self.file.set_properties({"title": self.title, "created": moment, "comments": f"capplan {report.version}"})
        self.looks = Looks(self.file)

    def finish(self) -> bytes:
        """Close the workbook and return its bytes."""
        self.file.close()
        return self.stream.getvalue()

    def sheet(self, name: str, widths: Sequence[float]) -> Any:
        """Add a sheet for A4 in landscape, one page wide, with a name that spreadsheets take.

        Args:
            widths: Widths of its columns. [characters]
        """
        sheet = self.file.add_worksheet(self._free_name(name))
        sheet.hide_gridlines(2)
        for column, width in enumerate(widths):
            sheet.set_column(column, column, width)
        sheet.set_paper(9)
        sheet.set_landscape()
        sheet.set_margins(**_MARGINS)
        sheet.fit_to_pages(1, 0)
        self._footer(sheet, "&A")
        return sheet

    def _free_name(self, name: str) -> str:
        safe = "".join(" " if character in "[]:*?/\\'" else character for character in cell_text(name)).strip()[:31]
        taken = {sheet.get_name().lower() for sheet in self.file.worksheets()}
        while safe.lower() in taken or not safe:
            safe = f"{safe[:28]} {len(taken)}".strip()
        return safe

    def _footer(self, sheet: Any, middle: str) -> None:
        sheet.set_footer(f"&L{self.title.replace('&', '&&')[:80]}&C{middle}&R&P / &N")

    def print_one_page(self, sheet: Any, widths: Sequence[float], heights: Sequence[float]) -> None:
        """Let a list print on one page: as many of its rows as are legible there, with a note of the others.

        Args:
            widths: Widths of the columns that are printed. [characters]
            heights: Heights of all rows. [points]
        """
        wide, high = _PAGE_POINTS
        room = high / min(_LEGIBLE_SCALE, wide / (CHARACTER_POINTS * sum(widths)))
        count = _rows_within(heights, room)
        sheet.fit_to_pages(1, 1)
        sheet.print_area(0, 0, count - 1, len(widths) - 1)
        if count < len(heights):
            self._footer(sheet, f"&A: the first {count:,} of {len(heights):,} rows, the others are in the file")

    def table(self, sheet: Any, content: Grid, row: int, widths: Sequence[float]) -> int:
        """Write a table of text below a row, each row as high as its text needs; returns the row after it.

        Args:
            widths: Widths of the sheet's columns. [characters]
        """
        for place, height in enumerate(table_heights(content, widths)):
            sheet.set_row(row + place, height)
        for column, heading in enumerate(content.columns):
            sheet.write_string(row, column, heading.title, self.heading(content, column))
        for line in content.rows:
            row += 1
            for column, cell in enumerate(line):
                follows = column > 0 and content.columns[column - 1].align is Align.RIGHT
                self.cell(sheet, row, column, cell, content.columns[column].align, follows_number=follows)
        return row + 1

    def heading(self, content: Grid, column: int) -> Any:
        """Return the format of a column's heading: it stands where the column's cells do."""
        if content.columns[column].align is Align.RIGHT:
            return self.looks.head_right
        follows = column > 0 and content.columns[column - 1].align is Align.RIGHT
        return self.looks.head_after_number if follows else self.looks.head

    def cell(self, sheet: Any, row: int, column: int, words: str, align: Align, *, follows_number: bool) -> None:
        """Write a text cell; figures in right-aligned columns as numbers where they are plain ones."""
        looks = self.looks
        if align is Align.RIGHT:
            try:
                value = float(words.replace(",", ""))
                sheet.write_number(row, column, value, looks.decimals[decimals_of(words)])
            except ValueError:
                sheet.write_string(row, column, cell_text(words), looks.right)
        else:
            sheet.write_string(row, column, cell_text(words), looks.after_number if follows_number else looks.wrap)

    def list_sheet(self, name: str, content: Grid) -> None:
        """Write a sheet that holds one table, and prints on one page."""
        widths = [
            column_width([column.title, *(row[place] for row in content.rows)])
            for place, column in enumerate(content.columns)
        ]
        sheet = self.sheet(name, widths)
        sheet.freeze_panes(1, 1)
        self.table(sheet, content, 0, widths)
        self.print_one_page(sheet, widths, table_heights(content, widths))

    def merged(self, sheet: Any, row: int, words: str, form: Any, *, widths: Sequence[float]) -> None:
        """Write text over a sheet's whole width, in a row as high as it needs."""
        sheet.merge_range(row, 0, row, len(widths) - 1, "", form)
        sheet.write_string(row, 0, cell_text(words), form)
        sheet.set_row(row, row_height([words], [sum(widths)]))


def table_heights(content: Grid, widths: Sequence[float]) -> list[float]:
    """Return the heights of a table's rows, its heading first. [points]"""
    head = heading_height([column.title for column in content.columns], widths)
    return [head, *(row_height(line, widths) for line in content.rows)]


def _rows_within(heights: Sequence[float], room: float) -> int:
    """Return how many of the first rows take at most `room`; at least two. [points]"""
    taken, count = LINE_POINTS, 0
    for height in heights:
        taken += height
        if taken > room:
            break
        count += 1
    return max(2, count)


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
