"""Measurements as sections: points, methods and runs side by side, kernels by class, and timed pipelines."""

from collections.abc import Callable, Sequence
from operator import itemgetter

from capplan.core.measurement.batch_search import measured_curve
from capplan.core.measurement.compare import Pairing, RunComparison
from capplan.core.measurement.format import ROW_COLUMNS, measured_row
from capplan.core.measurement.op_times import ModulesOfBatch, ModuleTime, ProfiledBatch
from capplan.core.measurement.pipeline import PipelineTimes, StageTimes, typical_s
from capplan.core.measurement.start import MeasuredStart, StartStep
from capplan.core.measurement.types import Measurement, TheoryFigures
from capplan.core.workload import TimingMethod
from capplan.report.sections import Column, LineRole, Lines, Section, Table, data, figure, plain_columns, words
from capplan.units import format_bytes, format_count, format_flops_per_s, format_fraction, format_rate, format_seconds


def _signed_percentage(fraction: float) -> str:
    return f"{100 * fraction:+.1f} %"


def _interval(point: Measurement) -> str | None:
    median = point.median
    return f"{format_seconds(median.low)} to {format_seconds(median.high)}" if median else None


def _estimated_interval(point: Measurement) -> str | None:
    theory = point.theory
    if theory is None:
        return None
    inside = theory.low_s <= point.latency.median <= theory.high_s
    return f"{format_seconds(theory.low_s)} to {format_seconds(theory.high_s)}: {'inside' if inside else 'outside'}"


def _error(point: Measurement) -> float | None:
    return point.theory.error_fraction(point.latency.median) if point.theory else None


def _of_theory(value: Callable[[TheoryFigures], float | None]) -> Callable[[Measurement], float | None]:
    return lambda point: value(point.theory) if point.theory else None


_BATCH: Column[Measurement] = figure("batch", lambda point: point.workload.batch)
_FIGURES: tuple[Column[Measurement], ...] = (
    figure("median", lambda point: point.latency.median, format_seconds),
    figure("95 % interval", _interval, unknown="unknown"),
    figure("min", lambda point: point.latency.minimum, format_seconds),
    figure("mean", lambda point: point.latency.mean, format_seconds),
    figure("std", lambda point: point.latency.std if len(point.samples_s) > 1 else None, format_seconds),
    figure("p90", lambda point: point.latency.p90, format_seconds),
    figure("p95", lambda point: point.latency.p95, format_seconds),
    figure("p99", lambda point: point.latency.p99, format_seconds),
    figure("repetitions", lambda point: len(point.samples_s)),
    figure("samples/s (FPS)", lambda point: point.throughput_per_s, format_rate),
    figure("allocated", lambda point: point.memory.peak_allocated_bytes, format_bytes, unknown="unknown"),
    figure("reserved", lambda point: point.memory.peak_reserved_bytes, format_bytes, unknown="unknown"),
    figure("device used", lambda point: point.memory.device_used_bytes, format_bytes, unknown="unknown"),
    figure("process", lambda point: point.memory.process_bytes, format_bytes, unknown="unknown"),
    figure("power", lambda point: point.power and point.power.power_w, "{:.0f} W".format, unknown="unknown"),
    figure(
        "J/sample", lambda point: point.power and point.power.energy_j_per_sample, "{:.3g}".format, unknown="unknown"
    ),
    figure("bound", _of_theory(lambda theory: theory.bound_s), format_seconds, unknown="unknown"),
    figure("estimate", _of_theory(lambda theory: theory.expected_s), format_seconds, unknown="unknown"),
    figure("its 90 % interval", _estimated_interval, unknown="unknown"),
    figure("error", _error, _signed_percentage, unknown="unknown"),
    figure("MFU", _of_theory(lambda theory: theory.mfu_fraction), format_fraction, unknown="unknown"),
    figure("MBU", _of_theory(lambda theory: theory.mbu_fraction), format_fraction, unknown="unknown"),
)
"""What is shown of a measurement; a column that no measurement of a table fills is left out of it."""


def measurement_sections(
    points: Sequence[Measurement],
    profiles: Sequence[ProfiledBatch] = (),
    modules: Sequence[ModulesOfBatch] = (),
) -> list[Section]:
    """Return measurements, a table per model, device and conditions.

    A CSV has one row per measurement in the form that `capplan validate` reads; latencies are medians. [ms]
    """
    groups: dict[str, list[Measurement]] = {}
    for point in points:
        groups.setdefault(_headline(point), []).append(point)
    sections = [_group_section(headline, members) for headline, members in groups.items()]
    sections += [_profile_section(profiled) for profiled in profiles]
    sections += [_modules_section(batch, points) for batch in modules]
    rows = [measured_row(point) for point in points]
    return [*sections, Section([Table([data(name, itemgetter(name)) for name in ROW_COLUMNS], rows)])]


