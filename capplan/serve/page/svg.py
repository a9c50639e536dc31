"""Charts as SVG without inline styles: curves with bands, points and stacked bars, coloured by a style sheet.

Reports draw with Altair and vl-convert. The page of the service does not: every change of a setting is answered by the
server, within 200 ms, with up to four charts. A chart of four curves over eleven batches took 81 ms to describe with
Altair and 61 ms to draw with vl-convert (CPU time, warm; a second more the first time, and 110 MiB in each worker
process). Drawing it here takes 0.3 ms.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH, HEIGHT = 640.0, 340.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 16.0, 30.0, 46.0
CHARACTER, LINE = 6.6, 14.0
"""Width of a character and height of a line of labels, as the style sheet sets them. [px]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One point: where it lies, between what, and what is shown where a pointer rests on it."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    tip: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Points of one name; `index` chooses the colour."""

    name: str
    index: int
    marks: Sequence[Mark]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A logarithmic axis: its title, its range, and how a value is written."""

    title: str
    low: float
    high: float
    spell: Callable[[float], str]

    def share(self, value: float) -> float:
        """Return where a value lies between both ends, from 0 to 1."""
        span = math.log(self.high / self.low)
        return math.log(min(max(value, self.low), self.high) / self.low) / span

    def ticks(self) -> list[float]:
        """Return round values to label: powers of ten, with 2 and 5 times these or more where there are few."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for factors in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)):
            ticks = [factor * 10.0**power for power in powers for factor in factors]
            held = [tick for tick in ticks if self.low <= tick <= self.high]
            if len(held) >= 3:
                break
        return held


def axis(title: str, values: Sequence[float], spell: Callable[[float], str]) -> Axis:
    """Return an axis that holds some positive values with a margin."""
    low, high = min(values), max(values)
    factor = max(1.25, (high / low) ** 0.05)
    return Axis(title=title, low=low / factor, high=high * factor, spell=spell)


def curves_svg(
    curves: Sequence[Curve], *, x: Axis, y: Axis, identity: str, title: str, has_lines: bool = True
) -> Markup:
    """Draw curves with their bands, or points with their whiskers.

    Args:
        curves: what is drawn, each in its colour.
        x: the axis below.
        y: the axis at the left.
        identity: the id of the picture, unlike any other of the page.
        title: what it shows, also for those who do not see it.
        has_lines: join the points and fill their bands; else draw each alone with a whisker.
    """
    drawn = [part for curve in curves for part in _curve(curve, x, y)] if has_lines else _points(curves, x, y)
    parts = [*_frame(x, y), *drawn]
    return _picture(parts, identity=identity, title=title, height=HEIGHT)


def _place(x: Axis, y: Axis, at: float, value: float) -> tuple[float, float]:
    return (
        LEFT + x.share(at) * (WIDTH - LEFT - RIGHT),
        HEIGHT - BOTTOM - y.share(value) * (HEIGHT - TOP - BOTTOM),
    )


