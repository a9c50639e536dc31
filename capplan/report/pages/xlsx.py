"""A report as a workbook: one sheet for each table, numbers as numbers."""

import io
import re

import xlsxwriter

from capplan.report.pages.blocks import Cards, Page
from capplan.report.render import grid_of
from capplan.report.sections import Align, Lines, Medium, Section, Table, text_of

_LONGEST_NAME = 31
_WIDEST = 60


def page_xlsx(page: Page) -> bytes:
    """Return a report as a workbook."""
    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True, "strings_to_formulas": False}) as book:
        bold, head = book.add_format({"bold": True}), book.add_format({"bold": True, "bottom": 1, "text_wrap": True})
        summary = book.add_worksheet("Summary")
        summary.set_column(0, 0, 18)
        summary.set_column(1, 1, _WIDEST)
        sections = [section for section in page.sections if Medium.XLSX in section.on]
        blocks = [
            (section, block)
            for section in sections
            for block in section.blocks
            if Medium.XLSX in getattr(block, "on", (Medium.XLSX,))
        ]
        cards = [card for _, block in blocks if isinstance(block, Cards) for card in block.figures]
        lines = [(section, line) for section, block in blocks if isinstance(block, Lines) for line in block.texts]
        rows = [(card.label, f"{card.figure}  {card.note}") for card in cards]
        rows += [(section.title, text_of(line)) for section, line in lines]
        summary.write_string(0, 0, page.title, bold)
        for index, (label, words) in enumerate(rows, start=2):
            summary.write_string(index, 0, label, bold)
            summary.write_string(index, 1, words)
        for section in sections:
            _sheets(book, section, head)
    return buffer.getvalue()


def _sheets(book: xlsxwriter.Workbook, section: Section, head: object) -> None:
    tables = [block for block in section.blocks if isinstance(block, Table)]
    for index, table in enumerate(tables):
        content = grid_of(table)
        made = book.add_worksheet(f"{section.key} {index + 1}"[:_LONGEST_NAME])
        made.write_string(0, 0, table.caption)
        for column, heading in enumerate(content.columns):
            made.write_string(2, column, heading.title, head)
            widest = max([len(heading.title), *(len(row[column]) for row in content.rows)])
            made.set_column(column, column, min(_WIDEST, widest + 2))
            for line, row in enumerate(content.rows, start=3):
                number = _number(row[column]) if heading.align is Align.RIGHT else None
                if number is None:
                    made.write_string(line, column, row[column])
                else:
                    made.write_number(line, column, number)
        made.freeze_panes(3, 1)


def _number(words: str) -> float | None:
    """Return a cell that holds a plain number as one; times and sizes keep their unit as text."""
    return float(words.replace(",", "")) if re.fullmatch(r"-?[\d,]+(\.\d+)?", words) else None
