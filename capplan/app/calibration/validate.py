"""Judge predictions by measurements: each distinct graph is traced once, and all its GPUs and batches together."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

from capplan.app.calibration.cpu import cpu_at_hand
from capplan.app.calibration.measured_models import group_models, group_runs, recording_for, trace_folder
from capplan.core.calibrate.measured import CELL_KEYS, CPU_AT_HAND, MeasuredStep, SkippedRow
from capplan.core.calibrate.validation import JudgedStep, Validation
from capplan.core.calibrate.validation import validate as judge
from capplan.core.gpus.spec import GpuSpec
from capplan.core.latency.breakdown import step_peak_seconds
from capplan.core.latency.calibration import Calibration
from capplan.core.latency.device import Unsupported, host_copy_s, with_copy
from capplan.core.latency.predict import estimate_latencies
from capplan.core.latency.step import ExecutedStep
from capplan.core.latency.types import LatencyEstimate
from capplan.core.numbers import Interval
from capplan.core.power import PowerLaw, step_energy
from capplan.core.trace.types import Recording, Trace
from capplan.core.workload import Workload
from capplan.errors import CapplanError, UnknownNameError
from capplan.processes.supervisor import ONE_THREAD, Worker, WorkerDiedError
from capplan.processes.system import cores
from capplan.processes.worker import UnexpectedError
from capplan.specs import Gpus, load_gpus
from capplan.specs.calibration import load_calibration
from capplan.specs.fitted import load_power_law
from capplan.specs.measurements import read_measured
from capplan.units import format_seconds

if TYPE_CHECKING:
    from capplan.probe.trace.measured import ModelRun, TraceFolder


Judged = tuple[list[JudgedStep], list[SkippedRow]]
"""Steps with what is predicted of them, and those that cannot be predicted."""

_TRACING_S, _PREDICTING_S, _STARTING_S = 0.3, 0.05, 4.0
"""What a graph takes to be traced and to be predicted, and what a process takes to start, on a core of 2023. [s]"""
_MOST_PROCESSES = 8


def judge_in_processes(
    steps: Sequence[MeasuredStep], make: Callable[..., Callable[[Any], Any]], arguments: Sequence[Any]
) -> Judged:
    """Predict steps in as many processes as the work is worth; in this one where it is little."""
    groups = group_models(steps)
    # About how long one process takes for steps. [s]
    store, runs = trace_folder(arguments[-1]), group_runs(steps)
    work_s = sum(_PREDICTING_S if store.holds(run) else _PREDICTING_S + _TRACING_S for run in runs)
    count = min(cores(), _MOST_PROCESSES, len(groups), int(work_s / (2 * _STARTING_S)))
    if count < 2:
        judge = make(*arguments)
        parts = [judge(group) for group in groups]
    else:
        parts = _share(groups, make, arguments, count)
    return [step for judged, _ in parts for step in judged], [row for _, skipped in parts for row in skipped]


def _share(
    groups: Sequence[Sequence[MeasuredStep]],
    make: Callable[..., Callable[[Any], Any]],
    arguments: Sequence[Any],
    count: int,
) -> list[Judged]:
    left, stop, parts = deque(range(len(groups))), Event(), dict[int, Judged]()

    def work() -> None:
        worker = Worker(make, *arguments, environment=ONE_THREAD)
        try:
            while not stop.is_set():
                try:
                    index = left.popleft()
                except IndexError:
                    return
                parts[index] = _answer(worker, groups[index], stop)
        finally:
            worker.close()

    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(work) for _ in range(count)]
        try:
            for future in futures:
                future.result()
        finally:
            stop.set()
    return [parts[index] for index in range(len(groups))]


def _answer(worker: Worker, group: Sequence[MeasuredStep], stop: Event) -> Judged:
    """Return what a process predicts of a model's steps; they are skipped if the process dies of them."""
    try:
        answer = worker.call_again(list(group), stop=stop)
    except WorkerDiedError as died:
        return [], [SkippedRow(line=step.line, file=step.file, reason=str(died)) for step in group]
    if isinstance(answer, UnexpectedError):
        raise RuntimeError(answer.trace)
    judged: Judged = answer
    return judged


Answers: TypeAlias = "dict[tuple[str, int], LatencyEstimate | str]"
"""What is predicted, or why nothing is, by a row's words for its GPU and its batch."""


_MOST_OVER_LIMIT = 1.25
"""How far above the printed power limit a mean draw may lie: makers sell cards with limits up to a quarter higher."""

_TOGETHER = 3
"""Batches estimated at once: up to three are computed each by itself, more are interpolated between three."""


