"""The report's charts of money: cost against latency, where it goes, over the years, and what moves it."""

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from capplan.core.economics.uncertainty import TornadoRow
from capplan.core.serving.load import Job, Load, Service, TrainingPurchase
from capplan.report.charts.look import (
    LIMIT,
    MUTED,
    NUMBER,
    PALETTE,
    SHORT,
    SHORT_LABEL,
    Labelled,
    apart,
    data,
    drawing,
    legend,
    log_ticks,
    two_lines,
)
from capplan.report.narrow import Grid
from capplan.report.pages.blocks import Chart
from capplan.report.procurement import figures
from capplan.report.procurement.charts.speed import (
    latency_over_batch,
    latency_over_load,
    memory_by_part,
    roofline,
    throughput_over_batch,
)
from capplan.report.procurement.choosable import choosable
from capplan.report.procurement.money_tables import PARTS
from capplan.report.procurement.types import ModelReport, Report
from capplan.report.render import grid
from capplan.report.sections import Column, figure, words
from capplan.shapes.plan import intensity
from capplan.shapes.types import OptionRow
from capplan.units import SECONDS, counted

if TYPE_CHECKING:
    import altair as alt

_LABELLED = 8
_LABEL_LINE = 0.085
"""Height of a line of text as a share of the plot's height, also where that is drawn smaller for paper."""
_NAME_ROOM = 1.42
"""How much wider the plot of the years is than its lines, for the names at their ends."""
_BARS = 6
_NAME_WIDTH = 30
"""Room for the name of an input beside its bar. [characters]"""
_BAR_LINE = 28
"""Height of a bar for each line of its name after the first: two lines, as names hang from its middle. [pixels]"""


def charts(report: Report, model: ModelReport, *, prefix: str) -> tuple[Chart, ...]:
    """Draw all charts that a model's figures allow; the first stands in the summary."""
    drawn: list[Chart | None] = []
    if any(option.cost_usd_per_year is not None for option in model.options):
        drawn += [cost_against_latency(report, model, prefix=prefix), breakdown_chart(report, model, prefix=prefix)]
        drawn += [cost_over_years(report, model, prefix=prefix)]
    drawn.append(latency_over_load(report, model, prefix=prefix))
    if model.tornado:
        drawn.append(sensitivity_chart(report, model, prefix=prefix))
    if model.planned is None:
        return tuple(chart for chart in drawn if chart is not None)
    drawn += [
        throughput_over_batch(model, prefix=prefix),
        latency_over_batch(report, model, prefix=prefix),
        memory_by_part(model, prefix=prefix),
    ]
    if model.roofs and intensity(model.plan.model, 1):
        drawn.append(roofline(model, prefix=prefix))
    return tuple(chart for chart in drawn if chart is not None)


def worth_usd(report: Report, option: OptionRow) -> float | None:
    """Return what options are ranked by: cost per year, or per million samples where no load is stated. [USD]"""
    return option.usd_per_million if report.demand.load.kind == "one-gpu" else option.cost_usd_per_year


def worth_unit(report: Report) -> str:
    """Return the unit of what options are ranked by."""
    return f"USD per million {report.items}" if report.demand.load.kind == "one-gpu" else "USD per year"


def front_points(report: Report, model: ModelReport) -> list[dict[str, Any]]:
    """Return the points of the chart of cost against latency; the choice is named first, then the best few."""
    shown = [option for option in model.options if option.cost_usd_per_year is not None]
    pool = choosable(report, model)
    first = {option.gpu: option.key for option in reversed(shown) if option.is_leading}
    labelled = set(list(reversed(first.values()))[:_LABELLED])
    return [
        {
            "key": option.key, "name": figures.option_name(option), "x": _pace(option),
            "usd": worth_usd(report, option) or 0.0, "kind": _kind(model, option, pool),
            "label": figures.short_name(option.gpu_name) if option.key in labelled else "", "hot": False,
        }
        for option in shown
    ]  # fmt: skip


