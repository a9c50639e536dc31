"""The report's charts: each with its picture, its words and the table of the same figures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from capplan.core.estimates import Interval
from capplan.report import figures
from capplan.report.charts import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    legend,
    line,
    linear_scale,
    log_scale,
    marker,
    path,
    rectangle,
    svg,
    text,
    x_axis,
    y_axis,
)
from capplan.report.report_types import ModelReport, OptionRow, Report, SwingRow
from capplan.report.subject import Estimate
from capplan.report.table import Table, table
from capplan.units import format_bytes, format_rate, format_seconds

SERIES = 6
_TOP = TOP + 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture with a heading, a sentence on how to read it, and its figures."""

    identity: str
    title: str
    caption: str
    picture: str
    data: Table


def charts(report: Report, model: ModelReport, *, prefix: str) -> tuple[Chart, ...]:
    """Draw all charts that a model's figures allow."""
    drawn = [
        throughput_over_batch(model, prefix=prefix),
        latency_over_batch(report, model, prefix=prefix),
        memory_by_part(model, prefix=prefix),
    ]
    if any(option.cost_usd_per_year is not None for option in model.options):
        drawn += [cost_against_latency(report, model, prefix=prefix), cost_over_years(report, model, prefix=prefix)]
    if model.swings:
        drawn.append(sensitivity_chart(model, prefix=prefix))
    return tuple(drawn)


def leading_gpus(model: ModelReport, *, count: int = SERIES) -> list[str]:
    """The first GPUs by the options' ranking."""
    return list(dict.fromkeys(option.gpu for option in model.options))[:count]


def throughput_over_batch(model: ModelReport, *, prefix: str) -> Chart:
    """Samples per second over the batch, with the estimate's interval."""
    return _over_batch(
        model,
        identity=f"{prefix}-throughput",
        title="Throughput over batch",
        label="samples per second",
        value=lambda each: each.throughput_per_s,
        spell=format_rate,
        caption="Lines are expected; the band is the interval of the leading GPU, the others' are in the table.",
        limit=None,
    )


def latency_over_batch(report: Report, model: ModelReport, *, prefix: str) -> Chart:
    """Time of one batch over the batch, with the estimate's interval and the limit."""
    limit_s = getattr(report.demand.load, "latency_limit_s", None)
    return _over_batch(
        model,
        identity=f"{prefix}-latency",
        title="Latency of one batch",
        label="time of one batch",
        value=lambda each: each.latency_s,
        spell=format_seconds,
        caption="Time of one batch alone, without waiting; the band is the interval of the leading GPU."
        + (f" The dashed line is the limit of {format_seconds(limit_s)}." if limit_s else ""),
        limit=limit_s,
    )


