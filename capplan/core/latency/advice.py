"""Find what would make a step faster, each with its computed gain: other ways to run it, batches, GPUs."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from capplan.core.gpus.prices import Price
from capplan.core.gpus.rate_laws import is_consumer
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.calibration import Calibration
from capplan.core.latency.device import Unsupported
from capplan.core.latency.step import ExecutedStep
from capplan.core.latency.types import Binding, LatencyEstimate
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration, Framework, Layout, Precision, Workload
from capplan.errors import MissingRecordingError

SMALLER_INPUT = "a smaller input"
_NEXT_SPEEDUP = 1.15
"""A GPU that gains less is not a step up: the interval of a model on two GPUs is wider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedAdvice:
    """One change and what it would make of the throughput: 1.5 is half again as fast.

    For another GPU, `usd_per_million_samples` is what samples cost there and `usd_now` here, at the lowest known
    hourly prices; None where no price is known or the GPU stays. `gpu` is the id of that other GPU.
    """

    change: str
    speedup: float
    usd_per_million_samples: float | None = None
    usd_now: float | None = None
    gpu: str | None = None

    @property
    def changes_the_task(self) -> bool:
        """Return True for advice that the task may not allow, which stands last: smaller images or fewer tokens."""
        return self.change.startswith(SMALLER_INPUT)


def advise(
    estimate: LatencyEstimate,
    curve: Sequence[LatencyEstimate],
    *,
    alternatives: Mapping[str, LatencyEstimate],
    host_copy_s: float | None = None,
    stronger: Sequence[SpeedAdvice] = (),
    least_speedup: float = 1.05,
) -> tuple[SpeedAdvice, ...]:
    """List changes that gain, the best first.

    `alternatives` are estimates of the same batch under other conditions, by what one would have to change;
    `host_copy_s` is how long the batch's inputs take over the bus, at best.
    """
    rate = estimate.samples_per_s
    found = [SpeedAdvice(change=change, speedup=other.samples_per_s / rate) for change, other in alternatives.items()]
    best = max(curve, key=lambda point: point.samples_per_s)
    if best.batch > estimate.batch:
        found.append(SpeedAdvice(change=f"batch {best.batch}", speedup=best.samples_per_s / rate))
    step_s = estimate.latency_s.expected
    graphs = "CUDA graphs or overlapping batches, which hide the host's launches (at most)"
    found.append(SpeedAdvice(change=graphs, speedup=step_s / (step_s - estimate.waits_s)))
    if host_copy_s:
        change = (
            "asynchronous execution: inputs in pinned memory, copied while the batch before runs (of copy and step)"
        )
        # copies that overlap the step cost nothing unless they take longer than it
        found.append(SpeedAdvice(change=change, speedup=(step_s + host_copy_s) / max(step_s, host_copy_s)))
    kept = [item for item in (*found, *stronger) if item.speedup >= least_speedup]
    return tuple(sorted(kept, key=lambda item: (item.changes_the_task, -item.speedup)))


def stronger_gpus(
    gpu: GpuSpec,
    now: LatencyEstimate,
    *,
    others: Iterable[tuple[GpuSpec, LatencyEstimate]],
    rents: Mapping[str, Price],
) -> tuple[SpeedAdvice, ...]:
    """Name the next faster GPU of a kind, and the one whose samples cost least if they cost less than here.

    Candidates hold at least as much memory. `rents` are the lowest known hourly prices by GPU.
    """
    here = _usd_per_million(now, rents.get(gpu.id))
    faster = [
        SpeedAdvice(
            change=f"a stronger GPU: {other.id}",
            speedup=estimate.samples_per_s / now.samples_per_s,
            usd_per_million_samples=_usd_per_million(estimate, rents.get(other.id)),
            usd_now=here,
            gpu=other.id,
        )
        for other, estimate in others
        if other.id != gpu.id and other.memory_bytes >= gpu.memory_bytes
    ]
    faster = sorted(
        (
            item
            for item in faster
            if item.speedup >= _NEXT_SPEEDUP
            and (item.usd_per_million_samples or 0) <= _DEARER * (item.usd_now or math.inf)
        ),
        key=lambda item: item.speedup,
    )
    cheaper = [
        (item.usd_per_million_samples, item)
        for item in faster
        if here is not None and item.usd_per_million_samples is not None and item.usd_per_million_samples < here
    ]
    cheapest = [min(cheaper, key=lambda pair: pair[0])[1]] if cheaper else []
    return tuple(dict.fromkeys([*faster[:1], *cheapest]))


_DEARER = 1.1
"""A GPU whose samples cost more than this many times those here is not advised."""


def is_of_same_kind(first: GpuSpec, second: GpuSpec) -> bool:
    """Return True if two GPUs suit the same place: same vendor, housing, kind of memory, and both consumer or not."""
    return _kind(first) == _kind(second)


def _kind(gpu: GpuSpec) -> tuple[object, ...]:
    housing = (gpu.form_factor or "").partition(" (")[0].rstrip("0123456789")
    has_hbm = (gpu.memory_type or "").startswith("HBM")
    return gpu.vendor, housing, has_hbm, is_consumer(gpu)