def _group_section(headline: str, members: Sequence[Measurement]) -> Section:
    notes = [f"batch {point.workload.batch}: {note}" for point in members for note in point.notes]
    lines = dict.fromkeys([*(line for point in members for line in _device_lines(point)), *notes])
    if any(point.theory and (point.theory.mbu_fraction or 0.0) > 1 for point in members):
        lines["an MBU above 100 %: data stayed in a cache, which is faster than the memory"] = None
    filled = [column for column in _FIGURES if any(column.value(point) is not None for point in members)]
    return Section(
        [
            Lines([headline]),
            Table([_BATCH, *filled], members),
            Lines([*_curve_lines(members), *lines], role=LineRole.NOTE),
        ]
    )


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


def _curve_lines(points: Sequence[Measurement]) -> list[str]:
    curve = measured_curve(points)
    if curve is None:
        return []
    lines = [f"best throughput {format_rate(curve.best_throughput_per_s)}/s at batch {curve.best_batch}"]
    if curve.knee_batch is None:
        return [*lines, "every doubling of the batch still gains 10 % of throughput or more"]
    return [*lines, f"knee at batch {curve.knee_batch}: no larger batch gains 10 % of throughput per doubling over it"]


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


def method_sections(points: Sequence[Measurement]) -> list[Section]:
    """Return timing methods side by side; errors are against the synchronised one, where it was used."""
    true_s = {
        point.workload.batch: point.latency.median
        for point in points
        if point.method in (TimingMethod.SYNC, TimingMethod.CLOCK)
    }
    columns: list[Column[Measurement]] = [
        figure("batch", lambda point: point.workload.batch, name="batch"),
        words("method", lambda point: point.method.value, name="method"),
        figure("median", lambda point: format_seconds(point.latency.median), name="median"),
        figure("mean", lambda point: format_seconds(point.latency.mean), name="mean"),
        figure("repetitions", lambda point: len(point.samples_s), name="repetitions"),
        figure("against sync", lambda point: _against(point, true_s.get(point.workload.batch)), name="against sync"),
    ]
    return [Section([Table(columns, points)])]


def _against(point: Measurement, true_s: float | None) -> str:
    if true_s is None:
        return "unknown"
    difference_s = point.latency.median - true_s
    return f"{_signed_percentage(difference_s / true_s)} ({difference_s * 1e3:+.3f} ms)"


def pairing_sections(pairing: Pairing) -> list[Section]:
    """Return two runs side by side: second over first, with the interval of the ratio."""
    return [Section([Table(_PAIRS, pairing.pairs)])]


_PAIRS: tuple[Column[RunComparison], ...] = (
    words("model", lambda pair: pair.first.model.words, name="model"),
    figure("batch", lambda pair: pair.first.workload.batch, name="batch"),
    words("precision", lambda pair: pair.first.workload.precision.value, name="precision"),
    figure("first", lambda pair: format_seconds(pair.first.latency.median), name="first"),
    figure("second", lambda pair: format_seconds(pair.second.latency.median), name="second"),
    figure("ratio", lambda pair: f"{pair.ratio.value:.3f}", name="ratio"),
    figure("95 % interval", lambda pair: f"{pair.ratio.low:.3f} to {pair.ratio.high:.3f}", name="95 % interval"),
    words("second is", lambda pair: pair.verdict.value, name="second is"),
)


def _profile_section(profiled: ProfiledBatch) -> Section:
    """Compare a step's time by class of kernel with the estimate's; a last row holds the sums."""
    total_s = sum(row.measured_s for row in profiled.classes)
    estimated_s = sum(row.estimated_s or 0.0 for row in profiled.classes)
    rows = [
        (
            row.label,
            f"{row.calls:g}",
            format_seconds(row.measured_s),
            format_fraction(row.measured_s / total_s) if total_s else "unknown",
            "unknown" if row.estimated_s is None else format_seconds(row.estimated_s),
            "unknown" if row.error_fraction is None else _signed_percentage(row.error_fraction),
        )
        for row in profiled.classes
    ]
    known = estimated_s and total_s
    sums = (format_seconds(estimated_s), _signed_percentage(estimated_s / total_s - 1)) if known else ("unknown",) * 2
    rows.append(("all", "", format_seconds(total_s), "100 %", *sums))
    title = f"batch {profiled.batch}, time per step by class of kernel"
    numbers = ("calls", "measured", "share", "estimate", "error")
    columns = plain_columns("class", *numbers, numbers=numbers, is_data=False)
    return Section([Lines([title]), Table(columns, rows)])


_MODULES_SHOWN = 40
_HOOKS_COST = 0.1
"""A step that hooks lengthen by more than this share is reported as such."""


