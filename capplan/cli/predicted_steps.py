"""Predict measured steps: each distinct graph is traced once, and all its GPUs and batches are estimated together."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from capplan.errors import CapplanError

if TYPE_CHECKING:
    from capplan.core.calibrate.measured import MeasuredStep, SkippedRow
    from capplan.core.calibrate.validation import JudgedStep
    from capplan.core.gpus.spec import GpuSpec
    from capplan.core.latency.calibration import Calibration
    from capplan.core.latency.types import LatencyEstimate
    from capplan.core.trace.types import Recording, Trace
    from capplan.core.workload import Workload
    from capplan.probe.trace.measured import ModelRun
    from capplan.specs.gpus.load import Gpus

    Answers = dict[tuple[str, int], LatencyEstimate | str]
    """What is predicted, or why nothing is, by a row's words for its GPU and its batch."""

_TOGETHER = 3
"""Batches estimated at once: so many are worked out each by itself, more are interpolated between three."""


def predict_steps(
    steps: "Sequence[MeasuredStep]", *, gpus: "Gpus", calibration: "Calibration", folder: Path | None
) -> "tuple[list[JudgedStep], list[SkippedRow]]":
    """Predict every measured step; what cannot be predicted is told."""
    from capplan.cli.measured_models import group_runs, trace_folder
    from capplan.core.calibrate.measured import SkippedRow
    from capplan.core.calibrate.validation import JudgedStep

    judged: list[JudgedStep] = []
    skipped: list[SkippedRow] = []
    store = trace_folder(folder)
    for run, members in group_runs(steps).items():
        try:
            trace = store.obtain(run)
        except CapplanError as error:
            skipped += [SkippedRow(line=step.line, file=step.file, reason=str(error)) for step in members]
            continue
        for workload, rows in _by_workload(members):
            answers = _answers(rows, run, trace, workload, gpus, calibration)
            for step in rows:
                answer = answers[step.gpu, step.batch]
                if isinstance(answer, str):
                    skipped.append(SkippedRow(line=step.line, file=step.file, reason=answer))
                else:
                    judged.append(JudgedStep(step=step, estimate=answer))
    return judged, skipped


def _by_workload(steps: "Sequence[MeasuredStep]") -> "Iterator[tuple[Workload, list[MeasuredStep]]]":
    groups: dict[Workload, list[MeasuredStep]] = {}
    for step in steps:
        groups.setdefault(step.workload, []).append(step)
    yield from groups.items()


def _answers(
    steps: "Sequence[MeasuredStep]",
    run: "ModelRun",
    trace: "Trace",
    workload: "Workload",
    gpus: "Gpus",
    calibration: "Calibration",
) -> "Answers":
    """Answer for every GPU and batch of steps that share a graph and a workload."""
    names = dict.fromkeys(step.gpu for step in steps)
    specs = {name: gpus.find_or_none(name) for name in names}
    found: Answers = {}
    for recording, members in _recordings(steps, run, trace):
        batches = sorted({step.batch for step in members})
        known = {name: spec for name, spec in specs.items() if spec is not None}
        estimates = (
            recording if isinstance(recording, str) else _estimates(recording, workload, known, batches, calibration)
        )
        for step in members:
            key = step.gpu, step.batch
            if specs[step.gpu] is None:
                found[key] = f"unknown GPU {step.gpu!r}"
            elif isinstance(estimates, str):
                found[key] = estimates
            else:
                found[key] = estimates[key]
    return found


def _recordings(
    steps: "Sequence[MeasuredStep]", run: "ModelRun", trace: "Trace"
) -> "Iterator[tuple[Recording | str, Sequence[MeasuredStep]]]":
    """The recordings that hold for steps: one for all, or one a batch; why there is none, where there is none."""
    from capplan.cli.measured_models import recording_for

    recording = trace.recording(run.configuration)
    if recording.exact_batch is None:
        yield recording, steps
        return
    by_batch: dict[int, list[MeasuredStep]] = {}
    for step in steps:
        by_batch.setdefault(step.batch, []).append(step)
    for members in by_batch.values():
        try:
            exact: Recording | str = recording_for(trace, run, members[0])
        except CapplanError as error:
            exact = str(error)
        yield exact, members


def _estimates(
    recording: "Recording",
    workload: "Workload",
    gpus: "dict[str, GpuSpec]",
    batches: Sequence[int],
    calibration: "Calibration",
) -> "Answers":
    from capplan.core.latency.device import Unsupported
    from capplan.core.latency.predict import estimate_latencies
    from capplan.core.latency.step import ExecutedStep

    found: Answers = {}
    step = ExecutedStep.of(recording, workload, calibration=calibration)
    for first in range(0, len(batches), _TOGETHER):
        together = batches[first : first + _TOGETHER]
        answers = estimate_latencies(step, gpus=list(gpus.values()), batches=together)
        for name, answer in zip(gpus, answers, strict=True):
            for index, batch in enumerate(together):
                found[name, batch] = answer.reason if isinstance(answer, Unsupported) else answer[index]
    return found
