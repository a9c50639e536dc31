"""Small charts as SVG text: scatter plots and curves on logarithmic axes, drawn by hand."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 720, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 24, 40, 56
_COLOURS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points to draw: as dots, as a line, or as both, with an optional band (low, high) around it."""

    label: str
    points: Sequence[tuple[float, float]]
    is_line: bool = True
    has_dots: bool = True
    band: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One logarithmic axis: its title and range."""

    title: str
    low: float
    high: float

    def place(self, value: float, start: float, length: float) -> float:
        """Where a value lies on a stretch of pixels."""
        span = math.log(self.high / self.low) or 1.0
        return start + length * math.log(max(value, self.low) / self.low) / span

    def ticks(self) -> list[float]:
        """Powers of ten within, or of two where the axis spans less than two decades."""
        base = 10.0 if self.high / self.low >= 100 else 2.0
        first, last = math.ceil(math.log(self.low, base) - 1e-9), math.floor(math.log(self.high, base) + 1e-9)
        return [base**power for power in range(first, last + 1)]


def chart_svg(series: Sequence[Series], *, title: str, x_title: str, y_title: str, diagonal: bool = False) -> str:
    """Draw series on two logarithmic axes; `diagonal` adds the line of equality."""
    xs = [x for one in series for x, _ in one.points]
    ys = [y for one in series for _, y in one.points] + [v for one in series for pair in one.band for v in pair]
    if diagonal:
        xs = ys = [*xs, *ys]
    x_axis = Axis(title=x_title, low=min(xs, default=1.0) / 1.1, high=max(xs, default=10.0) * 1.1)
    y_axis = Axis(title=y_title, low=min(ys, default=1.0) / 1.1, high=max(ys, default=10.0) * 1.1)
    parts = [*_frame(title, x_axis, y_axis)]
    if diagonal:
        parts.append(_polyline([(x_axis.low, x_axis.low), (x_axis.high, x_axis.high)], x_axis, y_axis, "#9ca3af"))
    for index, one in enumerate(series):
        parts += _series(one, _COLOURS[index % len(_COLOURS)], index, x_axis, y_axis)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif">'
    return "\n".join([head, f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>', *parts, "</svg>"]) + "\n"


def _frame(title: str, x_axis: Axis, y_axis: Axis) -> list[str]:
    inner_width, inner_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    parts = [
        f'<text x="{_LEFT}" y="24" font-size="16">{escape(title)}</text>',
        f'<rect x="{_LEFT}" y="{_TOP}" width="{inner_width}" height="{inner_height}" fill="none" stroke="#9ca3af"/>',
        f'<text x="{_LEFT + inner_width / 2}" y="{_HEIGHT - 12}" font-size="13" text-anchor="middle">'
        f"{escape(x_axis.title)}</text>",
        f'<text transform="translate(18 {_TOP + inner_height / 2}) rotate(-90)" font-size="13" text-anchor="middle">'
        f"{escape(y_axis.title)}</text>",
    ]
    for tick in x_axis.ticks():
        x = x_axis.place(tick, _LEFT, inner_width)
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - 36}" font-size="11" text-anchor="middle">{tick:g}</text>')
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="#e5e7eb"/>')
    for tick in y_axis.ticks():
        y = _HEIGHT - y_axis.place(tick, _BOTTOM, inner_height)
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" font-size="11" text-anchor="end">{tick:g}</text>')
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e5e7eb"/>')
    return parts


def _series(one: Series, colour: str, index: int, x_axis: Axis, y_axis: Axis) -> list[str]:
    parts = []
    if one.band:
        outline = [(x, low) for (x, _), (low, _) in zip(one.points, one.band, strict=True)]
        outline += [(x, high) for (x, _), (_, high) in reversed(list(zip(one.points, one.band, strict=True)))]
        parts.append(
            f'<polygon points="{_pixels(outline, x_axis, y_axis)}" fill="{colour}" fill-opacity="0.15" stroke="none"/>'
        )
    if one.is_line:
        parts.append(_polyline(one.points, x_axis, y_axis, colour))
    parts += [
        f'<circle cx="{pixel.split(",")[0]}" cy="{pixel.split(",")[1]}" r="2.5" fill="{colour}" fill-opacity="0.6"/>'
        for pixel in _pixels(one.points if one.has_dots else (), x_axis, y_axis).split()
    ]
    y = _TOP + 18 + 16 * index
    parts.append(f'<text x="{_LEFT + 10}" y="{y}" font-size="12" fill="{colour}">{escape(one.label)}</text>')
    return parts


def _polyline(points: Sequence[tuple[float, float]], x_axis: Axis, y_axis: Axis, colour: str) -> str:
    return f'<polyline points="{_pixels(points, x_axis, y_axis)}" fill="none" stroke="{colour}" stroke-width="1.5"/>'


def _pixels(points: Sequence[tuple[float, float]], x_axis: Axis, y_axis: Axis) -> str:
    inner_width, inner_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    return " ".join(
        f"{x_axis.place(x, _LEFT, inner_width):.1f},{_HEIGHT - y_axis.place(y, _BOTTOM, inner_height):.1f}"
        for x, y in points
    )
