"""Plots of measurements: the time of a batch over the batch beside theory, and a pipeline frame by frame."""

from collections.abc import Iterable, Sequence

from capplan.core.measurement.pipeline import PipelineTimes
from capplan.core.measurement.types import Measurement
from capplan.report.charts.look import Drawing
from capplan.report.charts.series import Axes, Series, series_chart

_TICKS = 8


def measurement_chart(points: Sequence[Measurement]) -> Drawing:
    """Draw the median time of each batch in ms, and what the estimate says of it where there is one.

    Curves of one model on one device share a colour; the estimate is the line without dots, in its interval.

    Args:
        points: The measurements, at least one.
    """
    curves: dict[tuple[str, ...], list[Measurement]] = {}
    for point in sorted(points, key=lambda each: each.workload.batch):
        curves.setdefault(_parts(point), []).append(point)
    series: list[Series] = []
    for colour, (parts, mine) in enumerate(curves.items()):
        name = _name(parts, [*curves])
        series.append(_measured(name or "measured", mine, colour))
        if all(point.theory for point in mine):
            series.append(_expected(f"{name}, estimated" if name else "estimated", mine, colour))
    batches = sorted({float(point.workload.batch) for point in points})
    axes = Axes(
        x_title="batch",
        y_title="median time of a batch, ms",
        x_ticks=tuple(batches[:: max(1, -(-len(batches) // _TICKS))]),
    )
    return series_chart(series, title=_title(curves), axes=axes, subtitle=_conditions(points))


def pipeline_chart(timed: Sequence[PipelineTimes]) -> Drawing:
    """Draw the time of each repetition of a pipeline in ms, end to end in both ways, and of each stage.

    Stages are drawn by the device's events where there are any, else by the host's clock with a wait after each.

    Args:
        timed: The pipeline at each batch, at least one.
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
    """Return what tells one curve from another: model, device, number format, framework."""
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
