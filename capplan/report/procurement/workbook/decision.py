"""The first sheet, the decision live and as generated, and the sheets behind it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from capplan.report.narrow import Grid
from capplan.report.procurement import figures
from capplan.report.procurement.checks import CHECKS_TITLE, checks_table
from capplan.report.procurement.fleet import fleet_cards, fleet_table, inventory_table, sharing_table
from capplan.report.procurement.money_tables import offers_table
from capplan.report.procurement.tables import (
    CONVENTIONS,
    cards,
    compared_table,
    facts_table,
    host_table,
    operation_table,
    power_table,
    price_table,
    refusal_table,
    spec_table,
)
from capplan.report.procurement.types import FleetRow, ModelReport, OptionRow, Report
from capplan.report.procurement.verdict import load_words
from capplan.report.procurement.workbook.book import LINE_POINTS, Book, cell_text, heading_height
from capplan.report.procurement.workbook.columns import places_of
from capplan.report.procurement.workbook.formulas import FIRST_ROW
from capplan.report.sections import KeyFigure
from capplan.shapes.types import PlannedFit
from capplan.units import counted

_WIDTHS = (48.0, 28.0, *(13.0,) * 10, 30.0)
"""Widths of the sheet's columns. [characters]"""
_CHART_ROWS = 14
_SHOWN_OF_SEVERAL = 5
"""Options of each of several services in the tables of operation."""
_FIRST_ROW = 3
"""The row below title and load."""
PRINT_PERCENT = 50
"""How large the sheet prints where each service begins a page; in fonts a seventh wider than Arial its columns still
fit on A4 in landscape. [%]"""
_TITLE_POINTS = 44
_CHART_PIXELS = {"width": 620, "height": 250}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """The first sheet, and the workbook that it is part of."""

    book: Book
    sheet: Any


def write_decision(book: Book, report: Report, suffixes: Sequence[str]) -> None:
    """Write the first sheet.

    Args:
        book: The workbook.
        report: The report.
        suffixes: What the names of each model's sheets end in.
    """
    sheet = book.sheet("Decision", _WIDTHS)
    page = _Page(book=book, sheet=sheet)
    sheet.write_string(0, 0, book.title, book.looks.bold)
    book.merged(sheet, 1, load_words(report), book.looks.small, widths=_WIDTHS)
    row = _FIRST_ROW
    if report.fleet is not None:
        row = _write_fleet(page, report, report.fleet, row) + 1
    breaks = []
    for model, suffix in zip(report.models, suffixes, strict=True):
        breaks += [row] * (row > _FIRST_ROW)
        own = report.of(model)
        row = _write_live(page, own, model, suffix, row)
        row = _write_generated(page, own, model, row) + 2
    breaks += [row] * (len(report.models) > 1)
    for model in report.models:
        row = _write_operation(page, report, model, row)
    if breaks:  # a sheet that is fitted to a width has no breaks of its own
        sheet.set_print_scale(PRINT_PERCENT)
        sheet.set_h_pagebreaks(breaks)
    if checks := checks_table(report):
        row = _write_lines(page, CHECKS_TITLE, [": ".join(cells) for cells in checks.rows], row) + 1
    for words in CONVENTIONS:
        book.merged(sheet, row, words, book.looks.small, widths=_WIDTHS)
        row += 1
    book.merged(sheet, row + 1, f"Made {report.created} by {report.command}", book.looks.small, widths=_WIDTHS)


def _write_title(page: _Page, row: int, words: str) -> None:
    page.book.merged(page.sheet, row, words, page.book.looks.title, widths=_WIDTHS)
    page.sheet.set_row(row, _TITLE_POINTS)


def _write_fleet(page: _Page, report: Report, fleet: FleetRow, row: int) -> int:
    page.sheet.write_string(row, 0, "One fleet for all services, as generated", page.book.looks.head)
    _write_title(page, row + 1, fleet.sentence)
    row = _write_cards(page, fleet_cards(report), row + 2) - 1
    for content in (sharing_table(fleet), inventory_table(fleet), fleet_table(fleet)):
        if content is not None:
            row = page.book.table(page.sheet, content, row + 2, _WIDTHS)
    return row + 1