def _frame(x: Axis, y: Axis) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = [f'<text class="title" x="4" y="16">{escape(y.title)}</text>']
    for tick in y.ticks():
        _, at = _place(x, y, x.low, tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text class="label end" x="{LEFT - 6}" y="{at + 4:.1f}">{escape(y.spell(tick))}</text>')
    for tick in x.ticks():
        at, _ = _place(x, y, tick, y.low)
        parts.append(f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{bottom}" y2="{bottom + 4}"/>')
        words = x.spell(tick)
        anchor = "end" if at + CHARACTER * len(words) / 2 > WIDTH else "middle"
        parts.append(f'<text class="label {anchor}" x="{at:.1f}" y="{bottom + 17}">{escape(words)}</text>')
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    middle = (LEFT + right) / 2
    return [*parts, f'<text class="title middle" x="{middle}" y="{bottom + 37}">{escape(x.title)}</text>']


def _curve(curve: Curve, x: Axis, y: Axis) -> list[str]:
    kind = f"s{curve.index + 1}"
    line = [_place(x, y, each.x, each.y) for each in curve.marks]
    low = [_place(x, y, each.x, each.low) for each in curve.marks if each.low is not None]
    high = [_place(x, y, each.x, each.high) for each in curve.marks if each.high is not None]
    parts = [f'<path class="band {kind}" d="{_path([*low, *reversed(high)])}z"/>'] if low and high else []
    parts.append(f'<path class="line {kind}" d="{_path(line)}"/>')
    return [
        *parts,
        *(_dot(point, mark.tip, kind, at=f"{mark.x:g}") for point, mark in zip(line, curve.marks, strict=True)),
    ]


def _points(curves: Sequence[Curve], x: Axis, y: Axis) -> list[str]:
    """Draw points with their names; a name that finds no free place is left to what is shown of its point."""
    parts = []
    at = [[_place(x, y, mark.x, mark.y) for mark in curve.marks] for curve in curves]
    taken = [(left - 5, top - 5, left + 5, top + 5) for points in at for left, top in points]
    for number, (curve, points) in enumerate(zip(curves, at, strict=True)):
        kind = f"s{curve.index + 1}"
        for mark, (left, top) in zip(curve.marks, points, strict=True):
            if mark.low is not None and mark.high is not None:
                (_, low), (_, high) = _place(x, y, mark.x, mark.low), _place(x, y, mark.x, mark.high)
                parts.append(
                    f'<line class="whisker {kind}" x1="{left:.1f}" x2="{left:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>'
                )
            parts.append(_dot((left, top), mark.tip, kind, at=str(number)))
        place = _free_place(curve.name, points[0], taken)
        if place is not None:
            taken.append(place)
            parts.append(f'<text class="label" x="{place[0]:.1f}" y="{place[3] - 3:.1f}">{escape(curve.name)}</text>')
    return parts


Box = tuple[float, float, float, float]
"""Left, top, right and bottom. [px]"""


def _free_place(words: str, point: tuple[float, float], taken: Sequence[Box]) -> Box | None:
    """Return a free place for words beside a point, or None if there is none."""
    width = CHARACTER * len(words)
    left, top = point
    for down in (-12.0, 0.0, -22.0, 10.0, -34.0, 22.0):
        for start in (left + 8, left - 8 - width):
            box = (start, top + down - LINE / 2 + 5, start + width, top + down + LINE / 2 + 5)
            is_inside = box[0] >= LEFT and box[2] <= WIDTH and box[1] >= TOP and box[3] <= HEIGHT - BOTTOM
            if is_inside and not any(
                box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3] for other in taken
            ):
                return box
    return None


def _dot(point: tuple[float, float], tip: str, kind: str, *, at: str) -> str:
    """Draw a point; the read-out of the page shows the points of one `at` together."""
    return (
        f'<circle class="{kind}" cx="{point[0]:.1f}" cy="{point[1]:.1f}" r="4" data-at="{escape(at)}">'
        f"<title>{escape(tip)}</title></circle>"
    )


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackedBar:
    """A stacked bar: its name, its parts with their texts, and the limits marked on it."""

    name: str
    parts: Sequence[tuple[int, float, str]]
    limit: float
    limit_tip: str
    note: str


def bars_svg(bars: Sequence[StackedBar], *, identity: str, title: str) -> Markup:
    """Draw stacked bars below each other, with the share of its limit that each takes as a thin bar below it.

    All bars have one scale, that of the largest, so that the parts of a bar are seen however small a share of the limit
    they are.

    Args:
        bars: what is drawn.
        identity: the id of the picture, unlike any other of the page.
        title: what it shows, also for those who do not see it.
    """
    row, left, right = 42.0, 150.0, 118.0
    inner = WIDTH - left - right
    largest = max((sum(size for _, size, _ in bar.parts) for bar in bars), default=0.0) or 1.0
    parts = []
    for index, bar in enumerate(bars):
        top = 8 + index * row
        parts.append(f'<text class="label end" x="{left - 8}" y="{top + 14}">{escape(_cut(bar.name, 21))}</text>')
        at, total = left, 0.0
        for colour, size, tip in bar.parts:
            width = max(1.0, size / largest * inner)
            parts.append(
                f'<rect class="s{colour + 1}" x="{at:.1f}" y="{top}" width="{width:.1f}" height="18" data-at="{index}">'
                f"<title>{escape(tip)}</title></rect>"
            )
            words = tip.rpartition(": ")[2]
            if CHARACTER * len(words) + 8 < width:
                parts.append(f'<text class="inside" x="{at + 4:.1f}" y="{top + 13}">{escape(words)}</text>')
            at, total = at + width, total + size
        share = min(1.0, total / bar.limit)
        parts.append(
            f'<rect class="room" x="{left}" y="{top + 22}" width="{inner}" height="6" data-at="{index}">'
            f"<title>{escape(bar.limit_tip)}</title></rect>"
            f'<rect class="taken" x="{left}" y="{top + 22}" width="{max(1.5, share * inner):.1f}" height="6"/>'
        )
        parts.append(f'<text class="label" x="{WIDTH - right + 8}" y="{top + 14}">{escape(bar.note)}</text>')
    return _picture(parts, identity=identity, title=title, height=16 + len(bars) * row)


def _cut(words: str, length: int) -> str:
    return words if len(words) <= length else f"{words[: length - 1]}…"


def _picture(parts: Sequence[str], *, identity: str, title: str, height: float) -> Markup:
    return Markup(
        f'<svg class="chart" viewBox="0 0 {WIDTH:g} {height:g}" role="img" tabindex="0" aria-labelledby="{identity}-t">'
        f'<title id="{identity}-t">{escape(title)}</title>{"".join(parts)}</svg>'
    )
