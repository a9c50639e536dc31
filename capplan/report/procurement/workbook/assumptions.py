"""The sheets of assumptions, each input once with a defined name, and of the cash that follows from them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xlsxwriter.utility import xl_rowcol_to_cell

from capplan.core.gpus.prices import Term
from capplan.core.serving.load import Load, OneGpu, Service
from capplan.report.procurement import figures
from capplan.report.procurement.types import ModelReport, Report
from capplan.report.procurement.workbook.book import Book, cell_text, decimals_of, heading_height, row_height
from capplan.report.procurement.workbook.columns import places_of
from capplan.report.procurement.workbook.formulas import FIRST_ROW
from capplan.shapes.types import OptionRow

TITLE = "Assumptions"
_HEADS = ("assumption", "value", "low", "high", "unit", "basis", "source")
_WIDTHS = (44.0, 14.0, 14.0, 14.0, 30.0, 14.0, 90.0)
_NAME = re.compile(r"\bin_\w+")
"""A defined name of an input, in a formula."""
_NOTE = (
    "Shaded cells may be changed: options, cash and the decision follow. Cells that are not shaded are fixed: "
    "the years counted are columns, and what a GPU carries within the latency limit was simulated."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Input:
    """One row of the sheet: the defined name of its value, its label, and its cells."""

    name: str
    label: str
    value: float
    low: float | None = None
    high: float | None = None
    unit: str = ""
    basis: str = ""
    source: str = ""


def defined_names(report: Report) -> list[dict[str, str]]:
    """Return the defined names of each model's inputs, by key: models share the name of an input that they share."""
    rates = [dict(_rates(report.of(model).demand.load)) for model in report.models]
    shared = _shared_keys(report)
    made = []
    for index, model in enumerate(report.models, start=1):
        keys = [assumption.key for assumption in report.of(model).assumptions] + list(rates[index - 1])
        made.append({key: f"in_{key}" if key in shared else f"in_{key}_{index}" for key in keys})
    return made


def _shared_keys(report: Report) -> set[str]:
    """Return the inputs that are the same for all models that have them."""
    found: dict[str, set[object]] = {}
    for model in report.models:
        of_model = report.of(model)
        for assumption in of_model.assumptions:
            found.setdefault(assumption.key, set()).add(
                (assumption.value, assumption.low, assumption.high, assumption.source)
            )
        for key, (_, value) in _rates(of_model.demand.load):
            found.setdefault(key, set()).add(value)
    return {key for key, values in found.items() if len(values) == 1}


def _rates(load: Load) -> Iterator[tuple[str, tuple[str, float]]]:
    """Yield the peak and mean rates of a load, each with its label. [1/s]"""
    if isinstance(load, OneGpu):
        return
    if isinstance(load, Service):
        yield "peak_per_s", ("Peak today, samples per second", load.peak_per_s)
    else:
        yield (
            "peak_per_s",
            ("Rate that keeps the deadline with the start-up as stated, samples per second", load.rate_per_s),
        )
    yield "mean_per_s", ("Mean today, samples per second", load.mean_per_s)


def write_assumptions(
    book: Book, report: Report, names: Sequence[Mapping[str, str]], formulas: Sequence[Sequence[Mapping[str, str]]]
) -> None:
    """Write the sheet."""
    used = {word for rows in formulas for row in rows for formula in row.values() for word in _NAME.findall(formula)}
    sheet = book.sheet(TITLE, _WIDTHS)
    sheet.freeze_panes(1, 1)
    sheet.fit_to_pages(1, 1)
    for column, heading in enumerate(_HEADS):
        forms = (book.looks.head, book.looks.head_right, book.looks.head_after_number)
        sheet.write_string(0, column, heading, forms[1 if 1 <= column <= 3 else 2 if column == 4 else 0])
    assumed, rates = _assumed(report, names), _stated_rates(report, names)
    for row, entered in enumerate(assumed, start=1):
        _write_input(book, sheet, row, entered, is_used=entered.name in used)
    for row, entered in enumerate(rates, start=len(assumed) + 2):
        _write_input(book, sheet, row, entered, is_used=True)
    book.merged(sheet, len(assumed) + len(rates) + 3, _NOTE, book.looks.small, widths=_WIDTHS)


def _label(label: str, report: Report, model: ModelReport, name: str, key: str) -> str:
    """Return an input's label, with the service or model whose own it is."""
    whose = model.service or model.plan.model.name
    return label if name == f"in_{key}" or len(report.models) == 1 else f"{label}: {whose}"