def _over_batch(
    model: ModelReport,
    *,
    identity: str,
    title: str,
    label: str,
    value: Callable[[Estimate], Interval],
    spell: Callable[[float], str],
    caption: str,
    limit: float | None,
) -> Chart:
    gpus = leading_gpus(model)
    rows = {gpu: model.subject.of_gpu(gpu) for gpu in gpus}
    height = HEIGHT + 18 * ((len(gpus) + 1) // 2)
    bottom = HEIGHT - BOTTOM
    every = [value(each) for estimates in rows.values() for each in estimates]
    x = log_scale([each.batch for estimates in rows.values() for each in estimates], start=LEFT, end=WIDTH - RIGHT)
    ends = [end for interval in every for end in (interval.low, interval.high)]
    y = log_scale([*ends, *([limit] if limit else [])], start=bottom, end=_TOP)
    parts = [
        y_axis(y, left=LEFT, right=WIDTH - RIGHT, label=label, spell=spell),
        x_axis(x, bottom=bottom, label="batch", spell=lambda tick: f"{tick:g}", ticks=_batch_ticks(model)),
    ]
    if limit:
        parts.append(line(LEFT, y(limit), WIDTH - RIGHT, y(limit), kind="limit"))
    for index, gpu in enumerate(gpus):
        points = [(x(each.batch), value(each)) for each in rows[gpu]]
        if index == 0:
            band = [(px, y(v.low)) for px, v in points] + [(px, y(v.high)) for px, v in reversed(points)]
            parts.append(path(band, kind="band s1", is_closed=True))
        parts.append(path([(px, y(v.expected)) for px, v in points], kind=f"line s{index + 1}"))
        parts += [
            marker(
                px, y(v.expected), index, kind=f"s{index + 1}",
                tip=f"{each.gpu_name}, batch {each.batch}: {spell(v.expected)} ({spell(v.low)} to {spell(v.high)})",
            )
            for (px, v), each in zip(points, rows[gpu], strict=True)
        ]  # fmt: skip
    names = [rows[gpu][0].gpu_name for gpu in gpus]
    parts.append(legend(names, y=HEIGHT + 12))
    described = f"{title} of {', '.join(names)} with {model.subject.name}; the table below holds the figures."
    data = table(
        "GPU | batch> | low> | expected> | high> | bound by",
        [
            (each.gpu_name, str(each.batch), *(spell(v) for v in _ends(value(each))), each.bound_by)
            for gpu in gpus
            for each in rows[gpu]
        ],
    )
    picture = svg("".join(parts), identity=identity, title=title, description=described, height=height)
    return Chart(identity=identity, title=title, caption=caption, picture=picture, data=data)


def _batch_ticks(model: ModelReport) -> list[float]:
    batches = sorted({float(each.batch) for each in model.subject.estimates})
    return batches if len(batches) <= 7 else batches[:: 2 if len(batches) <= 13 else 3]


def _ends(interval: Interval) -> tuple[float, float, float]:
    return interval.low, interval.expected, interval.high


def memory_by_part(model: ModelReport, *, prefix: str) -> Chart:
    """Memory of each leading GPU at its batch, by part, against what may be filled."""
    identity, title = f"{prefix}-memory", "Memory by part against usable"
    chosen = {option.gpu: option.batch for option in reversed(model.options)}
    bars = [
        next(each for each in model.subject.of_gpu(gpu) if each.batch == chosen[gpu]) for gpu in leading_gpus(model)
    ]
    groups = _part_groups(bars)
    row, top, left = 44, 12, 8.0
    height = top + row * len(bars) + 46 + 18 * ((len(groups) + 1) // 2)
    bottom = top + row * len(bars)
    x = linear_scale([0.0, max(each.total_bytes.high for each in bars) / 2**30], start=left, end=WIDTH - RIGHT)
    parts = [x_axis(x, bottom=bottom, label="GiB", spell=lambda tick: f"{tick:g}")]
    for index, each in enumerate(bars):
        y, start = top + index * row, 0.0
        usable = f" of {format_bytes(each.usable_bytes)} usable" if each.usable_bytes else ", usable unknown"
        total = format_bytes(each.total_bytes.expected)
        parts.append(text(left, y + 10, f"{each.gpu_name}, batch {each.batch}: {total}{usable}"))
        sizes = {part.name: part.size_bytes.expected for part in each.parts}
        for series, (name, members) in enumerate(groups.items()):
            size = sum(sizes.get(member, 0.0) for member in members) / 2**30
            tip = f"{each.gpu_name}: {name} {format_bytes(size * 2**30)}"
            parts.append(rectangle(x(start), y + 15, x(start + size) - x(start), 16, kind=f"s{series + 1}", tip=tip))
            start += size
        low, high = each.total_bytes.low / 2**30, each.total_bytes.high / 2**30
        parts.append(line(x(low), y + 35, x(high), y + 35, kind="whisker"))
        if each.usable_bytes and each.usable_bytes / 2**30 <= x.high:
            limit = x(each.usable_bytes / 2**30)
            parts.append(line(limit, y + 12, limit, y + 38, kind="limit"))
    parts.append(legend(list(groups), y=bottom + 62, left=left))
    picture = svg(
        "".join(parts), identity=identity, title=title, height=height,
        description=f"Peak memory of {model.subject.name} by part on each leading GPU, against its usable memory.",
    )  # fmt: skip
    data = table(
        "GPU | batch> | " + " | ".join(f"{name}>" for name in groups) + " | total> | low> | high> | usable>",
        [
            (
                each.gpu_name,
                str(each.batch),
                *(
                    format_bytes(sum(part.size_bytes.expected for part in each.parts if part.name in members))
                    for members in groups.values()
                ),
                *(format_bytes(v) for v in (each.total_bytes.expected, each.total_bytes.low, each.total_bytes.high)),
                format_bytes(each.usable_bytes) if each.usable_bytes else figures.UNKNOWN,
            )
            for each in bars
        ],
    )
    caption = (
        "Bars are expected, thin lines the interval of the total; a dashed mark is the usable memory where it is near."
    )
    return Chart(identity=identity, title=title, caption=caption, picture=picture, data=data)


def _part_groups(bars: Sequence[Estimate]) -> dict[str, tuple[str, ...]]:
    """The five largest parts by name, the rest together."""
    totals: dict[str, float] = {}
    for each in bars:
        for part in each.parts:
            totals[part.name] = totals.get(part.name, 0.0) + part.size_bytes.expected
    ranked = sorted(totals, key=lambda name: -totals[name])
    groups = {name: (name,) for name in ranked[: SERIES - 1]}
    rest = tuple(ranked[SERIES - 1 :])
    return groups | ({"other": rest} if rest else {})


def cost_against_latency(report: Report, model: ModelReport, *, prefix: str) -> Chart:
    """Yearly cost against latency; the Pareto front is marked."""
    identity, title = f"{prefix}-front", "Cost against latency"
    priced = [option for option in model.options if option.cost_usd_per_year is not None]
    per_sample = report.demand.load.kind == "one-gpu"
    bottom = HEIGHT - BOTTOM

    def cost(option: OptionRow) -> float:
        return (option.usd_per_million if per_sample else option.cost_usd_per_year) or 0.0

    unit = "USD per million samples" if per_sample else "USD per year"
    x = log_scale([option.latency_s.expected for option in priced], start=LEFT, end=WIDTH - RIGHT)
    y = log_scale([cost(option) for option in priced], start=bottom, end=_TOP)
    parts = [
        y_axis(y, left=LEFT, right=WIDTH - RIGHT, label=unit, spell=figures.short_money),
        x_axis(x, bottom=bottom, label="latency", spell=format_seconds),
    ]
    front = sorted((o for o in priced if o.on_front), key=lambda option: option.latency_s.expected)
    if len(front) > 1:
        parts.append(path([(x(o.latency_s.expected), y(cost(o))) for o in front], kind="front"))
    for option in reversed(priced):
        kind = "s1" if option.key == model.verdict.choice else "s2" if option.on_front else "other"
        series = 3 if kind == "s1" else 0
        tip = f"{option.gpu_name} {option.term}: {figures.money(cost(option))} {unit}, {format_seconds(option.latency_s.expected)}"
        spot = (x(option.latency_s.expected), y(cost(option)))
        parts.append(marker(*spot, series, kind=kind, tip=tip, size=7 if kind == "s1" else 4.5))
    if choice := model.option(model.verdict.choice):
        spot = (x(choice.latency_s.expected), y(cost(choice)))
        side = "end" if spot[0] > WIDTH * 0.6 else "start"
        parts.append(
            text(spot[0] + (12 if side == "start" else -12), spot[1] + 4, choice.gpu_name, anchor=side, kind="strong")
        )
    picture = svg(
        "".join(parts), identity=identity, title=title,
        description=f"{unit} over latency of {len(priced)} options; {len(front)} are on the Pareto front.",
    )  # fmt: skip
    data = table(
        f"option | latency> | {unit}> | head-room> | on the front",
        [
            (
                f"{o.gpu_name} {o.term}", format_seconds(o.latency_s.expected), figures.money(cost(o)),
                figures.fraction(o.headroom_fraction), "yes" if o.on_front else "",
            )
            for o in priced[:40]
        ],
    )  # fmt: skip
    caption = (
        "The diamond is the recommendation. Marked points and the line are the Pareto front: nothing else is better in "
        "cost, latency and head-room at once."
    )
    return Chart(identity=identity, title=title, caption=caption, picture=picture, data=data)


def cost_over_years(report: Report, model: ModelReport, *, prefix: str) -> Chart:
    """What the leading options have cost after each year."""
    identity, title = f"{prefix}-years", "Cost over the years"
    shown = compared(model)
    years = list(range(len(shown[0].yearly_usd)))
    bottom, height = HEIGHT - BOTTOM, HEIGHT + 18 * ((len(shown) + 1) // 2)
    sums = [[sum(option.yearly_usd[: year + 1]) for year in years] for option in shown]
    x = linear_scale([0, years[-1]], start=LEFT, end=WIDTH - RIGHT - 8)
    y = linear_scale([value for row in sums for value in row], start=bottom, end=_TOP)
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
    picture = svg(
        "".join(parts), identity=identity, title=title, height=height,
        description=f"Summed cost of {len(shown)} options over {years[-1]} years, residual value taken off at the end.",
    )  # fmt: skip
    data = table(
        "option | " + " | ".join(f"after year {year}>" for year in years),
        [
            (f"{option.gpu_name} {option.term}", *map(figures.money, row))
            for option, row in zip(shown, sums, strict=True)
        ],
    )
    caption = "Undiscounted; buying ends with the residual value taken off."
    return Chart(identity=identity, title=title, caption=caption, picture=picture, data=data)


def compared(model: ModelReport, *, count: int = 4) -> list[OptionRow]:
    """The options that page one compares: the choice, the runner-up, the cheapest to buy and the cheapest to rent."""
    priced = [option for option in model.options if option.cost_usd_per_year is not None]
    wanted = [model.option(model.verdict.choice), model.option(model.verdict.runner_up)]
    wanted += [next((o for o in priced if (o.term == "buy") == bought), None) for bought in (True, False)]
    picked = list({option.key: option for option in (*wanted, *priced) if option is not None}.values())
    return picked[:count]


def sensitivity_chart(model: ModelReport, *, prefix: str) -> Chart:
    """What each input alone does to the choice's yearly cost, largest first."""
    identity, title = f"{prefix}-sensitivity", "What moves the cost of the choice"
    shown = model.swings[:9]
    base = next(option.cost_usd_per_year or 0.0 for option in model.options if option.key == model.verdict.choice)
    row, left = 34, 214
    height = 30 + row * len(shown) + 54
    bottom = 24 + row * len(shown)
    ends = [value for swing in shown for value in (swing.cost_low_usd, swing.cost_high_usd) if value is not None]
    x = linear_scale([base, *ends], start=left + 32, end=WIDTH - 40, from_zero=False)
    parts = [x_axis(x, bottom=bottom, label="USD per year", spell=figures.short_money)]
    for index, swing in enumerate(shown):
        y = 24 + index * row
        parts.append(text(left - 8, y + 17, swing.label, anchor="end"))
        for end, cost, winner in (
            (swing.low, swing.cost_low_usd, swing.winner_low), (swing.high, swing.cost_high_usd, swing.winner_high),
        ):  # fmt: skip
            parts.append(_tornado_bar(swing, end, cost, model.option(winner), base=base, x=x, y=y, model=model))
    parts.append(line(x(base), 18, x(base), bottom, kind="axis"))
    parts.append(text(x(base), 12, f"{figures.money(base)} as stated", anchor="middle"))
    picture = svg(
        "".join(parts), identity=identity, title=title, height=height,
        description="Yearly cost of the recommended option with each input at the ends of its range, largest swing first.",
    )  # fmt: skip
    data = table(
        "input | unit | low> | stated> | high> | USD/year at low> | USD/year at high> | cheapest at low | cheapest at high",
        [
            (
                swing.label, swing.unit, f"{swing.low:.4g}", f"{swing.value:.4g}", f"{swing.high:.4g}",
                *(figures.money(cost) if cost is not None else "cannot be met" for cost in (swing.cost_low_usd, swing.cost_high_usd)),
                *(figures.option_name(model.option(winner)) for winner in (swing.winner_low, swing.winner_high)),
            )
            for swing in model.swings
        ],
    )  # fmt: skip
    caption = (
        "One input at a time to the ends of its range; interactions are left out. Hatched bars are where another "
        "option becomes the cheapest."
    )
    return Chart(identity=identity, title=title, caption=caption, picture=picture, data=data)


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
    tip = f"{swing.label} {end:.4g} {swing.unit}: {figures.money(cost)} USD per year; cheapest: {figures.option_name(winner)}"
    bar = rectangle(start, y + 4, stop - start, 18, kind=kind, tip=tip)
    if abs(x(cost) - x(base)) < 2:
        return bar
    anchor, shift = ("end", -4) if cost < base else ("start", 4)
    return bar + text(x(cost) + shift, y + 17, f"{end:.3g}", anchor=anchor)