def _write_live(page: _Page, report: Report, model: ModelReport, suffix: str, row: int) -> int:
    """Write what the sheet of options recommends now: it follows every shaded cell."""
    choice = model.option(model.verdict.choice)
    if choice is None or not model.options:
        return row
    place = places_of(report, model)
    last = FIRST_ROW - 1 + len(model.options)

    def column(key: str) -> str:
        return f"'Options{suffix}'!${place[key]}${FIRST_ROW}:${place[key]}${last}"

    found = f"MATCH(1,{column('best')},0)"
    what = f"Best for {model.service} alone" if report.fleet else "Recommended"
    page.sheet.write_string(row, 0, cell_text(f"{what}, with this workbook's figures"), page.book.looks.head)
    page.sheet.write_string(row, 1, "follows the shaded cells", page.book.looks.head)
    live = _live_figures(choice, report.demand.money.years)
    for place_, (label, key, value, digits) in enumerate(live, start=row + 1):
        form = page.book.looks.big.get(digits, page.book.looks.bold)
        page.sheet.write_string(place_, 0, label)
        formula = f"=INDEX({column(key)},{found})"
        page.sheet.write_formula(place_, 1, formula, form, value if value is not None else "")
    _draw_costs(page, model, f"'Options{suffix}'", row, (place["name"], place["annual"]))
    return row + max(len(live) + 2, _CHART_ROWS)


def _live_figures(choice: OptionRow, years: int) -> list[tuple[str, str, Any, str]]:
    """Return label, column, value and format of each figure that follows the shaded cells."""
    money, by_year = choice.money, choice.count.gpus_by_year
    return [
        ("GPU", "gpu", choice.gpu_name, ""), ("Term", "term", figures.term_words(choice.offer.term), ""),
        ("Offer", "offer", figures.offer(choice), ""),
        ("GPUs in the first year", "gpus0", by_year[0], "#,##0"),
        ("GPUs in the last year", f"gpus{years - 1}", by_year[-1], "#,##0"),
        ("USD per year", "annual", money.cost_usd_per_year, "#,##0"),
        (f"USD in {counted(years, 'year')}", "total", money.total_usd, "#,##0"),
        ("USD on the first day (capex)", "initial", money.initial_usd, "#,##0"),
        ("USD per million samples", "million", money.usd_per_million, "0.0000"),
    ]  # fmt: skip


def _draw_costs(page: _Page, model: ModelReport, name: str, row: int, columns: tuple[str, str]) -> None:
    """Place a native bar chart of the leading options' yearly cost beside the live figures.

    Args:
        page: The first sheet.
        model: The model.
        name: The sheet of options, quoted.
        row: The row beside which the chart stands.
        columns: Letters of the columns that hold the options' names and their cost per year.
    """
    last = FIRST_ROW - 1 + min(10, sum(option.money.cost_usd_per_year is not None for option in model.options))
    categories, values = (f"={name}!${letters}${FIRST_ROW}:${letters}${last}" for letters in columns)
    chart = page.book.file.add_chart({"type": "bar"})
    chart.add_series({"name": "USD per year", "categories": categories, "values": values, "fill": {"color": "#1f6fc4"}})
    chart.set_title({"name": "USD per year, leading options", "name_font": {"size": 11}})
    chart.set_legend({"none": True})
    chart.set_y_axis({"reverse": True, "interval_unit": 1, "num_font": {"size": 8}})
    lines = {"visible": True, "line": {"color": "#d5d9df"}}
    chart.set_x_axis({"num_format": '[>=1000]#,##0,"k";0', "major_gridlines": lines})
    chart.set_size(_CHART_PIXELS)
    page.sheet.insert_chart(row, 2, chart)


def _write_cards(page: _Page, shown: Sequence[KeyFigure], row: int) -> int:
    """Write key figures, one a row, and return the row below them."""
    for place, card in enumerate(shown, start=row):
        page.sheet.write_string(place, 0, cell_text(card.label), page.book.looks.bold)
        page.sheet.write_string(place, 1, cell_text(card.figure), page.book.looks.bold)
        page.sheet.write_string(place, 2, cell_text(card.note))
    return row + len(shown)


def _write_generated(page: _Page, report: Report, model: ModelReport, row: int) -> int:
    """Write the decision as it was generated: headline, key figures, reasons and tables."""
    page.sheet.write_string(row, 0, "As generated", page.book.looks.head)
    _write_title(page, row + 1, model.verdict.sentence)
    row += 2
    if model.verdict.warning:
        page.book.merged(page.sheet, row, model.verdict.warning, page.book.looks.wrap, widths=_WIDTHS)
        row += 1
    row = _write_cards(page, cards(report, model), row)
    for heading, lines in (("Why", model.verdict.reasons), ("This changes if", model.verdict.changes_if)):
        row = _write_lines(page, heading, lines, row)
    has_cost = any(option.money.cost_usd_per_year is not None for option in model.options)
    return page.book.table(page.sheet, compared_table(report, model), row + 1, _WIDTHS) if has_cost else row


