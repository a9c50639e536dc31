"""Plot of measurements: the time of a batch over the batch, with what theory expects beside it."""

from collections.abc import Mapping, Sequence

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
    curves: dict[str, list[Measurement]] = {}
    for point in sorted(points, key=lambda each: each.workload.batch):
        curves.setdefault(_name(point), []).append(point)
    series: list[Series] = []
    for colour, (name, mine) in enumerate(curves.items()):
        series.append(_measured(name, mine, colour))
        if all(point.theory for point in mine):
            series.append(_expected(name, mine, colour))
    batches = sorted({float(point.workload.batch) for point in points})
    axes = Axes(
        x_title="batch",
        y_title="median time of a batch, ms",
        x_ticks=tuple(batches[:: max(1, -(-len(batches) // _TICKS))]),
    )
    return series_chart(series, title=_title(curves), axes=axes, subtitle=_conditions(points))


def _name(point: Measurement) -> str:
    work = point.workload
    return f"{point.model.words} on {point.device.name}, {work.precision.value}, {work.framework.value}"


def _title(curves: Mapping[str, Sequence[Measurement]]) -> str:
    models = dict.fromkeys(points[0].model.words for points in curves.values())
    return f"{', '.join(models)}: measured time over batch"


def _conditions(points: Sequence[Measurement]) -> str:
    versions = dict.fromkeys(f"torch {point.device.torch}" for point in points)
    return f"{', '.join(versions)}; dots are measured, lines without dots estimated with their 90 % interval"


def _measured(name: str, points: Sequence[Measurement], colour: int) -> Series:
    return Series(
        label=name, points=[(point.workload.batch, 1e3 * point.latency.median) for point in points], colour=colour
    )


def _expected(name: str, points: Sequence[Measurement], colour: int) -> Series:
    known = [(point.workload.batch, point.theory) for point in points if point.theory]
    return Series(
        label=f"{name}, estimated",
        points=[(batch, 1e3 * theory.expected_s) for batch, theory in known],
        has_dots=False,
        band=[(1e3 * theory.low_s, 1e3 * theory.high_s) for _, theory in known],
        colour=colour,
    )
