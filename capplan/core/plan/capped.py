"""Lengthen the times of a model or pipeline on cards whose power limit was lowered."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from capplan.core.energy.capping import PROBED_CLOCKS, at_clock
from capplan.core.energy.power import CardCap, PeakSeconds, PowerLaw
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.device import Unsupported
from capplan.core.latency.types import LatencyEstimate
from capplan.core.numbers import FloatArray, Interval
from capplan.units import format_watts

Row = tuple[LatencyEstimate, ...] | Unsupported
Latencies = Callable[[Sequence[GpuSpec], Sequence[int]], tuple[Row, ...]]
Work = Callable[[GpuSpec, Sequence[int]], Sequence[PeakSeconds | None]]


def latencies_under_cap(
    latencies: Latencies, work: Work, gpus: Sequence[GpuSpec], batches: Sequence[int], law: PowerLaw | None
) -> tuple[Row, ...]:
    """Estimate the time of each batch on each GPU under the law's cap; `Unsupported` where the cap cannot be set.

    The interval joins that of the time, of the power that is drawn without the cap, and of the exponent.

    Args:
        latencies: Estimates the times without a cap.
        work: Counts what one GPU does in a step at each batch.
        gpus: The GPUs.
        batches: The batches.
        law: The law of power, with the cap; None or a law without a cap changes nothing.
    """
    rows = latencies(gpus, batches)
    if law is None or law.cap_w is None:
        return rows
    made: list[Row] = []
    for gpu, row in zip(gpus, rows, strict=True):
        if not isinstance(row, Unsupported) and (refused := law.refusal(gpu)):
            made.append(Unsupported(reason=refused, lacking="the power limit"))
        elif isinstance(row, Unsupported) or not law.caps(gpu):
            made.append(row)
        else:
            times_s = [point.latency_s.expected for point in row]
            done = zip(work(gpu, batches), times_s, strict=True)
            shares = [(counted or PeakSeconds()).over(time_s) for counted, time_s in done]
            probe = partial(_probed, latencies, gpu, batches, times_s)
            found = CardCap(gpu=gpu, law=law).slowdowns(shares, probe)
            factors = zip(row, found.low.tolist(), found.expected.tolist(), found.high.tolist(), strict=True)
            made.append(
                tuple(
                    _lengthened(point, Interval(low=low, expected=expected, high=high), cap_w=law.cap_w)
                    for point, low, expected, high in factors
                )
            )
    return tuple(made)


def _probed(latencies: Latencies, gpu: GpuSpec, batches: Sequence[int], times_s: Sequence[float]) -> list[FloatArray]:
    """Return how many times as long each batch takes at each of the lower clocks."""
    rows = [latencies([at_clock(gpu, clock)], batches)[0] for clock in PROBED_CLOCKS]  # they share an id
    return [
        np.array([point.latency_s.expected for point in row]) / np.array(times_s)
        for row in rows
        if not isinstance(row, Unsupported)
    ]


def _lengthened(point: LatencyEstimate, factor: Interval, *, cap_w: float) -> LatencyEstimate:
    """Return a point that takes so many times as long."""
    if factor.high == 1.0:
        return point
    time_s = point.latency_s
    between = point.interval_s
    note = f"a limit of {format_watts(cap_w)} makes it {factor.expected:.2f} times as long"
    return replace(
        point,
        latency_s=Interval(
            low=time_s.low * factor.low, expected=time_s.expected * factor.expected, high=time_s.high * factor.high
        ),
        interval_s=between
        and Interval(
            low=between.low * factor.low,
            expected=between.expected * factor.expected,
            high=between.high * factor.high,
        ),
        notes=(note, *point.notes),
    )
