"""The report's charts of speed and memory over the batch."""

from collections.abc import Callable, Sequence

from capplan.core.numbers import Interval
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
from capplan.report.documents.plan import PlannedFit
from capplan.report.procurement import figures
from capplan.report.procurement.types import ModelReport, Report
from capplan.report.table import Align, Column, Table, table
from capplan.units import format_bytes, format_flops_per_s, format_rate, format_seconds

SERIES = 6


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
        value=lambda each: each.throughput_per_s.interval,
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
        value=lambda each: each.latency_s.interval,
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
    value: Callable[[PlannedFit], Interval],
    spell: Callable[[float], str],
    caption: str,
    limit: float | None,
) -> Chart:
    gpus = leading_gpus(model)
    rows = {gpu: model.plan.fits_on(gpu) for gpu in gpus}
    height = HEIGHT + 18 * ((len(gpus) + 1) // 2)
    bottom = HEIGHT - BOTTOM
    every = [value(each) for estimates in rows.values() for each in estimates]
    x = log_scale([each.batch for estimates in rows.values() for each in estimates], start=LEFT, end=WIDTH - RIGHT)
    ends = [end for interval in every for end in (interval.low, interval.high)]
    y = log_scale([*ends, *([limit] if limit else [])], start=bottom, end=CHART_TOP)
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
    described = f"{title} of {', '.join(names)} with {model.plan.model.name}; the table below holds the figures."
    data = table(
        "GPU | batch> | low> | expected> | high> | bound by",
        [
            (each.gpu_name, str(each.batch), *(spell(v) for v in _ends(value(each))), each.bound_by)
            for gpu in gpus
            for each in rows[gpu]
        ],
    )
    return make_chart(
        parts, identity=identity, title=title, description=described, caption=caption, data=data, height=height
    )


def _batch_ticks(model: ModelReport) -> list[float]:
    batches = sorted({float(each.batch) for each in model.plan.fits})
    return batches if len(batches) <= 7 else batches[:: 2 if len(batches) <= 13 else 3]


def _ends(interval: Interval) -> tuple[float, float, float]:
    return interval.low, interval.expected, interval.high


def memory_by_part(model: ModelReport, *, prefix: str) -> Chart:
    """Memory of each leading GPU at its batch, by part, against what may be filled."""
    identity, title = f"{prefix}-memory", "Memory by part against usable"
    chosen = {option.gpu: option.batch for option in reversed(model.options)}
    bars = [next(each for each in model.plan.fits_on(gpu) if each.batch == chosen[gpu]) for gpu in leading_gpus(model)]
    groups = _part_groups(bars)
    row, top, left = 44, 12, 8.0
    height = top + row * len(bars) + 46 + 18 * ((len(groups) + 1) // 2)
    bottom = top + row * len(bars)
    x = linear_scale([0.0, max(each.memory.total_bytes.high for each in bars) / 2**30], start=left, end=WIDTH - RIGHT)
    parts = [x_axis(x, bottom=bottom, label="GiB", spell=lambda tick: f"{tick:g}")]
    for index, each in enumerate(bars):
        y, start = top + index * row, 0.0
        usable = (
            f" of {format_bytes(each.memory.usable_bytes)} usable" if each.memory.usable_bytes else ", usable unknown"
        )
        total = format_bytes(each.memory.total_bytes.expected)
        parts.append(text(left, y + 10, f"{each.gpu_name}, batch {each.batch}: {total}{usable}"))
        sizes = {name: size.expected for name, size in each.memory.all_parts().items()}
        for series, (name, members) in enumerate(groups.items()):
            size = sum(sizes.get(member, 0.0) for member in members) / 2**30
            tip = f"{each.gpu_name}: {name} {format_bytes(size * 2**30)}"
            parts.append(rectangle(x(start), y + 15, x(start + size) - x(start), 16, kind=f"s{series + 1}", tip=tip))
            start += size
        low, high = each.memory.total_bytes.low / 2**30, each.memory.total_bytes.high / 2**30
        parts.append(line(x(low), y + 35, x(high), y + 35, kind="whisker"))
        if each.memory.usable_bytes and each.memory.usable_bytes / 2**30 <= x.high:
            limit = x(each.memory.usable_bytes / 2**30)
            parts.append(line(limit, y + 12, limit, y + 38, kind="limit"))
    parts.append(legend(list(groups), y=bottom + 62, left=left))
    described = f"Peak memory of {model.plan.model.name} by part on each leading GPU, against its usable memory."
    heads = ("batch", *groups, "total", "low", "high", "usable")
    data = Table(
        columns=(Column(title="GPU"), *(Column(title=name, align=Align.RIGHT) for name in heads)),
        rows=tuple(
            (
                each.gpu_name,
                str(each.batch),
                *(
                    format_bytes(
                        sum(size.expected for name, size in each.memory.all_parts().items() if name in members)
                    )
                    for members in groups.values()
                ),
                *(
                    format_bytes(v)
                    for v in (
                        each.memory.total_bytes.expected,
                        each.memory.total_bytes.low,
                        each.memory.total_bytes.high,
                    )
                ),
                format_bytes(each.memory.usable_bytes) if each.memory.usable_bytes else figures.UNKNOWN,
            )
            for each in bars
        ),
    )
    caption = (
        "Bars are expected, thin lines the interval of the total; a dashed mark is the usable memory where it is near."
    )
    return make_chart(
        parts, identity=identity, title=title, description=described, caption=caption, data=data, height=height
    )


def _part_groups(bars: Sequence[PlannedFit]) -> dict[str, tuple[str, ...]]:
    """The five largest parts by name, the rest together."""
    totals: dict[str, float] = {}
    for each in bars:
        for name, size in each.memory.all_parts().items():
            totals[name] = totals.get(name, 0.0) + size.expected
    ranked = sorted(totals, key=lambda name: -totals[name])
    groups = {name: (name,) for name in ranked[: SERIES - 1]}
    rest = tuple(ranked[SERIES - 1 :])
    return groups | ({"other": rest} if rest else {})


def roofline(model: ModelReport, *, prefix: str) -> Chart:
    """Return what each leading GPU's printed limits allow at the model's arithmetic intensity, and what is expected."""
    identity, title = f"{prefix}-roofline", "Roofline"
    bottom = HEIGHT - BOTTOM
    points = {
        roof.gpu: [
            (intensity, model.plan.model.flops_per_sample * each.batch / each.latency_s.expected, each.batch)
            for each in model.plan.fits_on(roof.gpu)
            if (intensity := model.plan.model.intensity(each.batch))
        ]
        for roof in model.roofs
    }
    every = [point for row in points.values() for point in row]
    ridges = [roof.peak_flops_per_s / roof.bandwidth_bytes_per_s for roof in model.roofs]
    x = log_scale([*(each[0] for each in every), *ridges, 1.0], start=LEFT, end=WIDTH - RIGHT)
    y = log_scale(
        [*(each[1] for each in every), *(roof.peak_flops_per_s for roof in model.roofs)], start=bottom, end=CHART_TOP
    )
    parts = [
        y_axis(y, left=LEFT, right=WIDTH - RIGHT, label="TFLOP per second", spell=lambda rate: f"{rate / 1e12:g}"),
        x_axis(x, bottom=bottom, label="arithmetic intensity, FLOP per byte", spell=lambda tick: f"{tick:g}"),
    ]
    for index, (roof, ridge) in enumerate(zip(model.roofs, ridges, strict=True)):
        start = max(x.low, y.low / roof.bandwidth_bytes_per_s)
        corners = [
            (start, start * roof.bandwidth_bytes_per_s),
            (ridge, roof.peak_flops_per_s),
            (x.high, roof.peak_flops_per_s),
        ]
        parts.append(path([(x(a), y(b)) for a, b in corners], kind=f"line s{index + 1}"))
        parts += [
            marker(
                x(intensity), y(rate), index, kind=f"s{index + 1}",
                tip=f"{roof.gpu_name}, batch {batch}: {format_flops_per_s(rate)} at {intensity:.3g} FLOP/byte",
            )
            for intensity, rate, batch in points[roof.gpu]
        ]  # fmt: skip
    parts.append(legend([roof.gpu_name for roof in model.roofs], y=HEIGHT + 12))
    heads = ("batch", "FLOP/byte", "expected", "peak", "ridge FLOP/byte")
    data = Table(
        columns=(Column(title="GPU"), *(Column(title=name, align=Align.RIGHT) for name in heads)),
        rows=tuple(
            (
                roof.gpu_name, str(batch), f"{intensity:.3g}", format_flops_per_s(rate),
                format_flops_per_s(roof.peak_flops_per_s), f"{ridge:.3g}",
            )
            for roof, ridge in zip(model.roofs, ridges, strict=True)
            for intensity, rate, batch in points[roof.gpu]
        ),
    )  # fmt: skip
    return make_chart(
        parts,
        identity=identity,
        title=title,
        description=f"Printed limits of {len(model.roofs)} GPUs and the expected rate of {model.plan.model.name}.",
        caption="Lines are printed, dense limits; marks are expected at each batch. Left of the bend memory binds.",
        data=data,
        height=HEIGHT + 18 * ((len(model.roofs) + 1) // 2),
    )
