"""A table of text with headings from one string; being replaced by `capplan.report.sections.Table`."""

from collections.abc import Sequence

from capplan.printable import printable_line
from capplan.report.narrow import Grid as Table
from capplan.report.narrow import Heading
from capplan.report.render import csv_text, escape_markdown, markdown_grid
from capplan.report.sections import Align

__all__ = ["Align", "Heading", "Table", "escape_markdown", "render_csv", "render_markdown", "table"]

render_markdown = markdown_grid


def table(titles: str, rows: Sequence[Sequence[str]]) -> Table:
    """Make a table from headings parted by `|`: `cost>` is right-aligned, each `?` before it raises its rank."""
    columns = tuple(_column(title.strip()) for title in titles.split("|"))
    return Table(columns=columns, rows=tuple(tuple(map(printable_line, row)) for row in rows))


def _column(title: str) -> Heading:
    return Heading(
        title=title.lstrip("?").removesuffix(">"),
        align=Align.RIGHT if title.endswith(">") else Align.LEFT,
        rank=len(title) - len(title.lstrip("?")),
    )


def render_csv(content: Table) -> str:
    """Write comma-separated values; text that a spreadsheet would run as a formula is defused."""
    return csv_text([heading.title for heading in content.columns], content.rows)
