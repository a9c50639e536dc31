"""The sheet of options: every option with its formulas."""

from collections.abc import Mapping, Sequence
from typing import Any

from xlsxwriter.utility import xl_col_to_name

from capplan.report.procurement import figures
from capplan.report.procurement.tables import latency_words
from capplan.report.procurement.types import ModelReport, OptionRow, Report
from capplan.report.procurement.workbook.book import Book
from capplan.report.procurement.workbook.columns import SheetColumn, option_columns
from capplan.report.procurement.workbook.formulas import Formulas
from capplan.report.procurement.workbook.looks import LINE_POINTS, cell_text, heading_height

FIRST_ROW = 4
"""The row of the first option, counted from 1."""


def places_of(report: Report, model: ModelReport) -> dict[str, str]:
    """Return the letters of each column of the sheet, by its key."""
    return {column.key: xl_col_to_name(place) for place, column in enumerate(option_columns(report, model))}


def formulas_of(report: Report, model: ModelReport, names: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the formulas of every option's row, by the key of their column.

    Args:
        report: The report, with the model's own load.
        model: The model.
        names: Defined names of the assumptions, by key.
    """
    places, last = places_of(report, model), FIRST_ROW - 1 + len(model.options)
    return [
        Formulas(report=report, option=option, row=row, places=places, names=names, last_row=last).of_row()
        for row, option in enumerate(model.options, start=FIRST_ROW)
    ]


def write_options(
    book: Book, report: Report, model: ModelReport, suffix: str, formulas: Sequence[Mapping[str, str]]
) -> None:
    """Write every option with its formulas; what is printed are the columns that a decision needs."""
    columns = option_columns(report, model)
    widths = [column.width for column in columns]
    sheet = book.sheet(f"Options{suffix}", widths)
    sheet.freeze_panes(FIRST_ROW - 1, 2)
    sheet.write_string(0, 0, cell_text(f"{model.plan.model.name}: latency is {latency_words(report)}"))
    head = heading_height([column.title for column in columns], widths)
    sheet.set_row(FIRST_ROW - 2, head)
    for place, column in enumerate(columns):
        follows = place > 0 and bool(columns[place - 1].digits)
        left = book.looks.head_after_number if follows else book.looks.head
        form = book.looks.head_right if column.digits else left
        sheet.write_string(FIRST_ROW - 2, place, column.title, form)
    for row, (option, cells) in enumerate(zip(model.options, formulas, strict=True), start=FIRST_ROW - 1):
        is_choice = option.key == model.verdict.choice
        for place, column in enumerate(columns):
            formula = cells.get(column.key)
            _write_value(book, sheet, (row, place), column=column, option=option, formula=formula, is_choice=is_choice)
    sheet.autofilter(FIRST_ROW - 2, 0, FIRST_ROW - 2 + len(model.options), len(columns) - 1)
    printed = [column.width for column in columns if column.is_printed]
    heights = [LINE_POINTS, LINE_POINTS, head, *[LINE_POINTS] * len(model.options)]
    book.print_one_page(sheet, printed, heights)


def _write_value(
    book: Book, sheet: Any, cell: tuple[int, int], *, column: SheetColumn, option: OptionRow, formula: str | None,
    is_choice: bool,
) -> None:  # fmt: skip
    looks, (row, place) = book.looks, cell
    value = int(is_choice) if column.key == "best" else column.value(option)
    form = looks.number.get(column.digits)
    if formula and value is not None:
        sheet.write_formula(row, place, formula, form, value)
    elif value is None:
        is_curve = column.key.startswith(("knot", "turn"))
        is_known_empty = not column.digits or is_curve or (column.key == "residual" and not option.is_bought)
        sheet.write_string(row, place, "" if is_known_empty else figures.UNKNOWN, looks.right)
    elif isinstance(value, str):
        sheet.write_string(row, place, cell_text(value), looks.left if place else looks.chosen if is_choice else None)
    elif column.key == "price":
        sheet.write_number(row, place, value, looks.inputs[0 if option.is_bought else 4])
        message = {"error_title": "Not possible", "error_message": "A price must be a number above 0."}
        sheet.data_validation(
            row, place, row, place,
            {"validate": "decimal", "criteria": ">", "value": 0, **message},
        )  # fmt: skip
    else:
        sheet.write_number(row, place, value, form)
