"""The page's charts as SVG without inline styles: curves with bands, points and stacked bars, and what they show."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.device import Unsupported
from capplan.core.latency.types import LatencyEstimate
from capplan.core.memory.fit import usable_memory
from capplan.core.numbers import Interval
from capplan.core.plan.planner import Prepared
from capplan.core.plan.types import Fit
from capplan.units import format_bytes, format_rate, format_seconds

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
    """Draw curves with their bands, or points with their whiskers."""
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
    line = [_place(x, y, mark.x, mark.y) for mark in curve.marks]
    low = [_place(x, y, mark.x, mark.low) for mark in curve.marks if mark.low is not None]
    high = [_place(x, y, mark.x, mark.high) for mark in curve.marks if mark.high is not None]
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
    """
    row, left, right = 42.0, 150.0, 118.0
    inner = WIDTH - left - right
    largest = max((sum(size for _, size, _ in bar.parts) for bar in bars), default=0.0) or 1.0
    parts = []
    for index, bar in enumerate(bars):
        top = 8 + index * row
        name = bar.name if len(bar.name) <= 21 else f"{bar.name[:20]}…"
        parts.append(f'<text class="label end" x="{left - 8}" y="{top + 14}">{escape(name)}</text>')
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


def _picture(parts: Sequence[str], *, identity: str, title: str, height: float) -> Markup:
    return Markup(
        f'<svg class="chart" viewBox="0 0 {WIDTH:g} {height:g}" role="img" tabindex="0" aria-labelledby="{identity}-t">'
        f'<title id="{identity}-t">{escape(title)}</title>{"".join(parts)}</svg>'
    )


LARGEST_CURVE_BATCH = 1024
MOST_CURVES = 4


def curve_batches(batch: int, *, exact_batch: int | None) -> list[int]:
    """Return the batches of a curve: powers of two, and the one asked for."""
    if exact_batch is not None:
        return [exact_batch]
    powers = {2**power for power in range(LARGEST_CURVE_BATCH.bit_length())}
    return sorted(powers | {batch})


def latency_curves(
    ready: Prepared, fits: Sequence[Fit], batches: Sequence[int]
) -> list[tuple[GpuSpec, tuple[LatencyEstimate, ...]]]:
    """Return the latencies over batches of the first GPUs, each as far as its memory goes."""
    gpus = [fit.gpu for fit in fits[:MOST_CURVES]]
    largest = {fit.gpu.id: fit.max_batch for fit in fits}
    answers = ready.latencies(gpus, batches)
    return [
        (gpu, tuple(row for row in answer if row.batch <= largest[gpu.id]))
        for gpu, answer in zip(gpus, answers, strict=True)
        if not isinstance(answer, Unsupported)
    ]


def latency_chart(curves: Sequence[tuple[str, Sequence[LatencyEstimate]]], identity: str) -> Markup:
    """Draw latency over batches with its intervals, one curve for each name."""
    points = [(name, [(row.batch, row.latency_s) for row in rows]) for name, rows in curves]
    return _over_batches(points, identity=identity, what="Latency of a batch", spell=format_seconds)


def throughput_chart(curves: Sequence[tuple[str, Sequence[LatencyEstimate]]], identity: str) -> Markup:
    """Draw throughput over batches with its intervals, one curve for each name."""
    points = [(name, [(row.batch, row.throughput_per_s) for row in rows]) for name, rows in curves]
    return _over_batches(points, identity=identity, what="Samples per second", spell=format_rate)


def _over_batches(
    curves: Sequence[tuple[str, Sequence[tuple[int, Interval]]]],
    *,
    identity: str,
    what: str,
    spell: Callable[[float], str],
) -> Markup:
    drawn = [
        (
            name,
            [
                interval_mark(
                    batch,
                    interval,
                    tip=f"{name}, batch {batch:,}: {spell(interval.expected)} "
                    f"({spell(interval.low)} to {spell(interval.high)})",
                )
                for batch, interval in points
            ],
        )
        for name, points in curves
    ]
    title = f"{what} over the batch, with intervals at 90 %"
    return intervals_svg(drawn, x="batch", y=what, spell=spell, identity=identity, title=title)


def interval_mark(x: float, interval: Interval, *, tip: str) -> Mark:
    """Return the point of an estimate, between the ends of its interval."""
    return Mark(x=x, y=interval.expected, low=interval.low, high=interval.high, tip=tip)


