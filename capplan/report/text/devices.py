"""What a device and a host reached when they were timed, as sections."""

from collections.abc import Sequence
from math import exp
from typing import NamedTuple

from capplan.core.calibrate.device import DeviceBenchmark
from capplan.core.calibrate.validation import LearntPower
from capplan.core.latency.calibration import HostCosts
from capplan.report.sections import Column, Section, Table, figure, words
from capplan.units import format_bytes, format_bytes_per_s, format_flops_per_s, format_fraction, format_seconds


class _Timed(NamedTuple):
    what: str
    reached: str
    time_s: float | None = None
    has_time: bool = True


def device_sections(benchmark: DeviceBenchmark) -> list[Section]:
    """Return what was measured of a device: products, copies, launches, memory."""
    rows = [
        _Timed(
            f"matrix product, {matmul.precision}, {matmul.size}",
            format_flops_per_s(matmul.flops_per_s),
            matmul.latency_s,
        )
        for matmul in benchmark.matmuls
    ]
    rows += [
        _Timed(f"copy of {format_bytes(copy.size_bytes)}", format_bytes_per_s(copy.bytes_per_s), copy.latency_s)
        for copy in benchmark.copies
    ]
    rows += [_Timed("smallest kernel, on the device", "", benchmark.kernel_s)]
    rows += [_Timed("dispatch of a kernel, on the host", "", benchmark.dispatch_s)]
    memory = (
        ("context outside the allocator", benchmark.context_bytes),
        ("memory in all", benchmark.total_bytes),
        ("memory that can be allocated", benchmark.usable_bytes),
    )
    rows += [_Timed(title, "unknown" if size is None else format_bytes(size), has_time=False) for title, size in memory]
    columns: list[Column[_Timed]] = [
        words("what", lambda row: row.what, name="what"),
        figure("reached", lambda row: row.reached, name="reached"),
        figure("time", lambda row: _time(row.time_s) if row.has_time else "", name="time"),
    ]
    return [Section([Table(columns, rows)])]


def host_sections(costs: HostCosts) -> list[Section]:
    """Return what calls into PyTorch cost on a host."""
    rows: list[tuple[str, float | None]] = [(f"{label}, one call", cost) for label, cost in costs.operators_s.items()]
    rows += [("a call that launches nothing", costs.call_s), ("a launch, on top", costs.launch_s)]
    title = f"{costs.cpu}, torch {costs.torch}"
    columns: list[Column[tuple[str, float | None]]] = [
        words(title, lambda row: row[0], name=title),
        figure("time", lambda row: _time(row[1]), name="time"),
    ]
    return [Section([Table(columns, rows)])]


def power_sections(cards: Sequence[LearntPower]) -> list[Section]:
    """Return by what factors GPUs draw more than the law says, and the errors of models that were left out."""
    columns: list[Column[LearntPower]] = [
        words("GPU", lambda row: row.gpu, name="gpu"),
        figure("rows", lambda row: str(row.card.rows), name="rows"),
        figure("models", lambda row: str(row.card.models), name="models"),
        figure("measured ÷ law", lambda row: f"{row.card.factor:.2f}", name="factor"),
        figure("90 % interval", lambda row: f"×÷ {exp(row.card.log_half_width):.2f}", name="interval"),
        figure(
            "models left out, median and 90th percentile",
            lambda row: (
                f"{format_fraction(row.held_out.median)}, {format_fraction(row.held_out.p90)}"
                if row.held_out
                else "one model"
            ),
            name="held_out",
        ),
    ]
    return [Section([Table(columns, cards)])]


def _time(time_s: float | None) -> str:
    return "unknown" if time_s is None else format_seconds(time_s)
