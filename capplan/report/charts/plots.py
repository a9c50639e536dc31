"""Plots of measurements, estimates, memory and pipelines over batches, operators and time."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from capplan.core.measurement.pipeline import PipelineTimes
from capplan.core.measurement.types import Measurement
from capplan.core.memory.fit import available_memory
from capplan.core.memory.summary import MemoryResult
from capplan.core.plan.estimate import EstimateReport
from capplan.core.plan.types import Plan
from capplan.report.charts.look import LIMIT, MUTED, PALETTE, Drawing, data, drawing, few_ticks, legend
from capplan.report.charts.series import Axes, Series, series_chart
from capplan.units import format_bytes, format_flops_per_s, format_seconds


def measurement_chart(points: Sequence[Measurement]) -> Drawing:
    """Draw the median time of each batch in ms, and what the estimate says of it where there is one.

    Curves of one model on one device share a colour; the estimate is the line without dots, in its interval.
    """
    curves: dict[tuple[str, ...], list[Measurement]] = {}
    for point in sorted(points, key=lambda point: point.workload.batch):
        curves.setdefault(_parts(point), []).append(point)
    series: list[Series] = []
    for colour, (parts, mine) in enumerate(curves.items()):
        name = _name(parts, [*curves])
        series.append(_measured(name or "measured", mine, colour))
        if all(point.theory for point in mine):
            series.append(_expected(f"{name}, estimated" if name else "estimated", mine, colour))
    batches = sorted({float(point.workload.batch) for point in points})
    axes = Axes(x_title="batch", y_title="median time of a batch, ms", x_ticks=few_ticks(batches))
    return series_chart(series, title=_title(curves), axes=axes, subtitle=_conditions(points))


def pipeline_chart(timed: Sequence[PipelineTimes]) -> Drawing:
    """Draw the time of each repetition of a pipeline in ms, end to end in both ways, and of each stage.

    Stages are drawn by the device's events where there are any, else by the host's clock with a wait after each.
    """
    series: list[Series] = []
    for pipeline in timed:
        at = f", batch {pipeline.batch}" if len(timed) > 1 else ""
        ways = {"end to end, host left free": pipeline.alone_s, "end to end, waiting": pipeline.stalled_frames_s}
        by_stage = {stage.name: stage.device_s if pipeline.has_events else stage.waited_s for stage in pipeline.stages}
        series += [
            Series(label=f"{label}{at}", points=[(index, 1e3 * time_s) for index, time_s in enumerate(times_s, 1)])
            for label, times_s in {**ways, **by_stage}.items()
        ]
    axes = Axes(x_title="repetition", y_title="time, ms", x_is_linear=True)
    stages = "device, by events" if timed[0].has_events else "host's clock, waiting after each"
    first = timed[0]
    subtitle = f"batch {', '.join(str(pipeline.batch) for pipeline in timed)} on {first.device}; stages: {stages}"
    return series_chart(series, title=f"{first.name}: frame by frame", axes=axes, subtitle=subtitle)


def _parts(point: Measurement) -> tuple[str, ...]:
    """Return what distinguishes one curve from another: model, device, number format, framework."""
    work = point.workload
    return point.model.words, point.device.name, work.precision.value, work.framework.value


def _name(parts: Sequence[str], curves: Sequence[Sequence[str]]) -> str:
    """Return the parts of a curve's name that differ between the curves; empty if there is one curve."""
    return ", ".join(part for part, every in zip(parts, zip(*curves, strict=True), strict=True) if len(set(every)) > 1)


def _title(curves: Iterable[Sequence[str]]) -> str:
    return f"{', '.join(dict.fromkeys(parts[0] for parts in curves))}: measured time over batch"


def _conditions(points: Sequence[Measurement]) -> str:
    parts = list(zip(*map(_parts, points), strict=True))[1:]
    shared = [every[0] for every in parts if len(set(every)) == 1]
    versions = dict.fromkeys(f"torch {point.device.torch}" for point in points)
    return (
        f"{', '.join([*shared, *versions])}; dots are measured, lines without dots estimated with their 90 % interval"
    )


