"""Measurements for people, for a sheet, and as the CSV that `capplan validate` reads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from capplan.core.measurement.batch_search import measured_curve
from capplan.core.measurement.compare import Pairing
from capplan.core.measurement.format import ROW_COLUMNS, measured_row
from capplan.core.measurement.op_times import ProfiledBatch
from capplan.core.measurement.types import Measurement, TheoryFigures, TimingMethod
from capplan.report.table import Align, Heading, Table, render_csv, render_markdown, render_text, table
from capplan.units import format_bytes, format_fraction, format_rate, format_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figure:
    """A column of the table: its title and how a measurement fills it; None where it cannot."""

    title: str
    to_text: Callable[[Measurement], str | None]


def _text_of(value: float | None, to_text: Callable[[float], str]) -> str | None:
    return None if value is None else to_text(value)


def _signed_percentage(fraction: float) -> str:
    return f"{100 * fraction:+.1f} %"


def _interval(point: Measurement) -> str | None:
    median = point.median
    return f"{format_seconds(median.low)} to {format_seconds(median.high)}" if median else None


def _error(point: Measurement) -> str | None:
    return _signed_percentage(point.theory.error_fraction(point.latency.median)) if point.theory else None


def _of_theory(to_text: Callable[[TheoryFigures], str | None]) -> Callable[[Measurement], str | None]:
    return lambda point: to_text(point.theory) if point.theory else None


_FIGURES = (
    _Figure(title="median", to_text=lambda point: format_seconds(point.latency.median)),
    _Figure(title="95 % interval", to_text=_interval),
    _Figure(title="mean", to_text=lambda point: format_seconds(point.latency.mean)),
    _Figure(title="std", to_text=lambda point: format_seconds(point.latency.std)),
    _Figure(title="p90", to_text=lambda point: format_seconds(point.latency.p90)),
    _Figure(title="p95", to_text=lambda point: format_seconds(point.latency.p95)),
    _Figure(title="p99", to_text=lambda point: format_seconds(point.latency.p99)),
    _Figure(title="repetitions", to_text=lambda point: str(len(point.samples_s))),
    _Figure(title="samples/s (FPS)", to_text=lambda point: format_rate(point.throughput_per_s)),
    _Figure(title="allocated", to_text=lambda point: _text_of(point.memory.peak_allocated_bytes, format_bytes)),
    _Figure(title="reserved", to_text=lambda point: _text_of(point.memory.peak_reserved_bytes, format_bytes)),
    _Figure(title="device used", to_text=lambda point: _text_of(point.memory.device_used_bytes, format_bytes)),
    _Figure(title="process", to_text=lambda point: _text_of(point.memory.process_bytes, format_bytes)),
    _Figure(title="power", to_text=lambda point: f"{point.power.power_w:.0f} W" if point.power else None),
    _Figure(title="J/sample", to_text=lambda point: f"{point.power.energy_j_per_sample:.3g}" if point.power else None),
    _Figure(title="bound", to_text=_of_theory(lambda theory: _text_of(theory.bound_s, format_seconds))),
    _Figure(title="estimate", to_text=_of_theory(lambda theory: _text_of(theory.expected_s, format_seconds))),
    _Figure(title="error", to_text=_error),
    _Figure(title="MFU", to_text=_of_theory(lambda theory: _text_of(theory.mfu_fraction, format_fraction))),
    _Figure(title="MBU", to_text=_of_theory(lambda theory: _text_of(theory.mbu_fraction, format_fraction))),
)


def render_measurements_text(points: Sequence[Measurement]) -> str:
    """Lay measurements out for the terminal: a table per model, device and conditions."""
    return _render(points, render_text, bullet="  · ")


def render_measurements_markdown(points: Sequence[Measurement]) -> str:
    """Lay measurements out as GitHub-flavoured Markdown."""
    return _render(points, render_markdown, bullet="- ")


def _render(points: Sequence[Measurement], to_text: Callable[[Table], str], *, bullet: str) -> str:
    groups: dict[str, list[Measurement]] = {}
    for point in points:
        groups.setdefault(_headline(point), []).append(point)
    pieces = []
    for headline, members in groups.items():
        lines = dict.fromkeys(line for point in members for line in (*_device_lines(point), *point.notes))
        notes = [f"{bullet}{line}" for line in (*_curve_lines(members), *lines)]
        pieces.append("\n".join([headline, "", to_text(_table(members)), *notes]) + "\n")
    return "\n".join(pieces)


def _headline(point: Measurement) -> str:
    workload = point.workload
    method = {
        TimingMethod.EVENT: "device events",
        TimingMethod.SYNC: "synchronised",
        TimingMethod.NAIVE: "not synchronised",
        TimingMethod.CLOCK: "host clock",
    }[point.method]
    flushed = "flushed" if point.l2_flushed else "not flushed"
    return (
        f"{point.model.name} measured on {point.device.name}: {workload.precision}, {workload.framework}, "
        f"{workload.layout}, torch {point.device.torch}; {method}, L2 {flushed} between repetitions"
    )


def _table(points: Sequence[Measurement]) -> Table:
    cells = [[figure.to_text(point) for point in points] for figure in _FIGURES]
    kept = [
        (figure.title, column)
        for figure, column in zip(_FIGURES, cells, strict=True)
        if any(cell is not None for cell in column)
    ]
    columns = tuple(Heading(title=title, align=Align.RIGHT) for title in ("batch", *(title for title, _ in kept)))
    rows = tuple(
        (str(point.workload.batch), *(column[index] or "unknown" for _, column in kept))
        for index, point in enumerate(points)
    )
    return Table(columns=columns, rows=rows)


def _curve_lines(points: Sequence[Measurement]) -> list[str]:
    curve = measured_curve(points)
    if curve is None:
        return []
    lines = [f"best throughput {format_rate(curve.best_throughput_per_s)}/s at batch {curve.best_batch}"]
    if curve.knee_batch is None:
        return [*lines, "every doubling of the batch still gains 10 % of throughput or more"]
    return [*lines, f"knee at batch {curve.knee_batch}: beyond it no doubling gains 10 % of throughput"]


def _device_lines(point: Measurement) -> list[str]:
    device, clocks = point.device, point.device.clocks
    lines = []
    if clocks.graphics_hz is not None and clocks.memory_hz is not None:
        lines.append(f"clocks {clocks.graphics_hz / 1e6:.0f} MHz, memory {clocks.memory_hz / 1e6:.0f} MHz")
    if device.temperature_c is not None:
        lines.append(f"{device.temperature_c:.0f} °C while busy")
    if device.power_limit_w is not None:
        lines.append(f"power limit {device.power_limit_w:.0f} W")
    if device.throttling:
        lines.append(f"batch {point.workload.batch} held down by {', '.join(device.throttling)}")
    if not point.finite_outputs:
        lines.append(f"batch {point.workload.batch}: outputs are not finite; random weights overflow in 16 bits easily")
    return lines


def render_measurements_csv(points: Sequence[Measurement]) -> str:
    """Write one row per measurement in the form that `capplan validate` reads; latencies are medians. [ms]"""
    return render_csv(table("|".join(ROW_COLUMNS), [tuple(measured_row(point).values()) for point in points]))


def methods_table(points: Sequence[Measurement]) -> Table:
    """Put timing methods side by side; errors are against the synchronised one, where it was used."""
    true_s = {
        point.workload.batch: point.latency.median
        for point in points
        if point.method in (TimingMethod.SYNC, TimingMethod.CLOCK)
    }
    rows = [
        (
            str(point.workload.batch),
            point.method.value,
            format_seconds(point.latency.median),
            format_seconds(point.latency.mean),
            str(len(point.samples_s)),
            _against(point, true_s.get(point.workload.batch)),
        )
        for point in points
    ]
    return table("batch>|method|median>|mean>|repetitions>|against sync>", rows)


def _against(point: Measurement, true_s: float | None) -> str:
    if true_s is None:
        return "unknown"
    difference_s = point.latency.median - true_s
    return f"{_signed_percentage(difference_s / true_s)} ({difference_s * 1e3:+.3f} ms)"


def comparison_table(pairing: Pairing) -> Table:
    """Put two runs side by side: second over first, with the interval of the ratio."""
    rows = [
        (
            pair.first.model.words,
            str(pair.first.workload.batch),
            pair.first.workload.precision.value,
            format_seconds(pair.first.latency.median),
            format_seconds(pair.second.latency.median),
            f"{pair.ratio.value:.3f}",
            f"{pair.ratio.low:.3f} to {pair.ratio.high:.3f}",
            pair.verdict.value,
        )
        for pair in pairing.pairs
    ]
    return table("model|batch>|precision|first>|second>|ratio>|95 % interval>|second is", rows)


def profile_table(profiled: ProfiledBatch) -> Table:
    """Compare a step's time by class of kernel with the estimate's; a last row holds the sums."""
    total_s = sum(row.measured_s for row in profiled.classes)
    estimated_s = sum(row.estimated_s or 0.0 for row in profiled.classes)
    rows = [
        (
            row.label,
            f"{row.calls:g}",
            format_seconds(row.measured_s),
            format_fraction(row.measured_s / total_s) if total_s else "unknown",
            _text_of(row.estimated_s, format_seconds) or "unknown",
            _text_of(row.error_fraction, _signed_percentage) or "unknown",
        )
        for row in profiled.classes
    ]
    whole = ["all", "", format_seconds(total_s), "100 %", "unknown", "unknown"]
    if estimated_s and total_s:
        whole[4:] = [format_seconds(estimated_s), _signed_percentage(estimated_s / total_s - 1)]
    return table("class|calls>|measured>|share>|estimate>|error>", [*rows, whole])
