"""The text of what is written into files: pages, workbooks, PDFs, tables of Parquet."""

import io
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import openpyxl
import pyarrow.parquet as pq

BLOCKS = frozenset(
    {
        *("title", "h1", "h2", "h3", "h4", "p", "pre", "li", "dt", "dd", "tr", "td", "th", "caption", "br", "div"),
        *("section", "article", "figcaption", "summary", "details", "nav", "header", "footer", "main", "a", "text"),
        *("form", "fieldset", "legend", "label", "button", "option"),
    }
)
"""Elements that begin a line."""


class _Text(HTMLParser):
    """Collects what a reader sees of a page, a line for each block."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._unseen = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style"):
            self._unseen += 1
        self.pieces.append("\n" if tag in BLOCKS else "")
        found = dict(attrs)
        for name in ("placeholder", "value", "title", "name", "href", "alt", "aria-label"):
            if found.get(name) and not str(found[name]).startswith("data:"):
                self.pieces.append(f" [{name} {found[name]}] ")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._unseen -= 1
        self.pieces.append("\n" if tag in BLOCKS else "")

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.pieces.append(re.sub(r"\s+", " ", data))


def html_text(page: str) -> str:
    """Return what a reader sees of a page, with what its fields are called and hold and where its links lead."""
    reader = _Text()
    reader.feed(page)
    lines = (re.sub(r"\s+", " ", line).strip() for line in "".join(reader.pieces).splitlines())
    return "".join(f"{line}\n" for line in lines if line)


def workbook_text(content: bytes) -> str:
    """Return each cell of a workbook on a line: its formula, and its value."""
    formulas, values = (openpyxl.load_workbook(io.BytesIO(content), data_only=kept) for kept in (False, True))
    lines = []
    for sheet in formulas:
        lines.append(f"sheet {sheet.title}")
        for row in sheet.iter_rows():
            for cell in row:
                if cell.value is not None:
                    shown = values[sheet.title][cell.coordinate].value
                    lines.append(f"{cell.coordinate}: {cell.value}" + (f" -> {shown}" if shown != cell.value else ""))
    return "".join(f"{line}\n" for line in lines)


def pdf_text(path: Path) -> str:
    """Return the text of a PDF by its pages, as pdftotext reads it."""
    done = subprocess.run(["pdftotext", str(path), "-"], capture_output=True, check=True, text=True)
    pages = done.stdout.split("\f")
    lines = (line for number, page in enumerate(pages, 1) for line in (f"page {number}", *page.splitlines()))
    return "".join(f"{line.rstrip()}\n" for line in lines if line.strip())


def parquet_columns(path: Path) -> str:
    """Return the columns of a Parquet file: name, type and description."""
    schema = pq.read_schema(path)
    lines = [
        f"{field.name}: {field.type} {' '.join(text.decode() for text in (field.metadata or {}).values())}".rstrip()
        for field in schema
    ]
    return "".join(f"{line}\n" for line in lines)