def _measured(name: str, points: Sequence[Measurement], colour: int) -> Series:
    return Series(
        label=name, points=[(point.workload.batch, 1e3 * point.latency.median) for point in points], colour=colour
    )


def _expected(name: str, points: Sequence[Measurement], colour: int) -> Series:
    known = [(point.workload.batch, point.theory) for point in points if point.theory]
    return Series(
        label=name,
        points=[(batch, 1e3 * theory.expected_s) for batch, theory in known],
        has_dots=False,
        band=[(1e3 * theory.low_s, 1e3 * theory.high_s) for _, theory in known],
        colour=colour,
    )


_LEAST_SHARE = 0.01


def curve_chart(reports: Sequence[EstimateReport]) -> Drawing:
    """Draw samples per second over the batch, with the 90 % interval of each GPU."""
    series = [
        Series(
            label=report.breakdown.gpu.name,
            points=[(point.batch, point.throughput_per_s.expected) for point in report.curve],
            band=[(point.throughput_per_s.low, point.throughput_per_s.high) for point in report.curve],
        )
        for report in reports
    ]
    batches = sorted({float(point.batch) for report in reports for point in report.curve})
    axes = Axes(x_title="batch", y_title="samples per second (band: 90 % interval)", x_ticks=few_ticks(batches))
    return series_chart(series, title=f"{reports[0].model}: throughput over batch", axes=axes)


def roofline_chart(reports: Sequence[EstimateReport]) -> Drawing:
    """Draw each kernel's reached rate over its arithmetic intensity, under the printed roofs of its GPU."""
    series = []
    for colour, report in enumerate(reports):
        series += _roofs(report, colour)
        kernels = [item for item in report.breakdown.kernels if item.flops > 0 and item.traffic_bytes > 0]
        points = [(item.flops / item.traffic_bytes, item.flops / item.time_s / 1e12) for item in kernels]
        label = f"{report.breakdown.gpu.name}, kernels at batch {report.breakdown.batch}"
        series.append(Series(label=label, points=points, is_line=False, colour=colour))
    axes = Axes(x_title="arithmetic intensity, FLOP per byte", y_title="TFLOP per second")
    return series_chart(series, title=f"{reports[0].model}: kernels under the roofline", axes=axes)


def _roofs(report: EstimateReport, colour: int) -> list[Series]:
    """Return a roof for each rate that does a hundredth of the step's arithmetic or more."""
    shares: dict[float, float] = {}
    for work in report.classic.work:
        shares[work.flops_per_s] = shares.get(work.flops_per_s, 0.0) + work.flops / report.classic.flops
    intensities = np.geomspace(0.1, 10000, 61)
    slope = intensities * report.classic.bandwidth_bytes_per_s
    return [
        Series(
            label=f"{report.breakdown.gpu.name}, printed {format_flops_per_s(peak)}",
            points=list(zip(intensities.tolist(), (np.minimum(peak, slope) / 1e12).tolist(), strict=True)),
            has_dots=False,
            colour=colour,
        )
        for peak in sorted((peak for peak, share in shares.items() if share >= _LEAST_SHARE), reverse=True)
    ]


_MOST_POINTS = 1500


