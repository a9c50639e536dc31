"""Estimate how fast a model runs on GPUs over batch sizes, what binds it, and what would help."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from capplan.app.feedback import SILENCE, Feedback
from capplan.app.models import UNSCALED_BATCHES, Model, ModelSource, open_model
from capplan.app.plan import PlanTerms
from capplan.app.priced_gpus import PricedGpus
from capplan.core.gpus.prices import Price, cheapest_offers
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.advice import (
    SMALLER_INPUT,
    ComparedRun,
    SpeedAdvice,
    advise,
    compare_frameworks,
    compared_configurations,
    compared_workloads,
    is_of_same_kind,
    stronger_gpus,
)
from capplan.core.latency.breakdown import break_down, classic_bound, step_peak_seconds
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
from capplan.core.trace.types import InputTensor, Trace, model_input
from capplan.core.workload import BatchChoice, Batches, Configuration, Framework, Layout, Precision, Workload
from capplan.errors import CapplanError, UsageError
from capplan.report.estimates import EstimateReport
from capplan.specs import Gpus
from capplan.specs.calibration import load_calibration
from capplan.units import counted

_SMALLEST_SIDE, _SMALLEST_LENGTH = 32, 16


def _possible_changes(model: Model, trace: Trace, now: Workload, batch: int) -> Iterator[Alternative]:
    """Yield the changes that can be had under the conditions of a trace, each traced once for all GPUs."""
    wanted = {}
    if now.precision.half_dtype is None:
        wanted["half precision (--precision amp-fp16)"] = replace(now, precision=Precision.AMP_FP16)
        wanted["16-bit weights (--precision fp16)"] = replace(now, precision=Precision.FP16)
    if now.framework is Framework.EAGER:
        wanted["compiling (--framework compile)"] = replace(now, framework=Framework.COMPILE)
    if now.layout is Layout.NCHW and any(len(tensor.shape) == 4 for tensor in trace.inputs):
        wanted["channels_last (--layout nhwc)"] = replace(now, layout=Layout.NHWC)
    for change, workload in wanted.items():
        if (changed := _try_trace(model, workload, batch)) is not None:
            yield Alternative(change=change, trace=changed, workload=workload)
    if (smaller := _half_as_large(model, trace.inputs)) is not None:
        option, other = smaller
        if (changed := _try_trace(other, now, batch)) is not None:
            yield Alternative(change=f"{SMALLER_INPUT} ({option}), if the task allows it", trace=changed, workload=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adviser:
    """What advice is drawn from, apart from the GPU in question; `rents` are the lowest hourly prices by GPU id.

    `law` holds the power limit that every GPU runs at; None without one.
    """

    trace: Trace
    workload: Workload
    calibration: Calibration
    changes: tuple[Alternative, ...]
    gpus: Gpus
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
        return advise(
            last,
            curve,
            alternatives=alternatives,
            host_copy_s=copied_bytes / gpu.pcie_bytes_per_s if gpu.pcie_bytes_per_s else None,
            stronger=self._stronger(gpu, last),
        )

    def _estimate(self, trace: Trace, workload: Workload, gpu: GpuSpec, batch: int) -> LatencyEstimate | None:
        recording = trace.recording(workload.configuration)
        if recording.exact_batch not in (None, batch):
            return None
        step = ExecutedStep.of(recording, workload, calibration=self.calibration)
        answer = _latency(step, gpu=gpu, batch=batch, law=self.law)
        return None if isinstance(answer, Unsupported) else answer

    def _stronger(self, gpu: GpuSpec, now: LatencyEstimate) -> tuple[SpeedAdvice, ...]:
        recording = self.trace.recording(self.workload.configuration)
        alike = [other for other in self.gpus.values() if is_of_same_kind(gpu, other)]
        step = ExecutedStep.of(recording, self.workload, calibration=self.calibration)
        answers = _latencies(step, alike, [now.batch], self.law)
        others = [
            (other, answer[0])
            for other, answer in zip(alike, answers, strict=True)
            if not isinstance(answer, Unsupported)
        ]
        return stronger_gpus(gpu, now, others=others, rents=self.rents)


def _try_trace(model: Model, workload: Workload, batch: int) -> Trace | None:
    """Return the trace of a change; None where the model does not allow it, or a trace file does not hold it."""
    try:
        trace = model.trace_at(workload.configuration, batch)
        trace.recording(workload.configuration)
    except CapplanError:
        return None
    return trace


def _half_as_large(model: Model, inputs: Sequence[InputTensor]) -> tuple[str, Model] | None:
    """Return the model on half the side or half the tokens, and the option that asks for it; None for other inputs."""
    request = model.own_request
    if request is None or request.inputs or request.inputs_from or not inputs:
        return None
    is_text = len(inputs[0].shape) == 2 and inputs[0].dtype == "int64"
    if request.seq_len is not None or is_text:
        length = (request.seq_len or inputs[0].shape[1].constant) // 2
        smaller = model.with_input(seq_len=length) if length >= _SMALLEST_LENGTH else None
        return (f"--seq-len {length}", smaller) if smaller else None
    if len(inputs[0].shape) != 4 or not inputs[0].dtype.startswith("float"):
        return None
    channels, *sides = (dim.constant for dim in inputs[0].shape[1:])
    halves = [side // 2 // _SMALLEST_SIDE * _SMALLEST_SIDE for side in sides]
    size = "x".join(map(str, (channels, *halves)))
    smaller = model.with_input(input_size=size) if min(halves) >= _SMALLEST_SIDE else None
    return (f"--input-size {size}", smaller) if smaller else None


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateAnswer:
    """A report for each GPU, and the ways to run that were compared, by the GPU's id."""

    reports: tuple[EstimateReport, ...]
    compared: Mapping[str, tuple[ComparedRun, ...]]
    calibration: Calibration


