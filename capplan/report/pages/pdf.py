"""A report as a PDF by Typst: its figures travel as data, so that nothing in a name can become markup."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import resources
from typing import Any

import typst

from capplan.report.charts.look import HEIGHT, Drawing
from capplan.report.charts.picture import vector
from capplan.report.pages.blocks import Cards, Chart, Charts, GridTable, Page, SideBySide, SigningLine
from capplan.report.render import grid_of
from capplan.report.sections import Block, Line, LineRole, Lines, Listing, Medium, Picture, Section, Style, Table
from capplan.shapes.codec import to_plain
from capplan.wording import as_options

_FAMILY = re.compile(r'font-family="[^"]*"')
_WIDTH, _SHRINK = 330, 0.54
"""Width of a chart [pixels], and what is left of its height."""


def page_pdf(page: Page) -> bytes:
    """Return a report as a tagged PDF; the same report gives the same bytes."""
    pictures: dict[str, bytes] = {}
    data = {
        "title": page.title,
        "day": page.created,
        "landscape": page.is_landscape,
        "lead": list(_blocks(page.lead, pictures)),
        "blocks": list(_blocks([*page.sections, *page.close], pictures)),
    }
    files = {
        "main.typ": (resources.files("capplan.report.pages") / "templates" / "page.typ").read_bytes(),
        "data.json": as_options(json.dumps(data, ensure_ascii=False)).encode(),
        **pictures,
    }
    # The stubs of typst 0.15 leave out that the input may be a mapping of files.
    options: Any = {
        "format": "pdf",
        "pdf_standards": "ua-1",
        "timestamp": page.timestamp,
        "ignore_system_fonts": True,
    }
    try:
        return bytes(typst.compile(files, **options))
    except typst.TypstError as error:
        if "could not be displayed" not in str(error):
            raise
        shown = {name: _displayable(content.decode()).encode() for name, content in files.items()}
        return bytes(typst.compile(shown, **options))


def _displayable(words: str) -> str:
    """Replace what the font may lack by a question mark: all beyond Latin, Greek, Cyrillic and common signs."""
    return "".join(
        character if ord(character) < 0x500 or 0x2010 <= ord(character) <= 0x2265 else "?" for character in words
    )


def _blocks(blocks: Iterable[Block], pictures: dict[str, bytes]) -> Iterator[dict[str, Any]]:
    """Yield what the template needs of each block that a PDF shows; their drawings go among the pictures."""
    for block in blocks:
        if Medium.PDF not in getattr(block, "on", (Medium.PDF,)):
            continue
        if isinstance(block, Section):
            is_titled = block.title and Medium.PDF in block.titled_on
            heading = [{"kind": "heading", "level": block.level, "text": block.title}] if is_titled else []
            starts = [{"kind": "pagebreak"}] if block.starts_sheet else []
            held: list[dict[str, Any]] = [*starts, *heading, *_blocks(block.blocks, pictures)]
            yield from [{"kind": "flipped", "blocks": held}] if block.is_flipped else held
        elif isinstance(block, Lines) and block.texts:
            items = block.role in (LineRole.ITEM, LineRole.NOTE, LineRole.LIST)
            role = LineRole.ITEM if items else block.role
            yield {"kind": "lines", "role": role.value, "lines": [_spans(text) for text in block.texts]}
        elif isinstance(block, GridTable):
            shown = to_plain(block.shown_on(Medium.PDF))
            widths = [*block.widths, *block.widths[-1:] * len(shown["columns"])][: len(shown["columns"])]
            yield {"kind": "table", "content": shown, "points": block.points, "widths": widths, "caption": ""}
        elif isinstance(block, Table):
            content = to_plain(grid_of(block))
            yield {"kind": "table", "content": content, "points": 6.8, "widths": [], "caption": block.caption}
        elif isinstance(block, Cards):
            yield {"kind": "cards", "cards": to_plain(list(block.figures))}
        elif isinstance(block, Charts):
            drawn = [_chart(chart, pictures) for chart in block.charts()]
            if drawn:
                yield {"kind": "charts", "charts": drawn, "share": block.share, "half": block.look == "half"}
        elif isinstance(block, SideBySide):
            sides = [list(_blocks(side, pictures)) for side in (block.left, block.right)]
            yield {"kind": "beside", "sides": sides, "widths": block.widths}
        elif isinstance(block, Picture):
            name = f"picture-{len(pictures)}.svg"
            pictures[name] = block.svg.encode()
            yield {"kind": "picture", "file": name, "alt": block.shows}
        elif isinstance(block, Listing):
            yield {"kind": "listing", "text": block.text}
        elif isinstance(block, SigningLine):
            yield {"kind": "signature", "budget": f"Budget: {block.budget}" if block.budget else "Budget"}


def _spans(text: str | Line) -> list[dict[str, Any]]:
    if isinstance(text, str):
        return [{"text": text, "code": False}]
    return [{"text": span.text, "code": span.style is Style.CODE} for span in text]


def _chart(chart: Chart, pictures: dict[str, bytes]) -> dict[str, Any]:
    """Draw a chart for paper among the pictures, and return what stands around it."""
    name = f"{chart.identity}.svg"
    pictures[name] = for_paper(vector(smaller(chart.drawing))).encode()
    return {"title": chart.title, "caption": chart.caption, "file": name, "alt": chart.description}


def smaller(drawing: Drawing) -> Drawing:
    """Return a chart that is drawn smaller, so that its type is legible in half the width of a page."""
    height = drawing.spec["height"]
    shrunk = {"width": _WIDTH, "height": round(_SHRINK * height) if height == HEIGHT else height}
    return replace(drawing, spec={**drawing.spec, **shrunk})


def for_paper(picture: str) -> str:
    """Set a chart in the document's font, because the program that sets it has no other."""
    return _FAMILY.sub('font-family="Libertinus Serif"', picture)
