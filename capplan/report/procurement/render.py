"""Write a report in the format that a file's extension names."""

import json
from importlib import import_module
from typing import Any

from capplan.llm.core.fleet.money import ServingReport
from capplan.report.pages import page_file, with_library
from capplan.report.procurement.types import Report
from capplan.report.text.llm.report import serving_sections

_DATA = {
    ".xlsx": ("xlsx", "render_report_xlsx"),
    ".csv": ("csv", "render_report_csv"),
    ".json": ("json", "report_to_json"),
}
"""Module and function by extension; a module is imported, with its library, only when it is asked for."""


def render_report(
    report: Report, extension: str, *, everything: bool = True, served: ServingReport | None = None
) -> str | bytes:
    """Return a report as text, or as bytes for .pdf and .xlsx.

    Args:
        report: The report.
        extension: The format.
        served: What only the report of a served language model has.
        everything: False if a document has the leading options alone; pages and tables have all in any case.
    """
    serving = () if served is None else serving_sections(served)
    if extension not in _DATA:
        return with_library(
            extension, lambda: page_file(_of("contents", "procurement_page")(report, serving), extension)
        )
    if extension == ".json" and not everything:
        report = _of("json", "leading")(report)
    given = {".xlsx": (report, serving), ".json": (report, served)}.get(extension, (report,))
    content: Any = with_library(extension, lambda: _of(*_DATA[extension])(*given))
    if extension == ".json":
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    written: str | bytes = content
    return written


def _of(module: str, name: str) -> Any:
    return getattr(import_module(f"capplan.report.procurement.{module}"), name)
