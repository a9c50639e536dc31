"""A chart of the report: its drawing, the words around it and the figures behind it."""

from dataclasses import dataclass

from capplan.report.charts.look import Drawing
from capplan.report.narrow import Grid


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
