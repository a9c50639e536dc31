"""Compare a saved plan with limits, one outcome per limit, as a gate in CI needs it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from capplan.core.gpus.spec import GpuSpec
from capplan.errors import UsageError
from capplan.report.documents.codec import SCHEMA_VERSION, Document
from capplan.report.documents.plan import PlanDocument, PlannedFit
from capplan.units import format_bytes, format_rate, format_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The limits. `is_sure` compares the bad end of an interval with them instead of the expected value."""

    utilization_fraction: float | None = None
    min_throughput_per_s: float | None = None
    max_latency_s: float | None = None
    is_sure: bool = False

    def __post_init__(self) -> None:
        if self.utilization_fraction is self.min_throughput_per_s is self.max_latency_s is None:
            raise UsageError("a gate needs a limit: --utilization, --min-throughput or --max-latency.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedLimit:
    """One limit compared with the estimate for one GPU; values in base units."""

    model: str
    gpu: str
    limit: Literal["plan", "memory", "latency", "throughput"]
    is_kept: bool
    value: float | None
    bound: float | None
    words: str


class CheckDocument(Document, frozen=True, kw_only=True):
    """What `capplan check --json` writes: one outcome per limit, in base units."""

    kept: bool
    outcomes: tuple[CheckedLimit, ...]


def check_document(outcomes: Sequence[CheckedLimit]) -> CheckDocument:
    """Return the outcomes of limits as a document.

    Args:
        outcomes: One outcome per limit and GPU.
    """
    return CheckDocument(
        schema_version=SCHEMA_VERSION, kept=all(outcome.is_kept for outcome in outcomes), outcomes=tuple(outcomes)
    )


def check_plan(plan: PlanDocument, gpu: GpuSpec, *, batch: int, gate: Gate, where: str) -> tuple[CheckedLimit, ...]:
    """Compare the estimates for one GPU and batch of a plan with the limits.

    Args:
        plan: The plan of one model.
        gpu: The GPU.
        batch: The batch, which the plan must hold.
        gate: The limits.
        where: Name of the plan's file, for error messages.

    Raises:
        UsageError: the plan holds nothing of this GPU and batch.
    """
    name = plan.model.name
    rejection = next((each for each in plan.rejections if each.gpu == gpu.id and each.batch == batch), None)
    if rejection is not None:
        words = f"rejected by {rejection.constraint}: {rejection.cause}"
        return (CheckedLimit(model=name, gpu=gpu.id, limit="plan", is_kept=False, value=None, bound=None, words=words),)
    fit = next((each for each in plan.fits_on(gpu.id) if each.batch == batch), None)
    if fit is None:
        held = sorted({each.batch for each in plan.fits_on(gpu.id)})
        batches = f"; it has {', '.join(map(str, held))}" if held else ""
        raise UsageError(f"{where}: no estimate of {name} on {gpu.id} at batch {batch}{batches}.")
    checks = (_check_memory, _check_latency, _check_throughput)
    return tuple(outcome for check in checks if (outcome := check(name, fit, gpu, gate)) is not None)


def _check_memory(model: str, fit: PlannedFit, gpu: GpuSpec, gate: Gate) -> CheckedLimit | None:
    if gate.utilization_fraction is None:
        return None
    bound = gate.utilization_fraction * (fit.memory.usable_bytes or gpu.expected_usable_bytes)
    total = fit.memory.total_bytes
    value = total.high if gate.is_sure else total.expected
    words = f"{format_bytes(value)} of {format_bytes(bound)} that may be filled"
    return CheckedLimit(
        model=model, gpu=gpu.id, limit="memory", is_kept=value <= bound, value=value, bound=bound, words=words
    )


def _check_latency(model: str, fit: PlannedFit, gpu: GpuSpec, gate: Gate) -> CheckedLimit | None:
    if (bound := gate.max_latency_s) is None:
        return None
    value = fit.latency_s.high if gate.is_sure else fit.latency_s.expected
    words = f"{format_seconds(value)} of {format_seconds(bound)} allowed"
    return CheckedLimit(
        model=model, gpu=gpu.id, limit="latency", is_kept=value <= bound, value=value, bound=bound, words=words
    )


def _check_throughput(model: str, fit: PlannedFit, gpu: GpuSpec, gate: Gate) -> CheckedLimit | None:
    if (bound := gate.min_throughput_per_s) is None:
        return None
    value = fit.throughput_per_s.low if gate.is_sure else fit.throughput_per_s.expected
    words = f"{format_rate(value)}/s of {format_rate(bound)}/s wanted"
    return CheckedLimit(
        model=model, gpu=gpu.id, limit="throughput", is_kept=value >= bound, value=value, bound=bound, words=words
    )
