"""Plots of estimates: throughput over the batch, and kernels under the roofline."""

from collections.abc import Sequence

import numpy as np

from capplan.report.charts.log_chart import Series, chart_svg
from capplan.report.estimates import EstimateReport
from capplan.units import format_flops_per_s


def curve_svg(reports: Sequence[EstimateReport]) -> str:
    """Draw samples per second over the batch, with the 90 % band of each GPU."""
    series = [
        Series(
            label=report.breakdown.gpu.name,
            points=[(point.batch, point.throughput_per_s.expected) for point in report.curve],
            band=[(point.throughput_per_s.low, point.throughput_per_s.high) for point in report.curve],
        )
        for report in reports
    ]
    return chart_svg(series, title=reports[0].model, x_title="batch", y_title="samples per second (band: 90 %)")


def roofline_svg(reports: Sequence[EstimateReport]) -> str:
    """Draw each kernel's reached rate over its arithmetic intensity, under the printed roofs of its GPU."""
    series = []
    for report in reports:
        series += _roofs(report)
        kernels = [item for item in report.breakdown.kernels if item.flops > 0 and item.traffic_bytes > 0]
        points = [(item.flops / item.traffic_bytes, item.flops / item.time_s / 1e12) for item in kernels]
        series.append(Series(label=f"kernels at batch {report.breakdown.batch}", points=points, is_line=False))
    return chart_svg(
        series, title=reports[0].model, x_title="arithmetic intensity [FLOP/byte]", y_title="rate [TFLOP/s]"
    )


def _roofs(report: EstimateReport) -> list[Series]:
    """A roof for each rate that does a hundredth of the step's arithmetic or more."""
    shares: dict[float, float] = {}
    for work in report.classic.work:
        shares[work.flops_per_s] = shares.get(work.flops_per_s, 0.0) + work.flops / report.classic.flops
    intensities = np.geomspace(0.1, 10000, 201)
    slope = intensities * report.classic.bandwidth_bytes_per_s
    return [
        Series(
            label=f"{report.breakdown.gpu.name}, printed {format_flops_per_s(peak)}",
            points=list(zip(intensities, np.minimum(peak, slope) / 1e12, strict=True)),
            has_dots=False,
        )
        for peak in sorted((peak for peak, share in shares.items() if share >= _LEAST_SHARE), reverse=True)
    ]


_LEAST_SHARE = 0.01
