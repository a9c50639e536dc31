"""Text with a meaning for colour: lines of spans, which the command line colours and everything else joins."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from html import escape

from capplan.printable import printable_line
from capplan.report.table import Align


class Style(StrEnum):
    """What a span stands for."""

    PLAIN = "plain"
    HEADING = "heading"
    CHOSEN = "chosen"
    UNSURE = "unsure"
    FAILED = "failed"
    ASIDE = "aside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A piece of a line in one style."""

    text: str
    style: Style = Style.PLAIN


Line = tuple[Span, ...]


def line(*pieces: "str | Span") -> Line:
    """Make a line of plain texts and spans; what a terminal would obey or break at is escaped."""
    spans = (each if isinstance(each, Span) else Span(text=each) for each in pieces)
    return tuple(Span(text=printable_line(each.text), style=each.style) for each in spans)


def plain_text(lines: Iterable[Line]) -> str:
    """Join lines without their styles."""
    return "".join(f"{_text(each).rstrip()}\n" for each in lines)


_HTML_STYLES = {
    Style.PLAIN: "",
    Style.HEADING: "font-weight:bold",
    Style.CHOSEN: "font-weight:bold;color:#1a7f37",
    Style.UNSURE: "color:#9a6700",
    Style.FAILED: "color:#cf222e",
    Style.ASIDE: "opacity:.7",
}


def html_text(lines: Iterable[Line]) -> str:
    """Write lines as preformatted HTML, as notebooks show it."""
    body = "\n".join("".join(map(_html_span, each)) for each in lines)
    return f'<pre style="line-height:1.25">{body}</pre>'


def _html_span(span: Span) -> str:
    text = escape(span.text)
    return f'<span style="{_HTML_STYLES[span.style]}">{text}</span>' if _HTML_STYLES[span.style] else text


def cut_line(content: Line, width: int) -> Line:
    """Return a line of at most `width` characters; what is cut off ends in an ellipsis."""
    if len(_text(content)) <= width:
        return content
    kept: list[Span] = []
    room = width - 1
    for span in content:
        kept.append(Span(text=span.text[:room], style=span.style))
        room -= len(span.text)
        if room <= 0:
            break
    kept[-1] = Span(text=f"{kept[-1].text.rstrip()}…", style=kept[-1].style)
    return tuple(kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class StyledColumn:
    """A column of a narrow table; those of the lowest `rank` are the last to be left out."""

    title: str
    cells: tuple[Span, ...]
    align: Align = Align.RIGHT
    rank: int = 0

    @property
    def width(self) -> int:
        """Return the characters that the widest cell takes."""
        return max(len(self.title), *(len(cell.text) for cell in self.cells))


def styled_table(columns: Sequence[StyledColumn], *, width: int) -> list[Line]:
    """Align columns under their titles; columns of the highest rank are left out until the table fits the width."""
    kept = list(columns)
    while sum(column.width + 2 for column in kept) - 2 > width and len(kept) > 1:
        kept.remove(max(kept, key=lambda column: column.rank))
    titles = [Span(text=column.title, style=Style.HEADING) for column in kept]
    rows = [titles, *([column.cells[row] for column in kept] for row in range(len(kept[0].cells)))]
    return [_row(cells, kept) for cells in rows]


def _row(cells: Sequence[Span], columns: Sequence[StyledColumn]) -> Line:
    padded = [
        Span(
            text=cell.text.rjust(column.width) if column.align is Align.RIGHT else cell.text.ljust(column.width),
            style=cell.style,
        )
        for cell, column in zip(cells, columns, strict=True)
    ]
    pieces = [padded[0]]
    for cell in padded[1:]:
        pieces += [Span(text="  "), cell]
    return line(*pieces)


def _text(content: Line) -> str:
    return "".join(span.text for span in content)
