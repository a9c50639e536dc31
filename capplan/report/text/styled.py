"""Lines with styles: laid out in a narrow terminal, in colour there, as HTML in notebooks, and plain elsewhere."""

import re
from collections.abc import Iterable, Iterator
from html import escape
from itertools import groupby

from capplan.printable import printable_line
from capplan.report.sections import Align, AnyTable, Line, Lines, Section, Span, Style, Table, line, text_of


def styled_lines(sections: Iterable[Section], *, width: int) -> list[Line]:
    """Lay sections out in lines of at most `width` characters; tables give columns up for it, and lines are cut."""
    found: list[Line] = []
    for section in sections:
        for block in section.blocks:
            if found and isinstance(block, Lines | Table) and not block.is_attached:
                found.append(())
            if isinstance(block, Lines):
                found += [line(text) if isinstance(text, str) else text for text in block.texts]
            elif isinstance(block, Table):
                found += styled_table(block, width=width)
    return [cut_line(content, width) for content in found]


def plain_text(lines: Iterable[Line]) -> str:
    """Join lines without their styles."""
    return "".join(f"{text_of(content).rstrip()}\n" for content in lines)


_HTML_STYLES = {
    Style.PLAIN: "",
    Style.HEADING: "font-weight:bold",
    Style.CHOSEN: "font-weight:bold;color:#1a7f37",
    Style.UNSURE: "color:#9a6700",
    Style.FAILED: "color:#cf222e",
    Style.ASIDE: "opacity:.7",
    Style.CODE: "font-family:monospace",
}


def html_text(lines: Iterable[Line]) -> str:
    """Write lines as preformatted HTML, as notebooks show it."""
    body = "\n".join("".join(map(_html_span, content)) for content in lines)
    return f'<pre style="line-height:1.25">{body}</pre>'


def _html_span(span: Span) -> str:
    text = escape(span.text)
    return f'<span style="{_HTML_STYLES[span.style]}">{text}</span>' if _HTML_STYLES[span.style] else text


def cut_line(content: Line, width: int) -> Line:
    """Return a line of at most `width` characters; what is cut off ends in an ellipsis."""
    if len(text_of(content)) <= width:
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


def fold_line(content: Line, width: int, *, indent: int) -> list[Line]:
    """Return a line as lines of at most `width` characters, broken at blanks; later ones are indented.

    Nothing is cut off, since a line can end in a caution.
    """
    if len(text_of(content)) <= width:
        return [content]
    lines: list[list[Span]] = [[]]
    used = 0
    for span in content:
        for piece in re.findall(r" *[^ ]+| +$", span.text):
            text = piece
            if used + len(piece) > width and used > indent:
                lines.append([Span(text=" " * indent)])
                used, text = indent, piece.lstrip()
            lines[-1].append(Span(text=text, style=span.style))
            used += len(text)
    return [tuple(_joined(spans)) for spans in lines]


def _joined(spans: Iterable[Span]) -> Iterator[Span]:
    """Join neighbouring spans of one style."""
    for style, alike in groupby(spans, key=lambda span: span.style):
        yield Span(text="".join(span.text for span in alike), style=style)


def styled_table(table: AnyTable, *, width: int) -> list[Line]:
    """Align columns under their titles; columns of the highest rank are left out until the table fits the width.

    Of columns of one rank the first goes first, but where all that is left has none, the last: the first column of all
    says what a row is about, and stays.
    """
    kept = [
        (column, [column.title, *(printable_line(column.cell(row)) for row in table.rows)])
        for column in table.columns
        if column.title is not None
    ]
    while sum(max(map(len, cells)) + 2 for _, cells in kept) - 2 > width and len(kept) > 1:
        ranked = max(kept[1:], key=lambda item: item[0].rank)
        kept.remove(ranked if ranked[0].rank else kept[-1])
    lines = []
    for index, row in enumerate((None, *table.rows)):
        pieces: list[str | Span] = []
        for column, cells in kept:
            room = max(map(len, cells))
            text = cells[index].rjust(room) if column.align is Align.RIGHT else cells[index].ljust(room)
            style = Style.HEADING if row is None else column.style(row) if column.style else Style.PLAIN
            pieces += [*(["  "] if pieces else []), Span(text=text, style=style)]
        lines.append(line(*pieces))
    return lines