def front_ends(report: Report, model: ModelReport) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the ends of both axes of the chart of cost against latency: with room for labels and for the limit."""
    points = front_points(report, model)
    paces, costs = [point["x"] for point in points], [point["usd"] for point in points]
    allowed = most_pace(report.demand.load) or max(paces)
    return (min(paces) / 1.3, max(*paces, allowed) * 1.6), (min(costs) / 1.5, max(costs) * 1.5)


def _place_labels(
    points: Sequence[dict[str, Any]], ends: tuple[tuple[float, float], tuple[float, float]], wall: float | None
) -> None:
    """Set the height and the side of each point's label, so that none meets another label or a line."""
    steps = [(corner["x"], corner["usd"]) for corner in staircase(points, ends)]
    labelled = [Labelled(x=corner["x"], y=corner["usd"], label=corner["label"]) for corner in points]
    for point, place in zip(points, apart(labelled, wide=ends[0], high=ends[1], wall=wall, steps=steps), strict=True):
        height, is_left = place or (point["usd"], False)
        point |= {"labelUsd": height, "left": is_left, "label": point["label"] if place else ""}


def _labels(dots: "alt.Chart", *, x: "alt.X", y: "alt.Y") -> "list[alt.Chart]":
    """Return the labels that stand right and left of their points."""
    right = dots.mark_text(align="left", dx=8, baseline="middle", fontSize=11, color="#3d444d")
    left = dots.mark_text(align="right", dx=-8, baseline="middle", fontSize=11, color="#3d444d")
    return [
        side.transform_filter(f"datum.left == {words}").encode(x=x, y=y, text="label:N")
        for side, words in ((right, "false"), (left, "true"))
    ]


def _pace(option: OptionRow) -> float:
    """Return where an option stands across: hours of a run of a job or a training, else its latency in ms."""
    if option.finish_s is not None:
        return option.finish_s / SECONDS["h"]
    return 1e3 * option.latency_s.expected


def most_pace(load: Load) -> float | None:
    """Return what is allowed across: the deadline [h] or the latency limit [ms]; None where neither is stated."""
    if isinstance(load, Job | TrainingPurchase):
        return load.deadline_s / SECONDS["h"]
    return 1e3 * load.latency_limit_s if isinstance(load, Service) else None


def _kind(model: ModelReport, option: OptionRow, pool: frozenset[str]) -> str:
    if option.key == model.verdict.choice:
        return "recommended"
    return "may be chosen" if option.key in pool else "listed only"


def staircase(
    points: Sequence[dict[str, Any]], ends: tuple[tuple[float, float], tuple[float, float]]
) -> list[dict[str, Any]]:
    """Return the corners of the line below which no option lies, from the top of the plot to its right."""
    front: list[dict[str, Any]] = []
    for point in sorted(points, key=lambda corner: (corner["x"], corner["usd"])):
        if not front or point["usd"] < front[-1]["usd"]:
            front.append(point)
    corners = [{"x": corner["x"], "usd": corner["usd"]} for corner in front]
    if not corners:
        return []
    return [{"x": corners[0]["x"], "usd": ends[1][1]}, *corners, {"x": ends[0][1], "usd": corners[-1]["usd"]}]


def cost_against_latency(report: Report, model: ModelReport, *, prefix: str) -> Chart:
    """Draw cost against latency, the options that no other beats in both, and the limit."""
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    points, unit = front_points(report, model), worth_unit(report)
    allowed = most_pace(report.demand.load)
    is_run = figures.pace_head(report.demand.load) == "finishes in"
    across = "hours until a run is finished" if is_run else "latency, ms"
    layers = _front_layers(points, front_ends(report, model), across=across, unit=unit, wall=allowed)
    if allowed is not None:
        limit = alt.Chart(data([{"x": allowed}], "limit"))
        layers.append(limit.mark_rule(color=LIMIT, strokeDash=[6, 4]).encode(x=layers[0].encoding.x))
    limit_words = f" The red line is the {'deadline' if is_run else 'latency limit'}." if allowed is not None else ""
    return Chart(
        identity=f"{prefix}-front", title="Cost against time to finish" if is_run else "Cost against latency",
        description=f"{unit} over {across} of {len(points)} options; a stepped line joins those that none beats.",
        caption="The diamond is the recommendation. Options that are listed only exceed a cap, rest on weaker evidence "
        f"or are spot where a run must not be interrupted. Below the stepped line lies no option.{limit_words}",
        drawing=drawing(alt.layer(*layers)), data=_front_table(report, model), follows=True,
    )  # fmt: skip


