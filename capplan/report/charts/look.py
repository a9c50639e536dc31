"""Settings that all charts share: colours by quantity, fonts, and axes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from capplan.printable import printable_fields

if TYPE_CHECKING:
    import altair as alt

PALETTE = ("#1f6fc4", "#c2500a", "#138058", "#8f55b8", "#b5384c", "#6f7d1f", "#0f8a99", "#8a6d3b")
"""Colours of series, in this order; legible on white and on dark."""
MUTED = "#8a929c"
PART_COLOURS = {
    "weights": PALETTE[0], "activations": PALETTE[1], "CUDA context": PALETTE[2], "library workspaces": PALETTE[3],
    "fragmentation": PALETTE[4], "inputs": PALETTE[5], "gradients": PALETTE[6], "optimizer states": PALETTE[7],
}  # fmt: skip
"""Colours of the parts of memory, the same in every report; parts without one share `MUTED`."""
LIMIT = "#c8102e"
"""Colour of a limit that must be kept, in every chart."""
FONT = "Helvetica Neue, Arial, Liberation Sans, sans-serif"
WIDTH, HEIGHT = 560, 320

NUMBER = ",~r"
"""How axes write plain figures: thousands parted, no exponent."""
SHORT = "~s"
"""How axes write large figures: 12k, 3M."""
SHORT_LABEL = "format(datum.value, '~s')"
"""The same for each label by itself: Vega writes one prefix on all, so that zero would be 0k."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A chart as a Vega-Lite specification, from which every format is made."""

    title: str
    spec: Mapping[str, Any]


def data(rows: Sequence[Mapping[str, Any]], name: str) -> "alt.InlineData":
    """Return rows as a named data set, so that a page can replace them."""
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    return alt.InlineData(values=list(rows), name=name)


def drawing(chart: Any, *, title: str = "", subtitle: str = "", height: int = HEIGHT) -> Drawing:
    """Apply the common look to a chart.

    Args:
        height: Height of the plot. [pixels]
    """
    sized = chart.properties(width=WIDTH, height=height)
    if title:
        sized = sized.properties(title={"text": title, "subtitle": subtitle} if subtitle else title)
    # the charts are fixed and tested: checking every specification against its schema takes a tenth of a report's time
    spec = sized.configure(**_SETTINGS).to_dict(validate=False)
    return Drawing(title=title, spec=printable_fields(spec))


def log_ticks(values: Sequence[float]) -> list[float]:
    """Return round values for a logarithmic axis: powers of ten, with more between where these are few."""
    low, high = min(values) / 1.001, max(values) * 1.001
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    held: list[float] = []
    for factors in ((1,), (1, 3), (1, 2, 5)):
        held = [tick for power in powers for factor in factors if low <= (tick := factor * 10.0**power) <= high]
        if len(held) >= _FEW_TICKS:
            break
    if len(held) < 2:  # one tick says nothing of the scale
        held = [tick for power in powers for factor in range(1, 10) if low <= (tick := factor * 10.0**power) <= high]
    return held or [min(values)]