def _modules_section(timed: ModulesOfBatch, points: Sequence[Measurement]) -> Section:
    """Compare the costliest modules with the estimate, in the order of the model, each with all below it."""
    whole = timed.modules[0] if timed.modules else None
    total_s = whole.measured_s if whole else 0.0
    costliest = sorted(timed.modules, key=lambda module: (-module.measured_s, module.depth))[:_MODULES_SHOWN]
    shown = [module for module in timed.modules if module in costliest]
    columns: list[Column[ModuleTime]] = [
        words("module", lambda module: "  " * module.depth + (module.path.rpartition(".")[2] or "(model)")),
        words("class", lambda module: module.kind),
        figure("calls", lambda module: module.calls),
        figure("measured", lambda module: module.measured_s, format_seconds),
        figure("share", lambda module: module.measured_s / total_s if total_s else None, format_fraction),
        figure("estimate", lambda module: module.estimated_s, format_seconds, unknown="unknown"),
        figure("error", lambda module: module.error_fraction, _signed_percentage, unknown="unknown"),
        figure("MACs", lambda module: module.macs, format_count, unknown="unknown"),
        figure("reached", lambda module: module.flops_per_s, format_flops_per_s, unknown=""),
    ]
    notes = ["a module's time reaches from before its call to after it, all below it included"]
    if len(shown) < len(timed.modules):
        notes.append(f"the {len(shown)} costliest of {len(timed.modules)} modules; --format json holds all")
    plain_s = next((point.latency.median for point in points if point.workload.batch == timed.batch), None)
    if plain_s and total_s > (1 + _HOOKS_COST) * plain_s:
        notes.append(f"the hooks lengthen a step from {format_seconds(plain_s)} to {format_seconds(total_s)}")
    if timed.host_s is not None and whole is not None and timed.host_s > (whole.estimated_s or 0.0):
        notes.append(
            f"by the estimate the host decides here, with {format_seconds(timed.host_s)} a step: "
            "what is estimated of a module is its device time alone"
        )
    title = f"batch {timed.batch}, time per step by module, medians of {timed.steps} steps"
    return Section([Lines([title]), Table(columns, shown), Lines(notes, role=LineRole.NOTE)])


_WAYS = "latency is of one repetition waited for at its end, throughput of many, which overlap where the host is free"


def pipeline_sections(timed: Sequence[PipelineTimes]) -> list[Section]:
    """Return timed pipelines: per stage and end to end, with the host left free and waiting after each stage."""
    return [section for pipeline in timed for section in _pipeline(pipeline)]


def _pipeline(timed: PipelineTimes) -> list[Section]:
    note = "" if timed.has_events else "; no events on this device: nothing runs behind the host"
    head = f"{timed.name} at batch {timed.batch} on {timed.device}, {timed.repetitions} repetitions{note}"
    free = ("host left free", timed.free_latency_s, timed.free_s, timed.free_throughput_per_s)
    waiting = ("waiting after each stage", timed.stalled_latency_s, timed.stalled_s, timed.stalled_throughput_per_s)
    whole = [
        (way, format_seconds(latency_s), format_seconds(all_s / timed.repetitions), format_rate(throughput_per_s))
        for way, latency_s, all_s, throughput_per_s in (free, waiting)
    ]
    numbers = ("latency of one", "one after another, each", "throughput, samples/s")
    return [
        Section([Lines([f"{head}; medians"]), Table(_STAGES, timed.stages)]),
        Section(
            [
                Lines([f"end to end; {_WAYS}"]),
                Table(plain_columns("way", *numbers, numbers=numbers, is_data=False), whole),
            ]
        ),
    ]


_STAGES: tuple[Column[StageTimes], ...] = (
    words("stage", lambda stage: stage.name),
    figure("host, left free", lambda stage: typical_s(stage.host_s), format_seconds, unknown="unknown"),
    figure("device, by events", lambda stage: typical_s(stage.device_s), format_seconds, unknown="unknown"),
    figure("host, waiting", lambda stage: typical_s(stage.waited_s), format_seconds, unknown="unknown"),
    figure("from … to", lambda stage: f"{format_seconds(min(stage.waited_s))} … {format_seconds(max(stage.waited_s))}"),
)


def start_sections(start: MeasuredStart) -> list[Section]:
    """Return how long a model took from a new process to its first answer, part by part."""
    head = (
        f"{start.name} at batch {start.batch} on {start.device}, {format_bytes(start.weight_bytes)} of weights: "
        f"medians of {len(start.whole.times_s)} starts in new processes"
    )
    note = "Weights lay in the memory of files; code that is compiled was compiled anew by each start."
    return [Section([Lines([head]), Table(_STARTED, (*start.steps, start.whole)), Lines([note])])]


_STARTED: tuple[Column[StartStep], ...] = (
    words("part", lambda step: step.part, name="part"),
    figure("time", lambda step: step.median_s, format_seconds, name="median_s"),
    figure("from", lambda step: min(step.times_s), format_seconds, name="shortest_s"),
    figure("to", lambda step: max(step.times_s), format_seconds, name="longest_s"),
)
