"""Write a report in the format that a file's extension names."""

import json
from importlib import import_module

from capplan.report.pages import with_library
from capplan.report.procurement.types import Report

_RENDERERS = {
    ".html": ("html", "render_report_html"),
    ".pdf": ("pdf", "render_report_pdf"),
    ".xlsx": ("xlsx", "render_report_xlsx"),
    ".md": ("markdown", "render_report_markdown"),
    ".csv": ("csv", "render_report_csv"),
    ".json": ("json", "report_to_json"),
}
"""Module and function by extension; a module is imported, with its library, only when it is asked for."""

EXTENSIONS = tuple(_RENDERERS)


def render_report(report: Report, extension: str) -> str | bytes:
    """Return a report as text, or as bytes for .pdf and .xlsx.

    Args:
        report: what is written.
        extension: one of `EXTENSIONS`.

    Raises:
        UsageError: the library that this format needs is not installed.
    """
    module, name = _RENDERERS[extension]
    content = with_library(
        extension, lambda: getattr(import_module(f"capplan.report.procurement.{module}"), name)(report)
    )
    if extension == ".json":
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return content
