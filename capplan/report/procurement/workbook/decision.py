"""The first sheet, the decision live and as generated, and the sheets behind it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from capplan.report.pages.blocks import Cards, GridTable, Page
from capplan.report.procurement import figures
from capplan.report.procurement.types import ModelReport, Report
from capplan.report.procurement.workbook.book import LINE_POINTS, Book, cell_text, heading_height
from capplan.report.procurement.workbook.columns import places_of
from capplan.report.procurement.workbook.formulas import FIRST_ROW
from capplan.report.sections import Block, KeyFigure, LineRole, Lines, Medium, Section, text_of
from capplan.shapes.types import PlannedFit
from capplan.units import counted

_WIDTHS = (48.0, 28.0, *(13.0,) * 10, 30.0)
"""Widths of the sheet's columns. [characters]"""
_CHART_ROWS = 14
_FIRST_ROW = 3
"""The row below title and load."""
PRINT_PERCENT = 50
"""How large the sheet prints where each service begins a page; in fonts a seventh wider than Arial its columns still
fit on A4 in landscape. [%]"""
_TITLE_POINTS = 44
_CHART_PIXELS = {"width": 620, "height": 250}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sheet:
    """The first sheet, and the workbook that it is part of."""

    book: Book
    sheet: Any


def write_decision(book: Book, report: Report, page: Page, suffixes: Sequence[str]) -> None:
    """Write the first sheet: what the report holds for a workbook, and the live figures of each model."""
    first = _Sheet(book=book, sheet=book.sheet("Decision", _WIDTHS))
    first.sheet.write_string(0, 0, book.title, book.looks.bold)
    row = _write_blocks(first, page.lead, 1) + 1
    models = iter(zip(report.models, suffixes, strict=True))
    breaks, below = [], row
    for section in page.sections:
        if Medium.XLSX not in section.on or section.sheet:
            continue
        if section.is_live:
            model, suffix = next(models)
            breaks += [row] * (row > _FIRST_ROW)
            row = below = _write_blocks(first, [section], _write_live(first, report.of(model), model, suffix, row)) + 2
        else:
            row = _write_blocks(first, [section], row) + 1
    breaks += [below] * (len(report.models) > 1)
    if breaks:  # a sheet that is fitted to a width has no breaks of its own
        first.sheet.set_print_scale(PRINT_PERCENT)
        first.sheet.set_h_pagebreaks(breaks)
    _write_blocks(first, page.close, row)


def _write_blocks(page: _Sheet, blocks: Iterable[Block], row: int) -> int:
    """Write what a workbook shows of some blocks from a row on, and return the row below them."""
    for block in blocks:
        if Medium.XLSX not in getattr(block, "on", (Medium.XLSX,)):
            continue
        if isinstance(block, Section):
            first = block.blocks[0]
            is_empty = isinstance(first, Lines) and not first.texts
            if block.title and Medium.XLSX in block.titled_on and not is_empty:
                page.sheet.write_string(row, 0, cell_text(block.title), page.book.looks.bold)
            row = _write_blocks(page, block.blocks, row + (isinstance(first, Lines) and block.level == 3))
        elif isinstance(block, Lines):
            looks = page.book.looks
            for place, text in enumerate(map(text_of, block.texts), start=row):
                if block.role is LineRole.TITLE:
                    page.sheet.write_string(place, 0, text, looks.head)
                elif block.role in (LineRole.VERDICT, LineRole.PART_VERDICT):
                    page.book.merged(page.sheet, place, text, looks.title, widths=_WIDTHS)
                    page.sheet.set_row(place, _TITLE_POINTS)
                else:
                    form = looks.small if block.role is LineRole.SMALL else looks.wrap
                    page.book.merged(page.sheet, place, text, form, widths=_WIDTHS)
            row = row + len(block.texts)
        elif isinstance(block, Cards):
            row = _write_cards(page, block.figures, row)
        elif isinstance(block, GridTable):
            row = page.book.table(page.sheet, block.shown_on(Medium.XLSX), row + 1, _WIDTHS)
    return row


