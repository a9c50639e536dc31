"""Hold a plan to limits, one outcome per limit: what a gate in CI asks."""

from collections.abc import Sequence
from dataclasses import dataclass

from capplan.core.gpus.spec import GpuSpec
from capplan.core.numbers import Interval
from capplan.errors import UsageError
from capplan.report.documents.subject import Subject
from capplan.report.table import render_text, table
from capplan.units import format_bytes, format_rate, format_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The limits; `is_sure` holds the bad end of an interval to them instead of what is expected."""

    utilization_fraction: float | None = None
    min_throughput_per_s: float | None = None
    max_latency_s: float | None = None
    is_sure: bool = False

    def __post_init__(self) -> None:
        if self.utilization_fraction is self.min_throughput_per_s is self.max_latency_s is None:
            raise UsageError("a gate needs a limit: --utilization, --min-throughput or --max-latency.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One limit held against one GPU; values in base units."""

    model: str
    gpu: str
    limit: str
    is_kept: bool
    value: float | None
    bound: float | None
    words: str


def check_subject(subject: Subject, gpu: GpuSpec, *, batch: int, gate: Gate, where: str) -> tuple[Outcome, ...]:
    """Hold one GPU and batch of a plan to the limits.

    Raises:
        UsageError: the plan holds nothing of this GPU and batch.
    """
    refusal = next((each for each in subject.refusals if each.gpu == gpu.id and each.batch == batch), None)
    if refusal is not None:
        words = f"rejected by {refusal.constraint}: {refusal.reason}"
        return (_outcome(subject, gpu, "plan", is_kept=False, words=words),)
    estimate = next((each for each in subject.of_gpu(gpu.id) if each.batch == batch), None)
    if estimate is None:
        held = sorted({each.batch for each in subject.of_gpu(gpu.id)})
        batches = f"; it has {', '.join(map(str, held))}" if held else ""
        raise UsageError(f"{where}: no estimate of {subject.name} on {gpu.id} at batch {batch}{batches}.")
    outcomes = []
    if gate.utilization_fraction is not None:
        usable = estimate.usable_bytes or gpu.expected_usable_bytes
        bound = gate.utilization_fraction * usable
        value = _worst(estimate.total_bytes, gate, is_high_bad=True)
        words = f"{format_bytes(value)} of {format_bytes(bound)} that may be filled"
        outcomes.append(_outcome(subject, gpu, "memory", is_kept=value <= bound, words=words, value=value, bound=bound))
    if (bound_s := gate.max_latency_s) is not None:
        value = _worst(estimate.latency_s, gate, is_high_bad=True)
        words = f"{format_seconds(value)} of {format_seconds(bound_s)} allowed"
        outcomes.append(
            _outcome(subject, gpu, "latency", is_kept=value <= bound_s, words=words, value=value, bound=bound_s)
        )
    if (wanted := gate.min_throughput_per_s) is not None:
        value = _worst(estimate.throughput_per_s, gate, is_high_bad=False)
        words = f"{format_rate(value)}/s of {format_rate(wanted)}/s wanted"
        outcomes.append(
            _outcome(subject, gpu, "throughput", is_kept=value >= wanted, words=words, value=value, bound=wanted)
        )
    return tuple(outcomes)


def _worst(interval: Interval, gate: Gate, *, is_high_bad: bool) -> float:
    if not gate.is_sure:
        return interval.expected
    return interval.high if is_high_bad else interval.low


def _outcome(
    subject: Subject,
    gpu: GpuSpec,
    limit: str,
    *,
    is_kept: bool,
    words: str,
    value: float | None = None,
    bound: float | None = None,
) -> Outcome:
    return Outcome(model=subject.name, gpu=gpu.id, limit=limit, is_kept=is_kept, value=value, bound=bound, words=words)


def render_outcomes(outcomes: Sequence[Outcome]) -> str:
    """Write one line per limit."""
    rows = [("kept" if each.is_kept else "FAILED", each.model, each.gpu, each.limit, each.words) for each in outcomes]
    return render_text(table("outcome | model | GPU | limit | figures", rows))
