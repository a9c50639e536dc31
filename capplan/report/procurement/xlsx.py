"""The report as a workbook whose money is worked out by formulas over a sheet of assumptions.

Every formula carries the value that this program computed, so that viewers which do not recalculate show it too.
Text is written as text: nothing in a name can become a formula or a link.
"""

import io
import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import xlsxwriter
from xlsxwriter.utility import xl_col_to_name, xl_rowcol_to_cell

from capplan.core.gpus.prices import Term
from capplan.core.serving.load import OneGpu, Service
from capplan.report.procurement import figures
from capplan.report.procurement.fleet import fleet_table, inventory_table, sharing_table
from capplan.report.procurement.money_tables import offers_table
from capplan.report.procurement.tables import (
    CONVENTIONS,
    assumption_table,
    cards,
    compared_table,
    facts_table,
    host_table,
    latency_words,
    operation_table,
    power_table,
    price_table,
    refusal_table,
    spec_table,
)
from capplan.report.procurement.types import FleetRow, ModelReport, OptionRow, Report
from capplan.report.procurement.verdict import load_words
from capplan.report.procurement.xlsx_formulas import Column, Formulas, option_columns
from capplan.report.table import Align, Table

_MAX_CELL = 32_000
_MOST_DECIMALS = 6


def render_report_xlsx(report: Report) -> bytes:
    """Format the report as an XLSX workbook."""
    stream = io.BytesIO()
    book = xlsxwriter.Workbook(
        stream,
        {
            "in_memory": True,
            "strings_to_formulas": False,
            "strings_to_urls": False,
            "strings_to_numbers": False,
            "default_format_properties": {"font_name": "Arial", "font_size": 10},
        },
    )
    moment = datetime(report.created.year, report.created.month, report.created.day)
    book.set_properties({"title": _text(report.title), "created": moment, "comments": f"capplan {report.version}"})
    writer = _Writer(book, report)
    writer.summary()
    for index, model in enumerate(report.models, start=1):
        writer.report = report.of(model)
        suffix = f" {index}" if len(report.models) > 1 else ""
        names = writer.assumptions(model, suffix if report.fleet else "", is_first=index == 1)
        writer.options(model, suffix, names)
        writer.cash(model, suffix, names)
        writer.estimates(model, index)
    writer.report = report
    writer.plain_sheet("Prices", price_table(report))
    writer.plain_sheet("Specifications", spec_table(report))
    for sheet in book.worksheets():
        writer.set_up_print(sheet)
    book.close()
    return stream.getvalue()


def _text(words: str) -> str:
    kept = "".join(character if character >= " " or character in "\n\t" else " " for character in words)
    return kept[:_MAX_CELL]


_DECISION_WIDTHS = (52.0, 30.0, *(15.0,) * 6, 44.0)
"""Widths of the first sheet's columns. [characters]"""
_CHART_ROWS = 14
_OPTION_PAGES = 3
"""The sheet of options has some forty columns: it is printed on so many pages side by side."""
_LINE = 15.0
"""Height of a line of text. [points]"""


def _set_widths(sheet: Any, widths: Sequence[float]) -> None:
    for column, width in enumerate(widths):
        sheet.set_column(column, column, width)


def _column_width(cells: Sequence[str]) -> float:
    """Return a width that most cells fit in, the longest over several lines. [characters]"""
    return float(min(70, max(10, *(1 + 1.1 * len(cell) for cell in cells))))


def _height(cells: Sequence[str], widths: Sequence[float]) -> float:
    """Return how high a row must be for its wrapped text. [points]"""
    lines = [math.ceil(1.2 * len(words) / width) for words, width in zip(cells, widths, strict=False) if words]
    return _LINE * max([1, *lines])


def _estimate_digits(heading: str) -> str:
    return "#,##0.00" if heading.startswith("samples") else "0.000000" if heading.endswith(" s") else "#,##0"


def _number_format(decimals: int) -> str:
    return f"#,##0{'.' * bool(decimals)}{'0' * decimals}"


