"""Write sections in the formats of text: aligned for a terminal, GitHub Markdown, CSV."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from capplan.printable import printable_line
from capplan.report.narrow import Grid, Heading, narrow_grids, wrapped_lines
from capplan.report.sections import (
    Align,
    AnyTable,
    Block,
    Column,
    Format,
    LineRole,
    Lines,
    Listing,
    Row,
    Section,
    Table,
    text_of,
)
from capplan.wording import as_options


def render(sections: Iterable[Section], format_: Format, *, width: int | None = None) -> str:
    """Write sections as text.

    Args:
        width: The room of a terminal, to which TABLE is fitted; None leaves lines whole. [characters]
    """
    if format_ is Format.CSV:
        return csv_text(*_data(sections))
    if format_ is Format.MD:
        pieces = [piece for section in sections for piece in _markdown_pieces(section)]
        return "\n\n".join(pieces) + "\n"
    if format_ is Format.TABLE:
        return _plain(sections, width)
    raise ValueError(f"sections are not written as {format_}")


def records(sections: Iterable[Section]) -> dict[str, list[object]]:
    """Return the values of all rows in base units by the name of their column; None is unknown."""
    names, rows = _data(sections)
    return {name: [row[index] for row in rows] for index, name in enumerate(names)}


def grid_of(table: AnyTable, *, most: int | None = None) -> Grid:
    """Return what a table shows to people, of at most so many rows."""
    shown = [column for column in table.columns if column.title is not None]
    return Grid(
        columns=tuple(Heading(title=column.title or "", align=column.align, rank=column.rank) for column in shown),
        rows=tuple(
            tuple(printable_line(as_options(column.cell(row))) for column in shown) for row in table.rows[:most]
        ),
    )


def grid(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> Grid:
    """Return what rows show to people in these columns."""
    return grid_of(Table(columns, rows))


def _data(sections: Iterable[Section]) -> tuple[list[str], list[list[object]]]:
    """Return the names of all columns for programs, and the rows; those of further tables are matched by name."""
    tables = [block for section in sections for block in section.blocks if isinstance(block, Table)]
    names: list[str] = []
    rows: list[list[object]] = []
    for table in tables:
        columns = [column for column in table.columns if column.name is not None]
        if not columns:
            continue
        values = [[column.value(row) for column in columns] for row in table.rows]
        found = [column.name or "" for column in columns]
        if not names:
            names, rows = found, values
            continue
        names += [name for name in found if name not in names]
        places = {name: index for index, name in enumerate(found)}
        rows += [[row[places[name]] if name in places else None for name in names] for row in values]
    return names, [[*row, *[None] * (len(names) - len(row))] for row in rows]


def csv_text(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write comma-separated values; text that a spreadsheet would run as a formula is defused."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([[_csv_cell(value) for value in row] for row in rows])
    return buffer.getvalue()


def _csv_cell(value: object) -> str:
    if value is None:
        return ""
    cell = repr(value) if isinstance(value, float) else printable_line(str(value))
    return cell if _is_number(cell) else defused(cell)


def defused(cell: str) -> str:
    """Lead a text that a spreadsheet would run as a formula by an apostrophe (OWASP, CSV injection)."""
    first = unicodedata.normalize(
        "NFKC", cell.lstrip(" ")[:1] or cell[:1]
    )  # a full-width sign is read as the plain one
    return f"'{cell}" if first.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) else cell


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _plain(sections: Iterable[Section], width: int | None) -> str:
    """Join the blocks of all sections with an empty line between two that are not attached."""
    lines: list[str] = []
    for section in sections:
        pieces = [(section.title, False)] if section.title else []
        for block in section.blocks:
            if text := _plain_block(block, width):
                pieces.append((text, isinstance(block, Lines | Table) and block.is_attached))
        for text, is_attached in pieces:
            lines += [text] if is_attached or not lines else ["", text]
    return "".join(f"{line}\n" for line in lines)


def _plain_block(block: Block, width: int | None) -> str:
    """Return a block as text, its sentences folded to a width; what is meant to be copied never is."""
    if isinstance(block, Lines):
        if block.only not in (None, Format.TABLE):
            return ""
        mark = {LineRole.NOTE: "  · ", LineRole.LIST: "- "}.get(block.role, "")
        text = "\n".join(f"{mark}{text_of(text)}" for text in block.texts)
        return text if width is None else wrapped_lines(text, width).removesuffix("\n")
    if isinstance(block, Listing):
        return block.text.rstrip("\n")
    if not isinstance(block, Table) or block.only not in (None, Format.TABLE):
        return ""
    grid = grid_of(block, most=block.most)
    return plain_grid(grid, width=width).rstrip("\n") if grid.columns else ""


def plain_grid(grid: Grid, *, width: int | None = None) -> str:
    """Align columns with blanks; a cell of several lines makes its row as high.

    Nothing is cut. Where there is a width, the table is fitted to it (see `capplan.report.narrow`).
    """
    if width is None:
        return _aligned(grid)
    blocks, left_out = narrow_grids(grid, width)
    note = wrapped_lines(f"Left out for want of room: {', '.join(left_out)}.", width) if left_out else ""
    return "\n".join(_aligned(block, gap=gap) for block, gap in blocks) + note


def _aligned(grid: Grid, *, gap: int = 2) -> str:
    rows = [[cell.split("\n") for cell in row] for row in (tuple(column.title for column in grid.columns), *grid.rows)]
    widths = [max(len(line) for row in rows for line in row[index]) for index in range(len(grid.columns))]
    between = " " * gap
    head, *body = ["\n".join(_row_lines(row, widths, grid.columns, between)) for row in rows]
    rule = between.join("-" * width for width in widths)
    return "\n".join([head, rule, *body]) + "\n"


def _row_lines(
    row: Sequence[Sequence[str]], widths: Sequence[int], columns: Sequence[Heading], between: str
) -> Iterator[str]:
    """Yield the lines of a row; cells of fewer lines than others are filled up with blanks."""
    for cells in zip_longest(*row, fillvalue=""):
        padded = (
            cell.rjust(width) if heading.align is Align.RIGHT else cell.ljust(width)
            for cell, width, heading in zip(cells, widths, columns, strict=True)
        )
        yield between.join(padded).rstrip()


def _markdown_pieces(section: Section) -> list[str]:
    """Return a section's heading and blocks as GitHub-flavoured Markdown, to be set apart by empty lines."""
    pieces = [f"### {section.title}"] if section.title else []
    for block in section.blocks:
        if isinstance(block, Lines):
            pieces += _markdown_lines(block)
        elif isinstance(block, Listing):
            pieces.append(f"```\n{block.text.rstrip()}\n```")
        elif isinstance(block, Table) and block.only in (None, Format.MD):
            grid = grid_of(block)
            if grid.columns:
                pieces += [f"**{escape_markdown(block.caption)}**"] if block.caption else []
                pieces.append(markdown_grid(grid).rstrip("\n"))
    return pieces