def _write_live(page: _Sheet, report: Report, model: ModelReport, suffix: str, row: int) -> int:
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
    # Label, column, value and format of each figure that follows the shaded cells.
    by_year = choice.gpus_by_year
    live = [
        ("GPU", "gpu", choice.gpu_name, ""), ("Term", "term", figures.term_words(choice.term), ""),
        ("Offer", "offer", figures.offer(choice), ""),
        ("GPUs in the first year", "gpus0", by_year[0], "#,##0"),
        ("GPUs in the last year", f"gpus{report.demand.money.years - 1}", by_year[-1], "#,##0"),
        ("USD per year", "annual", choice.cost_usd_per_year, "#,##0"),
        (f"USD in {counted(report.demand.money.years, 'year')}", "total", choice.total_usd, "#,##0"),
        ("USD on the first day (capex)", "initial", choice.initial_usd, "#,##0"),
        ("USD per million samples", "million", choice.usd_per_million, "0.0000"),
    ]  # fmt: skip
    for place_, (label, key, value, digits) in enumerate(live, start=row + 1):
        form = page.book.looks.big.get(digits, page.book.looks.bold)
        page.sheet.write_string(place_, 0, label)
        formula = f"=INDEX({column(key)},{found})"
        page.sheet.write_formula(place_, 1, formula, form, value if value is not None else "")
    _draw_costs(page, model, f"'Options{suffix}'", row, (place["name"], place["annual"]))
    return row + max(len(live) + 2, _CHART_ROWS)


def _draw_costs(page: _Sheet, model: ModelReport, name: str, row: int, columns: tuple[str, str]) -> None:
    """Place a native bar chart of the leading options' yearly cost beside the live figures."""
    last = FIRST_ROW - 1 + min(10, sum(option.cost_usd_per_year is not None for option in model.options))
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


def _write_cards(page: _Sheet, shown: Sequence[KeyFigure], row: int) -> int:
    """Write key figures, one a row, and return the row below them."""
    for place, card in enumerate(shown, start=row):
        page.sheet.write_string(place, 0, cell_text(card.label), page.book.looks.bold)
        page.sheet.write_string(place, 1, cell_text(card.figure), page.book.looks.bold)
        page.sheet.write_string(place, 2, cell_text(card.note))
    return row + len(shown)


_HEADS = (
    "GPU", "batch", "status", "latency low s", "latency expected s", "latency high s", "bound s", "bound by",
    "samples per s", "memory low bytes", "memory expected bytes", "memory high bytes", "usable bytes",
)  # fmt: skip
_TEXTS = ("service", "GPU", "status", "bound by")
_MODEL_WIDTHS = (30.0, 60.0, 60.0, 60.0)


def write_appendix(book: Book, report: Report, page: Page) -> None:
    """Write the sheets behind the decision, each once for all models."""
    # Write the estimates that the options rest on, for the service or model of each where there are several.
    heads = _HEADS if len(report.models) == 1 else ("service", *_HEADS)
    widths = tuple(34.0 if head in ("GPU", "service") else 16.0 for head in heads)
    sheet = book.sheet("Estimates", widths)
    sheet.freeze_panes(1, 1)
    head_height = heading_height(heads, widths)
    sheet.set_row(0, head_height)
    for column, heading in enumerate(heads):
        sheet.write_string(0, column, heading, book.looks.head if heading in _TEXTS else book.looks.head_right)
    rows = [(model, fit) for model in report.models for fit in model.plan.fits]
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
    write_sheets(book, page)


def write_sheets(book: Book, page: Page) -> None:
    """Write the sections of a page that have a sheet of their own."""
    for section in page.sections:
        if section.sheet:
            _write_sheet(book, section)


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


def _write_sheet(book: Book, section: Section) -> None:
    """Write a section on a sheet of its own: one table as a list, several below each other."""
    if len(section.blocks) == 1 and isinstance(section.blocks[0], GridTable):
        return book.list_sheet(section.sheet, section.blocks[0].content)
    sheet, row = book.sheet(section.sheet, _MODEL_WIDTHS), 0
    for block in section.blocks:
        if isinstance(block, Lines):
            row += row > 0
            sheet.write_string(row, 0, text_of(block.texts[0]), book.looks.bold)
            row += 1
        elif isinstance(block, GridTable):
            row = book.table(sheet, block.content, row, _MODEL_WIDTHS) + 1
    return None
