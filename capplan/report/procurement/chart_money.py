"""The report's charts of money: cost against latency, over the years, and what moves it."""

from collections.abc import Callable, Sequence

from capplan.report.charts.svg import (
    BOTTOM,
    CHART_TOP,
    HEIGHT,
    LEFT,
    RIGHT,
    WIDTH,
    Chart,
    legend,
    line,
    linear_scale,
    log_scale,
    make_chart,
    marker,
    path,
    rectangle,
    text,
    x_axis,
    y_axis,
)
from capplan.report.procurement import figures
from capplan.report.procurement.chart_figures import latency_over_batch, memory_by_part, roofline, throughput_over_batch
from capplan.report.procurement.types import ModelReport, OptionRow, Report, SwingRow
from capplan.report.table import table
from capplan.units import format_seconds


def charts(report: Report, model: ModelReport, *, prefix: str) -> tuple[Chart, ...]:
    """Draw all charts that a model's figures allow."""
    drawn = [
        throughput_over_batch(model, prefix=prefix),
        latency_over_batch(report, model, prefix=prefix),
        memory_by_part(model, prefix=prefix),
    ]
    if model.roofs and model.plan.model.intensity(1):
        drawn.append(roofline(model, prefix=prefix))
    if any(option.cost_usd_per_year is not None for option in model.options):
        drawn += [cost_against_latency(report, model, prefix=prefix), cost_over_years(report, model, prefix=prefix)]
    if model.swings:
        drawn.append(sensitivity_chart(report, model, prefix=prefix))
    return tuple(drawn)


def worth_usd(report: Report, option: OptionRow) -> float | None:
    """Return what options are ranked by: cost per year, or per million samples where no load is stated. [USD]"""
    return option.usd_per_million if report.demand.load.kind == "one-gpu" else option.cost_usd_per_year


def worth_unit(report: Report) -> str:
    """The unit of what options are ranked by."""
    return "USD per million samples" if report.demand.load.kind == "one-gpu" else "USD per year"


def cost_against_latency(report: Report, model: ModelReport, *, prefix: str) -> Chart:
    """Yearly cost against latency; options that no other beats in both are marked."""
    identity, title = f"{prefix}-front", "Cost against latency"
    priced = [option for option in model.options if option.cost_usd_per_year is not None]
    bottom = HEIGHT - BOTTOM

    def cost(option: OptionRow) -> float:
        return worth_usd(report, option) or 0.0

    unit = worth_unit(report)
    x = log_scale([option.latency_s.expected for option in priced], start=LEFT, end=WIDTH - RIGHT)
    y = log_scale([cost(option) for option in priced], start=bottom, end=CHART_TOP)
    parts = [
        y_axis(y, left=LEFT, right=WIDTH - RIGHT, label=unit, spell=figures.short_money),
        x_axis(x, bottom=bottom, label="latency", spell=format_seconds),
    ]
    front = sorted((o for o in priced if o.on_front), key=lambda option: option.latency_s.expected)
    if len(front) > 1:
        parts.append(path(_staircase([(x(o.latency_s.expected), y(cost(o))) for o in front]), kind="front"))
    for option in reversed(priced):
        kind = "s1" if option.key == model.verdict.choice else "s2" if option.on_front else "other"
        series = 3 if kind == "s1" else 0
        worth = f"{figures.money(cost(option))} {unit}, {format_seconds(option.latency_s.expected)}"
        tip = f"{figures.option_name(option)}: {worth}"
        spot = (x(option.latency_s.expected), y(cost(option)))
        parts.append(marker(*spot, series, kind=kind, tip=tip, size=7 if kind == "s1" else 4.5))
    if choice := model.option(model.verdict.choice):
        spot = (x(choice.latency_s.expected), y(cost(choice)))
        side = "end" if spot[0] > WIDTH * 0.6 else "start"
        parts.append(
            text(spot[0] + (12 if side == "start" else -12), spot[1] + 4, choice.gpu_name, anchor=side, kind="strong")
        )
    described = f"{unit} over latency of {len(priced)} options; {len(front)} have no cheaper and faster rival."
    data = table(
        f"option | latency> | {unit}> | head-room> | none cheaper and faster",
        [
            (
                f"{o.gpu_name} {o.term}", format_seconds(o.latency_s.expected), figures.money(cost(o)),
                figures.fraction(o.headroom_fraction), "yes" if o.on_front else "",
            )
            for o in priced[:40]
        ],
    )  # fmt: skip
    caption = (
        "The diamond is the recommendation. Marked points lie on the line below which no option lies: none is both "
        "cheaper and faster."
    )
    return make_chart(parts, identity=identity, title=title, description=described, caption=caption, data=data)