def _markdown_lines(block: Lines) -> list[str]:
    if block.only not in (None, Format.MD) or not block.texts:
        return []
    # an answer's lines stay as they are but for tags and links: a model may be called <script> or [x](javascript:y)
    texts = [_LINK.sub(r"\\]", text_of(text).replace("<", "&lt;")) for text in block.texts]
    if block.role is LineRole.TITLE:
        return [f"**{text}**" for text in texts]
    if block.role is LineRole.PLAIN:
        return ["  \n".join(texts)]
    return ["\n".join(f"- {text}" for text in texts)]


def markdown_grid(grid: Grid) -> str:
    """Write a GitHub-flavoured Markdown table; cells are text, never markup."""
    heads = "| " + " | ".join(escape_markdown(heading.title) for heading in grid.columns) + " |"
    rules = "|" + "|".join(" ---: " if heading.align is Align.RIGHT else " --- " for heading in grid.columns) + "|"
    rows = ["| " + " | ".join(map(_markdown_cell, row)) + " |" for row in grid.rows]
    return "\n".join([heads, rules, *rows]) + "\n"


def _markdown_cell(cell: str) -> str:
    """Escape a cell; a level of its indentation is marked by a dot, because Markdown drops leading blanks."""
    text = cell.lstrip(" ")
    return "· " * ((len(cell) - len(text)) // 2) + escape_markdown(text)


_LINK = re.compile(r"\](?=[(\[:])")
"""What ends the text of a link in Markdown."""
_MARKDOWN_ESCAPES = str.maketrans(
    {character: f"\\{character}" for character in "\\|`*_[]"}
    | {"<": "&lt;", ">": "&gt;", "&": "&amp;", "\n": " ", "\r": " "}
)


def escape_markdown(cell: str) -> str:
    """Make a text stand for itself in Markdown, in a table's cell too."""
    return cell.translate(_MARKDOWN_ESCAPES)
