"""Write the report on LLM serving in the format that a file's extension names."""

from importlib import import_module
from typing import Any

from capplan.errors import UsageError
from capplan.llm.core.fleet.serving_report import ServingReport

_RENDERERS = {
    ".html": ("html", "serving_html"),
    ".pdf": ("pdf", "serving_pdf"),
    ".xlsx": ("xlsx", "serving_xlsx"),
    ".md": ("markdown", "serving_markdown"),
    ".csv": ("markdown", "serving_csv"),
    ".json": ("json", "serving_json"),
}
"""Module and function by extension; a module is imported, with its library, only when it is asked for."""


def render_serving(report: ServingReport, extension: str) -> str | bytes:
    """Return the report as text, or as bytes for .pdf and .xlsx.

    Args:
        report: What is written.
        extension: Such as ".html".

    Raises:
        UsageError: The library that this format needs is not installed.
    """
    module, name = _RENDERERS[extension]
    try:
        made: Any = getattr(import_module(f"capplan.report.serving.{module}"), name)(report)
    except ModuleNotFoundError as error:
        raise UsageError(f"{extension} needs {error.name}; install it with pip install 'capplan[report]'.") from error
    content: str | bytes = made
    return content
