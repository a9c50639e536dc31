"""Run the stages of a sweep in child processes here, so that a crash, a hang or a memory hog costs its own model."""

import queue
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from capplan.app.sweep.request import ModelLimits, SweepContext, SweepModel
from capplan.app.sweep.schema import FailureKind
from capplan.app.sweep.stages import (
    JobAnswer,
    PlanningJob,
    Traces,
    failed_answer,
    imports_code,
    plan_model,
    trace_model,
)
from capplan.core.gpus.spec import GpuSpec
from capplan.core.measurement.format import point_to_line
from capplan.core.sweep.definition import AnyConditions, Conditions
from capplan.core.sweep.overview import Failed
from capplan.core.workload import BatchChoice, Batches, Workload
from capplan.processes.supervisor import ONE_THREAD, Death, Worker, WorkerDiedError
from capplan.processes.system import free_memory_bytes
from capplan.processes.worker import UnexpectedError

_TRACED_AT_MOST = 100
"""A tracing process is replaced after so many models: libraries keep what they load."""


class _FailedError(Exception):
    """A stage gave no answer; `failed` says why."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.reason)
        self.failed = failed


_KINDS: Mapping[Death, FailureKind] = {Death.TIME: FailureKind.TIMEOUT, Death.MEMORY: FailureKind.MEMORY}
"""What rows state of a death; of any other one a crash."""


def tracing_worker(limits: ModelLimits) -> Worker:
    """Return a process for tracing, whose imports count for no model's time."""
    return Worker(make_tracer, memory_bytes=limits.memory_bytes, environment=ONE_THREAD)


@dataclass(slots=True, kw_only=True)
class IsolatedTracer:
    """Traces models in a process of their own."""

    worker: Worker
    time_s: float
    stop: Event | None = None
    _traced: int = 0

    def traces(self, model: SweepModel, conditions: Sequence[Conditions]) -> Traces:
        """Trace a model for workloads; where that fails as a whole, for each by itself.

        A model that takes too long for all of them, and for one by itself, is not tried for the others: each would
        take the whole limit again.
        """
        try:
            return self._traced_together(model, conditions)
        except _FailedError as error:
            failed = error.failed
        if len(conditions) == 1:
            return _failed_traces(conditions, failed)
        is_late = failed.kind == FailureKind.TIMEOUT.value
        together = Traces()
        for index, condition in enumerate(conditions):
            try:
                alone = self._traced_together(model, [condition])
            except _FailedError as error:
                failed = error.failed
                alone = _failed_traces([condition], failed)
                if is_late and failed.kind == FailureKind.TIMEOUT.value:
                    return together.joined(_failed_traces(conditions[index:], failed))
            together = together.joined(alone)
        return together

    def _traced_together(self, model: SweepModel, conditions: Sequence[Conditions]) -> Traces:
        if self._traced >= _TRACED_AT_MOST:
            self.worker.close()
            self._traced = 0
        answer = _call(self.worker, TraceTask(model=model, conditions=tuple(conditions)), self.time_s, self.stop)
        self._traced += 1
        if imports_code(model):
            self.worker.close()  # the user's code may have changed libraries for the models after it
        assert isinstance(answer, Traces)
        return answer


def _failed_traces(conditions: Sequence[Conditions], failed: Failed) -> Traces:
    return Traces(failed={(str(condition.workload.configuration), None): failed for condition in conditions})


@dataclass(slots=True, kw_only=True)
class IsolatedStages:
    """A share of a machine: one process of each stage, of which one works at a time."""

    planner: Worker
    tracer: Worker
    limits: ModelLimits
    context: SweepContext
    stop: Event | None = None
    _tracer: IsolatedTracer | None = None

    def answer(self, job: PlanningJob) -> JobAnswer:
        """Plan a job's model, tracing it first where that is needed."""
        try:
            answer = self._planned(job)
            if answer.needs_trace:
                if self._tracer is None:
                    self._tracer = IsolatedTracer(worker=self.tracer, time_s=self.limits.time_s, stop=self.stop)
                traces = self._tracer.traces(job.model, asked_conditions(job, self.context.workloads))
                answer = self._planned(replace(job, traces=traces))
        except _FailedError as error:
            return failed_answer(job, self.context, error.failed)
        return answer

    def close(self) -> None:
        """End both processes."""
        self.planner.close()
        self.tracer.close()

    def _planned(self, job: PlanningJob) -> JobAnswer:
        answer = _call(self.planner, job, self.limits.time_s, self.stop)
        if job.model.is_pipeline:
            self.planner.close()  # it loaded torch, and code of parts may have changed libraries
        assert isinstance(answer, JobAnswer)
        return answer


def asked_conditions(job: PlanningJob, workloads: Mapping[str, AnyConditions]) -> list[Conditions]:
    """Return the conditions that a job's model must be traced for."""
    asked = [workloads[name] for name in job.asked]
    return [conditions for conditions in asked if isinstance(conditions, Conditions)]


def _call(worker: Worker, task: object, time_s: float, stop: Event | None) -> Any:
    """Return the answer of a process, after as many tries as its deaths are worth."""
    try:
        answer = worker.call_again(task, time_s=time_s, stop=stop)
    except WorkerDiedError as died:
        raise _FailedError(Failed(kind=_KINDS.get(died.death, FailureKind.CRASH).value, reason=str(died))) from died
    if isinstance(answer, UnexpectedError):
        raise _FailedError(Failed(kind=FailureKind.BUG.value, reason=answer.message))
    return answer


