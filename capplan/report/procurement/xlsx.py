"""The report as a workbook whose money is worked out by formulas over a sheet of assumptions.

Every formula carries the value that this program computed, so that viewers which do not recalculate show it too.
Text is written as text: nothing in a name can become a formula or a link. On paper each list takes one page; the
decision takes as many as it needs.
"""

from capplan.report.procurement.contents import procurement_page
from capplan.report.procurement.types import Report
from capplan.report.procurement.workbook.assumptions import defined_names, write_assumptions, write_cash
from capplan.report.procurement.workbook.book import Book
from capplan.report.procurement.workbook.columns import formulas_of, write_options
from capplan.report.procurement.workbook.decision import write_appendix, write_decision


def render_report_xlsx(report: Report) -> bytes:
    """Format the report as an XLSX workbook."""
    book, names, page = Book(report), defined_names(report), procurement_page(report)
    suffixes = [f" {index}" if len(report.models) > 1 else "" for index in range(1, len(report.models) + 1)]
    write_decision(book, report, page, suffixes)
    formulas = [formulas_of(report.of(model), model, named) for model, named in zip(report.models, names, strict=True)]
    write_assumptions(book, report, names, formulas)
    for model, suffix, named, rows in zip(report.models, suffixes, names, formulas, strict=True):
        write_options(book, report.of(model), model, suffix, rows)
        write_cash(book, report.of(model), model, suffix, named)
    write_appendix(book, report, page)
    return book.finish()
