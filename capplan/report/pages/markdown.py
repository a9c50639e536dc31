"""A report as Markdown, short enough for a pull request, without its charts; names are text, never markup."""

from collections.abc import Iterable, Iterator

from capplan.report.pages.blocks import Cards, GridTable, Page, SideBySide
from capplan.report.render import escape_markdown, grid_of, markdown_grid
from capplan.report.sections import Block, LineRole, Lines, Listing, Medium, Section, Table, text_of

_BOLD = (LineRole.TITLE, LineRole.VERDICT, LineRole.PART_VERDICT, LineRole.WARNING)
_LISTED = (LineRole.ITEM, LineRole.NOTE, LineRole.LIST)
_DEEPEST = 3


def page_markdown(page: Page) -> str:
    """Return a report as Markdown."""
    pieces = _pieces([*page.lead, *page.sections, *page.close], level=2)
    return "\n\n".join([f"# {escape_markdown(page.title)}", *pieces]) + "\n"


def _pieces(blocks: Iterable[Block], *, level: int) -> Iterator[str]:
    """Yield what is set apart by empty lines."""
    for block in blocks:
        if Medium.MD not in getattr(block, "on", (Medium.MD,)):
            continue
        if isinstance(block, Section):
            if block.title and Medium.MD in block.titled_on:
                yield f"{'#' * level} {escape_markdown(block.title)}"
            yield from _pieces(block.blocks, level=min(level + 1, _DEEPEST))
        elif isinstance(block, Lines):
            yield from _lines(block)
        elif isinstance(block, GridTable):
            shown = block.shown_on(Medium.MD)
            yield markdown_grid(shown).rstrip("\n")
            if block.counts_rest and len(shown.rows) < len(block.content.rows):
                rest = len(block.content.rows) - len(shown.rows)
                yield f"{rest} more rows are in the other formats of this report."
        elif isinstance(block, Table):
            yield from [f"**{escape_markdown(block.caption)}**"] if block.caption else []
            yield markdown_grid(grid_of(block)).rstrip("\n")
        elif isinstance(block, Cards) and block.figures:
            figures = (f"{card.label}: {card.figure} ({card.note})" for card in block.figures)
            yield "\n".join(f"- {escape_markdown(figure)}" for figure in figures)
        elif isinstance(block, SideBySide):
            yield from _pieces([*block.left, *block.right], level=level)
        elif isinstance(block, Listing):
            yield f"```\n{block.text.rstrip()}\n```"


def _lines(lines: Lines) -> Iterator[str]:
    texts = [escape_markdown(text_of(text)) for text in lines.texts]
    if lines.role in _BOLD:
        yield from (f"**{text}**" for text in texts)
    elif lines.role in _LISTED:
        yield from ["\n".join(f"- {text}" for text in texts)] if texts else []
    else:
        yield from texts
