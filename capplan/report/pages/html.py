"""A report as one HTML file: no network, no script, readable on paper and in the dark."""

from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from capplan.report.render import grid_of
from capplan.report.sections import Bars, Block, Lines, Listing, Page, Picture, text_of


def page_html(page: Page) -> str:
    """Return a report as a page."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    folder = resources.files("capplan.report.pages") / "templates"
    template = environment.from_string((folder / "page.html.j2").read_text(encoding="utf-8"))
    return template.render(
        page=page,
        css=Markup((folder / "page.css").read_text(encoding="utf-8")),
        sections=[
            {"key": section.key, "title": section.title, "blocks": [_block(block) for block in section.blocks]}
            for section in page.sections
        ],
    )


def _block(block: Block) -> dict[str, Any]:
    """Return what the template needs of a block."""
    if isinstance(block, Lines):
        return {"kind": "lines", "lines": [text_of(text) for text in block.texts]}
    if isinstance(block, Listing):
        return {"kind": "listing", "text": block.text}
    if isinstance(block, Picture):
        return {"kind": "picture", "svg": Markup(block.svg), "shows": block.shows}
    if isinstance(block, Bars):
        return {"kind": "bars", "bars": block.bars, "names": [part.name for part in block.bars[0].parts]}
    return {"kind": "table", "caption": block.caption, "grid": grid_of(block)}