def _staircase(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join points that go right and down by horizontal and vertical steps, as the limit of what is offered."""
    steps = [points[0]]
    for point in points[1:]:
        steps += [(point[0], steps[-1][1]), point]
    return steps


def cost_over_years(report: Report, model: ModelReport, *, prefix: str) -> Chart:
    """Return what the leading options have cost after each year."""
    identity, title = f"{prefix}-years", "Cost over the years"
    shown = compared(model)
    years = list(range(len(shown[0].yearly_usd)))
    bottom, height = HEIGHT - BOTTOM, HEIGHT + 18 * ((len(shown) + 1) // 2)
    sums = [[sum(option.yearly_usd[: year + 1]) for year in years] for option in shown]
    x = linear_scale([0, years[-1]], start=LEFT, end=WIDTH - RIGHT - 8)
    y = linear_scale([value for row in sums for value in row], start=bottom, end=CHART_TOP)
    parts = [
        y_axis(y, left=LEFT, right=WIDTH - RIGHT, label=f"{report.currency}, summed", spell=figures.short_money),
        x_axis(x, bottom=bottom, label="after year", spell=lambda tick: f"{tick:g}" if tick == int(tick) else ""),
    ]
    for index, (option, row) in enumerate(zip(shown, sums, strict=True)):
        points = [(x(year), y(value)) for year, value in zip(years, row, strict=True)]
        parts.append(path(points, kind=f"line s{index + 1}"))
        parts += [
            marker(
                *point, index, kind=f"s{index + 1}",
                tip=f"{option.gpu_name} {option.term}, after year {year}: {figures.money(value)} {report.currency}",
            )
            for point, year, value in zip(points, years, row, strict=True)
        ]  # fmt: skip
    parts.append(legend([f"{option.gpu_name} {option.term}" for option in shown], y=HEIGHT + 12))
    described = f"Summed cost of {len(shown)} options over {years[-1]} years, residual value taken off at the end."
    data = table(
        "option | " + " | ".join(f"after year {year}>" for year in years),
        [
            (f"{option.gpu_name} {option.term}", *map(figures.money, row))
            for option, row in zip(shown, sums, strict=True)
        ],
    )
    caption = "Undiscounted; buying ends with the residual value taken off."
    return make_chart(
        parts, identity=identity, title=title, description=described, caption=caption, data=data, height=height
    )


def compared(model: ModelReport, *, count: int = 4) -> list[OptionRow]:
    """The options that page one compares: the choice, the runner-up, the cheapest to buy and the cheapest to rent."""
    priced = [option for option in model.options if option.cost_usd_per_year is not None]
    wanted = [model.option(model.verdict.choice), model.option(model.verdict.runner_up)]
    wanted += [next((o for o in priced if (o.term == "buy") == bought), None) for bought in (True, False)]
    picked = list({option.key: option for option in (*wanted, *priced) if option is not None}.values())
    return picked[:count]


def sensitivity_chart(report: Report, model: ModelReport, *, prefix: str) -> Chart:
    """Return what each input alone does to the choice's cost, largest first."""
    identity, title = f"{prefix}-sensitivity", "What moves the cost of the choice"
    shown = model.swings[:9]
    choice = model.option(model.verdict.choice)
    base = (worth_usd(report, choice) if choice else None) or 0.0
    unit = worth_unit(report)
    row, left = 34, 214
    height = 30 + row * len(shown) + 54
    bottom = 24 + row * len(shown)
    ends = [value for swing in shown for value in (swing.cost_low_usd, swing.cost_high_usd) if value is not None]
    x = linear_scale([base, *ends], start=left + 32, end=WIDTH - 40, from_zero=False)
    parts = [x_axis(x, bottom=bottom, label=unit, spell=figures.short_money)]
    for index, swing in enumerate(shown):
        y = 24 + index * row
        parts.append(text(left - 8, y + 17, swing.label, anchor="end"))
        for end, cost, winner in (
            (swing.low, swing.cost_low_usd, swing.winner_low), (swing.high, swing.cost_high_usd, swing.winner_high),
        ):  # fmt: skip
            parts.append(_tornado_bar(swing, end, cost, model.option(winner), base=base, x=x, y=y, model=model))
    parts.append(line(x(base), 18, x(base), bottom, kind="axis"))
    parts.append(text(x(base), 12, f"{figures.money(base)} as stated", anchor="middle"))
    described = "Cost of the choice with each input at the ends of its range, largest swing first."
    data = table(
        f"input | unit | low> | stated> | high> | {unit} at low> | {unit} at high> | best at low | best at high",
        [
            (
                swing.label, swing.unit, f"{swing.low:.4g}", f"{swing.value:.4g}", f"{swing.high:.4g}",
                *(_met(cost) for cost in (swing.cost_low_usd, swing.cost_high_usd)),
                *(figures.option_name(model.option(winner)) for winner in (swing.winner_low, swing.winner_high)),
            )
            for swing in model.swings
        ],
    )  # fmt: skip
    caption = (
        "One input at a time to the ends of its range; interactions are left out. Hatched bars are where another "
        "option becomes the cheapest."
    )
    return make_chart(
        parts, identity=identity, title=title, description=described, caption=caption, data=data, height=height
    )


def _met(cost: float | None) -> str:
    return figures.money(cost) if cost is not None else "cannot be met"


def _tornado_bar(
    swing: SwingRow,
    end: float,
    cost: float | None,
    winner: OptionRow | None,
    *,
    base: float,
    x: Callable[[float], float],
    y: float,
    model: ModelReport,
) -> str:
    if cost is None:
        return text(x(base) + 6, y + 17, f"cannot be met at {end:.3g}")
    start, stop = sorted((x(base), x(cost)))
    flips = winner is None or winner.key != model.verdict.choice
    kind = ("s1" if cost < base else "s2") + (" flips" if flips else "")
    tip = f"{swing.label} {end:.4g} {swing.unit}: {figures.money(cost)} USD; cheapest: {figures.option_name(winner)}"
    bar = rectangle(start, y + 4, stop - start, 18, kind=kind, tip=tip)
    if abs(x(cost) - x(base)) < 2:
        return bar
    anchor, shift = ("end", -4) if cost < base else ("start", 4)
    return bar + text(x(cost) + shift, y + 17, f"{end:.3g}", anchor=anchor)
