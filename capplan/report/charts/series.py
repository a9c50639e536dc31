"""Curves and scatter plots on logarithmic axes, with bands, direct labels and the line of equality."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from capplan.report.charts.look import LIMIT, MUTED, NUMBER, PALETTE, Drawing, data, drawing, log_ticks, spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points to draw: as dots, as a line, or as both, with an optional band (low, high) around it.

    `colour` counts from 0; series of one GPU share it. None takes the next.
    """

    label: str
    points: Sequence[tuple[float, float]]
    is_line: bool = True
    has_dots: bool = True
    band: Sequence[tuple[float, float]] = ()
    colour: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """Titles of the axes, and where their ticks stand; None leaves that to the chart. A linear x axis counts from 0."""

    x_title: str
    y_title: str
    x_ticks: tuple[float, ...] | None = None
    x_is_linear: bool = False
    x_format: str = NUMBER
    y_format: str = NUMBER


def series_chart(
    series: Sequence[Series],
    *,
    title: str,
    axes: Axes,
    subtitle: str = "",
    has_diagonal: bool = False,
    limit: float | None = None,
) -> Drawing:
    """Draw series on two logarithmic axes, each named at its end."""
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    wide, high = [x for x, _ in _all(series)] or [1.0, 10.0], _heights(series, limit) or [1.0, 10.0]
    room = 1.0 if has_diagonal else (max(wide) / min(wide)) ** _NAME_ROOM
    ticks = _axis(axes.x_ticks or log_ticks(wide), axes.x_format)
    scale = _log(wide, room=room)
    if axes.x_is_linear:
        ticks, scale = alt.Axis(tickMinStep=1), alt.Scale(domain=[0, max(wide) * (1 + _NAME_ROOM)], nice=False)
    heights = _axis(log_ticks(high), axes.y_format)
    across = axes.x_title if axes.x_is_linear else f"{axes.x_title} (log scale)"
    coded = _Encoded(
        axes=axes,
        x=alt.X("x:Q", title=across, axis=ticks, scale=scale),
        y=alt.Y("y:Q", title=f"{axes.y_title} (log scale)", axis=heights, scale=_log(high)),
        colour=_colours(series),
    )
    layers = _diagonal(series, coded.x, coded.y) if has_diagonal else []
    layers += [*_marks(series, coded), *_limit(limit, coded)]
    least = (max(high) / min(high)) ** _LABEL_LINE
    layers.append(_named(_names(series, least=least), coded, is_left=has_diagonal))
    return drawing(alt.layer(*layers), title=title, subtitle=subtitle)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Encoded:
    """Where the layers of a chart place points, and how they colour series."""

    axes: Axes
    x: Any
    y: Any
    colour: Any


def _colours(series: Sequence[Series]) -> Any:
    """Return the colours of the series. Series of one GPU share a colour."""
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    chosen = [
        PALETTE[(index if line.colour is None else line.colour) % len(PALETTE)] for index, line in enumerate(series)
    ]
    return alt.Color("series:N", scale=alt.Scale(domain=[line.label for line in series], range=chosen), legend=None)


def _marks(series: Sequence[Series], coded: _Encoded) -> list[Any]:
    """Draw bands below lines, and lines below dots."""
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    x, y, colour, layers = coded.x, coded.y, coded.colour, []
    if any(line.band for line in series):
        area = alt.Chart(data(_bands(series), "bands")).mark_area(opacity=0.15)
        layers.append(area.encode(x=x, y=y.copy(), y2="high:Q", color=colour))
    lines = [row for line in series if line.is_line for row in _rows(line)]
    if lines:
        drawn = alt.Chart(data(lines, "lines")).mark_line(strokeWidth=2)
        layers.append(drawn.encode(x=x, y=y, color=colour, order="x:Q"))
    dots = [row for line in series if line.has_dots for row in _rows(line)]
    if dots:
        titles = coded.axes.x_title, coded.axes.y_title
        tip = ["series:N", alt.Tooltip("x:Q", title=titles[0]), alt.Tooltip("y:Q", title=titles[1], format=".4~g")]
        drawn = alt.Chart(data(dots, "dots")).mark_circle(size=28, opacity=0.75)
        layers.append(drawn.encode(x=x, y=y, color=colour, tooltip=tip))
    return layers


