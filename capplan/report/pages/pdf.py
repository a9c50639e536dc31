"""A report as a PDF by Typst: its figures travel as data, so that nothing in a name can become markup."""

import json
from importlib import resources
from typing import Any

import typst

from capplan.report.render import grid_of
from capplan.report.sections import Lines, Listing, Page, Picture, Table, text_of
from capplan.shapes.codec import to_plain


def page_pdf(page: Page) -> bytes:
    """Return a report as a PDF; the same report gives the same bytes."""
    pictures: dict[str, bytes] = {}
    sections = []
    for section in page.sections:
        blocks: list[dict[str, Any]] = []
        for index, block in enumerate(section.blocks):
            if isinstance(block, Lines):
                blocks.append({"kind": "lines", "lines": [text_of(text) for text in block.texts]})
            elif isinstance(block, Picture):
                name = f"{section.key}-{index}.svg"
                pictures[name] = block.svg.encode()
                blocks.append({"kind": "picture", "file": name, "alt": block.shows})
            elif isinstance(block, Table):
                blocks.append({"kind": "table", "caption": block.caption, "content": to_plain(grid_of(block))})
            elif isinstance(block, Listing):
                blocks.append({"kind": "listing", "text": block.text})
        sections.append({"title": section.title, "blocks": blocks})
    data = {
        "title": page.title,
        "day": page.created,
        "cards": [to_plain(card) for card in page.cards],
        "sections": sections,
    }
    template = resources.files("capplan.report.pages") / "templates" / "page.typ"
    files = {"main.typ": template.read_bytes(), "data.json": json.dumps(data).encode(), **pictures}
    # The stubs of typst 0.15 leave out that the input may be a mapping of files.
    options: Any = {"format": "pdf", "timestamp": 0, "ignore_system_fonts": True}
    source: Any = files
    return bytes(typst.compile(source, **options))