def estimate(
    source: ModelSource,
    terms: PlanTerms,
    gpus: PricedGpus,
    *,
    calibration: Path | None = None,
    gain_fraction: float = 0.10,
    compares_frameworks: bool = False,
    feedback: Feedback = SILENCE,
) -> EstimateAnswer:
    """Return curves, breakdowns, bounds and advice for a model on each GPU.

    Args:
        source: the model.
        terms: the conditions and the batches; without listed ones, the powers of two up to 1024.
        gpus: the GPUs and the prices that count.
        calibration: a file of the caller's own; None for the shipped one.
        gain_fraction: the knee is the batch beyond which doubling gains less throughput.
        compares_frameworks: add the largest batch run eagerly and compiled, in other layouts and precisions.
        feedback: where progress is shown.

    Raises:
        UsageError: there is no such model; a GPU cannot run the workload; or a batch is asked of a trace that holds at
            another one alone.
        TraceError: the model could not be traced.
        MissingRecordingError: a trace lacks the recording of this precision, layout or mode.
    """
    rates, workload, law = load_calibration(calibration), terms.workload, terms.power_law
    model = open_model(source, feedback=feedback)
    batches = sorted(set(terms.batches.sizes)) or _usual_batches(model, workload.configuration)
    steps = _steps(model, workload, batches, rates)
    curves = _curves(steps, gpus.chosen, feedback, law)
    trace, step = steps[-1].trace, steps[-1].step
    adviser = Adviser(
        trace=trace,
        workload=workload,
        calibration=rates,
        changes=tuple(_possible_changes(model, trace, workload, batches[-1])),
        gpus=gpus.choice.known,
        rents=cheapest_offers(gpus.prices.to_plan_with),
        law=law,
    )
    with feedback.progress(f"estimating {model.words} on {counted(len(curves), 'GPU')}"):
        reports = tuple(
            replace(
                _report(step, gpu, curve, adviser, gain_fraction),
                energy=_energy(steps, gpu, curve, law) if law else {},
            )
            for gpu, curve in curves
        )
    compared = _compared(model, adviser, [gpu for gpu, _ in curves], batches[-1]) if compares_frameworks else {}
    return EstimateAnswer(reports=reports, compared=compared, calibration=rates)


def _compared(
    model: Model, adviser: Adviser, gpus: Sequence[GpuSpec], batch: int
) -> Mapping[str, tuple[ComparedRun, ...]]:
    """Return the ways to run a batch on each GPU, by its id."""
    workloads = compared_workloads(adviser.workload)
    whole = model.traces_at(compared_configurations(workloads), batch)
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