_MOST_CAUTIONS = 5
"""Rows that are faster than their GPU's peaks, of which each is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateAnswer:
    """The errors by cell and row, and the columns that no prediction read, by file."""

    validation: Validation
    unread_columns: Mapping[str, tuple[str, ...]]

    @property
    def judged(self) -> tuple[JudgedStep, ...]:
        """Return every row that was predicted."""
        return self.validation.judged

    @property
    def cautions(self) -> tuple[str, ...]:
        """Return sentences on columns that nothing reads, and on the first rows that are faster than their peaks."""
        cautions = [
            f"{file}: columns that no prediction reads: {', '.join(columns)}"
            for file, columns in self.unread_columns.items()
        ]
        rows = self.validation.implausible()
        cautions += [
            f"{row.step.file}, row {row.step.line}: {format_seconds(row.step.latency_s)} implies more than the peak of "
            f"{row.step.gpu} (bound {format_seconds(row.estimate.bound_s)}); are the units mixed up?"
            for row in rows[:_MOST_CAUTIONS]
        ]
        if len(rows) > _MOST_CAUTIONS:
            more = len(rows) - _MOST_CAUTIONS
            cautions.append(f"{more} more rows imply more than the peak; all are judged like the others.")
        return tuple(cautions)


def validate(
    measured: Sequence[Path],
    *,
    keys: Sequence[str] = CELL_KEYS,
    calibration: Path | None = None,
    overlays: tuple[Path, ...] = (),
    traces: Path | None = None,
    allows_code: bool = False,
    with_copies: bool = False,
) -> ValidateAnswer:
    """Return the errors, bias and coverage of predictions on measured steps."""
    known = (*CELL_KEYS, "model", "batch")
    for key in keys:
        if key not in known:
            raise UnknownNameError("column", key, known)
    files = [read_measured(path, allow_code=allows_code) for path in measured]
    steps = [step for file in files for step in file.steps]
    judged, refused = predict_steps(
        steps,
        gpus=_devices(steps, overlays),
        calibration=load_calibration(calibration),
        folder=traces,
        with_copies=with_copies,
    )
    skipped = [row for file in files for row in file.skipped]
    unread = {file.name: file.unread_columns for file in files if file.unread_columns}
    return ValidateAnswer(validation=judge(judged, [*skipped, *refused], by=list(keys)), unread_columns=unread)


def _devices(steps: Sequence[MeasuredStep], overlays: tuple[Path, ...]) -> Gpus:
    """Return the database, with the CPU at hand where a row was timed on it; the wall clock measures its rates, too."""
    gpus = load_gpus(overlays=overlays)
    if all(step.gpu != CPU_AT_HAND for step in steps):
        return gpus
    return gpus.including(replace(cpu_at_hand(overlays=overlays, clock=perf_counter).spec, id=CPU_AT_HAND))


def predict_steps(
    steps: Sequence[MeasuredStep],
    *,
    gpus: Gpus,
    calibration: Calibration,
    folder: Path | None,
    with_copies: bool = False,
) -> tuple[list[JudgedStep], list[SkippedRow]]:
    """Predict measured steps, and return those that cannot be predicted with the reason."""
    return judge_in_processes(steps, make_judge, (gpus, calibration, with_copies, folder))


def make_judge(
    gpus: Gpus, calibration: Calibration, with_copies: bool, folder: Path | None
) -> Callable[[Sequence[MeasuredStep]], Judged]:
    """Return a function that predicts steps of some models, with what all of them share; `predict_steps` explains it.

    The arguments are positional, because a process is started with them.
    """
    from capplan.probe.foreign.preserve import uncollected

    store, law = trace_folder(folder), replace(load_power_law(), cards=calibration.power)

    def judge_steps(steps: Sequence[MeasuredStep]) -> Judged:
        with uncollected():  # what a model leaves behind is collected before the next one
            return _predicted(steps, store, law, gpus=gpus, calibration=calibration, with_copies=with_copies)

    return judge_steps


def _predicted(
    steps: Sequence[MeasuredStep],
    store: "TraceFolder",
    law: PowerLaw,
    *,
    gpus: Gpus,
    calibration: Calibration,
    with_copies: bool,
) -> Judged:
    judged: list[JudgedStep] = []
    skipped: list[SkippedRow] = []
    for run, members in group_runs(steps).items():
        try:
            trace = store.obtain(run)
        except CapplanError as error:
            skipped += [SkippedRow(line=step.line, file=step.file, reason=str(error)) for step in members]
            continue
        groups: dict[Workload, list[MeasuredStep]] = {}
        for step in members:
            groups.setdefault(step.workload, []).append(step)
        for workload, rows in groups.items():
            answers = _answers(rows, run, trace, workload, gpus=gpus, calibration=calibration)
            for step in rows:
                answer = answers[step.gpu, step.batch]
                if isinstance(answer, str):
                    skipped.append(SkippedRow(line=step.line, file=step.file, reason=answer))
                    continue
                estimate = _as_timed(step, answer, trace, gpus, with_copies=with_copies)
                if isinstance(estimate, str):
                    skipped.append(SkippedRow(line=step.line, file=step.file, reason=estimate))
                else:
                    judged.append(_with_energy(JudgedStep(step=step, estimate=estimate), trace, gpus, calibration, law))
    return judged, skipped


def _with_energy(judged: JudgedStep, trace: Trace, gpus: Gpus, calibration: Calibration, law: PowerLaw) -> JudgedStep:
    """Add power at the measured time, and energy at the estimated one, where the row states power."""
    measured, estimate = judged.step, judged.estimate
    gpu = gpus.find(measured.gpu)
    if measured.power_w is None:
        return judged
    recording = trace.recording(measured.workload.configuration)
    if recording.exact_batch not in {None, measured.batch}:
        return judged
    step = ExecutedStep.of(recording, measured.workload, calibration=calibration)
    work = step_peak_seconds(step, gpu, [measured.batch])[0]
    if work is None:
        return judged
    timed = step_energy(gpu, work, Interval.exact(measured.latency_s), law, samples=measured.batch)
    estimated = step_energy(gpu, work, estimate.latency_s, law, samples=measured.batch)
    if timed is None or estimated is None:
        return judged
    return replace(judged, power_w=timed.power_w, joules_per_sample=estimated.joules_per_sample)


def _as_timed(
    step: MeasuredStep, estimate: LatencyEstimate, trace: Trace, gpus: Gpus, *, with_copies: bool
) -> LatencyEstimate | str:
    """Add the copy of the inputs where the row's timer held it; a reason where the row is of another card or link."""
    limit_w = gpus.find(step.gpu).tdp_w
    if step.power_w is not None and limit_w is not None and step.power_w > _MOST_OVER_LIMIT * limit_w:
        return f"power_w {step.power_w:g} is above the power limit of {step.gpu}, {limit_w:g} W: another card ran"
    if not (with_copies or step.includes_copy):
        return estimate
    copy_s = host_copy_s(trace.inputs, gpus.find(step.gpu), batch=step.batch)
    return (
        f"the link of {step.gpu} is not known, and the copy is timed" if copy_s is None else with_copy(estimate, copy_s)
    )


