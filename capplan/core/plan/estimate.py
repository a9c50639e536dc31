"""What is estimated of a model on GPUs: curves over batches, what binds them, and what would help."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from capplan.core.gpus.prices import Price
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.advice import (
    ComparedRun,
    SpeedAdvice,
    advise,
    compare_frameworks,
    compared_workloads,
    is_of_same_kind,
    stronger_gpus,
)
from capplan.core.latency.breakdown import ClassicBound, StepBreakdown, break_down, classic_bound, step_peak_seconds
from capplan.core.latency.calibration import Calibration
from capplan.core.latency.device import Unsupported
from capplan.core.latency.lookup import host_words
from capplan.core.latency.predict import estimate_latencies
from capplan.core.latency.step import ExecutedStep
from capplan.core.latency.types import LatencyEstimate
from capplan.core.memory.advice import Alternative
from capplan.core.ops.analysis import assumed_sizes
from capplan.core.plan.recommend import latencies_under_cap
from capplan.core.power import PowerLaw, StepEnergy, step_energy
from capplan.core.trace.types import ModelInput, Trace, model_input
from capplan.core.workload import Workload

Curve = tuple[LatencyEstimate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateReport:
    """What is reported of one model on one GPU.

    `energy` is that of each point of the curve, by batch; empty where nobody asked for it, and where the card's power
    limit is not known.
    """

    model: str
    input: ModelInput
    dtype: str | None
    workload: Workload
    curve: tuple[LatencyEstimate, ...]
    breakdown: StepBreakdown
    classic: ClassicBound
    advice: tuple[SpeedAdvice, ...]
    gain_fraction: float
    host: str | None = None
    caution: str | None = None
    energy: Mapping[int, StepEnergy] = field(default_factory=dict)

    @property
    def batching_gain(self) -> float:
        """Best throughput of the curve over that of its smallest batch."""
        rates = [point.throughput_per_s.expected for point in self.curve]
        return max(rates) / rates[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateAnswer:
    """A report for each GPU, and the ways to run that were compared, by the GPU's id."""

    reports: tuple[EstimateReport, ...]
    compared: Mapping[str, tuple[ComparedRun, ...]]
    calibration: Calibration


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedStep:
    """The step of a trace, and the batches that it holds at."""

    trace: Trace
    step: ExecutedStep
    batches: tuple[int, ...]

    @classmethod
    def of(cls, trace: Trace, workload: Workload, *, calibration: Calibration, batches: Sequence[int]) -> "TracedStep":
        recording = trace.recording(workload.configuration)
        step = ExecutedStep.of(recording, workload, calibration=calibration)
        return cls(trace=trace, step=step, batches=tuple(batches))


@dataclass(frozen=True, slots=True, kw_only=True)
class Adviser:
    """What advice is drawn from, apart from the GPU in question; `rents` are the lowest hourly prices by GPU id.

    `law` holds the power limit that every GPU runs at; None without one.
    """

    trace: Trace
    workload: Workload
    calibration: Calibration
    changes: tuple[Alternative, ...]
    gpus: Collection[GpuSpec]
    rents: Mapping[str, Price]
    law: PowerLaw | None = None

    def advise(self, gpu: GpuSpec, curve: Sequence[LatencyEstimate]) -> tuple[SpeedAdvice, ...]:
        """Return what would help at the last batch of a curve."""
        last = curve[-1]
        alternatives = {
            change.change: estimate
            for change in self.changes
            if (estimate := self._estimate(change.trace, change.workload, gpu, last.batch)) is not None
        }
        copied_bytes = sum(tensor.size_bytes(last.batch) for tensor in self.trace.inputs)
        recording = self.trace.recording(self.workload.configuration)
        alike = [other for other in self.gpus if is_of_same_kind(gpu, other)]
        step = ExecutedStep.of(recording, self.workload, calibration=self.calibration)
        answers = _latencies(step, alike, [last.batch], self.law)
        others = [
            (other, answer[0])
            for other, answer in zip(alike, answers, strict=True)
            if not isinstance(answer, Unsupported)
        ]
        return advise(
            last,
            curve,
            alternatives=alternatives,
            host_copy_s=copied_bytes / gpu.pcie_bytes_per_s if gpu.pcie_bytes_per_s else None,
            stronger=stronger_gpus(gpu, last, others=others, rents=self.rents),
        )

    def _estimate(self, trace: Trace, workload: Workload, gpu: GpuSpec, batch: int) -> LatencyEstimate | None:
        recording = trace.recording(workload.configuration)
        if recording.exact_batch not in (None, batch):
            return None
        step = ExecutedStep.of(recording, workload, calibration=self.calibration)
        answer = _latency(step, gpu=gpu, batch=batch, law=self.law)
        return None if isinstance(answer, Unsupported) else answer


