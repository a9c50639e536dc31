"""Where a figure of the page comes from, in lines: what it was worked out from, and the source of that."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.breakdown import break_down
from capplan.core.latency.calibration import Calibration
from capplan.core.latency.device import Unsupported
from capplan.core.latency.predict import estimate_latencies
from capplan.core.latency.step import ExecutedStep
from capplan.core.latency.types import LatencyEstimate
from capplan.core.memory.fit import available_memory, usable_memory
from capplan.core.memory.types import MemoryEstimate
from capplan.core.plan.planner import Prepared
from capplan.core.plan.types import Constraint, Fit, Plan, Rejection, gpus_carrying
from capplan.errors import UsageError
from capplan.report.text.estimate import explain_latency
from capplan.shapes.plan import largest_batches
from capplan.units import (
    counted,
    format_bytes,
    format_count,
    format_flops,
    format_parameters,
    format_rate,
    format_seconds,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A heading, and lines below it."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a figure belongs to: a fit, its plan, the step that was estimated, and a load in samples per second."""

    fit: Fit
    plan: Plan
    step: ExecutedStep
    calibration: Calibration
    load_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A rejected GPU, the plan that rejected it, and what that plan was made from."""

    rejection: Rejection
    plan: Plan
    ready: Prepared
    calibration: Calibration


def explain(kind: str, subject: Subject) -> Explained:
    """Return where one figure of a GPU comes from."""
    if kind not in KINDS:
        raise UsageError(f"explain {kind[:40]!r}: there is no such figure; there are {', '.join(KINDS)}.")
    title, lines = KINDS[kind]
    return Explained(title=f"{title} of {subject.fit.gpu.name}", lines=tuple(lines(subject)))


def explain_rejection(refused: Refused) -> Explained:
    """Return why a GPU was rejected, and where the figures of that reason come from."""
    rejection = refused.rejection
    lines = [f"batch {rejection.batch:,}: {rejection.reason}"]
    if rejection.max_batch:
        lines.append(f"The largest batch that fits its memory is {rejection.max_batch:,}.")
    if rejection.constraint is Constraint.MEMORY:
        lines += _rejected_memory(refused)
    elif rejection.constraint is not Constraint.SUPPORT:
        (row,) = estimate_latencies(refused.ready.step, gpus=[rejection.gpu], batches=[rejection.batch])
        lines += (
            [row.reason]
            if isinstance(row, Unsupported)
            else _time_lines(refused.ready.step, row[0], rejection.gpu, refused)
        )
    return Explained(title=f"Why {rejection.gpu.name} was rejected", lines=tuple(lines))


def _rejected_memory(refused: Refused) -> list[str]:
    rejection, limits = refused.rejection, refused.plan.limits
    available = available_memory(rejection.gpu, utilization_fraction=limits.utilization_fraction)
    memory = refused.ready.memory.estimate(batch=rejection.batch, gpu=rejection.gpu, available_bytes=available.expected)
    usable = usable_memory(rejection.gpu)
    lines = [
        f"usable memory: {format_bytes(usable.expected)}, of which {100 * limits.utilization_fraction:.0f} % may be "
        f"filled: {format_bytes(available.expected)}",
        *_memory_lines(memory),
    ]
    if rejection.min_gpus is not None and rejection.min_gpus > 1:
        lines.append(f"Weights distributed evenly would need at least {rejection.min_gpus} of these GPUs.")
    return lines


def _time_lines(step: ExecutedStep, time: LatencyEstimate, gpu: GpuSpec, about: Subject | Refused) -> list[str]:
    parts = break_down(step, gpu=gpu, batch=time.batch, slowdown=time.slowdown)
    if isinstance(parts, Unsupported):
        return [parts.reason]
    return [
        *explain_latency(parts, time, calibration=about.calibration),
        f"  evidence: {time.evidence.value}; {time.evidence_reason}",
    ]


def _throughput(subject: Subject) -> list[str]:
    fit, time = subject.fit, subject.fit.latency.latency_s
    rate = fit.latency.throughput_per_s
    return [
        f"samples per second = batch / latency = {fit.latency.samples:,} / {format_seconds(time.expected)} "
        f"= {format_rate(rate.expected)}",
        f"from {fit.latency.samples:,} / {format_seconds(time.high)} = {format_rate(rate.low)} "
        f"to {fit.latency.samples:,} / {format_seconds(time.low)} = {format_rate(rate.high)}",
        "one batch after the other, inputs already on the GPU.",
    ]


def _memory_lines(memory: MemoryEstimate) -> list[str]:
    lines = [f"{format_bytes(part.size_bytes.expected):>10}  {part.name}: {part.origin}" for part in memory.all_parts]
    total = memory.total_bytes
    lines.append(
        f"{format_bytes(total.expected):>10}  total ({format_bytes(total.low)} to {format_bytes(total.high)}), at its "
        f"peak in {memory.peak_op} {memory.peak_module}".rstrip()
    )
    return [*lines, *(f"note: {note}" for note in memory.notes)]


def _fits(subject: Subject) -> list[str]:
    share, usable = subject.plan.limits.utilization_fraction, usable_memory(subject.fit.gpu)
    total = subject.fit.memory.total_bytes
    return [
        f"usable memory: {format_bytes(usable.expected)}, of which {100 * share:.0f} % may be filled: "
        f"{format_bytes(share * usable.expected)}",
        f"needed: {total.to_text(format_bytes)}",
        "A GPU fits if the high end stays within that, does not fit if the low end exceeds it, else is borderline.",
        f"The largest batch that fits is {largest_batches(subject.fit)}, found by replaying the allocator.",
    ]


def _price(subject: Subject) -> list[str]:
    rent = subject.fit.rent
    if rent is None:
        return ["no dated on-demand price of this GPU is known; `capplan prices` lists what is."]
    held = "1 GPU" if rent.instance_gpus == 1 else f"{rent.instance_gpus} GPUs that are rented together"
    lines = [
        f"{rent.usd_per_machine_hour:,.2f} USD an hour for {rent.offer_words}, on demand, {held}, on "
        f"{rent.date.isoformat()}.",
        "No other machine with this GPU is known to cost less on demand; prices change, so look before you rent.",
    ]
    cost = subject.fit.usd_per_million_samples
    rate = subject.fit.latency.throughput_per_s.expected
    if cost is not None:
        lines.append(
            f"per million samples = {rent.usd_per_hour:.4g} USD/h / 3600 s / {format_rate(rate)} × 10⁶ = {cost:.3g} USD"
        )
    return lines


def _load(subject: Subject) -> list[str]:
    load, rate = subject.load_per_s, subject.fit.latency.throughput_per_s
    if not load:
        return ["no load is stated; give samples per second."]
    gpus = gpus_carrying(load, subject.fit.latency)
    lines = [
        f"load / samples per second of one GPU at the slow end of its interval = {load:g} / {format_rate(rate.low)} = "
        f"{load / rate.low:.2f}, rounded up: {gpus:,}",
        "The GPUs are used fully, and requests that come in bursts or unevenly need more; the report sizes a fleet by "
        "queueing, redundancy and growth.",
    ]
    if subject.fit.rent is not None:
        hourly = subject.fit.rent.usd_per_machine_hour
        machines = subject.fit.rent.machines_for(gpus) or 0
        what = counted(machines, "machine")
        lines.append(f"{what} × {hourly:,.2f} USD/h = {machines * hourly:,.2f} USD/h")
    return lines


def _model(subject: Subject) -> list[str]:
    model, batch = subject.plan.model, subject.fit.batch
    return [
        f"{format_parameters(model.parameter_count)} parameters, each counted once, in "
        f"{format_bytes(model.weight_bytes)}",
        f"{format_count(model.macs_per_sample)} multiply-accumulates a sample = "
        f"{format_flops(model.flops_per_sample)} (two FLOPs each)",
        f"{format_flops(model.flops_per_sample * batch)} for a batch of {batch:,}",
        *(f"not counted: {operator}" for operator in model.uncounted),
        *subject.plan.assumptions,
    ]


KINDS: Mapping[str, tuple[str, Callable[[Subject], list[str]]]] = {
    "latency": (
        "Latency",
        lambda subject: _time_lines(subject.step, subject.fit.latency, subject.fit.gpu, subject),
    ),
    "throughput": ("Throughput", _throughput),
    "memory": ("Memory", lambda subject: _memory_lines(subject.fit.memory)),
    "fits": ("Largest batch", _fits),
    "price": ("Price", _price),
    "load": ("GPUs for the load", _load),
    "model": ("Work of the model, as counted for a batch", _model),
}