_SHARE_OF_MEMORY = 0.8


@dataclass(slots=True, kw_only=True)
class LocalEngine:
    """Runs jobs on a number of processes of this machine."""

    context: SweepContext
    workers: int
    limits: ModelLimits

    def run(self, jobs: Iterable[PlanningJob]) -> Iterator[tuple[PlanningJob, JobAnswer]]:
        """Yield each job with its answer, as it is finished; leaving the iteration ends the processes."""
        limits = replace(self.limits, memory_bytes=self.limits.memory_bytes or default_memory_bytes(self.workers))
        shared = _SharedState(jobs=iter(jobs))
        threads = [
            Thread(target=_work, args=(shared, self.context, limits), name=f"sweep-{index}", daemon=True)
            for index in range(self.workers)
        ]
        for thread in threads:
            thread.start()
        try:
            for _ in threads:
                yield from iter(shared.take, None)
        finally:
            shared.stop.set()
            for thread in threads:
                thread.join()


@dataclass(slots=True, kw_only=True)
class _SharedState:
    """What the threads of a run share: the jobs still to do, the answers, and whether to stop."""

    jobs: Iterator[PlanningJob]
    answers: "queue.SimpleQueue[tuple[PlanningJob, JobAnswer] | BaseException | None]" = field(
        default_factory=queue.SimpleQueue
    )
    stop: Event = field(default_factory=Event)
    lock: Lock = field(default_factory=Lock)

    def next_job(self) -> PlanningJob | None:
        """Return the next job; None when there is none, or when the run is to stop."""
        with self.lock:
            return None if self.stop.is_set() else next(self.jobs, None)

    def take(self) -> tuple[PlanningJob, JobAnswer] | None:
        """Wait for the next answer; None when a thread has ended."""
        answer = self.answers.get()
        if isinstance(answer, BaseException):
            raise answer
        return answer


def _work(shared: _SharedState, context: SweepContext, limits: ModelLimits) -> None:
    """Work on jobs with a process of each stage until none is left."""
    stages = IsolatedStages(
        planner=Worker(make_planner, context, memory_bytes=limits.memory_bytes, environment=ONE_THREAD),
        tracer=tracing_worker(limits),
        limits=limits,
        context=context,
        stop=shared.stop,
    )
    try:
        while (job := shared.next_job()) is not None:
            shared.answers.put((job, stages.answer(job)))
        shared.answers.put(None)
    except BaseException as error:
        shared.answers.put(error)  # raised where the answers are awaited
    finally:
        stages.close()


def default_memory_bytes(workers: int) -> int | None:
    """Return the memory that one of several processes may take: an even share of most of the machine's. [bytes]"""
    free = free_memory_bytes()
    if free is None:
        return None
    # The memory limits that the control groups of this machine state. [bytes]
    limits = []
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            limits.append(int(Path(name).read_text()))
    limits = [free, *limits]
    return int(_SHARE_OF_MEMORY * min(limits) / workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceTask:
    model: SweepModel
    conditions: tuple[Conditions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesTask:
    """List the devices that torch can use here, with what their drivers call them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureTask:
    """Time a model at a batch on a device; `gpu` is the spec that the estimate beside it rests on. [s]"""

    model: SweepModel
    workload: Workload
    gpu: GpuSpec
    batch: int
    device: str
    budget_s: float
    timeout_s: float
    command: str


def make_tracer() -> Callable[[TraceTask], Traces]:
    """Import what tracing needs, and return what traces a model."""
    import capplan.probe.trace.tracer  # noqa: F401 - its time counts for no model

    return lambda task: trace_model(task.model, task.conditions)


def make_planner(context: SweepContext) -> Callable[[PlanningJob], JobAnswer]:
    return partial(plan_model, context=context)


def make_measurer() -> Callable[[MeasureTask | DevicesTask], str | dict[str, str]]:
    """Return what times points and lists devices."""

    def answer(task: MeasureTask | DevicesTask) -> str | dict[str, str]:
        if isinstance(task, MeasureTask):
            return measure_point(task)
        from capplan.probe.measure.devices import devices_at_hand

        return devices_at_hand()

    return answer


def measure_point(task: MeasureTask) -> str:
    """Time a point as `capplan measure --isolate` does, and return its line of the measurement file."""
    from capplan.app.measure.request import MeasuredBatches, MeasureRequest
    from capplan.app.measure.run import measure
    from capplan.probe.measure.point import Rules
    from capplan.probe.measure.request import MeasurementJob
    from capplan.probe.measure.timing import StopRule

    job = MeasurementJob(
        model=task.model.request,
        precision=task.workload.precision,
        framework=task.workload.framework,
        layout=task.workload.layout,
        device=task.device,
        rules=Rules(stop=StopRule(budget_s=task.budget_s)),
        command=task.command,
    )
    curve = MeasuredBatches(batches=Batches(choice=BatchChoice.LISTED, sizes=(task.batch,)))
    answer = measure(MeasureRequest(job=job, curve=curve, gpu=task.gpu, isolate=True, timeout_s=task.timeout_s))
    return "".join(map(point_to_line, answer.points))