def _limit(limit: float | None, coded: _Encoded) -> list[Any]:
    """Draw a line at a value of the y axis that must be kept."""
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    if limit is None:
        return []
    rule = alt.Chart(data([{"y": limit}], "limit")).mark_rule(color=LIMIT, strokeDash=[6, 4], strokeWidth=1.5)
    return [rule.encode(y=coded.y)]


def _named(ends: Sequence[dict[str, Any]], coded: _Encoded, *, is_left: bool) -> Any:
    """Write each series' name beside its end: right of it, or left of it and above."""
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    right: dict[str, Any] = {"align": "left", "dx": 7, "baseline": "middle"}
    left: dict[str, Any] = {"align": "right", "dx": -4, "dy": -9}
    named = alt.Chart(data(list(ends), "names")).mark_text(fontWeight=600, **(left if is_left else right))
    return named.encode(x=coded.x, y=coded.y, text="series:N", color=coded.colour)


def _axis(ticks: Sequence[float], form: str) -> Any:
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    return alt.Axis(format=form, values=list(ticks))


_LABEL_LINE = 0.08
"""Height of a name as a share of the height that the lines take (on a logarithmic axis), also where it is less."""
_NAME_ROOM = 0.42
"""Room right of the lines for their names, as a share of the width (on a logarithmic axis) that the lines take."""


def _log(values: Sequence[float], *, room: float = 1.0) -> Any:
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    low, high = min(values), max(values)
    return alt.Scale(type="log", domain=[low / 1.08, high * max(1.25, room)], nice=False)


def _all(series: Sequence[Series]) -> list[tuple[float, float]]:
    return [point for line in series for point in line.points]


def _heights(series: Sequence[Series], limit: float | None) -> list[float]:
    ends = [value for line in series for pair in line.band for value in pair]
    return [*(y for _, y in _all(series)), *ends, *([limit] if limit is not None else [])]


def _rows(one: Series) -> list[dict[str, Any]]:
    return [{"series": one.label, "x": float(x), "y": float(y)} for x, y in one.points]


def _bands(series: Sequence[Series]) -> list[dict[str, Any]]:
    return [
        {"series": line.label, "x": float(x), "y": float(low), "high": float(high)}
        for line in series
        if line.band
        for (x, _), (low, high) in zip(line.points, line.band, strict=True)
    ]


def _names(series: Sequence[Series], *, least: float) -> list[dict[str, Any]]:
    """Place each series' name at its end; dots in the colour of a line are named by the line."""
    lines = {line.colour for line in series if line.is_line and line.colour is not None}
    named = [line for line in series if line.points and (line.is_line or line.colour not in lines)]
    ends = [max(line.points) for line in named]
    heights = spread([float(y) for _, y in ends], least=max(least, 1.001))
    return [
        {"series": line.label, "x": float(x), "y": height}
        for line, (x, _), height in zip(named, ends, heights, strict=True)
    ]


def _diagonal(series: Sequence[Series], x: Any, y: Any) -> list[Any]:
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    values = [value for point in _all(series) for value in point] or [1.0, 10.0]
    ends = (min(values), max(values))
    rows = [
        {"kind": kind, "x": end, "y": end * factor}
        for kind, factor in (("equal", 1.0), ("quarter more", 1.25), ("quarter less", 1 / 1.25))
        for end in ends
    ]
    lines = alt.Chart(data(rows, "equality")).mark_line(color=MUTED, strokeWidth=1, clip=True)
    dashes = alt.Scale(domain=["equal", "quarter more", "quarter less"], range=[[1, 0], [4, 4], [4, 4]])
    dash = alt.StrokeDash("kind:N", legend=None, scale=dashes)
    return [lines.encode(x=x, y=y, strokeDash=dash)]
