"""Plots of estimates: throughput over the batch, and kernels under the roofline."""

from collections.abc import Sequence

import numpy as np

from capplan.report.charts.look import Drawing
from capplan.report.charts.series import Axes, Series, series_chart
from capplan.report.estimates import EstimateReport
from capplan.units import format_flops_per_s

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
    axes = Axes(x_title="batch", y_title="samples per second (band: 90 % interval)", x_ticks=_few(batches))
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


def _few(batches: Sequence[float]) -> tuple[float, ...]:
    """Keep at most eight ticks."""
    return tuple(batches[:: max(1, -(-len(batches) // 8))])


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
