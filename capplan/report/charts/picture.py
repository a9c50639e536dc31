"""A chart as a picture file: the SVG itself, a page that holds it, or pixels."""

from html import escape
from typing import Any

SUFFIXES = (".svg", ".png", ".html")
_PIXELS_PER_INCH = 144.0


def picture(svg: str, *, suffix: str, title: str) -> bytes:
    """Format a chart for a file's extension, one of `SUFFIXES`.

    Raises:
        ImportError: pixels were asked for and typst is missing.
    """
    if suffix == ".png":
        return _pixels(svg)
    if suffix == ".html":
        return f"<!doctype html><meta charset=utf-8><title>{escape(title)}</title>{svg}".encode()
    return svg.encode()


def _pixels(svg: str) -> bytes:
    """Let typst, which makes the report's PDF, draw the chart; the same chart gives the same bytes."""
    import typst  # noqa: PLC0415 - an optional package, wanted for pixels alone

    page = b'#set page(width: auto, height: auto, margin: 0pt)\n#image("chart.svg", width: 720pt)'
    files: Any = {"main.typ": page, "chart.svg": svg.encode()}  # typst's stubs leave out a mapping of files
    made = typst.compile(files, format="png", ppi=_PIXELS_PER_INCH, ignore_system_fonts=True)
    return bytes(made)
