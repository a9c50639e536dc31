"""What reports that stand for themselves hold beside sentences and tables: key figures, charts, live parts.

A report is one list of sections, from which every file is made. A section or block that a file leaves out says so
itself (`on`), and a table says how many of its rows a file shows (`most`), so that no writer decides either.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from capplan.report.charts.look import Drawing
from capplan.report.narrow import Grid
from capplan.report.sections import Block, KeyFigure, Medium, PageBlock, Section

PAPER_POINTS = 7.2
"""Size of a table's type in a PDF. [points]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridTable(PageBlock):
    """A table of text.

    Attributes:
        content: Columns and rows.
        caption: What an HTML page says above it.
        is_stacked: True if each row becomes a card in a narrow window.
        most: How many rows a file shows; all where it is not named.
        counts_rest: True if Markdown says how many rows it leaves out.
        widths: Widths of the columns in a PDF, as Typst takes them, the last for all further ones; by their content
            where there are none.
        points: Size of the type in a PDF. [points]
    """

    content: Grid
    caption: str = ""
    is_stacked: bool = False
    most: Mapping[Medium, int] = field(default_factory=dict)
    counts_rest: bool = False
    widths: tuple[str, ...] = ()
    points: float = PAPER_POINTS

    def shown_on(self, medium: Medium) -> Grid:
        """Return the columns and rows that a file shows."""
        return Grid(columns=self.content.columns, rows=self.content.rows[: self.most.get(medium)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Cards(PageBlock):
    """The figures that decide."""

    figures: Sequence[KeyFigure]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A drawing with a heading, a sentence on how to read it, a description, and its figures.

    `follows` is True if a page draws it anew when settings change.
    """

    identity: str
    title: str
    description: str
    caption: str
    drawing: Drawing
    data: Grid
    follows: bool = False


Drawn = Callable[[], Sequence[Chart]]
"""Makes charts where a file shows them: the package that draws is optional, and slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charts(PageBlock):
    """Charts, one in half the width or two beside each other.

    Attributes:
        charts: Makes the charts.
        look: Name of their style in a page.
        share: Width of a drawing in a PDF as a share of its place.
    """

    charts: Drawn
    look: str = ""
    share: str = "86%"


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide(PageBlock):
    """Two lists of blocks that stand beside each other where there is room."""

    left: Sequence[Block]
    right: Sequence[Block]
    widths: tuple[str, str] = ("1fr", "1fr")


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded(PageBlock):
    """What an HTML page opens on demand; with a `key` it travels compressed until then.

    Attributes:
        summary: What stands in its place.
        blocks: What it holds.
        heading: Heading on paper, where all is open; none where only a screen has it.
        key: Name among what travels compressed.
    """

    summary: str
    blocks: Sequence[Block]
    heading: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePart(PageBlock):
    """A part of an HTML page that its script changes; `markup` makes safe HTML, with every name escaped."""

    markup: Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningLine(PageBlock):
    """Lines on which the decision is signed on paper, with the budget that is stated."""

    budget: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What a page's script computes with: figures, by the section that has them, markup kept aside, and the script."""

    figures: Mapping[str, Any]
    kept: Mapping[str, str]
    script: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A report that stands for itself, of which `capplan.report.pages` makes a file of any format.

    Attributes:
        title: What it is about.
        created: The day it was made.
        sections: What it holds.
        lead: What stands below the title.
        close: What stands at its end.
        timestamp: When it was made, in seconds since 1970 (UTC).
        look: Names of its styles.
        is_landscape: True if all sheets of a PDF are wider than high.
        live: Makes what its script computes with, after its parts; None for a page without script.
    """

    title: str
    created: str
    sections: Sequence[Section]
    lead: Sequence[Block] = ()
    close: Sequence[Block] = ()
    timestamp: int = 0
    look: str = ""
    is_landscape: bool = False
    live: Callable[[], Live] | None = None