def _assumed(report: Report, names: Sequence[Mapping[str, str]]) -> list[_Input]:
    """Return the assumptions, those of several models side by side."""
    found: dict[str, dict[str, _Input]] = {}
    for model, named in zip(report.models, names, strict=True):
        for assumption in report.of(model).assumptions:
            name = named[assumption.key]
            label = _label(assumption.label, report, model, name, assumption.key)
            entered = _Input(
                name=name, label=label, unit=assumption.unit, basis=assumption.basis, source=assumption.source,
                value=assumption.value, low=assumption.low, high=assumption.high,
            )  # fmt: skip
            found.setdefault(assumption.key, {}).setdefault(name, entered)
    return [entered for inputs in found.values() for entered in inputs.values()]


def _stated_rates(report: Report, names: Sequence[Mapping[str, str]]) -> list[_Input]:
    """Return the rates that the loads ask for."""
    found: dict[str, _Input] = {}
    for model, named in zip(report.models, names, strict=True):
        for key, (label, value) in _rates(report.of(model).demand.load):
            whole = _label(label, report, model, named[key], key)
            found.setdefault(named[key], _Input(name=named[key], label=whole, value=value))
    return list(found.values())


def _write_input(book: Book, sheet: Any, row: int, entered: _Input, *, is_used: bool) -> None:
    """Write one row, and define its name; its figures have the decimals of the longest."""
    looks, figures = book.looks, [entered.value, entered.low, entered.high]
    digits = max(decimals_of(f"{figure:.6g}") for figure in figures if figure is not None)
    sheet.set_row(row, row_height([entered.label, "", "", "", entered.unit, entered.basis, entered.source], _WIDTHS))
    sheet.write_string(row, 0, cell_text(entered.label), looks.wrap)
    for column, figure in enumerate(figures, start=1):
        if figure is not None:
            forms = looks.inputs if column == 1 and is_used else looks.decimals
            sheet.write_number(row, column, figure, forms[digits])
    if is_used:
        sheet.data_validation(row, 1, row, 1, _allowed(entered))
    for column, words in ((4, entered.unit), (5, entered.basis), (6, entered.source)):
        sheet.write_string(row, column, cell_text(words), looks.after_number if column == 4 else looks.wrap)
    book.file.define_name(entered.name, f"='{TITLE}'!{xl_rowcol_to_cell(row, 1, True, True)}")


def _allowed(entered: _Input) -> dict[str, Any]:
    """Return what a shaded cell takes: a share from 0 to 1, a number above 0, or one from 0 or 1 on."""
    key = entered.name.removeprefix("in_")
    whole = key.startswith(("spares", "gpus_per_server"))
    least: float = 1 if key.startswith(("pue", "gpus_per_server")) else 0
    rules: dict[str, Any] = {"validate": "integer" if whole else "decimal", "criteria": ">=", "value": least}
    if "_fraction" in key:
        rules |= {"criteria": "between", "minimum": 0, "maximum": 1}
        del rules["value"]
        limits = "from 0 to 1"
    elif "_factor" in key or "_per_s" in key:
        rules |= {"criteria": ">", "value": 0}
        limits = "above 0"
    else:
        limits = f"{'a whole number ' * whole}of at least {least:g}"
    return {**rules, "error_title": "Not possible", "error_message": f"{entered.label[:120]}: enter a number {limits}."}


_SHOWN = 15
_DRAWN = 5


def write_cash(book: Book, report: Report, model: ModelReport, suffix: str, names: Mapping[str, str]) -> None:
    """Write the sheet; none where no option has a price, or no load is stated."""
    shown = [
        (row, option)
        for row, option in enumerate(model.options, start=FIRST_ROW)
        if option.cost_usd_per_year is not None
    ][:_SHOWN]
    if not shown or isinstance(report.demand.load, OneGpu):
        return
    years = report.demand.money.years
    heads = ["option", "term", *(f"year {year}, USD" for year in range(years + 1))]
    heads += [f"paid by the end of year {year}, USD" for year in range(years + 1)]
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
    form, paid = book.looks.number["#,##0"], option.yearly_usd
    sheet.write_string(row, 0, cell_text(figures.option_name(option)))
    sheet.write_string(row, 1, figures.term_words(option.term))
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
    """Write the formula of what an option pays on the first day (year 0) or at the end of a year."""
    if option.term != Term.BUY:
        rent = f"{cells['price']}*{names['rent_price_factor']}"
        return f"={cells[f'hours{year - 1}']}*{rent}" if year else "=0"
    if year == 0:
        return f"={cells['initial']}"
    return f"={cells['running']}-{cells['residual']}" if year == years else f"={cells['running']}"
