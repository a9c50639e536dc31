"""The sheets behind the decision: estimates, facts of the models, offers left out, prices and specifications."""

from collections.abc import Sequence

from capplan.report.documents.plan import PlannedFit
from capplan.report.narrow import Grid
from capplan.report.procurement import figures
from capplan.report.procurement.money_tables import offers_table
from capplan.report.procurement.tables import facts_table, price_table, refusal_table, spec_table
from capplan.report.procurement.types import ModelReport, Report
from capplan.report.procurement.workbook.book import Book
from capplan.report.procurement.workbook.looks import LINE_POINTS, heading_height

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


def _name_of(model: ModelReport) -> str:
    return f"{model.service}: {model.plan.model.name}" if model.service else model.plan.model.name


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
    for row, (model, each) in enumerate(rows, start=1):
        values = {"service": _name_of(model), **_estimate(each)}
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
            sheet.write_string(row, 0, _name_of(model), book.looks.bold)
            row += 1
        row = book.table(sheet, facts_table(model.plan), row, _MODEL_WIDTHS)
        row = book.table(sheet, refusal_table(model), row + 1, _MODEL_WIDTHS) + 2


def _offers(models: Sequence[ModelReport]) -> Grid | None:
    """Return the offers that no option of any model rests on, each once with its reason."""
    found = [content for model in models if (content := offers_table(model))]
    if not found:
        return None
    return Grid(columns=found[0].columns, rows=tuple(dict.fromkeys(row for content in found for row in content.rows)))
