"""A workbook that is being written: its sheets, their tables, and how they print."""

import io
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import xlsxwriter

from capplan.report.narrow import Grid
from capplan.report.procurement.types import Report
from capplan.report.procurement.workbook.looks import (
    CHARACTER_POINTS,
    LINE_POINTS,
    Looks,
    cell_text,
    column_width,
    decimals_of,
    heading_height,
    row_height,
)
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
            name: Its name; characters that no spreadsheet takes are replaced.
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
            sheet: The list.
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
            sheet: Where it is written.
            content: The table.
            row: Its first row.
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
