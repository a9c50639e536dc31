"""The report's charts of speed and memory: over the batch, over the load, by part, and under the roofline."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capplan.core.numbers import Interval
from capplan.core.serving.load import Service
from capplan.report.charts.look import (
    LIMIT,
    MUTED,
    NUMBER,
    PALETTE,
    PART_COLOURS,
    SHORT,
    SHORT_LABEL,
    data,
    drawing,
    few_ticks,
    legend,
    two_lines,
)
from capplan.report.charts.series import Axes, Series, series_chart
from capplan.report.narrow import Grid
from capplan.report.pages.blocks import Chart
from capplan.report.procurement import figures
from capplan.report.procurement.types import FleetRow, ModelReport, Report
from capplan.report.render import grid
from capplan.report.sections import Column, figure, shape_columns, words
from capplan.shapes.plan import FIT, all_parts, fits_on, intensity
from capplan.shapes.shape import View
from capplan.shapes.types import FleetOptionRow, OptionRow, PickRow, PlannedFit, Roof
from capplan.units import format_bytes, format_flops_per_s, format_rate, format_seconds

_GPUS = 4
_PARTS = 6


def leading_gpus(model: ModelReport, *, count: int = _GPUS) -> list[str]:
    """Return the first GPUs by the options' ranking."""
    return list(dict.fromkeys(option.gpu for option in model.options))[:count]


def throughput_over_batch(model: ModelReport, *, prefix: str) -> Chart:
    """Draw samples, or what a pipeline makes, per second over the batch, with the estimate's interval."""
    return _over_batch(
        model,
        identity=f"{prefix}-throughput",
        title="Throughput over batch",
        quantity=_Quantity(
            label=f"{model.items} per second",
            value=lambda point: point.throughput_per_s.interval,
            to_text=format_rate,
        ),
        caption="Lines are expected; the band is the interval of the leading GPU, the others' are in the table.",
    )


