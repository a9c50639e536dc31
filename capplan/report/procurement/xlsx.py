"""The report as a workbook whose money is worked out by formulas over a sheet of assumptions.

Every formula carries the value that this program computed, so that viewers which do not recalculate show it too.
Text is written as text: nothing in a name can become a formula or a link. On paper each list takes one page; the
decision takes as many as it needs.
"""

from collections.abc import Sequence

from capplan.report.pages.blocks import Page
from capplan.report.procurement.contents import money_tables, procurement_page
from capplan.report.procurement.tables import assumption_table, option_table
from capplan.report.procurement.types import Report
from capplan.report.procurement.workbook.assumptions import defined_names, write_assumptions, write_cash
from capplan.report.procurement.workbook.book import Book
from capplan.report.procurement.workbook.columns import formulas_of, write_options
from capplan.report.procurement.workbook.decision import write_appendix, write_decision, write_sheets
from capplan.report.render import grid_of
from capplan.report.sections import Section, Table


def render_report_xlsx(report: Report, serving: Sequence[Section] = ()) -> bytes:
    """Format the report as an XLSX workbook."""
    book, page = Book(report), procurement_page(report, serving)
    suffixes = [f" {index}" if len(report.models) > 1 else "" for index in range(1, len(report.models) + 1)]
    write_decision(book, report, page, suffixes)
    if any(model.planned is None for model in report.models):
        return _served(book, report, page, serving)
    names = defined_names(report)
    formulas = [formulas_of(report.of(model), model, named) for model, named in zip(report.models, names, strict=True)]
    write_assumptions(book, report, names, formulas)
    for model, suffix, named, rows in zip(report.models, suffixes, names, formulas, strict=True):
        write_options(book, report.of(model), model, suffix, rows)
        write_cash(book, report.of(model), model, suffix, named)
    write_appendix(book, report, page)
    return book.finish()


def _served(book: Book, report: Report, page: Page, serving: Sequence[Section]) -> bytes:
    """Add the tables of a served model as they stand; its fleets follow from a search, which no formula repeats."""
    for model in report.models:
        book.list_sheet("Options", option_table(report, model))
        for title, _, content in money_tables(report, model):
            book.list_sheet(title, content)
    for section in serving:
        tables = [block for block in section.blocks if isinstance(block, Table)]
        for table in tables:
            book.list_sheet(table.caption or section.title, grid_of(table))
    book.list_sheet("Assumptions", assumption_table(report))
    write_sheets(book, page)
    return book.finish()