def _decimals(written: str) -> int:
    """Return how many decimals a written figure has."""
    return min(_MOST_DECIMALS, len(written.partition(".")[2]))


class _Writer:
    """Writes the sheets of one workbook."""

    def __init__(self, book: Any, report: Report) -> None:
        self.book, self.report = book, report
        self.offers: list[Table] = []
        self.head = book.add_format({"bold": True, "bottom": 1, "text_wrap": True, "valign": "top"})
        self.head_right = book.add_format(
            {"bold": True, "bottom": 1, "text_wrap": True, "valign": "top", "align": "right"}
        )
        self.right = book.add_format({"align": "right", "valign": "top"})
        self.bold = book.add_format({"bold": True})
        self.title = book.add_format({"bold": True, "font_size": 16, "text_wrap": True, "valign": "vcenter"})
        self.wrap = book.add_format({"text_wrap": True, "valign": "top"})
        self.left = book.add_format({"valign": "top", "align": "left", "indent": 1})
        self.after_number = book.add_format({"text_wrap": True, "valign": "top", "align": "left", "indent": 1})
        self.small = book.add_format({"font_color": "#555555", "text_wrap": True, "valign": "top"})
        self.inputs = [
            book.add_format(
                {
                    "bg_color": "#FFF6D6",
                    "border": 1,
                    "border_color": "#D8C88A",
                    "valign": "top",
                    "num_format": _number_format(count),
                }
            )
            for count in range(_MOST_DECIMALS + 1)
        ]
        self.number = {
            digits: book.add_format({"num_format": digits, "valign": "top"})
            for digits in ("#,##0", "#,##0.00", "0.0000", "0.00E+00", "0.000000")
        }
        self.plain = book.add_format({"valign": "top"})
        self.decimals = [
            book.add_format({"num_format": _number_format(count), "valign": "top"})
            for count in range(_MOST_DECIMALS + 1)
        ]
        self.big = {
            digits: book.add_format({"bold": True, "num_format": digits, "align": "left"})
            for digits in ("#,##0", "0.0000")
        }
        self.chosen = book.add_format({"bold": True, "bg_color": "#E7F0FA"})

    def sheet(self, name: str) -> Any:
        """Add a sheet, with a name that spreadsheets take."""
        safe = "".join(" " if character in "[]:*?/\\'" else character for character in _text(name)).strip()[:31]
        taken = {sheet.get_name().lower() for sheet in self.book.worksheets()}
        while safe.lower() in taken or not safe:
            safe = f"{safe[:28]} {len(taken)}".strip()
        sheet = self.book.add_worksheet(safe)
        sheet.hide_gridlines(2)
        return sheet

    def summary(self) -> None:
        """Write page one: the decision, its figures and reasons."""
        sheet = self.sheet("Decision")
        _set_widths(sheet, _DECISION_WIDTHS)
        sheet.set_landscape()
        sheet.fit_to_pages(1, 0)
        sheet.write_string(0, 0, _text(self.report.title), self.bold)
        sheet.merge_range(1, 0, 1, 8, "", self.small)
        sheet.write_string(1, 0, _text(load_words(self.report)), self.small)
        sheet.set_row(1, _height([load_words(self.report)], [sum(_DECISION_WIDTHS)]))
        row = 3
        if self.report.fleet is not None:
            row = self._fleet(sheet, self.report.fleet, row) + 1
        whole = self.report
        for index, model in enumerate(whole.models, start=1):
            self.report = whole.of(model)
            suffix = f" {index}" if len(whole.models) > 1 else ""
            row = self._live(sheet, model, suffix, row)
            row = self._decision(sheet, model, row) + 2
        self.report = whole
        for words in CONVENTIONS:
            sheet.merge_range(row, 0, row, 8, "", self.small)
            sheet.write_string(row, 0, words, self.small)
            sheet.set_row(row, _height([words], [sum(_DECISION_WIDTHS)]))
            row += 1
        sheet.write_string(row + 1, 0, _text(f"Made {self.report.created} by {self.report.command}"), self.small)

    def _fleet(self, sheet: Any, fleet: FleetRow, row: int) -> int:
        sheet.merge_range(row, 0, row, 8, "", self.title)
        sheet.write_string(row, 0, _text(fleet.sentence), self.title)
        sheet.set_row(row, 44)
        for content in (sharing_table(fleet), inventory_table(fleet), fleet_table(fleet)):
            if content is not None:
                row = self.table(sheet, content, row + 2)
        return row + 1

    def _live(self, sheet: Any, model: ModelReport, suffix: str, row: int) -> int:
        """Write what the sheet of options recommends now: it follows every shaded cell."""
        choice = model.option(model.verdict.choice)
        if choice is None or not model.options:
            return row
        place = {column.key: xl_col_to_name(i) for i, column in enumerate(option_columns(self.report, model))}
        first, last = 4, 3 + len(model.options)

        def column(key: str) -> str:
            return f"'Options{suffix}'!${place[key]}${first}:${place[key]}${last}"

        found = f"MATCH(1,{column('best')},0)"
        years = self.report.demand.money.years
        sheet.write_string(row, 0, "Recommended with the figures in this workbook", self.head)
        sheet.write_string(row, 1, "follows the shaded cells", self.head)
        figures_now: list[tuple[str, str, Any, str]] = [
            ("GPU", "gpu", choice.gpu_name, ""), ("Term", "term", figures.term_words(choice.offer.term), ""),
            ("Offer", "offer", figures.offer(choice), ""),
            ("GPUs in the first year", "gpus0", choice.count.gpus_by_year[0], "#,##0"),
            ("GPUs in the last year", f"gpus{years - 1}", choice.count.gpus_by_year[-1], "#,##0"),
            ("USD per year", "annual", choice.money.cost_usd_per_year, "#,##0"),
            (f"USD in {years} years", "total", choice.money.total_usd, "#,##0"),
            ("USD on the first day (capex)", "initial", choice.money.initial_usd, "#,##0"),
            ("USD per million samples", "million", choice.money.usd_per_million, "0.0000"),
        ]  # fmt: skip
        for label, key, value, digits in figures_now:
            row += 1
            form = self.big.get(digits, self.bold)
            sheet.write_string(row, 0, label)
            sheet.write_formula(row, 1, f"=INDEX({column(key)},{found})", form, value if value is not None else "")
        first = row - len(figures_now)
        self._cost_chart(sheet, model, suffix, first, place)
        return max(row + 2, first + _CHART_ROWS)

    def _cost_chart(self, sheet: Any, model: ModelReport, suffix: str, row: int, place: dict[str, str]) -> None:
        """Place a native bar chart of the leading options' yearly cost beside the live figures."""
        count = min(10, sum(option.money.cost_usd_per_year is not None for option in model.options))
        name = f"'Options{suffix}'"
        chart = self.book.add_chart({"type": "bar"})
        chart.add_series(
            {
                "name": "USD per year",
                "categories": f"={name}!${place['name']}$4:${place['name']}${3 + count}",
                "values": f"={name}!${place['annual']}$4:${place['annual']}${3 + count}",
                "fill": {"color": "#1f6fc4"},
            }
        )
        chart.set_title({"name": "USD per year, leading options", "name_font": {"size": 11}})
        chart.set_legend({"none": True})
        chart.set_y_axis({"reverse": True})
        chart.set_x_axis(
            {"num_format": '[>=1000]#,##0,"k";0', "major_gridlines": {"visible": True, "line": {"color": "#d5d9df"}}}
        )
        chart.set_size({"width": 620, "height": 250})
        sheet.insert_chart(row, 2, chart)

    def _decision(self, sheet: Any, model: ModelReport, row: int) -> int:
        sheet.write_string(row, 0, "As generated", self.head)
        row += 1
        sheet.merge_range(row, 0, row, 8, "", self.title)
        sheet.write_string(row, 0, _text(model.verdict.sentence), self.title)
        sheet.set_row(row, 44)
        row += 1
        if model.verdict.warning:
            sheet.merge_range(row, 0, row, 8, "", self.wrap)
            sheet.write_string(row, 0, _text(model.verdict.warning), self.wrap)
            row += 1
        for card in cards(self.report, model):
            sheet.write_string(row, 0, card.label, self.bold)
            sheet.write_string(row, 1, card.figure, self.bold)
            sheet.write_string(row, 2, card.range)
            row += 1
        for heading, lines in (("Why", model.verdict.reasons), ("This changes if", model.verdict.changes_if)):
            if lines:
                sheet.write_string(row, 0, heading, self.bold)
            for words in lines:
                row += 1
                sheet.merge_range(row, 0, row, 8, "", self.wrap)
                sheet.write_string(row, 0, _text(words), self.wrap)
                sheet.set_row(row, _height([words], [sum(_DECISION_WIDTHS)]))
            row += 1
        if any(option.money.cost_usd_per_year is not None for option in model.options):
            row = self.table(sheet, compared_table(self.report, model), row + 1)
        row = self.table(sheet, power_table(model), row + 1)
        if (operation := operation_table(self.report, model)) is not None:
            row = self.table(sheet, operation, row + 1)
        if (host := host_table(self.report, model)) is not None:
            row = self.table(sheet, host, row + 1)
        return row

    def table(self, sheet: Any, content: Table, row: int, widths: Sequence[float] = _DECISION_WIDTHS) -> int:
        """Write a table of text below a row, each row as high as its text needs; returns the row after it.

        Args:
            sheet: Where it is written.
            content: The table.
            row: Its first row.
            widths: Widths of the sheet's columns. [characters]
        """
        sheet.set_row(row, _height([column.title for column in content.columns], widths))
        for column, heading in enumerate(content.columns):
            sheet.write_string(
                row, column, heading.title, self.head if heading.align is Align.LEFT else self.head_right
            )
        for line in content.rows:
            row += 1
            sheet.set_row(row, _height(line, widths))
            for column, cell in enumerate(line):
                follows = column > 0 and content.columns[column - 1].align is Align.RIGHT
                self.cell(sheet, row, column, cell, content.columns[column].align, follows_number=follows)
        return row + 1

    def cell(self, sheet: Any, row: int, column: int, words: str, align: Align, *, follows_number: bool) -> None:
        """Write a text cell; figures in right-aligned columns as numbers where they are plain ones."""
        if align is Align.RIGHT:
            try:
                value = float(words.replace(",", ""))
                sheet.write_number(row, column, value, self.decimals[_decimals(words)])
            except ValueError:
                sheet.write_string(row, column, _text(words), self.right)
        else:
            sheet.write_string(row, column, _text(words), self.after_number if follows_number else self.wrap)

    def plain_sheet(self, name: str, content: Table) -> None:
        """Write a sheet that holds one table."""
        sheet = self.sheet(name)
        widths = [
            _column_width([column.title, *(row[place] for row in content.rows)])
            for place, column in enumerate(content.columns)
        ]
        _set_widths(sheet, widths)
        sheet.freeze_panes(1, 1)
        self.table(sheet, content, 0, widths)

    def assumptions(self, model: ModelReport, suffix: str, *, is_first: bool) -> dict[str, str]:
        """Write the inputs, those shaded that a formula takes; returns a defined name for each.

        Models that share their assumptions share the sheet.
        """
        ending = suffix.replace(" ", "_")
        keys = [each.key for each in self.report.assumptions] + ["peak_per_s", "mean_per_s"]
        load = self.report.demand.load
        named = {key: f"in_{key}{ending}" for key in keys}
        if isinstance(load, OneGpu):
            named = {key: name for key, name in named.items() if not key.endswith("_per_s")}
        if not is_first and not suffix:
            return named
        title = f"Assumptions{suffix}"
        used = self._used(model, named)
        sheet = self.sheet(title)
        widths = (44.0, 14.0, 14.0, 14.0, 30.0, 14.0, 90.0)
        _set_widths(sheet, widths)
        sheet.freeze_panes(1, 1)
        content = assumption_table(self.report)
        for column, heading in enumerate(content.columns):
            form = self.head if heading.align is Align.LEFT else self.head_right
            sheet.write_string(0, column, heading.title, form)
        names = {}
        for row, (each, line) in enumerate(zip(self.report.assumptions, content.rows, strict=True), start=1):
            sheet.set_row(row, _height(line, widths))
            sheet.write_string(row, 0, _text(each.label), self.wrap)
            for column, value in ((1, each.value), (2, each.low), (3, each.high)):
                forms = self.inputs if column == 1 and each.key in used else self.decimals
                sheet.write_number(row, column, value, forms[max(map(_decimals, line[1:4]))])
            for column in (4, 5, 6):
                sheet.write_string(row, column, _text(line[column]), self.after_number if column == 4 else self.wrap)
            names[each.key] = named[each.key]
            self.book.define_name(names[each.key], f"='{title}'!{xl_rowcol_to_cell(row, 1, True, True)}")
        row = len(self.report.assumptions) + 2
        extra = (
            [("peak_per_s", "Peak today, samples per second", load.peak_per_s)]
            if isinstance(load, Service)
            else []
            if isinstance(load, OneGpu)
            else [("peak_per_s", "Rate that keeps the deadline, samples per second", load.rate_per_s)]
        )
        extra += [] if isinstance(load, OneGpu) else [("mean_per_s", "Mean today, samples per second", load.mean_per_s)]
        for key, label, value in extra:
            sheet.write_string(row, 0, label)
            sheet.write_number(row, 1, value, self.inputs[_decimals(f"{value:.6g}")])
            names[key] = named[key]
            self.book.define_name(names[key], f"='{title}'!{xl_rowcol_to_cell(row, 1, True, True)}")
            row += 1
        note = (
            "Shaded cells may be changed: options, cash and the decision follow. Cells that are not shaded are fixed: "
            "the years counted are columns, and what a GPU carries within the latency limit was simulated."
        )
        sheet.merge_range(row + 1, 0, row + 1, len(widths) - 1, "", self.small)
        sheet.write_string(row + 1, 0, note, self.small)
        sheet.set_row(row + 1, _height([note], [sum(widths)]))
        return names

    def _used(self, model: ModelReport, names: dict[str, str]) -> set[str]:
        """Return the assumptions that some option's formula takes."""
        columns = option_columns(self.report, model)
        places = {column.key: xl_col_to_name(place) for place, column in enumerate(columns)}
        spelled = " ".join(
            formula
            for option in model.options
            for column in columns
            if (
                formula := Formulas(report=self.report, option=option, row=1, places=places, names=names).formula(
                    column.key
                )
            )
        )
        return {key for key, name in names.items() if re.search(rf"\b{re.escape(name)}\b", spelled)}

    def cash(self, model: ModelReport, suffix: str, names: dict[str, str]) -> None:
        """Write what the leading options pay on the first day and each year, with a native chart of the sums."""
        shown = [
            (row, option)
            for row, option in enumerate(model.options, start=4)
            if option.money.cost_usd_per_year is not None
        ]
        if not shown or isinstance(self.report.demand.load, OneGpu):
            return
        sheet, years = self.sheet(f"Cash{suffix}"), self.report.demand.money.years
        place = {column.key: xl_col_to_name(i) for i, column in enumerate(option_columns(self.report, model))}
        options = f"'Options{suffix}'!"
        heads = ["option", "term", *(f"year {year}" for year in range(years + 1))]
        heads += [f"paid by the end of year {year}" for year in range(years + 1)]
        _set_widths(sheet, (34.0, *(14.0,) * (len(heads) - 1)))
        sheet.set_row(0, _height(heads, (34.0, *(14.0,) * (len(heads) - 1))))
        sheet.freeze_panes(1, 2)
        for place_, heading in enumerate(heads):
            sheet.write_string(0, place_, heading, self.head_right if place_ > 1 else self.head)
        form = self.number["#,##0"]
        for row, (source, option) in enumerate(shown[:15], start=1):
            sheet.write_string(row, 0, _text(option.gpu_name))
            sheet.write_string(row, 1, figures.term_words(option.offer.term))
            cells = {key: f"{options}{letters}{source}" for key, letters in place.items()}
            for year, paid in enumerate(option.money.yearly_usd):
                formula = self._paid(option, cells, year, names)
                sheet.write_formula(row, 2 + year, formula, form, paid)
                start, stop = xl_rowcol_to_cell(row, 2), xl_rowcol_to_cell(row, 2 + year)
                sheet.write_formula(
                    row, 3 + years + year, f"=SUM({start}:{stop})", form, sum(option.money.yearly_usd[: year + 1])
                )
        chart = self.book.add_chart({"type": "line"})
        for row in range(1, min(5, len(shown)) + 1):
            chart.add_series(
                {
                    "name": [sheet.get_name(), row, 0], "marker": {"type": "circle"},
                    "categories": [sheet.get_name(), 0, 2, 0, 2 + years],
                    "values": [sheet.get_name(), row, 3 + years, row, 3 + 2 * years],
                }
            )  # fmt: skip
        chart.set_title({"name": "Paid by the end of each year, USD", "name_font": {"size": 11}})
        chart.set_y_axis({"num_format": "#,##0", "major_gridlines": {"visible": True, "line": {"color": "#d5d9df"}}})
        chart.set_legend({"position": "bottom"})
        chart.set_size({"width": 760, "height": 320})
        sheet.insert_chart(min(len(shown), 15) + 2, 0, chart)

    def _paid(self, option: OptionRow, cells: Mapping[str, str], year: int, names: Mapping[str, str]) -> str:
        """Write the formula of what an option pays on the first day (year 0) or at the end of a year.

        Args:
            option: The option.
            cells: Cells of its row in the sheet of options, by column.
            year: The year.
            names: Defined names of the assumptions.
        """
        if option.offer.term != Term.BUY:
            rent = f"{cells['price']}*{names['rent_price_factor']}"
            return f"={cells[f'hours{year - 1}']}*{rent}" if year else "=0"
        if year == 0:
            return f"={cells['initial']}"
        is_last = year == self.report.demand.money.years
        return f"={cells['running']}-{cells['residual']}" if is_last else f"={cells['running']}"

    def set_up_print(self, sheet: Any) -> None:
        """Format a sheet for paper: A4 landscape, one page wide, headings on each page, number and title below."""
        sheet.set_paper(9)
        sheet.set_landscape()
        sheet.fit_to_pages(1, 0)
        if sheet.get_name().startswith("Other offers"):  # long and narrow: upright, it takes a third of the pages
            sheet.set_portrait()
        sheet.set_margins(left=0.4, right=0.4, top=0.5, bottom=0.6)
        sheet.set_footer(f"&L{_text(self.report.title).replace('&', '&&')[:80]}&C&A&R&P / &N")
        if sheet.get_name().startswith("Options"):
            sheet.fit_to_pages(_OPTION_PAGES, 0)
            sheet.repeat_columns(0, 1)
        if sheet.get_name() not in ("Decision", "Model"):
            sheet.repeat_rows(0, 2 if sheet.get_name().startswith("Options") else 0)

    def options(self, model: ModelReport, suffix: str, names: dict[str, str]) -> None:
        """Write every option with its formulas."""
        sheet = self.sheet(f"Options{suffix}")
        sheet.freeze_panes(3, 2)
        sheet.write_string(0, 0, _text(f"{model.plan.model.name}: latency is {latency_words(self.report)}"))
        columns = option_columns(self.report, model)
        places = {column.key: xl_col_to_name(place) for place, column in enumerate(columns)}
        sheet.set_row(2, _height([column.title for column in columns], [column.width for column in columns]))
        for place, column in enumerate(columns):
            sheet.write_string(2, place, column.title, self.head_right if column.digits else self.head)
            sheet.set_column(place, place, column.width)
        for row, option in enumerate(model.options, start=3):
            spelled = Formulas(
                report=self.report,
                option=option,
                row=row + 1,
                places=places,
                names=names,
                last_row=3 + len(model.options),
            )
            for place, column in enumerate(columns):
                self._value(sheet, row, place, column, spelled, is_choice=option.key == model.verdict.choice)
        sheet.autofilter(2, 0, 2 + len(model.options), len(columns) - 1)

    def _value(self, sheet: Any, row: int, place: int, column: Column, spelled: Formulas, *, is_choice: bool) -> None:
        value = column.value(spelled.option)
        if column.key == "best":
            value = int(is_choice)
        form = self.number.get(column.digits)
        formula = spelled.formula(column.key)
        if formula and value is not None:
            sheet.write_formula(row, place, formula, form, value)
        elif value is None:
            is_known_empty = not column.digits or (column.key == "residual" and not spelled.option.is_bought)
            sheet.write_string(row, place, "" if is_known_empty else figures.UNKNOWN, self.right)
        elif isinstance(value, str):
            sheet.write_string(row, place, _text(value), self.left if place else self.chosen if is_choice else None)
        elif column.key == "price":
            sheet.write_number(row, place, value, self.inputs[0 if spelled.option.is_bought else 4])
        else:
            sheet.write_number(row, place, value, form)

    def estimates(self, model: ModelReport, index: int) -> None:
        """Write the estimates behind the options, the facts and the rejections."""
        suffix = f" {index}" if len(self.report.models) > 1 else ""
        sheet = self.sheet(f"Estimates{suffix}")
        sheet.freeze_panes(1, 1)
        heads = (
            "GPU", "batch", "status", "latency low s", "latency expected s", "latency high s", "bound s", "bound by",
            "samples per s", "memory low bytes", "memory expected bytes", "memory high bytes", "usable bytes",
        )  # fmt: skip
        widths = (34.0, *(16.0,) * (len(heads) - 1))
        _set_widths(sheet, widths)
        sheet.set_row(0, _height(heads, widths))
        for column, heading in enumerate(heads):
            is_text = heading in ("GPU", "status", "bound by")
            sheet.write_string(0, column, heading, self.head if is_text else self.head_right)
        for row, each in enumerate(model.plan.fits, start=1):
            sheet.write_string(row, 0, _text(each.gpu_name))
            sheet.write_string(row, 2, each.status.value, self.after_number)
            sheet.write_string(row, 7, each.bound_by.value, self.after_number)
            values: dict[int, float | None] = {
                1: each.batch, 3: each.latency_s.low, 4: each.latency_s.expected, 5: each.latency_s.high,
                6: each.latency_s.bound, 8: each.throughput_per_s.expected, 9: each.memory.total_bytes.low,
                10: each.memory.total_bytes.expected, 11: each.memory.total_bytes.high, 12: each.memory.usable_bytes,
            }  # fmt: skip
            for column, value in values.items():
                if value is None:
                    sheet.write_string(row, column, figures.UNKNOWN)
                else:
                    sheet.write_number(row, column, value, self.number[_estimate_digits(heads[column])])
        sheet = self.sheet(f"Model{suffix}")
        widths = (30.0, 60.0, 60.0, 60.0)
        _set_widths(sheet, widths)
        row = self.table(sheet, facts_table(model.plan), 0, widths)
        self.table(sheet, refusal_table(model), row + 2, widths)
        offers = offers_table(model)
        if offers is not None and offers not in self.offers:
            self.plain_sheet(f"Other offers{suffix if self.offers else ''}", offers)
            self.offers.append(offers)