def live_chart(memory: MemoryResult) -> Drawing:
    """Draw live bytes over the operators, with the peak marked."""
    batch, recording = memory.answer.estimate.batch, memory.model.recording
    live_bytes: list[int] = memory.model.curve.at(batch).tolist()
    title = f"{memory.answer.name}, batch {batch}: live bytes of weights, inputs and activations"
    op = recording.ops[max(0, live_bytes.index(max(live_bytes)) - 1)]
    peak_label = f"{recording.kernels[op.kernel].name} {recording.modules[op.module]}".strip()
    phases = [(f"{phase.name} {phase.step}", phase.first_op) for phase in recording.phases]
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    most = max(live_bytes)
    scale, unit = (2**30, "GiB") if most >= 2**30 else (2**20, "MiB")
    x = alt.X("call:Q", title="operator calls")
    y = alt.Y("size:Q", title=f"live {unit}")
    rows = [{"call": call, "size": size / scale} for call, size in _thinned(live_bytes)]
    area = alt.Chart(data(rows, "live")).mark_area(
        color=PALETTE[0], opacity=0.25, line={"color": PALETTE[0], "strokeWidth": 1.2}
    )
    peak = {"call": live_bytes.index(most), "size": most / scale, "words": f"{format_bytes(most)} at {peak_label}"}
    is_late = live_bytes.index(most) > len(live_bytes) / 2
    mark = alt.Chart(data([peak], "peak"))
    layers: list[Any] = [
        area.encode(x=x, y=y),
        mark.mark_circle(color=LIMIT, size=60, opacity=1).encode(x=x, y=y),
        mark.mark_text(color=LIMIT, dy=-10, dx=-6 if is_late else 6, align="right" if is_late else "left").encode(
            x=x, y=y, text="words:N"
        ),
    ]
    if phases:
        starts = alt.Chart(data([{"phase": name, "call": call} for name, call in phases], "phases"))
        layers.append(starts.mark_rule(color=MUTED, strokeDash=[4, 3]).encode(x=x))
        layers.append(
            starts.mark_text(align="left", dx=3, dy=10, color=MUTED).encode(x=x, y=alt.value(0), text="phase:N")
        )
    return drawing(alt.layer(*layers), title=title)


def _thinned(live_bytes: Sequence[int]) -> list[tuple[int, int]]:
    """Keep the highest operator of each stretch, so that no peak is lost."""
    stretch = max(1, len(live_bytes) // _MOST_POINTS)
    kept = []
    for start in range(0, len(live_bytes), stretch):
        piece = live_bytes[start : start + stretch]
        highest = max(range(len(piece)), key=piece.__getitem__)
        kept.append((start + highest, piece[highest]))
    return kept


def timeline_chart(plan: Plan) -> Drawing | None:
    """Draw the parts of one batch of a pipeline's items on the recommended GPU, each from its start.

    Parts of a CPU are as high as a line; the memory that may be filled is drawn as one. None where nothing fits.
    """
    if not plan.fits:
        return None
    fit = plan.best() or plan.fits[0]
    parts, title = fit.parts, f"{plan.model.name}, batch {fit.batch} on {fit.gpu.id}"
    usable_bytes = available_memory(fit.gpu, utilization_fraction=plan.limits.utilization_fraction).expected
    import altair as alt  # noqa: PLC0415 - an optional package, wanted for charts alone

    rows, last = [], max((part.start_s + part.total_s for part in parts), default=0.0)
    for part in parts:
        label = (
            f"{part.name}: {part.times:g} × {format_seconds(part.total_s / part.times)}" if part.times else part.name
        )
        rows.append({
            "part": label, "start": part.start_s, "end": part.start_s + part.total_s, "none": 0.0,
            "memory": part.peak_bytes / 2**30, "words": format_bytes(part.peak_bytes),
        })  # fmt: skip
    labels = [str(row["part"]) for row in rows]
    bars = alt.Chart(data(rows, "parts")).mark_rect(opacity=0.75, stroke="white", strokeWidth=0.5)
    limit = alt.Chart(data([{"limit": usable_bytes / 2**30}], "limit"))
    chart = alt.layer(
        bars.encode(
            x=alt.X("start:Q", title="seconds", scale=alt.Scale(domain=[0, last])),
            x2="end:Q",
            y=alt.Y("memory:Q", title="memory of the process, GiB"),
            y2="none:Q",
            color=alt.Color(
                "part:N",
                scale=alt.Scale(domain=labels, range=[PALETTE[index % len(PALETTE)] for index in range(len(labels))]),
                legend=legend(labels),
            ),
        ),
        limit.mark_rule(color=LIMIT, strokeDash=[4, 3]).encode(y="limit:Q"),
    )
    return drawing(chart, title=title, subtitle="dashed: the memory that may be filled")