_USUAL_BATCHES = tuple(2**power for power in range(11))


def _usual_batches(model: Model, configuration: Configuration) -> list[int]:
    """Return 1 to 1024 in powers of two, a few where each must be traced, or the only batch that the model runs at."""
    usual = model.usual_batch(configuration)
    if usual > 1 or model.fixed_batch(configuration) is not None:
        return [usual]
    return list(_USUAL_BATCHES if model.scales(configuration) else UNSCALED_BATCHES)


_Curve: TypeAlias = tuple[LatencyEstimate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """The step of a trace, and the batches that it holds at."""

    trace: Trace
    step: ExecutedStep
    batches: tuple[int, ...]


def _steps(model: Model, workload: Workload, batches: Sequence[int], calibration: Calibration) -> list[_Step]:
    """Return one step for all batches, or one for each of a model that does not scale with the batch."""
    return [
        _Step(
            trace=trace,
            step=ExecutedStep.of(trace.recording(workload.configuration), workload, calibration=calibration),
            batches=held.sizes,
        )
        for trace, held in model.traces_for(
            workload.configuration, Batches(choice=BatchChoice.LISTED, sizes=tuple(batches))
        )
    ]


def _curves(
    steps: Sequence[_Step], gpus: Sequence[GpuSpec], feedback: Feedback, law: PowerLaw | None
) -> list[tuple[GpuSpec, _Curve]]:
    """Return each GPU with its curve; of several GPUs, one that cannot run the workload is left out with a warning.

    Raises:
        UsageError: none of the GPUs can run the workload.
    """
    by_step = [_latencies(step.step, gpus, step.batches, law) for step in steps]
    answers = [_joined(parts) for parts in zip(*by_step, strict=True)]
    refused = [(gpu, answer) for gpu, answer in zip(gpus, answers, strict=True) if isinstance(answer, Unsupported)]
    if len(refused) == len(gpus):
        raise UsageError(f"{refused[0][1].reason}.")
    for gpu, answer in refused:
        feedback.warn(f"{gpu.id} is left out: {answer.reason}.")
    return [(gpu, answer) for gpu, answer in zip(gpus, answers, strict=True) if not isinstance(answer, Unsupported)]


def _latencies(
    step: ExecutedStep, gpus: Sequence[GpuSpec], batches: Sequence[int], law: PowerLaw | None
) -> tuple[_Curve | Unsupported, ...]:
    """Return the times of some batches on each GPU, under the law's power limit where it has one."""

    def uncapped(at: Sequence[GpuSpec], sizes: Sequence[int]) -> tuple[_Curve | Unsupported, ...]:
        return estimate_latencies(step, gpus=at, batches=sizes)

    return latencies_under_cap(uncapped, partial(step_peak_seconds, step), gpus, batches, law)


def _latency(step: ExecutedStep, *, gpu: GpuSpec, batch: int, law: PowerLaw | None) -> LatencyEstimate | Unsupported:
    """Return the time of one batch on one GPU, under the law's power limit where it has one."""
    (answer,) = _latencies(step, [gpu], [batch], law)
    return answer if isinstance(answer, Unsupported) else answer[0]


def _joined(parts: Sequence[_Curve | Unsupported]) -> _Curve | Unsupported:
    """Return the points of one GPU's curve, or why it cannot run the workload."""
    points: list[LatencyEstimate] = []
    for part in parts:
        if isinstance(part, Unsupported):
            return part
        points += part
    return tuple(points)


def _energy(steps: Sequence[_Step], gpu: GpuSpec, curve: _Curve, law: PowerLaw) -> dict[int, StepEnergy]:
    """Return the power and energy of each point of a curve, by batch."""
    work = [work for step in steps for work in step_peak_seconds(step.step, gpu, step.batches)]
    energies = (
        (point.batch, step_energy(gpu, done, point.latency_s, law, samples=point.samples, gpus=point.gpu_count))
        for point, done in zip(curve, work, strict=True)
        if done is not None
    )
    return {batch: energy for batch, energy in energies if energy is not None}


def _report(
    step: ExecutedStep, gpu: GpuSpec, curve: tuple[LatencyEstimate, ...], adviser: Adviser, gain_fraction: float
) -> EstimateReport:
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
    )