def intervals_svg(
    curves: Sequence[tuple[str, Sequence[Mark]]],
    *,
    x: str,
    y: str,
    spell: Callable[[float], str],
    identity: str,
    title: str,
) -> Markup:
    """Draw curves and their bands, one colour a curve; without a point the drawing is empty."""
    marks = [mark for _, points in curves for mark in points]
    if not marks:
        return Markup("")
    values = [value for mark in marks for value in (mark.low or mark.y, mark.high or mark.y)]
    return curves_svg(
        [Curve(name=name, index=index, marks=points) for index, (name, points) in enumerate(curves)],
        x=axis(x, [mark.x for mark in marks], lambda value: f"{value:,.0f}"),
        y=axis(y, values, spell),
        identity=identity,
        title=title,
    )


def cost_chart(models: Sequence[tuple[str, Sequence[Fit]]], identity: str) -> Markup:
    """Draw cost against latency, one point for each GPU with a price, in one colour for each model."""
    priced = [
        (index, name, fit, cost)
        for index, (name, fits) in enumerate(models)
        for fit in fits
        if (cost := fit.usd_per_million_samples) is not None
    ]
    if len(priced) < 2:
        return Markup("")
    curves = [
        Curve(name=fit.gpu.id, index=index, marks=[_cost_mark(name, fit, cost)]) for index, name, fit, cost in priced
    ]
    return curves_svg(
        curves,
        x=axis("latency of a batch", [fit.latency.latency_s.expected for _, _, fit, _ in priced], format_seconds),
        y=axis("USD per million samples", [cost for *_, cost in priced], lambda value: f"{value:.3g}"),
        identity=identity,
        title="Cost against latency of the GPUs that fit and have a price: low and left is better",
        has_lines=False,
    )


def _cost_mark(name: str, fit: Fit, cost: float) -> Mark:
    time = format_seconds(fit.latency.latency_s.expected)
    what = f"{name} on {fit.gpu.id}" if name else fit.gpu.id
    return Mark(x=fit.latency.latency_s.expected, y=cost, tip=f"{what}: {cost:.3g} USD per million, {time}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """The figures of one bar of memory as text: those of its parts, their total, and what is usable."""

    name: str
    sizes: tuple[str, ...]
    total: str
    usable: str


def memory_rows(fits: Sequence[tuple[str, Fit]], parts: Sequence[str]) -> tuple[MemoryRow, ...]:
    """Return the figures of the bars of memory."""
    rows = []
    for name, fit in fits:
        held = {part.name: part.size_bytes.expected for part in fit.memory.all_parts}
        rows.append(
            MemoryRow(
                name=name,
                sizes=tuple(format_bytes(held[part]) if held.get(part) else "–" for part in parts),
                total=format_bytes(fit.memory.total_bytes.expected),
                usable=format_bytes(usable_memory(fit.gpu).expected),
            )
        )
    return tuple(rows)


def memory_bars(fits: Sequence[tuple[str, Fit]], parts: Sequence[str], identity: str) -> Markup:
    """Draw the memory of each GPU by part, against what is usable of it."""
    bars = [_bar(name, fit, parts) for name, fit in fits]
    return bars_svg(bars, identity=identity, title="Memory by part, and the share of usable memory that it takes")


def part_names(fits: Sequence[Fit]) -> list[str]:
    """Return the names of the parts of memory, the largest first; small ones stand together at the end."""
    sizes: dict[str, float] = {}
    for fit in fits:
        for part in fit.memory.all_parts:
            sizes[part.name] = max(sizes.get(part.name, 0.0), part.size_bytes.expected)
    return sorted((name for name, size in sizes.items() if size > 0), key=lambda name: -sizes[name])


def format_share(share: float) -> str:
    """Return a share in percent, a small one with a digit more."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1f} %"


def _bar(name: str, fit: Fit, parts: Sequence[str]) -> StackedBar:
    held = {part.name: part.size_bytes for part in fit.memory.all_parts}
    usable = usable_memory(fit.gpu).expected
    total = fit.memory.total_bytes.expected
    return StackedBar(
        name=name,
        parts=[
            (min(index, 7), held[part].expected, f"{part}: {format_bytes(held[part].expected)}")
            for index, part in enumerate(parts)
            if part in held and held[part].expected > 0
        ],
        limit=usable,
        limit_tip=f"usable: {format_bytes(usable)}",
        note=f"{format_share(total / usable)} of {format_bytes(usable)}",
    )