def _write_operation(page: _Page, report: Report, model: ModelReport, row: int) -> int:
    """Write power, operation and hosts of the leading options: fewer of them, under its name, for each of several."""
    own, is_one = report.of(model), len(report.models) == 1
    if not is_one:
        words = f"In operation: {model.service or model.plan.model.name}"
        page.sheet.write_string(row, 0, cell_text(words), page.book.looks.bold)
    for content in (power_table(model), operation_table(own, model), host_table(own, model)):
        if content is not None:
            shown = content if is_one else replace(content, rows=content.rows[:_SHOWN_OF_SEVERAL])
            row = page.book.table(page.sheet, shown, row + 1, _WIDTHS)
    return row + 1


def _write_lines(page: _Page, heading: str, lines: Sequence[str], row: int) -> int:
    if not lines:
        return row + 1
    page.sheet.write_string(row, 0, heading, page.book.looks.bold)
    for place, words in enumerate(lines, start=row + 1):
        page.book.merged(page.sheet, place, words, page.book.looks.wrap, widths=_WIDTHS)
    return row + 1 + len(lines)


_HEADS = (
    "GPU", "batch", "status", "latency low s", "latency expected s", "latency high s", "bound s", "bound by",
    "samples per s", "memory low bytes", "memory expected bytes", "memory high bytes", "usable bytes",
)  # fmt: skip
_TEXTS = ("service", "GPU", "status", "bound by")
_MODEL_WIDTHS = (30.0, 60.0, 60.0, 60.0)


def write_appendix(book: Book, report: Report) -> None:
    """Write the sheets behind the decision, each once for all models."""
    _write_estimates(book, report.models)
    _write_models(book, report.models)
    if offers := _offers(report.models):
        book.list_sheet("Other offers", offers)
    book.list_sheet("Prices", price_table(report))
    book.list_sheet("Specifications", spec_table(report))


def _write_estimates(book: Book, models: Sequence[ModelReport]) -> None:
    """Write the estimates that the options rest on, for the service or model of each where there are several."""
    heads = _HEADS if len(models) == 1 else ("service", *_HEADS)
    widths = tuple(34.0 if head in ("GPU", "service") else 16.0 for head in heads)
    sheet = book.sheet("Estimates", widths)
    sheet.freeze_panes(1, 1)
    head_height = heading_height(heads, widths)
    sheet.set_row(0, head_height)
    for column, heading in enumerate(heads):
        sheet.write_string(0, column, heading, book.looks.head if heading in _TEXTS else book.looks.head_right)
    rows = [(model, fit) for model in models for fit in model.plan.fits]
    for row, (model, estimate) in enumerate(rows, start=1):
        values = {"service": model.name, **_estimate(estimate)}
        for column, heading in enumerate(heads):
            value = values[heading]
            if value is None:
                sheet.write_string(row, column, figures.UNKNOWN, book.looks.right)
            elif isinstance(value, str):
                sheet.write_string(row, column, value, book.looks.after_number if column else book.looks.wrap)
            else:
                sheet.write_number(row, column, value, book.looks.number[_digits(heading)])
    sheet.autofilter(0, 0, len(rows), len(heads) - 1)
    book.print_one_page(sheet, widths, [head_height, *[LINE_POINTS] * len(rows)])


def _estimate(fit: PlannedFit) -> dict[str, float | str | None]:
    """Return one row of the sheet of estimates, by heading."""
    memory = fit.memory.total_bytes
    values = (
        fit.gpu_name, fit.batch, fit.status.value, fit.latency_s.low, fit.latency_s.expected, fit.latency_s.high,
        fit.latency_s.bound, fit.bound_by.value, fit.throughput_per_s.expected, memory.low, memory.expected,
        memory.high, fit.memory.usable_bytes,
    )  # fmt: skip
    return dict(zip(_HEADS, values, strict=True))


def _digits(heading: str) -> str:
    return "#,##0.00" if heading.startswith("samples") else "0.000000" if heading.endswith(" s") else "#,##0"


def _write_models(book: Book, models: Sequence[ModelReport]) -> None:
    """Write the facts of every model, and the GPUs that cannot serve it."""
    sheet, row = book.sheet("Model", _MODEL_WIDTHS), 0
    for model in models:
        if len(models) > 1:
            sheet.write_string(row, 0, model.name, book.looks.bold)
            row += 1
        row = book.table(sheet, facts_table(model.plan), row, _MODEL_WIDTHS)
        row = book.table(sheet, refusal_table(model), row + 1, _MODEL_WIDTHS) + 2


def _offers(models: Sequence[ModelReport]) -> Grid | None:
    """Return the offers that no option of any model rests on, each once with its reason."""
    found = [content for model in models if (content := offers_table(model))]
    if not found:
        return None
    return Grid(columns=found[0].columns, rows=tuple(dict.fromkeys(row for content in found for row in content.rows)))