def latency_over_batch(report: Report, model: ModelReport, *, prefix: str) -> Chart:
    """Draw the time of one batch over the batch, with the estimate's interval and the limit."""
    limit_s = getattr(report.demand.load, "latency_limit_s", None)
    limit = f" The dashed line is the limit of {format_seconds(limit_s)}." if limit_s else ""
    return _over_batch(
        model,
        identity=f"{prefix}-latency",
        title="Latency of one batch",
        quantity=_Quantity(
            label="time of one batch, ms",
            value=lambda point: point.latency_s.interval,
            to_text=format_seconds,
            scale=1e3,
        ),
        caption=f"One batch alone, without waiting; the band is the interval of the leading GPU.{limit}",
        limit=limit_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quantity:
    """What a chart shows of each fit: the axis' label, the value, how it is written, and its factor on the axis."""

    label: str
    value: Callable[[PlannedFit], Interval]
    to_text: Callable[[float], str]
    scale: float = 1.0


def _over_batch(
    model: ModelReport,
    *,
    identity: str,
    title: str,
    quantity: _Quantity,
    caption: str,
    limit: float | None = None,
) -> Chart:
    value, scale = quantity.value, quantity.scale
    rows = {gpu: fits_on(model.plan, gpu) for gpu in leading_gpus(model)}
    series = [
        Series(
            label=figures.short_name(estimates[0].gpu_name),
            points=[(estimate.batch, scale * value(estimate).expected) for estimate in estimates],
            band=[(scale * value(estimate).low, scale * value(estimate).high) for estimate in estimates]
            if index == 0
            else (),
        )
        for index, estimates in enumerate(rows.values())
    ]
    batches = sorted({float(estimate.batch) for estimates in rows.values() for estimate in estimates})
    axes = Axes(x_title="batch", y_title=quantity.label, x_ticks=few_ticks(batches))
    drawn = series_chart(series, title="", axes=axes, limit=scale * limit if limit else None)
    names = ", ".join(sery.label for sery in series)
    fits = [fit for estimates in rows.values() for fit in estimates]
    gpu, batch, *others = shape_columns(FIT, fits, view=View.REPORT)
    columns: list[Column[PlannedFit]] = [
        gpu,
        batch,
        figure("low", lambda fit: value(fit).low, quantity.to_text),
        figure("expected", lambda fit: value(fit).expected, quantity.to_text),
        figure("high", lambda fit: value(fit).high, quantity.to_text),
        *others,
    ]
    content = grid(columns, fits)
    described = f"{title} of {names} with {model.plan.model.name}; the table below holds the figures."
    return Chart(identity=identity, title=title, description=described, caption=caption, drawing=drawn, data=content)


def latency_over_load(report: Report, model: ModelReport, *, prefix: str) -> Chart | None:
    """Draw the latency percentile of the choice over its load, with the limit and where it runs at peak."""
    load, choice = report.demand.load, model.option(model.verdict.choice)
    if not isinstance(load, Service) or choice is None:
        return None
    pick = next((pick for pick in model.picks if pick.gpu == choice.gpu and pick.batch == choice.batch), None)
    if pick is None or not pick.loads:
        return None
    columns: list[Column[tuple[float, float]]] = [
        figure(f"{model.items} per second of one GPU", lambda point: point[0] * pick.capacity_per_s, format_rate),
        figure("load factor", lambda point: figures.fraction(point[0])),
        figure("latency", lambda point: point[1], format_seconds),
    ]
    content = grid(columns, list(_finite(pick)))
    return Chart(
        identity=f"{prefix}-load", title=f"p{load.percentile:g} latency over load: {choice.gpu_name}",
        description=f"Latency percentile of one {choice.gpu_name} over its rate, with the limit and where it runs.",
        caption="Simulated with Poisson arrivals unless burstiness is stated; shaded is beyond the limit.",
        drawing=drawing(_load_layers(load, choice, pick, model.items)), data=content,
    )  # fmt: skip


def _load_layers(load: Service, choice: OptionRow, pick: PickRow, items: str) -> Any:
    """Draw the latency percentile over one GPU's rate, what exceeds the limit, and where the fleet runs."""
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    rows = [{"rate": share * pick.capacity_per_s, "ms": 1e3 * s} for share, s in _finite(pick)]
    x = alt.X("rate:Q", title=f"{items} per second of one GPU", axis=alt.Axis(format=NUMBER, tickCount=5))
    limit_ms = 1e3 * load.latency_limit_s
    top = 1.6 * limit_ms
    y = alt.Y("ms:Q", title=f"p{load.percentile:g} latency, ms", scale=alt.Scale(domain=[0, top], clamp=True))
    over = alt.Chart(data([{"low": limit_ms, "high": top}], "over"))
    limit = alt.Chart(data([{"ms": limit_ms, "words": f"limit {format_seconds(load.latency_limit_s)}"}], "limit"))
    points = _operating_points(load, choice)
    dots = alt.Chart(data(points, "points")).mark_point(color=PALETTE[1], size=90, filled=True, opacity=1)
    middle = max((row["rate"] for row in rows), default=0.0) / 2
    named = [
        alt.Chart(data([point], f"name {place}"))
        .mark_text(
            color=PALETTE[1], dy=16 if place == 0 else -9, fontWeight=600, **_beside(is_left=point["rate"] > middle)
        )
        .encode(x=x, y=y, text="what:N")
        for place, point in enumerate(points)
    ]
    return alt.layer(
        over.mark_rect(color=LIMIT, opacity=0.08).encode(y=alt.Y("low:Q", title=""), y2="high:Q"),
        limit.mark_rule(color=LIMIT, strokeDash=[6, 4]).encode(y=y),
        limit.mark_text(color=LIMIT, align="left", dx=4, dy=-7).encode(x=alt.value(0), y=y, text="words:N"),
        alt.Chart(data(rows, "curve")).mark_line(color=PALETTE[0], strokeWidth=2).encode(x=x, y=y),
        dots.encode(x=x, y=y, shape=alt.Shape("what:N", legend=None)),
        *named,
    )


def _beside(*, is_left: bool) -> dict[str, Any]:
    """Return on which side of its point a name stands: where there is room for it."""
    return {"align": "right", "dx": -8} if is_left else {"align": "left", "dx": 8}


def _operating_points(load: Service, choice: OptionRow) -> list[dict[str, Any]]:
    """Return where one GPU runs at peak: with the whole fleet up, and with only those that are needed."""
    return [
        {"what": words, "rate": load.peak_per_s / gpus, "ms": 1e3 * s}
        for words, gpus, s in (
            ("all up", choice.gpus, choice.all_up_latency_s),
            ("only those needed", choice.gpus_needed, choice.latency_s.expected),
        )
        if s is not None
    ]


def _finite(pick: PickRow) -> list[tuple[float, float]]:
    return [(load, s) for load, s in zip(pick.loads, pick.percentiles_s, strict=True) if s < float("inf")]


def memory_by_part(model: ModelReport, *, prefix: str) -> Chart:
    """Draw the memory of each leading GPU at its batch, by part, against what is usable."""
    chosen = {option.gpu: option.batch for option in reversed(model.options)}
    bars = [
        next(fit for fit in fits_on(model.plan, gpu) if fit.batch == chosen[gpu])
        for gpu in leading_gpus(model, count=6)
    ]
    groups = _part_groups(bars)
    return Chart(
        identity=f"{prefix}-memory",
        title="Memory by part against usable",
        description=f"Peak memory of {model.plan.model.name} by part on each leading GPU, against its usable memory.",
        caption="Bars are expected; the red mark is the usable memory.",
        drawing=drawing(_memory_layers(bars, groups), height=44 * len(bars) + 10),
        data=_memory_table(bars, groups),
    )


def _memory_layers(bars: Sequence[PlannedFit], groups: Mapping[str, Sequence[str]]) -> Any:
    """Draw a stacked bar for each GPU, and a mark where its usable memory ends."""
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    rows = [
        {"gpu": _bar_name(bar), "part": name, "order": place, "gib": _size(bar, members) / 2**30}
        for bar in bars
        for place, (name, members) in enumerate(groups.items())
    ]
    usable = [
        {"gpu": _bar_name(bar), "gib": given / 2**30, "words": format_bytes(given)}
        for bar in bars
        if (given := bar.memory.usable_bytes)
    ]
    y = alt.Y("gpu:N", title=None, sort=None, axis=two_lines())
    x = alt.X("gib:Q", title="GiB")
    colours = alt.Scale(domain=list(groups), range=[PART_COLOURS.get(name, MUTED) for name in groups])
    marks = alt.Chart(data(usable, "usable"))
    return alt.layer(
        alt.Chart(data(rows, "parts")).mark_bar(height=18).encode(
            x=alt.X("gib:Q", title="GiB", stack=True), y=y, order="order:Q",
            color=alt.Color("part:N", scale=colours, title=None, legend=legend(list(groups))),
            tooltip=["gpu:N", "part:N", alt.Tooltip("gib:Q", format=".3f")],
        ),
        marks.mark_tick(color=LIMIT, thickness=2, size=26).encode(x=x, y=y),
        marks.mark_text(color=LIMIT, align="right", dx=-5, dy=-13, fontSize=11).encode(x=x, y=y, text="words:N"),
    )  # fmt: skip


def _bar_name(fit: PlannedFit) -> str:
    """Name a bar in two lines, parted by a bar (|): its GPU and batch."""
    return f"{figures.short_name(fit.gpu_name)}|batch {fit.batch}"


def _size(fit: PlannedFit, members: Sequence[str]) -> float:
    return sum(size.expected for name, size in all_parts(fit.memory).items() if name in members)


def _memory_table(bars: Sequence[PlannedFit], groups: dict[str, tuple[str, ...]]) -> Grid:
    def part(name: str, members: tuple[str, ...]) -> Column[PlannedFit]:
        return figure(name, lambda fit: _size(fit, members), format_bytes)

    columns: list[Column[PlannedFit]] = [
        words("GPU", lambda fit: fit.gpu_name),
        figure("batch", lambda fit: fit.batch),
        *(part(name, members) for name, members in groups.items()),
        figure("total", lambda fit: fit.memory.total_bytes.expected, format_bytes),
        figure("low", lambda fit: fit.memory.total_bytes.low, format_bytes),
        figure("high", lambda fit: fit.memory.total_bytes.high, format_bytes),
        figure("usable", lambda fit: fit.memory.usable_bytes or None, format_bytes, unknown=figures.UNKNOWN),
    ]
    return grid(columns, bars)


def _part_groups(bars: Sequence[PlannedFit]) -> dict[str, tuple[str, ...]]:
    """Keep the five largest parts that have a colour of their own, the rest together."""
    totals: dict[str, float] = {}
    for bar in bars:
        for name, size in all_parts(bar.memory).items():
            totals[name] = totals.get(name, 0.0) + size.expected
    ranked = sorted(totals, key=lambda name: (name not in PART_COLOURS, -totals[name]))
    groups = {name: (name,) for name in ranked[: _PARTS - 1]}
    rest = tuple(ranked[_PARTS - 1 :])
    return groups | ({"other": rest} if rest else {})


def roofline(model: ModelReport, *, prefix: str) -> Chart:
    """Draw what each leading GPU's printed limits allow at the model's arithmetic intensity, and what is expected."""
    points = {roof.gpu: _reached(model, roof.gpu) for roof in model.roofs}
    intensities = [point[0] for row in points.values() for point in row]
    series: list[Series] = []
    ridges = [roof.peak_flops_per_s / roof.bandwidth_bytes_per_s for roof in model.roofs]
    low, high = min(*intensities, *ridges) / 2, max(*intensities, *ridges) * 3
    for index, (roof, ridge) in enumerate(zip(model.roofs, ridges, strict=True)):
        name = figures.short_name(roof.gpu_name)
        corners = [
            (low, low * roof.bandwidth_bytes_per_s),
            (ridge, roof.peak_flops_per_s),
            (high, roof.peak_flops_per_s),
        ]
        series.append(Series(label=name, points=[(a, b / 1e12) for a, b in corners], has_dots=False, colour=index))
        reached = [(intensity, rate / 1e12) for intensity, rate, _ in points[roof.gpu]]
        series.append(Series(label=f"{name}, expected", points=reached, is_line=False, colour=index))
    axes = Axes(x_title="arithmetic intensity, FLOP per byte", y_title="TFLOP per second", x_format=SHORT)
    columns: list[Column[tuple[Roof, float, float, int]]] = [
        words("GPU", lambda row: row[0].gpu_name),
        figure("batch", lambda row: row[3]),
        figure("FLOP/byte", lambda row: row[1], "{:.3g}".format),
        figure("expected", lambda row: row[2], format_flops_per_s),
        figure("peak", lambda row: row[0].peak_flops_per_s, format_flops_per_s),
        figure("ridge FLOP/byte", lambda row: row[0].peak_flops_per_s / row[0].bandwidth_bytes_per_s, "{:.3g}".format),
    ]
    content = grid(columns, [(roof, *point) for roof in model.roofs for point in points[roof.gpu]])
    return Chart(
        identity=f"{prefix}-roofline",
        title="Roofline",
        description=f"Printed limits of {len(model.roofs)} GPUs and the expected rate of {model.plan.model.name}.",
        caption="Lines are what the vendor prints for dense arithmetic; dots are expected at each batch. Left of a "
        "line's bend the memory bandwidth is the limit.",
        drawing=series_chart(series, title="", axes=axes),
        data=content,
    )


def _reached(model: ModelReport, gpu: str) -> list[tuple[float, float, int]]:
    """Return arithmetic intensity, expected FLOP/s and batch of a GPU's estimates."""
    return [
        (flops_per_byte, model.plan.model.flops_per_sample * fit.batch / fit.latency_s.expected, fit.batch)
        for fit in fits_on(model.plan, gpu)
        if (flops_per_byte := intensity(model.plan.model, fit.batch))
    ]


_BARS = 8
_KINDS = ("recommended", "full evidence", "weaker evidence or over a cap")


def fleets_chart(report: Report) -> Chart | None:
    """Draw what the fleets that carry all services cost per year; None where none has a price."""
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    fleet = report.fleet
    shown = shown_fleets(fleet) if fleet else []
    if fleet is None or not shown:
        return None
    rows: list[dict[str, Any]] = [
        {
            "bar": "|".join(_name(option)),
            "usd": option.cost_usd_per_year, "kind": kind_of(fleet, option),
            "words": figures.whole(option.cost_usd_per_year),
        }
        for option in shown
    ]  # fmt: skip
    colour = alt.Color(
        "kind:N", scale=alt.Scale(domain=list(_KINDS), range=[PALETTE[1], PALETTE[0], MUTED]), title=None,
        legend=legend(_KINDS),
    )  # fmt: skip
    most = max(option.cost_usd_per_year or 0.0 for option in shown) or 1.0
    x = alt.X(
        "usd:Q", title="USD per year", scale=alt.Scale(domain=[0, _NAME_ROOM * most], nice=False),
        axis=alt.Axis(tickCount=5, labelExpr=SHORT_LABEL),
    )  # fmt: skip
    y = alt.Y("bar:N", title=None, sort=None, axis=two_lines())
    inside = [row for row in rows if (row["usd"] or 0.0) > most / 2]
    beside = [row for row in rows if row not in inside]
    layers = alt.layer(
        alt.Chart(data(rows, "fleets")).mark_bar(height=18).encode(x=x, y=y, color=colour),
        alt.Chart(data(beside, "beside"))
        .mark_text(align="left", dx=6, color="#3d444d")
        .encode(x=x, y=y, text="words:N"),
        alt.Chart(data(inside, "inside"))
        .mark_text(align="right", dx=-6, color="#ffffff")
        .encode(x=x, y=y, text="words:N"),
    )
    columns: list[Column[FleetOptionRow]] = [
        words("fleet", lambda row: " ".join(_name(row))),
        figure("GPUs owned", lambda row: row.owned),
        figure("GPUs added", lambda row: row.added_by_year[0]),
        figure("USD per year", lambda row: row.cost_usd_per_year or 0.0, "{:,.0f}".format),
    ]
    return Chart(
        identity="fleet-cost", title="Cost of one fleet for all services",
        description=f"Cost per year of {len(shown)} fleets, each of one kind of GPU; the recommended one is first.",
        caption="Owned GPUs cost what keeps them running. Best first: weak evidence comes last, and an old price "
        "counts as a higher one.",
        drawing=drawing(layers, height=38 * len(shown) + 10), data=grid(columns, shown),
    )  # fmt: skip


_NAME_ROOM = 1.05
"""How much longer the axis is than the longest bar; the words of long bars stand within them."""


def shown_fleets(fleet: FleetRow) -> list[FleetOptionRow]:
    """Return the first fleets with a price, the recommended one before the others."""
    priced: Sequence[FleetOptionRow] = [option for option in fleet.options if option.cost_usd_per_year is not None]
    return sorted(priced, key=lambda option: option.key != fleet.choice)[:_BARS]


def _name(option: FleetOptionRow) -> tuple[str, str]:
    """Return the GPUs, and the term with who rents or sells them; two offers of one term are two bars."""
    gpus = f"{option.gpus_by_year[0]} × {figures.short_name(option.gpu_name)}"
    if not any(option.added_by_year):
        return gpus, "owned"
    owned = f"{option.owned} owned" if option.owned else None
    return gpus, ", ".join(word for word in (figures.term_words(option.term), option.provider, owned) if word)


def kind_of(fleet: FleetRow, option: FleetOptionRow) -> str:
    """Return whether a fleet is the recommended one, rests on full evidence, or has something against it."""
    if option.key == fleet.choice:
        return _KINDS[0]
    return _KINDS[2] if option.concerns or option.violations else _KINDS[1]
