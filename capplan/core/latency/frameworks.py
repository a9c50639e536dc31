"""Estimate one model on one GPU in every way to run it: framework, memory format, number format."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.calibration import Calibration
from capplan.core.latency.device import Unsupported
from capplan.core.latency.predict import estimate_latencies
from capplan.core.latency.step import ExecutedStep
from capplan.core.latency.types import LatencyEstimate
from capplan.core.trace.types import Trace
from capplan.core.workload import Configuration, Framework, Layout, Precision, Workload
from capplan.errors import MissingRecordingError


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
    trace: Trace, workloads: Sequence[Workload], *, gpu: GpuSpec, batch: int, calibration: Calibration | None
) -> tuple[ComparedRun, ...]:
    """Estimate one batch in every way; gains are relative to the first way, and each impossible way has a reason."""
    runs: list[ComparedRun] = []
    baseline_s: float | None = None
    for workload in workloads:
        found = _estimate(trace, workload, gpu=gpu, batch=batch, calibration=calibration)
        if isinstance(found, str):
            runs.append(ComparedRun(workload=workload, estimate=None, gain=None, reason=found))
            continue
        if workload == workloads[0]:
            baseline_s = found.latency_s.expected
        gain = baseline_s / found.latency_s.expected if baseline_s else None
        runs.append(ComparedRun(workload=workload, estimate=found, gain=gain))
    return tuple(runs)


def _estimate(
    trace: Trace, workload: Workload, *, gpu: GpuSpec, batch: int, calibration: Calibration | None
) -> LatencyEstimate | str:
    try:
        recording = trace.recording(workload.configuration)
    except MissingRecordingError as error:
        return str(error)
    if recording.exact_batch not in (None, batch):
        return f"{trace.name} was traced at batch {recording.exact_batch} alone"
    step = ExecutedStep.of(recording, workload, calibration=calibration)
    (answer,) = estimate_latencies(step, gpus=[gpu], batches=[batch])
    return answer.reason if isinstance(answer, Unsupported) else answer[0]