def _answers(
    steps: Sequence[MeasuredStep],
    run: "ModelRun",
    trace: Trace,
    workload: Workload,
    *,
    gpus: Gpus,
    calibration: Calibration,
) -> Answers:
    """Answer for every GPU and batch of steps that share a graph and a workload."""
    names = dict.fromkeys(step.gpu for step in steps)
    specs = {name: gpus.find_or_none(name) for name in names}
    answers: Answers = {}
    for recording, members in _recordings(steps, run, trace):
        batches = sorted({step.batch for step in members})
        known = {name: spec for name, spec in specs.items() if spec is not None}
        estimates = (
            recording if isinstance(recording, str) else _estimates(recording, workload, known, batches, calibration)
        )
        for step in members:
            key = step.gpu, step.batch
            if specs[step.gpu] is None:
                answers[key] = f"unknown GPU {step.gpu!r}"
            elif isinstance(estimates, str):
                answers[key] = estimates
            else:
                answers[key] = estimates[key]
    return answers


def _recordings(
    steps: Sequence[MeasuredStep], run: "ModelRun", trace: Trace
) -> Iterator[tuple[Recording | str, Sequence[MeasuredStep]]]:
    """Yield the recordings that hold for steps: one for all, or one a batch, or the reason why there is none."""
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
    recording: Recording,
    workload: Workload,
    gpus: dict[str, GpuSpec],
    batches: Sequence[int],
    calibration: Calibration,
) -> Answers:
    answers_by_name: Answers = {}
    step = ExecutedStep.of(recording, workload, calibration=calibration)
    for first in range(0, len(batches), _TOGETHER):
        together = batches[first : first + _TOGETHER]
        answers = estimate_latencies(step, gpus=list(gpus.values()), batches=together)
        for name, answer in zip(gpus, answers, strict=True):
            for index, batch in enumerate(together):
                answers_by_name[name, batch] = answer.reason if isinstance(answer, Unsupported) else answer[index]
    return answers_by_name