def _front_layers(
    points: list[dict[str, Any]],
    ends: tuple[tuple[float, float], tuple[float, float]],
    *,
    across: str,
    unit: str,
    wall: float | None,
) -> "list[alt.Chart]":
    """Return the stepped line, the points and their labels."""
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    _place_labels(points, ends, wall)
    points = sorted(points, key=lambda point: point["kind"] == "recommended")  # drawn last, none covers it
    kinds = ["recommended", "may be chosen", "listed only"]
    wide, high = (alt.Scale(type="log", domain=list(end), nice=False, clamp=True) for end in ends)
    x = alt.X("x:Q", title=f"{across} (log scale)", scale=wide, axis=_axis(NUMBER, log_ticks(ends[0])))
    y = alt.Y("usd:Q", title=f"{unit} (log scale)", scale=high, axis=_axis(SHORT, log_ticks(ends[1])))
    hues = alt.Scale(domain=kinds, range=[PALETTE[1], PALETTE[0], MUTED])
    marks = alt.Scale(domain=kinds, range=["diamond", "circle", "cross"])
    dots, steps = alt.Chart(data(points, "points")), alt.Chart(data(staircase(points, ends), "front"))
    line = steps.mark_line(interpolate="step-after", color=PALETTE[2], strokeDash=[3, 3], strokeWidth=1.5)
    marked = dots.mark_point(filled=True, opacity=0.9).encode(
        x=x,
        y=y,
        color=alt.Color("kind:N", scale=hues, title=None, legend=legend(kinds)),
        shape=alt.Shape("kind:N", scale=marks, title=None, legend=legend(kinds)),
        tooltip=[
            "name:N",
            alt.Tooltip("x:Q", title=across, format=",.2f"),
            alt.Tooltip("usd:Q", title=unit, format=",.0f"),
        ],
        size=alt.condition("datum.hot", alt.value(320), alt.value(75)),
    )
    beside = alt.Y("labelUsd:Q", title=f"{unit} (log scale)", scale=high)
    return [line.encode(x=x, y=y), marked, *_labels(dots, x=x, y=beside)]


def _front_table(report: Report, model: ModelReport) -> Grid:
    """Return the figures of the chart of cost against latency."""
    listed = [option for option in model.options if option.cost_usd_per_year is not None][:40]
    digits = figures.column_digits((worth_usd(report, option) for option in listed), whole_from=10.0)
    columns: list[Column[OptionRow]] = [
        words("option", figures.option_name),
        figure(figures.pace_head(report.demand.load), figures.time_cell(listed, figures.pace_s)),
        figure(worth_unit(report), lambda o: figures.fixed(worth_usd(report, o), digits)),
        figure("spare capacity", figures.headroom),
        words("none cheaper and faster", lambda o: "yes" if o.on_front else ""),
    ]
    return grid(columns, listed)


def _axis(form: str, ticks: Sequence[float] | None = None) -> Any:
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    labels: dict[str, Any] = {"labelExpr": SHORT_LABEL} if form == SHORT else {"format": form}
    return alt.Axis(values=list(ticks), **labels) if ticks else alt.Axis(tickCount=5, **labels)


def breakdown_rows(options: Sequence[OptionRow], years: int) -> list[dict[str, Any]]:
    """Return what each option costs in an average year by part; the residual value is taken off."""
    return [
        {"key": option.key, "name": figures.option_name(option), "bar": bar_name(option), "part": name, "order": place,
         "usd": getattr(option.breakdown_usd, field) / years}
        for option in options
        if option.breakdown_usd
        for place, (name, field) in enumerate(PARTS)
        if getattr(option.breakdown_usd, field)
    ]  # fmt: skip


def bar_name(option: OptionRow) -> str:
    """Name an option in two lines, parted by a bar: its GPU and term."""
    return f"{option.gpu_name.removeprefix('NVIDIA ')}|{figures.option_term(option)}"


def breakdown_chart(report: Report, model: ModelReport, *, prefix: str) -> Chart | None:
    """Draw where the money of the leading options goes, in an average year."""
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    shown = compared(model, count=_BARS)
    if report.demand.load.kind == "one-gpu" or not shown:
        return None
    years = report.demand.money.years
    rows = breakdown_rows(shown, years)
    used = {row["part"] for row in breakdown_rows(model.options, years)}
    hues = dict(zip((name for name, _ in PARTS), [*PALETTE, "#55606e", MUTED], strict=True))
    names = [name for name in hues if name in used]
    colours = alt.Scale(domain=names, range=[hues[name] for name in names])
    bars = alt.Chart(data(rows, "parts")).mark_bar(height=20)
    drawn = bars.encode(
        x=alt.X("usd:Q", title="USD per year, on average", axis=_axis(SHORT), stack=True),
        y=alt.Y("bar:N", title=None, sort=None, axis=two_lines()),
        color=alt.Color("part:N", scale=colours, title=None, sort=names, legend=legend(names)),
        order="order:Q",
        tooltip=["name:N", "part:N", alt.Tooltip("usd:Q", title="USD per year", format=",.0f")],
    )
    columns: list[Column[dict[str, Any]]] = [
        words("option", lambda row: row["name"]),
        words("part", lambda row: row["part"]),
        figure("USD per year", lambda row: row["usd"], "{:,.0f}".format),
    ]
    return Chart(
        identity=f"{prefix}-parts", title="Where the money goes",
        description=f"Cost of {len(shown)} options by part, averaged over {counted(years, 'year')}.",
        caption=f"Undiscounted, averaged over {counted(years, 'year')}; the residual value stands left of zero. Rent "
        "includes servers, energy and space.",
        drawing=drawing(drawn, height=38 * len(shown) + 10), data=grid(columns, rows), follows=True,
    )  # fmt: skip


