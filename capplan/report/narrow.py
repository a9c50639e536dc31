"""Fit tables and sentences to the width of a terminal, so that no line is broken in the middle of a row or word."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from capplan.report.sections import Align

_GAPS = (2, 1)
"""Blanks between two columns: usually, and where that makes a table fit. [characters]"""
_LEAST_FOLDED = 20
"""A folded column of text is at least this wide. [characters]"""
_LONG_TABLE = 30
"""Tables of more rows than this leave columns out; shorter ones continue in a second block. [rows]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """A heading with the alignment of the cells below; see `capplan.report.sections.Column`."""

    title: str
    align: Align = Align.LEFT
    rank: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Columns and rows of text: what a table shows to people."""

    columns: tuple[Heading, ...]
    rows: tuple[tuple[str, ...], ...]


def narrow_grids(content: Grid, width: int) -> tuple[list[tuple[Grid, int]], tuple[str, ...]]:
    """Divide a table into tables that fit a width, each with the first column of the whole.

    Texts are folded between words first, then headings, then columns stand one blank apart. Where that is not enough,
    columns that have a rank are left out, the highest rank first. What is left of a table of at most 30 rows goes on
    in further tables; a longer one loses its last columns.

    Args:
        width: the room there is. [characters]

    Returns:
        Each table, its cells folded with line breaks, and the blanks between its columns; the columns left out.
    """
    kept = list(range(len(content.columns)))
    shown = content
    while not _fits(shown, width) and len(kept) > 2:
        # the last of those of the highest rank; the first column of all is always needed
        _, index = max((column.rank, index) for index, column in enumerate(shown.columns) if index)
        if not shown.columns[index].rank and len(content.rows) <= _LONG_TABLE:
            break
        del kept[index]
        shown = _chosen(content, kept)
    left_out = tuple(column.title for index, column in enumerate(content.columns) if index not in kept)
    return [_folded(block, width) for block in _blocks(shown, width)], left_out


def wrapped_lines(text: str, width: int) -> str:
    """Break lines longer than a width between words; what follows a break is indented by two more blanks."""
    return "".join(f"{piece}\n" for line in text.splitlines() for piece in _wrapped(line, width))


def _wrapped(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )


def _chosen(content: Grid, indices: Sequence[int]) -> Grid:
    return Grid(
        columns=tuple(content.columns[index] for index in indices),
        rows=tuple(tuple(row[index] for index in indices) for row in content.rows),
    )


def _blocks(content: Grid, width: int) -> Iterator[Grid]:
    """Yield runs of columns that fit, each after the first column."""
    run = [0]
    for index in range(1, len(content.columns)):
        if len(run) > 1 and not _fits(_chosen(content, [*run, index]), width):
            yield _chosen(content, run)
            run = [0]
        run.append(index)
    yield _chosen(content, run)


def _fits(content: Grid, width: int) -> bool:
    return _total(_least_widths(content), _GAPS[-1]) <= width


def _total(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _cell_widths(content: Grid) -> list[int]:
    return [max((len(row[index]) for row in content.rows), default=0) for index in range(len(content.columns))]


def _least_widths(content: Grid) -> list[int]:
    """Return the width to which each column can be folded; the first column and numbers are kept whole."""
    return [
        max(
            _longest_word(column.title),
            cells if not index or column.align is Align.RIGHT else min(cells, _LEAST_FOLDED),
        )
        for index, (column, cells) in enumerate(zip(content.columns, _cell_widths(content), strict=True))
    ]


def _longest_word(title: str) -> int:
    return max((len(word) for word in title.split()), default=0)


def _folded(content: Grid, width: int) -> tuple[Grid, int]:
    """Fold the widest texts, then the headings, by no more than is needed."""
    least = _least_widths(content)
    gap = next((blanks for blanks in _GAPS if _total(least, blanks) <= width), _GAPS[-1])
    titled = [max(cell, len(column.title)) for cell, column in zip(_cell_widths(content), content.columns, strict=True)]
    return _folded_to(content, _shrunk(titled, least, width, gap)), gap


def _folded_to(content: Grid, widths: Sequence[int]) -> Grid:
    return Grid(
        columns=tuple(
            Heading(title=_fold(column.title, room), align=column.align)
            for column, room in zip(content.columns, widths, strict=True)
        ),
        rows=tuple(
            tuple(
                _fold(cell, room) if index else cell for index, (cell, room) in enumerate(zip(row, widths, strict=True))
            )
            for row in content.rows
        ),
    )


def _shrunk(widths: Sequence[int], least: Sequence[int], room: int, gap: int) -> list[int]:
    """Remove characters from the widest column that can give one until the whole fits."""
    found = list(widths)
    while _total(found, gap) > room:
        giving = [index for index in range(len(found)) if found[index] > least[index]]
        if not giving:
            break
        found[max(giving, key=lambda index: found[index])] -= 1
    return found


def _fold(text: str, width: int) -> str:
    return text if len(text) <= width else "\n".join(_Folding(width, break_on_hyphens=False).wrap(text))


class _Folding(textwrap.TextWrapper):
    """Break between words and after slashes, as in a list of regions."""

    wordsep_simple_re = re.compile(r"(\s+|(?<=/))")
