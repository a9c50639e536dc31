"""Plots of estimates: throughput over the batch, and kernels under the roofline."""

from collections.abc import Sequence

import numpy as np

from capplan.core.roofline import PeakUse
from capplan.report.estimate_text import EstimateReport
from capplan.report.log_chart import Series, chart_svg


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
        rates = report.breakdown.rates
        half = report.workload.precision.half_dtype is not None
        peak = float(rates.printed_flops_per_s[PeakUse.HALF if half else PeakUse.MATMUL_32])
        intensities = np.geomspace(0.1, 10000, 41)
        roof = np.minimum(peak, intensities * rates.printed_bandwidth_bytes_per_s) / 1e12
        series.append(
            Series(label=f"{report.breakdown.gpu.name}, printed", points=list(zip(intensities, roof, strict=True)))
        )
        kernels = [item for item in report.breakdown.kernels if item.flops > 0 and item.traffic_bytes > 0]
        points = [(item.flops / item.traffic_bytes, item.flops / item.time_s / 1e12) for item in kernels]
        series.append(Series(label=f"kernels at batch {report.breakdown.batch}", points=points, is_line=False))
    return chart_svg(
        series, title=reports[0].model, x_title="arithmetic intensity [FLOP/byte]", y_title="rate [TFLOP/s]"
    )
