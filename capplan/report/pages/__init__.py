"""Write reports as files of their own: HTML, PDF, workbook, Markdown."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from capplan.errors import UsageError
from capplan.report.pages.blocks import Page

_WRITERS = {
    ".html": ("html", "page_html"),
    ".md": ("markdown", "page_markdown"),
    ".pdf": ("pdf", "page_pdf"),
}
"""Module and function by extension; a module is imported, with its library, only when it is asked for."""


def page_file(page: Page, extension: str) -> str | bytes:
    """Return a report as text, or as bytes for .pdf and .xlsx."""
    module, name = _WRITERS[extension]
    return with_library(extension, lambda: getattr(import_module(f"{__name__}.{module}"), name)(page))


def with_library(extension: str, write: Callable[[], Any]) -> str | bytes:
    """Return what a writer returns, whose module imports the library of its format."""
    try:
        content: str | bytes = write()
    except ModuleNotFoundError as error:
        raise UsageError(f"{extension} needs {error.name}; install it with pip install 'capplan[report]'.") from error
    return content
