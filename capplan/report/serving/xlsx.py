"""The report on LLM serving as a workbook: one sheet for each table, numbers as numbers."""

import io
import re

import xlsxwriter

from capplan.llm.core.fleet.serving_report import ServingReport
from capplan.report.serving.sections import Section, cards, sections
from capplan.report.table import Align

_LONGEST_NAME = 31
_WIDEST = 60


def serving_xlsx(report: ServingReport) -> bytes:
    """Return the report as a workbook."""
    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True, "strings_to_formulas": False}) as book:
        bold, head = book.add_format({"bold": True}), book.add_format({"bold": True, "bottom": 1, "text_wrap": True})
        summary = book.add_worksheet("Summary")
        summary.set_column(0, 0, 18)
        summary.set_column(1, 1, _WIDEST)
        rows = [(card.label, f"{card.figure}  {card.note}") for card in cards(report)]
        rows += [(each.title, line) for each in sections(report) for line in each.lines]
        summary.write(0, 0, report.title, bold)
        for index, (label, words) in enumerate(rows, start=2):
            summary.write_string(index, 0, label, bold)
            summary.write_string(index, 1, words)
        for section in sections(report):
            _sheets(book, section, head)
    return buffer.getvalue()


def _sheets(book: xlsxwriter.Workbook, section: Section, head: object) -> None:
    for index, sheet in enumerate(section.sheets):
        made = book.add_worksheet(f"{section.key} {index + 1}"[:_LONGEST_NAME])
        made.write_string(0, 0, sheet.caption)
        for column, heading in enumerate(sheet.content.columns):
            made.write_string(2, column, heading.title, head)
            widest = max([len(heading.title), *(len(row[column]) for row in sheet.content.rows)])
            made.set_column(column, column, min(_WIDEST, widest + 2))
            for line, row in enumerate(sheet.content.rows, start=3):
                number = _number(row[column]) if heading.align is Align.RIGHT else None
                if number is None:
                    made.write_string(line, column, row[column])
                else:
                    made.write_number(line, column, number)
        made.freeze_panes(3, 1)


def _number(words: str) -> float | None:
    """Return a cell that holds a plain number as one; times and sizes keep their unit as text."""
    return float(words.replace(",", "")) if re.fullmatch(r"-?[\d,]+(\.\d+)?", words) else None