def _usd_per_million(estimate: LatencyEstimate, rent: Price | None) -> float | None:
    """Return what a million samples cost at full load. [USD]"""
    return None if rent is None else rent.usd_per_hour / 3600 / estimate.samples_per_s * 1e6


GAIN_FRACTION = 0.10
"""A doubling that gains less than this share of throughput no longer pays, unless a question says otherwise."""


def knee_batch(estimates: Sequence[LatencyEstimate], *, gain_fraction: float = GAIN_FRACTION) -> int:
    """Find the smallest batch from which doubling it gains less than `gain_fraction` of throughput."""
    points = sorted((estimate.batch, estimate.samples_per_s) for estimate in estimates)
    found = knee(points, gain_fraction=gain_fraction)
    return points[-1][0] if found is None else found


def knee(rising: Sequence[tuple[int, float]], *, gain_fraction: float) -> int | None:
    """Return the first batch of rising ones from which no doubling gains a share of its rate; None if all still do."""
    for index, (batch, rate) in enumerate(rising[:-1]):
        if all(gain_of_doubling(batch, rate, *later) < gain_fraction for later in rising[index + 1 :]):
            return batch
    return None


def saturating_batch(estimates: Sequence[LatencyEstimate], *, share_fraction: float = 0.95) -> int:
    """Find the smallest batch that reaches `share_fraction` of the best throughput on the curve."""
    points = sorted((estimate.batch, estimate.samples_per_s) for estimate in estimates)
    best = max(rate for _, rate in points)
    return next(batch for batch, rate in points if rate >= share_fraction * best)


def device_batch(estimates: Sequence[LatencyEstimate]) -> int | None:
    """Find the smallest batch from which on the device decides a step's time, not the host's launches.

    Returns:
        The batch; None where the host decides at the largest one.
    """
    found: int | None = None
    for estimate in sorted(estimates, key=lambda estimate: -estimate.batch):
        if estimate.bound_by is Binding.LAUNCHES:
            break
        found = estimate.batch
    return found


def gain_of_doubling(batch: int, rate: float, other: int, other_rate: float) -> float:
    """Return the relative gain of throughput per doubling of the batch, from one point of the curve to a later one."""
    return float((other_rate / rate) ** (1 / math.log2(other / batch)) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """One way to run: its time and its gain over the way in question, or why it is impossible.

    `gain` compares expected times; the errors of one model run two ways are largely shared, so the ratio is surer
    than its two intervals.
    """

    workload: Workload
    estimate: LatencyEstimate | None
    gain: float | None
    reason: str | None = None


def compared_workloads(
    workload: Workload, *, precisions: Sequence[Precision] = (Precision.FP32, Precision.AMP_FP16, Precision.FP16)
) -> tuple[Workload, ...]:
    """Return the workloads that are compared, the one in question first.

    A compiler chooses the layout of convolutions itself, so compiled graphs appear once, in the row-major layout.
    """
    ways = [
        replace(workload, framework=framework, layout=layout, precision=precision)
        for precision in precisions
        for framework in (Framework.EAGER, Framework.COMPILE, Framework.COMPILE_GRAPHS)
        for layout in Layout
        if framework is Framework.EAGER or layout is Layout.NCHW
    ]
    return tuple(dict.fromkeys([workload, *ways]))


def compared_configurations(workloads: Sequence[Workload]) -> tuple[Configuration, ...]:
    """Return the recordings that a comparison needs, each once."""
    return tuple(dict.fromkeys(workload.configuration for workload in workloads))


def compare_frameworks(
    trace: Trace,
    workloads: Sequence[Workload],
    *,
    batch: int,
    calibration: Calibration | None,
    estimate: Callable[[ExecutedStep], LatencyEstimate | Unsupported],
) -> tuple[ComparedRun, ...]:
    """Estimate one batch in every way; gains are relative to the first way, and each impossible way has a reason."""
    runs: list[ComparedRun] = []
    baseline_s: float | None = None
    for workload in workloads:
        step = _step(trace, workload, batch=batch, calibration=calibration)
        found = step if isinstance(step, str) else estimate(step)
        if isinstance(found, str | Unsupported):
            reason = found if isinstance(found, str) else found.reason
            runs.append(ComparedRun(workload=workload, estimate=None, gain=None, reason=reason))
            continue
        if workload == workloads[0]:
            baseline_s = found.latency_s.expected
        gain = baseline_s / found.latency_s.expected if baseline_s else None
        runs.append(ComparedRun(workload=workload, estimate=found, gain=gain))
    return tuple(runs)


def _step(trace: Trace, workload: Workload, *, batch: int, calibration: Calibration | None) -> ExecutedStep | str:
    """Return the step of one way at a batch, or why there is none."""
    try:
        recording = trace.recording(workload.configuration)
    except MissingRecordingError as error:
        return str(error)
    if recording.exact_batch not in (None, batch):
        return f"{trace.name} was traced at batch {recording.exact_batch} alone"
    return ExecutedStep.of(recording, workload, calibration=calibration)
