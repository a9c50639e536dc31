"""What a device and a host reached when they were timed, as sections."""

from collections.abc import Sequence
from math import exp

from capplan.core.calibrate.device import DeviceBenchmark
from capplan.core.calibrate.validation import LearntPower
from capplan.core.latency.calibration import HostCosts
from capplan.report.sections import Column, Section, Table, figure, plain_columns, words
from capplan.units import format_bytes, format_bytes_per_s, format_flops_per_s, format_fraction, format_seconds


def device_sections(benchmark: DeviceBenchmark) -> list[Section]:
    """Return what was measured of a device: products, copies, launches, memory."""
    rows = [
        (
            f"matrix product, {matmul.precision}, {matmul.size}",
            format_flops_per_s(matmul.flops_per_s),
            _time(matmul.latency_s),
        )
        for matmul in benchmark.matmuls
    ]
    rows += [
        (f"copy of {format_bytes(copy.size_bytes)}", format_bytes_per_s(copy.bytes_per_s), _time(copy.latency_s))
        for copy in benchmark.copies
    ]
    rows += [("smallest kernel, on the device", "", _time(benchmark.kernel_s))]
    rows += [("dispatch of a kernel, on the host", "", _time(benchmark.dispatch_s))]
    memory = (
        ("context outside the allocator", benchmark.context_bytes),
        ("memory in all", benchmark.total_bytes),
        ("memory that can be allocated", benchmark.usable_bytes),
    )
    rows += [(title, "unknown" if size is None else format_bytes(size), "") for title, size in memory]
    columns = plain_columns("what", "reached", "time", numbers=("reached", "time"))
    return [Section([Table(columns, rows)])]


def host_sections(costs: HostCosts) -> list[Section]:
    """Return what calls into PyTorch cost on a host."""
    rows = [(f"{label}, one call", _time(cost)) for label, cost in costs.operators_s.items()]
    rows += [("a call that launches nothing", _time(costs.call_s)), ("a launch, on top", _time(costs.launch_s))]
    return [Section([Table(plain_columns(f"{costs.cpu}, torch {costs.torch}", "time", numbers=("time",)), rows)])]


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
