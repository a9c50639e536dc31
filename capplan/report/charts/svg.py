"""Small SVG charts: scales, axes and marks. Colours are classes, so that a page or a document sets them.

Every text goes through `text`, which escapes it; marks carry their tooltip in `data-tip`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from capplan.report.table import Table

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 16, 48
CHART_TOP = TOP + 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Maps values to pixels, linearly or by their logarithm."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of a value, kept within the plot."""
        clipped = min(max(value, self.low), self.high)
        if self.is_log:
            share = math.log(clipped / self.low) / math.log(self.high / self.low)
        else:
            share = (clipped - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values to label."""
        return log_ticks(self.low, self.high) if self.is_log else linear_ticks(self.low, self.high)


def linear_ticks(low: float, high: float, *, about: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten between two values."""
    raw = (high - low) / about
    power = 10 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between two values, with their halves or more where these are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 3), (1, 2, 5)):
        ticks = [factor * 10.0**power for power in powers for factor in factors]
        held = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
        if len(held) >= 4:
            return held
    return held


def linear_scale(values: Sequence[float], *, start: float, end: float, from_zero: bool = True) -> Scale:
    """A scale that holds some values with a margin."""
    low, high = min(values), max(values)
    low = 0.0 if from_zero and low >= 0 else low
    margin = 0.05 * ((high - low) or abs(high) or 1.0)
    return Scale(low=low if low == 0 else low - margin, high=high + margin, start=start, end=end)


def log_scale(values: Sequence[float], *, start: float, end: float) -> Scale:
    """A logarithmic scale that holds some positive values with a margin."""
    low, high = min(values), max(values)
    factor = max(1.15, (high / low) ** 0.04)
    return Scale(low=low / factor, high=high * factor, start=start, end=end, is_log=True)


def number(value: float) -> str:
    """Write a pixel."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "label") -> str:
    """Write words; they are escaped."""
    return f'<text class="{kind}" x="{number(x)}" y="{number(y)}" text-anchor="{anchor}">{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, *, kind: str) -> str:
    """Draw a straight line."""
    return f'<line class="{kind}" x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"/>'


def rectangle(x: float, y: float, width: float, height: float, *, kind: str, tip: str = "") -> str:
    """Draw a bar."""
    return (
        f'<rect class="{kind}" x="{number(x)}" y="{number(y)}" width="{number(max(0.0, width))}" '
        f'height="{number(max(0.0, height))}"{_tip(tip)}/>'
    )


def circle(x: float, y: float, radius: float, *, kind: str, tip: str = "") -> str:
    """Draw a point."""
    return f'<circle class="{kind}" cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"{_tip(tip)}/>'


SHAPES = ("circle", "square", "triangle", "diamond", "cross", "plus")


def marker(x: float, y: float, series: int, *, kind: str, tip: str = "", size: float = 4.5) -> str:
    """Draw a point whose shape identifies its series without colour."""
    shape, a = SHAPES[series % len(SHAPES)], size
    if shape == "circle":
        return circle(x, y, a, kind=kind, tip=tip)
    paths = {
        "square": f"M{-a} {-a}h{2 * a}v{2 * a}h{-2 * a}z",
        "triangle": f"M0 {-1.2 * a}L{1.1 * a} {a}L{-1.1 * a} {a}z",
        "diamond": f"M0 {-1.3 * a}L{1.3 * a} 0L0 {1.3 * a}L{-1.3 * a} 0z",
        "cross": f"M{-a} {-a}L{a} {a}M{-a} {a}L{a} {-a}",
        "plus": f"M0 {-1.2 * a}V{1.2 * a}M{-1.2 * a} 0H{1.2 * a}",
    }
    strokes = " stroked" if shape in ("cross", "plus") else ""
    return (
        f'<path class="{kind}{strokes}" transform="translate({number(x)} {number(y)})" d="{paths[shape]}"{_tip(tip)}/>'
    )


def path(points: Sequence[tuple[float, float]], *, kind: str, is_closed: bool = False) -> str:
    """Draw a line through points, or the area inside them."""
    steps = "L".join(f"{number(x)} {number(y)}" for x, y in points)
    return f'<path class="{kind}" d="M{steps}{"z" if is_closed else ""}"/>'


def _tip(tip: str) -> str:
    return f' data-tip="{escape(tip, quote=True)}"' if tip else ""


def x_axis(
    scale: Scale, *, bottom: float, label: str, spell: Callable[[float], str], ticks: Sequence[float] = ()
) -> str:
    """Draw an axis below the plot with its ticks, round values unless given, and title."""
    parts = [line(scale.start, bottom, scale.end, bottom, kind="axis")]
    for tick in ticks or scale.ticks():
        parts += [
            line(scale(tick), bottom, scale(tick), bottom + 4, kind="axis"),
            text(scale(tick), bottom + 17, spell(tick), anchor="middle"),
        ]
    parts.append(text((scale.start + scale.end) / 2, bottom + 38, label, anchor="middle", kind="title"))
    return "".join(parts)


def y_axis(scale: Scale, *, left: float, right: float, label: str, spell: Callable[[float], str]) -> str:
    """Draw a grid with an axis at its left; its title lies above the plot."""
    parts = []
    for tick in scale.ticks():
        parts += [
            line(left, scale(tick), right, scale(tick), kind="grid"),
            text(left - 7, scale(tick) + 4, spell(tick), anchor="end"),
        ]
    parts.append(text(4, scale.end - 10, label, kind="title"))
    return "".join(parts)


def legend(names: Sequence[str], *, y: float, left: float = LEFT, width: float = WIDTH - LEFT - RIGHT) -> str:
    """Name the series with their colours and shapes, in two columns."""
    parts = []
    for index, name in enumerate(names):
        x, line_y = left + (index % 2) * width / 2, y + (index // 2) * 18
        parts += [
            marker(x + 6, line_y - 4, index, kind=f"s{index + 1}"),
            text(x + 18, line_y, name if len(name) <= 42 else f"{name[:41]}…"),
        ]
    return "".join(parts)


def svg(body: str, *, identity: str, title: str, description: str, height: float = HEIGHT, width: float = WIDTH) -> str:
    """Wrap marks as an image with a title and a description for those who do not see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {number(width)} {number(height)}" '
        f'role="img" aria-labelledby="{identity}-t {identity}-d"><title id="{identity}-t">{escape(title)}</title>'
        f'<desc id="{identity}-d">{escape(description)}</desc>{body}</svg>'
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture with a heading, a sentence on how to read it, and its figures."""

    identity: str
    title: str
    description: str
    caption: str
    picture: str
    data: Table


def make_chart(
    body: Sequence[str],
    *,
    identity: str,
    title: str,
    description: str,
    caption: str,
    data: Table,
    height: float = HEIGHT,
) -> Chart:
    """Make a chart from its marks."""
    picture = svg("".join(body), identity=identity, title=title, description=description, height=height)
    return Chart(identity=identity, title=title, description=description, caption=caption, picture=picture, data=data)
