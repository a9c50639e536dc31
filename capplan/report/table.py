"""A table of text, rendered as aligned text, GitHub Markdown or CSV."""

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from capplan.printable import printable_line
from capplan.report.columns import Align, Column, Table
from capplan.report.narrow import narrow_tables, text_width

__all__ = ["Align", "Column", "Table", "escape_markdown", "render_csv", "render_markdown", "render_text", "table"]


def table(titles: str, rows: Sequence[Sequence[str]]) -> Table:
    """Make a table from headings parted by `|`: `cost>` is right-aligned, each `?` before it raises its rank."""
    columns = tuple(_column(title.strip()) for title in titles.split("|"))
    return Table(columns=columns, rows=tuple(tuple(map(printable_line, row)) for row in rows))


def _column(title: str) -> Column:
    return Column(
        title=title.lstrip("?").removesuffix(">"),
        align=Align.RIGHT if title.endswith(">") else Align.LEFT,
        rank=len(title) - len(title.lstrip("?")),
    )


def render_text(content: Table) -> str:
    """Align the columns with blanks; a cell of several lines makes its row as high.

    Nothing is cut. Where the text is for a terminal, the table is made to fit it (see `capplan.report.narrow`).
    """
    width = text_width.get()
    if width is None:
        return _aligned(content)
    blocks, left_out = narrow_tables(content, width)
    note = f"Left out for want of room: {', '.join(left_out)}.\n" if left_out else ""
    return "\n".join(_aligned(block.content, gap=block.gap) for block in blocks) + note


def _aligned(content: Table, *, gap: int = 2) -> str:
    rows = [
        [cell.split("\n") for cell in row] for row in (tuple(each.title for each in content.columns), *content.rows)
    ]
    widths = [max(len(line) for row in rows for line in row[index]) for index in range(len(content.columns))]
    between = " " * gap
    head, *body = ["\n".join(_row_lines(row, widths, content.columns, between)) for row in rows]
    rule = between.join("-" * width for width in widths)
    return "\n".join([head, rule, *body]) + "\n"


def _row_lines(
    row: Sequence[Sequence[str]], widths: Sequence[int], columns: Sequence[Column], between: str
) -> Iterator[str]:
    """Yield the lines of a row; cells of fewer lines than others are filled up with blanks."""
    for cells in zip_longest(*row, fillvalue=""):
        padded = (
            cell.rjust(width) if column.align is Align.RIGHT else cell.ljust(width)
            for cell, width, column in zip(cells, widths, columns, strict=True)
        )
        yield between.join(padded).rstrip()


def render_markdown(content: Table) -> str:
    """Write a GitHub-flavoured Markdown table; cells are text, never markup."""
    heads = "| " + " | ".join(escape_markdown(column.title) for column in content.columns) + " |"
    rules = "|" + "|".join(" ---: " if column.align is Align.RIGHT else " --- " for column in content.columns) + "|"
    rows = ["| " + " | ".join(map(escape_markdown, row)) + " |" for row in content.rows]
    return "\n".join([heads, rules, *rows]) + "\n"


def render_csv(content: Table) -> str:
    """Write comma-separated values; text that a spreadsheet would run as a formula is defused."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([column.title for column in content.columns])
    writer.writerows([[_csv_cell(cell) for cell in row] for row in content.rows])
    return buffer.getvalue()


def _csv_cell(cell: str) -> str:
    return f"'{cell}" if cell[:1] in ("=", "+", "-", "@", "\t", "\r", "\n") and not _is_number(cell) else cell


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


_MARKDOWN_ESCAPES = str.maketrans(
    {character: f"\\{character}" for character in "\\|`*_[]"}
    | {"<": "&lt;", ">": "&gt;", "&": "&amp;", "\n": " ", "\r": " "}
)


def escape_markdown(cell: str) -> str:
    """Make a text stand for itself in Markdown, in a table's cell too."""
    return cell.translate(_MARKDOWN_ESCAPES)
