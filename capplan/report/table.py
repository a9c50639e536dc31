"""A table of text, rendered as aligned text, GitHub Markdown or CSV."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from capplan.printable import printable_line


class Align(StrEnum):
    """Where a column's cells stand; numbers stand right."""

    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column's heading and alignment."""

    title: str
    align: Align = Align.LEFT


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Headings and rows of text, ready to be rendered."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]


def table(titles: str, rows: Sequence[Sequence[str]]) -> Table:
    """Make a table from headings parted by `|`; a heading that ends in `>` is right-aligned."""
    columns = tuple(
        Column(title=title.strip().removesuffix(">"), align=Align.RIGHT if title.strip().endswith(">") else Align.LEFT)
        for title in titles.split("|")
    )
    return Table(columns=columns, rows=tuple(tuple(map(printable_line, row)) for row in rows))


def render_text(content: Table) -> str:
    """Align the columns with blanks; nothing is cut however long a cell is."""
    titles = tuple(column.title for column in content.columns)
    lines = [titles, *content.rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(titles))]

    def spell(line: Sequence[str]) -> str:
        cells = (
            cell.rjust(width) if column.align is Align.RIGHT else cell.ljust(width)
            for cell, width, column in zip(line, widths, content.columns, strict=True)
        )
        return "  ".join(cells).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([spell(titles), rule, *map(spell, content.rows)]) + "\n"


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
