"""Where a figure of the page comes from, in lines: what it was worked out from, and the source of that."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from capplan.core.latency.breakdown import break_down
from capplan.core.latency.calibration import Calibration
from capplan.core.latency.device import Unsupported
from capplan.core.latency.step import ExecutedStep
from capplan.core.memory.fit import usable_memory
from capplan.core.plan.types import Fit, Plan
from capplan.errors import UsageError
from capplan.report.text.explain import explain_latency
from capplan.units import format_bytes, format_count, format_flops, format_rate, format_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A heading, and lines below it."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a figure belongs to: a fit, its plan, and the step that was estimated."""

    fit: Fit
    plan: Plan
    step: ExecutedStep
    calibration: Calibration


def explain(kind: str, subject: Subject) -> Explained:
    """Return where one figure of a GPU comes from.

    Args:
        kind: which figure: one of `KINDS`.
        subject: what it belongs to.

    Raises:
        UsageError: there is no such figure.
    """
    if kind not in KINDS:
        raise UsageError(f"explain {kind[:40]!r}: there is no such figure; there are {', '.join(KINDS)}.")
    title, lines = KINDS[kind]
    return Explained(title=f"{title} of {subject.fit.gpu.name}", lines=tuple(lines(subject)))


def _latency(subject: Subject) -> list[str]:
    found = break_down(subject.step, gpu=subject.fit.gpu, batch=subject.fit.batch)
    if isinstance(found, Unsupported):
        return [found.reason]
    return [
        *explain_latency(found, subject.fit.latency, calibration=subject.calibration),
        f"  evidence: {subject.fit.latency.evidence.value}; {subject.fit.latency.evidence_reason}",
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


def _memory(subject: Subject) -> list[str]:
    memory = subject.fit.memory
    lines = [f"{format_bytes(part.size_bytes.expected):>10}  {part.name}: {part.origin}" for part in memory.all_parts]
    total = memory.total_bytes
    lines.append(
        f"{format_bytes(total.expected):>10}  total ({format_bytes(total.low)} to {format_bytes(total.high)}), at its "
        f"peak in {memory.peak_op} {memory.peak_module}".rstrip()
    )
    return [*lines, *(f"note: {each}" for each in memory.notes)]


def _fits(subject: Subject) -> list[str]:
    share, usable = subject.plan.limits.utilization_fraction, usable_memory(subject.fit.gpu)
    total = subject.fit.memory.total_bytes
    return [
        f"usable memory: {format_bytes(usable.expected)}, of which {100 * share:.0f} % may be filled: "
        f"{format_bytes(share * usable.expected)}",
        f"needed: {format_bytes(total.expected)} ({format_bytes(total.low)} to {format_bytes(total.high)})",
        "A GPU fits if the high end stays within that, does not fit if the low end exceeds it, else is borderline.",
        f"The largest batch that fits is {subject.fit.max_batch:,}, found by replaying the allocator.",
    ]


def _price(subject: Subject) -> list[str]:
    rent = subject.fit.rent
    if rent is None:
        return ["no dated on-demand price of this GPU is known; `capplan prices` lists what is."]
    lines = [
        f"{rent.usd_per_hour:.4g} USD an hour for one GPU, on demand, from {rent.provider}"
        f"{f' in {rent.region}' if rent.region else ''}, on {rent.date.isoformat()}.",
        "It is the lowest on-demand price that is known for this GPU; prices change, so look before you rent.",
    ]
    cost = subject.fit.usd_per_million_samples
    rate = subject.fit.latency.throughput_per_s.expected
    if cost is not None:
        lines.append(
            f"per million samples = {rent.usd_per_hour:.4g} USD/h / 3600 s / {format_rate(rate)} × 10⁶ = {cost:.3g} USD"
        )
    return lines


def _model(subject: Subject) -> list[str]:
    model, batch = subject.plan.model, subject.fit.batch
    return [
        f"{format_count(model.parameter_count)} parameters, each counted once, in {format_bytes(model.weight_bytes)}",
        f"{format_count(model.macs_per_sample)} multiply-accumulates a sample = "
        f"{format_flops(model.flops_per_sample)} (two FLOPs each)",
        f"{format_flops(model.flops_per_sample * batch)} for a batch of {batch:,}",
        *(f"not counted: {each}" for each in model.uncounted),
        *subject.plan.assumptions,
    ]


KINDS: Mapping[str, tuple[str, Callable[[Subject], list[str]]]] = {
    "latency": ("Latency", _latency),
    "throughput": ("Throughput", _throughput),
    "memory": ("Memory", _memory),
    "fits": ("Largest batch", _fits),
    "price": ("Price", _price),
    "model": ("Work of the model, as counted for a batch", _model),
}