def year_rows(options: Sequence[OptionRow]) -> list[dict[str, Any]]:
    """Return what each option has cost after each year."""
    return [
        {
            "key": option.key,
            "name": figures.option_name(option),
            "bar": _line_name(option, options),
            "year": year,
            "usd": sum(option.yearly_usd[: year + 1]),
        }
        for option in options
        for year in range(len(option.yearly_usd))
    ]


def _line_name(option: OptionRow, options: Sequence[OptionRow]) -> str:
    """Name a line by its GPU, with term and provider each on a line below where another option has the same GPU."""
    is_alone = sum(other.gpu == option.gpu for other in options) == 1
    return figures.short_name(option.gpu_name) if is_alone else bar_name(option).replace(" (", "|(")


def year_labels(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the name of each option with the height at which it stands beside the end of its line.

    Names never overlap: each is moved up from the one below it.
    """
    last, top = max(row["year"] for row in rows), max(row["usd"] for row in rows)
    gap = _LABEL_LINE * max(1 + row["bar"].count("|") for row in rows) * top
    below = 0.0
    placed: list[dict[str, Any]] = []
    for row in sorted((row for row in rows if row["year"] == last), key=lambda row: row["usd"]):
        height = max(row["usd"], below + gap if placed else row["usd"])
        placed.append({"name": row["name"], "bar": row["bar"], "year": last, "labelUsd": height})
        below = height
    return placed


def cost_over_years(report: Report, model: ModelReport, *, prefix: str) -> Chart:
    """Draw what the leading options have cost after each year."""
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    shown = compared(model)
    rows = year_rows(shown)
    last, names = max(row["year"] for row in rows), [figures.option_name(option) for option in shown]
    x = alt.X(
        "year:Q",
        title="after year",
        axis=alt.Axis(values=list(range(last + 1)), format="d"),
        scale=alt.Scale(domain=[0, _NAME_ROOM * last], nice=False),
    )
    y = alt.Y("usd:Q", title=f"{report.currency}, summed", axis=_axis(SHORT))
    colour = alt.Color("name:N", scale=alt.Scale(domain=names, range=list(PALETTE)), title=None, legend=None)
    lines = alt.Chart(data(rows, "lines"))
    tip = ["name:N", "year:Q", alt.Tooltip("usd:Q", format=",.0f")]
    layers = alt.layer(
        lines.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour),
        lines.mark_circle(size=40, opacity=1).encode(x=x, y=y, color=colour, tooltip=tip),
        alt.Chart(data(year_labels(rows), "ends"))
        .mark_text(align="left", baseline="middle", dx=8, fontWeight=600, lineBreak="|")
        .encode(x=x, y=alt.Y("labelUsd:Q", title=f"{report.currency}, summed"), color=colour, text="bar:N"),
    )

    def summed(year: int) -> Column[OptionRow]:
        return figure(f"after year {year}", lambda o: f"{sum(o.yearly_usd[: year + 1]):,.0f}")

    columns: list[Column[OptionRow]] = [words("option", figures.option_name), *map(summed, range(last + 1))]
    content = grid(columns, shown)
    return Chart(
        identity=f"{prefix}-years", title="Cost over the years",
        description=f"Summed cost of {len(shown)} options over {counted(last, 'year')}, residual value taken off at the"
        " end.",
        caption="Undiscounted; buying ends with the residual value taken off.",
        drawing=drawing(layers), data=content, follows=True,
    )  # fmt: skip


def compared(model: ModelReport, *, count: int = 4) -> list[OptionRow]:
    """Return the options that page one compares: the choice, the runner-up, the cheapest to buy and to rent."""
    priced = [option for option in model.options if option.cost_usd_per_year is not None]
    wanted = [model.option(model.verdict.choice), model.option(model.verdict.runner_up)]
    wanted += [next((o for o in priced if (o.term == "buy") == bought), None) for bought in (True, False)]
    picked = list({option.key: option for option in (*wanted, *priced) if option is not None}.values())
    return picked[:count]


def _bar_name(bar: TornadoRow) -> str:
    """Name an input in lines, parted by bars: what it is, and its range."""
    return "|".join([*wrap(bar.label, _NAME_WIDTH), f"{bar.low:,.3g} to {bar.high:,.3g} {bar.unit}"])


def sensitivity_chart(report: Report, model: ModelReport, *, prefix: str) -> Chart:
    """Draw what each input alone does to the choice's cost, largest first."""
    shown, choice = model.tornado[:9], model.option(model.verdict.choice)
    base = (worth_usd(report, choice) if choice else None) or 0.0
    room = 6 + _BAR_LINE * max(_bar_name(bar).count("|") for bar in shown)
    return Chart(
        identity=f"{prefix}-sensitivity", title="What moves the cost of the choice",
        description="Cost of the choice with each input at the ends of its range, largest effect first.",
        caption="One input at a time to the ends of its range; the line is the cost as stated. Ends that cannot be met "
        "have no bar.",
        drawing=drawing(_sensitivity_layers(report, model, shown, base), height=max(90, room * len(shown))),
        data=_sensitivity_table(report, model),
    )  # fmt: skip


def _sensitivity_layers(report: Report, model: ModelReport, shown: Sequence[TornadoRow], base: float) -> Any:
    """Draw a bar from the cost as stated to the cost at each end of each input."""
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    y = alt.Y("input:N", title=None, sort=[_bar_name(bar) for bar in shown], axis=two_lines())
    x = alt.X("usd:Q", title=worth_unit(report), axis=_axis(SHORT), scale=alt.Scale(zero=False, padding=6))
    sides = alt.Scale(domain=["costs less", "costs more"], range=[PALETTE[2], PALETTE[1]])
    bars = alt.Chart(data(_sensitivity_rows(model, shown, base), "tornado")).mark_bar(height=18, opacity=0.85)
    tip = ["input:N", "end:N", alt.Tooltip("usd:Q", format=",.0f"), "best:N"]
    stated = alt.Chart(data([{"usd": base}], "stated"))
    return alt.layer(
        bars.encode(x=x, x2="base:Q", y=y, color=alt.Color("side:N", scale=sides, title=None), tooltip=tip),
        stated.mark_rule(color="#3d444d").encode(x=x),
    )


def _sensitivity_rows(model: ModelReport, shown: Sequence[TornadoRow], base: float) -> list[dict[str, Any]]:
    """Return the ends that change the cost."""
    return [
        {
            "input": _bar_name(bar), "base": base, "usd": cost, "end": f"{end:,.4g} {bar.unit}",
            "side": "costs less" if cost < base else "costs more",
            "best": figures.option_name(model.option(winner)),
        }
        for bar in shown
        for end, cost, winner in (
            (bar.low, bar.cost_low_usd, bar.winner_low), (bar.high, bar.cost_high_usd, bar.winner_high),
        )
        if cost is not None and abs(cost - base) > 1e-9 * base
    ]  # fmt: skip


def _sensitivity_table(report: Report, model: ModelReport) -> Grid:
    """List every input's ends, the cost there, and which option is then the cheapest."""
    unit = worth_unit(report)
    columns: list[Column[TornadoRow]] = [
        words("input", lambda bar: bar.label),
        words("unit", lambda bar: bar.unit),
        figure("low", lambda bar: bar.low, "{:,.4g}".format),
        figure("stated", lambda bar: bar.value, "{:,.4g}".format),
        figure("high", lambda bar: bar.high, "{:,.4g}".format),
        figure(f"{unit} at low", lambda bar: _met(bar.cost_low_usd)),
        figure(f"{unit} at high", lambda bar: _met(bar.cost_high_usd)),
        words("best at low", lambda bar: figures.option_name(model.option(bar.winner_low))),
        words("best at high", lambda bar: figures.option_name(model.option(bar.winner_high))),
    ]
    return grid(columns, model.tornado)


def _met(cost: float | None) -> str:
    return figures.money(cost) if cost is not None else "cannot be met"