def few_ticks(values: Sequence[float]) -> tuple[float, ...]:
    """Return every so many of sorted values, so that at most eight ticks stand on an axis."""
    return tuple(values[:: max(1, -(-len(values) // _MOST_TICKS))])


def legend(labels: Sequence[str]) -> "alt.Legend":
    """Return a legend with as many columns as leave room for its labels on a narrow page."""
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    longest = max(map(len, labels), default=0)
    return alt.Legend(columns=3 if longest <= _SHORT_LABEL else 2 if longest <= _MIDDLE_LABEL else 1)


def two_lines() -> "alt.Axis":
    """Return an axis of names, each parted by a bar (|) into two lines, which leaves room on a narrow page."""
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    return alt.Axis(labelExpr="split(datum.label, '|')", labelLimit=_NAMES, ticks=False, domain=False)


def spread(heights: Sequence[float], *, least: float) -> list[float]:
    """Move labels apart on a logarithmic axis, so that neighbours differ by a factor at least; their order is kept."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    placed = list(heights)
    for below, here in pairwise(order):
        placed[here] = max(placed[here], placed[below] * least)
    return placed


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """A point of two logarithmic axes with the label that stands beside it; an empty one is not shown."""

    x: float
    y: float
    label: str


def apart(
    points: Sequence[Labelled],
    *,
    wide: tuple[float, float],
    high: tuple[float, float],
    wall: float | None = None,
    steps: Sequence[tuple[float, float]] = (),
) -> list[tuple[float, bool] | None]:
    """Place labels beside their points, so that none covers another label or point; earlier ones choose first.

    Returns:
        For each point the height of its label, as a value of the y axis, and whether it stands left of the point; None
        where there is no room for it.
    """
    dots = [(_share(point.x, wide), _share(point.y, high)) for point in points]
    taken: list[tuple[float, float, float, float]] = []
    placed: list[tuple[float, bool] | None] = []
    wall_at = None if wall is None else _share(wall, wide)
    corners = [(_share(x, wide), _share(y, high)) for x, y in steps]
    lines = [
        edge
        for (left, top), (right, bottom) in pairwise(corners)
        for edge in ((left, top, right, top), (right, bottom, right, top))
    ]
    for labelled, (across, up) in zip(points, dots, strict=True):
        length = len(labelled.label) * _LETTER / WIDTH
        best: tuple[int, int, bool, tuple[float, float, float, float]] | None = None
        for step, is_left in _PLACES if labelled.label else ():
            left = across - (_GAP / WIDTH + length if is_left else -_GAP / WIDTH)
            box = (left, up + step * _LINE / HEIGHT, left + length, up + (step + 1) * _LINE / HEIGHT)
            crosses = wall_at is not None and box[0] < wall_at < box[2]
            if box[0] < 0 or box[2] > 1 or crosses or any(_meet(box, other) for other in taken):
                continue
            covered = 2 * sum(box[0] < u < box[2] and box[1] < v + _LINE / HEIGHT / 2 < box[3] for u, v in dots)
            drawn = (box[0], box[1] - _LINE / HEIGHT / 2, box[2], box[3] - _LINE / HEIGHT / 2)
            covered += any(_meet(drawn, line) for line in lines)
            if best is None or covered < best[0]:
                best = (covered, step, is_left, box)
        if best is None:
            placed.append(None)
            continue
        _, step, is_left, box = best
        taken.append(box)
        placed.append((labelled.y * (high[1] / high[0]) ** (step * _LINE / HEIGHT), is_left))
    return placed


def _share(value: float, ends: tuple[float, float]) -> float:
    return math.log(value / ends[0]) / math.log(ends[1] / ends[0])


def _meet(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


_PLACES = tuple((step, is_left) for step in (0, 1, -1, 2, -2, 3, -3) for is_left in (False, True))
_LETTER, _LINE, _GAP = 7.0, 15.0, 8.0
"""Width of a letter, height of a line, and distance of a label from its point. [pixels]"""
_FEW_TICKS, _MOST_TICKS = 4, 8
_NAMES = 190
"""Room for names beside an axis. [pixels]"""
_SHORT_LABEL, _MIDDLE_LABEL = 11, 18
_TEXT = {"labelFont": FONT, "titleFont": FONT, "labelColor": "#3d444d", "titleColor": "#3d444d", "labelFontSize": 12}
_SETTINGS: dict[str, Any] = {
    "background": "#ffffff",
    "padding": {"left": 5, "top": 5, "right": 18, "bottom": 5},
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        **_TEXT, "titleFontSize": 12, "titleFontWeight": "normal", "gridColor": "#d5d9df", "domainColor": MUTED,
        "tickColor": MUTED, "labelOverlap": "greedy", "labelFlush": False, "labelSeparation": 6,
        "titlePadding": 8,
    },
    "axisX": {"grid": False},
    "axisY": {"domain": False, "ticks": False},
    "legend": {**_TEXT, "titleFontSize": 12, "orient": "bottom", "columns": 3, "labelLimit": 260, "columnPadding": 28},
    "title": {
        "font": FONT, "subtitleFont": FONT, "anchor": "start", "fontSize": 15, "fontWeight": 600,
        "subtitleFontSize": 12, "subtitleColor": "#525a65", "offset": 12,
    },
    "text": {"font": FONT, "fontSize": 12},
    "range": {"category": list(PALETTE)},
    "autosize": {"type": "pad"},
}  # fmt: skip