def estimate_curves(
    steps: Sequence[TracedStep], gpus: Sequence[GpuSpec], law: PowerLaw | None
) -> tuple[list[tuple[GpuSpec, Curve]], list[tuple[GpuSpec, Unsupported]]]:
    """Return each GPU's times over the batches of all steps, and the GPUs that cannot run the workload."""
    by_step = [_latencies(step.step, gpus, step.batches, law) for step in steps]
    curves: list[tuple[GpuSpec, Curve]] = []
    refused: list[tuple[GpuSpec, Unsupported]] = []
    for gpu, parts in zip(gpus, zip(*by_step, strict=True), strict=True):
        answer = _joined(parts)
        if isinstance(answer, Unsupported):
            refused.append((gpu, answer))
        else:
            curves.append((gpu, answer))
    return curves, refused


def _latencies(
    step: ExecutedStep, gpus: Sequence[GpuSpec], batches: Sequence[int], law: PowerLaw | None
) -> tuple[Curve | Unsupported, ...]:
    """Return the times of some batches on each GPU, under the law's power limit where it has one."""

    def uncapped(at: Sequence[GpuSpec], sizes: Sequence[int]) -> tuple[Curve | Unsupported, ...]:
        return estimate_latencies(step, gpus=at, batches=sizes)

    return latencies_under_cap(uncapped, partial(step_peak_seconds, step), gpus, batches, law)


def _latency(step: ExecutedStep, *, gpu: GpuSpec, batch: int, law: PowerLaw | None) -> LatencyEstimate | Unsupported:
    """Return the time of one batch on one GPU, under the law's power limit where it has one."""
    (answer,) = _latencies(step, [gpu], [batch], law)
    return answer if isinstance(answer, Unsupported) else answer[0]


def _joined(parts: Sequence[Curve | Unsupported]) -> Curve | Unsupported:
    """Return the points of one GPU's curve, or why it cannot run the workload."""
    points: list[LatencyEstimate] = []
    for part in parts:
        if isinstance(part, Unsupported):
            return part
        points += part
    return tuple(points)


def _energy(steps: Sequence[TracedStep], gpu: GpuSpec, curve: Curve, law: PowerLaw) -> dict[int, StepEnergy]:
    work = [work for step in steps for work in step_peak_seconds(step.step, gpu, step.batches)]
    energies = (
        (point.batch, step_energy(gpu, done, point.latency_s, law, samples=point.samples, gpus=point.gpu_count))
        for point, done in zip(curve, work, strict=True)
        if done is not None
    )
    return {batch: energy for batch, energy in energies if energy is not None}


def report_estimate(
    steps: Sequence[TracedStep], gpu: GpuSpec, curve: Curve, adviser: Adviser, *, gain_fraction: float
) -> EstimateReport:
    """Return what is reported of one GPU: its curve, the largest batch in detail, and advice."""
    step = steps[-1].step
    detail = break_down(step, gpu=gpu, batch=curve[-1].batch, slowdown=curve[-1].slowdown)
    assert not isinstance(detail, Unsupported)
    return EstimateReport(
        model=adviser.trace.name,
        input=model_input(adviser.trace, adviser.trace.recording(adviser.workload.configuration)),
        dtype=adviser.trace.dtype,
        workload=adviser.workload,
        curve=curve,
        breakdown=detail,
        classic=classic_bound(step, rates=detail.rates, batch=detail.batch),
        advice=adviser.advise(gpu, curve),
        gain_fraction=gain_fraction,
        host=host_words(step.calibration, step.workload),
        caution=assumed_sizes(adviser.trace.recording(adviser.workload.configuration)),
        energy=_energy(steps, gpu, curve, adviser.law) if adviser.law else {},
    )


def compare_ways(
    whole: Trace, adviser: Adviser, gpus: Sequence[GpuSpec], *, batch: int
) -> Mapping[str, tuple[ComparedRun, ...]]:
    """Return the ways to run a batch on each GPU, by its id, from a trace with the recordings of all of them."""
    workloads = compared_workloads(adviser.workload)
    return {
        gpu.id: compare_frameworks(
            whole,
            workloads,
            batch=batch,
            calibration=adviser.calibration,
            estimate=partial(_latency, gpu=gpu, batch=batch, law=adviser.law),
        )
        for gpu in gpus
    }
