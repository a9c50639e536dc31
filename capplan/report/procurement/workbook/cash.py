"""The sheet of cash: what the leading options pay on the first day and each year, with a native chart of the sums."""

from collections.abc import Mapping, Sequence
from typing import Any

from xlsxwriter.utility import xl_rowcol_to_cell

from capplan.core.gpus.prices import Term
from capplan.core.serving.load import OneGpu
from capplan.report.procurement import figures
from capplan.report.procurement.types import ModelReport, OptionRow, Report
from capplan.report.procurement.workbook.book import Book
from capplan.report.procurement.workbook.looks import cell_text, heading_height
from capplan.report.procurement.workbook.options import FIRST_ROW, places_of

_SHOWN = 15
_DRAWN = 5


def write_cash(book: Book, report: Report, model: ModelReport, suffix: str, names: Mapping[str, str]) -> None:
    """Write the sheet; none where no option has a price, or no load is stated."""
    shown = [
        (row, option)
        for row, option in enumerate(model.options, start=FIRST_ROW)
        if option.money.cost_usd_per_year is not None
    ][:_SHOWN]
    if not shown or isinstance(report.demand.load, OneGpu):
        return
    years = report.demand.money.years
    heads = ["option", "term", *(f"year {year}" for year in range(years + 1))]
    heads += [f"paid by the end of year {year}" for year in range(years + 1)]
    widths = (46.0, 20.0, *(14.0,) * (len(heads) - 2))
    sheet = book.sheet(f"Cash{suffix}", widths)
    sheet.set_row(0, heading_height(heads, widths))
    sheet.freeze_panes(1, 2)
    for place, heading in enumerate(heads):
        sheet.write_string(0, place, heading, book.looks.head_right if place > 1 else book.looks.head)
    letters = places_of(report, model)
    for row, (source, option) in enumerate(shown, start=1):
        cells = {key: f"'Options{suffix}'!{column}{source}" for key, column in letters.items()}
        _write_row(book, sheet, row, option, [_paid(option, cells, year, names, years) for year in range(years + 1)])
    _draw_sums(book, sheet, count=len(shown), years=years)


def _write_row(book: Book, sheet: Any, row: int, option: OptionRow, formulas: Sequence[str]) -> None:
    """Write one option's outlays, and what they add up to by the end of each year."""
    form, paid = book.looks.number["#,##0"], option.money.yearly_usd
    sheet.write_string(row, 0, cell_text(figures.option_name(option)))
    sheet.write_string(row, 1, figures.term_words(option.offer.term))
    for year, formula in enumerate(formulas):
        sheet.write_formula(row, 2 + year, formula, form, paid[year])
        start, stop = xl_rowcol_to_cell(row, 2), xl_rowcol_to_cell(row, 2 + year)
        place = 2 + len(formulas) + year
        sheet.write_formula(row, place, f"=SUM({start}:{stop})", form, sum(paid[: year + 1]))


def _draw_sums(book: Book, sheet: Any, *, count: int, years: int) -> None:
    """Draw what the first options have paid by the end of each year."""
    name = sheet.get_name()
    chart = book.file.add_chart({"type": "line"})
    for row in range(1, min(_DRAWN, count) + 1):
        chart.add_series(
            {
                "name": [name, row, 0], "marker": {"type": "circle"},
                "categories": [name, 0, 2, 0, 2 + years],
                "values": [name, row, 3 + years, row, 3 + 2 * years],
            }
        )  # fmt: skip
    chart.set_title({"name": "Paid by the end of each year, USD", "name_font": {"size": 11}})
    chart.set_y_axis({"num_format": "#,##0", "major_gridlines": {"visible": True, "line": {"color": "#d5d9df"}}})
    chart.set_legend({"position": "bottom"})
    chart.set_size({"width": 760, "height": 320})
    sheet.insert_chart(count + 2, 0, chart)


def _paid(option: OptionRow, cells: Mapping[str, str], year: int, names: Mapping[str, str], years: int) -> str:
    """Write the formula of what an option pays on the first day (year 0) or at the end of a year.

    Args:
        option: The option.
        cells: Cells of its row in the sheet of options, by column.
        year: The year.
        names: Defined names of the assumptions.
        years: The years counted.
    """
    if option.offer.term != Term.BUY:
        rent = f"{cells['price']}*{names['rent_price_factor']}"
        return f"={cells[f'hours{year - 1}']}*{rent}" if year else "=0"
    if year == 0:
        return f"={cells['initial']}"
    return f"={cells['running']}-{cells['residual']}" if year == years else f"={cells['running']}"
