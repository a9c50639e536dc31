"""Run a sweep on this machine: a few slots, each with a process that plans and, when needed, one that traces.

A model whose process crashes, hangs or takes too much memory costs its own rows. A process that was killed from
outside is started again with the same model.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from pathlib import Path

from capplan.app.sweep.child import Child, ChildDiedError
from capplan.app.sweep.request import Limits, PlanContext
from capplan.app.sweep.stages import Job, JobAnswer, Traces, failed_answer
from capplan.app.sweep.worker import TraceTask, UnexpectedError
from capplan.core.sweep.overview import Failed
from capplan.core.sweep.schema import FailureKind

_POLL_S = 0.1
_TRACED_AT_MOST = 100
"""A tracing process is replaced after so many models: libraries keep what they load."""
_SHARE_OF_MEMORY = 0.8


@dataclass(slots=True, kw_only=True)
class _Task:
    """A job on its way through the stages: workloads still to trace, and the traces so far."""

    job: Job
    to_trace: deque[tuple[str, ...]] = field(default_factory=deque)
    traces: Traces = field(default_factory=Traces)
    deaths: int = 0


@dataclass(slots=True, kw_only=True)
class _Slot:
    """A share of the machine: one process of each stage, of which one works at a time."""

    planner: Child
    tracer: Child
    task: _Task | None = None
    traced: int = 0

    @property
    def busy(self) -> Child | None:
        """The process that works; None where the slot is idle."""
        if self.task is None:
            return None
        return self.tracer if self.task.to_trace else self.planner


@dataclass(slots=True, kw_only=True)
class LocalEngine:
    """Runs jobs on a number of processes of this machine."""

    context: PlanContext
    workers: int
    limits: Limits

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, JobAnswer]]:
        """Yield each job with its answer, as it is finished; leaving the iteration ends the processes."""
        limits = replace(self.limits, memory_bytes=self.limits.memory_bytes or default_memory_bytes(self.workers))
        slots = [
            _Slot(planner=Child(limits=limits, context=self.context), tracer=Child(limits=limits))
            for _ in range(self.workers)
        ]
        try:
            yield from self._run(slots, iter(jobs))
        finally:
            for slot in slots:
                slot.planner.close()
                slot.tracer.close()

    def _run(self, slots: list[_Slot], jobs: Iterator[Job]) -> Iterator[tuple[Job, JobAnswer]]:
        while True:
            for slot in slots:
                if slot.task is None and (job := next(jobs, None)) is not None:
                    slot.task = _Task(job=job)
                    self._submit(slot)
            busy = {slot.busy.connection: slot for slot in slots if slot.busy is not None}
            if not busy:
                return
            ready = wait([each for each in busy if each is not None], timeout=_POLL_S)
            for slot in busy.values():
                if slot.busy is not None and slot.busy.connection not in ready:
                    slot.busy.check()
            for connection in ready:
                slot = next(slot for held, slot in busy.items() if held is connection)
                if (answer := self._step(slot)) is not None:
                    assert slot.task is not None
                    yield slot.task.job, answer
                    slot.task = None

    def _submit(self, slot: _Slot) -> None:
        task = slot.task
        assert task is not None
        if task.to_trace:
            if slot.traced >= _TRACED_AT_MOST:
                slot.tracer.close()
                slot.traced = 0
            conditions = tuple(self.context.workloads[name] for name in task.to_trace[0])
            slot.tracer.submit(TraceTask(model=task.job.model, conditions=conditions))
        else:
            slot.planner.submit(task.job)

    def _step(self, slot: _Slot) -> JobAnswer | None:
        """Take what a slot's process answered; return the job's answer if this was its end."""
        task, child = slot.task, slot.busy
        assert task is not None
        assert child is not None
        try:
            answer = child.receive()
        except ChildDiedError as died:
            return self._after_death(slot, task, died)
        if isinstance(answer, UnexpectedError):
            return self._give_up(slot, task, Failed(kind=FailureKind.BUG.value, reason=answer.message))
        if isinstance(answer, Traces):
            slot.traced += 1
            self._after_tracing(slot, task, answer)
            return None
        assert isinstance(answer, JobAnswer)
        if answer.needs_trace:
            task.to_trace.append(tuple(task.job.asked))
            self._submit(slot)
            return None
        return answer

    def _after_tracing(self, slot: _Slot, task: _Task, traces: Traces) -> None:
        task.to_trace.popleft()
        task.traces = task.traces.joined(traces)
        task.deaths = 0
        if not task.to_trace:
            task.job = replace(task.job, traces=task.traces)
        if is_of_users_code(task.job):
            slot.tracer.close()  # the user's code may have changed libraries for the models after it
        self._submit(slot)

    def _after_death(self, slot: _Slot, task: _Task, died: ChildDiedError) -> JobAnswer | None:
        task.deaths += 1
        if task.deaths <= died.may_retry:
            self._submit(slot)
            return None
        return self._give_up(slot, task, died.failed)

    def _give_up(self, slot: _Slot, task: _Task, failed: Failed) -> JobAnswer | None:
        """Fail the job; while several workloads are traced together, go on with each by itself."""
        if not task.to_trace:
            return failed_answer(task.job, self.context, failed)
        names = task.to_trace.popleft()
        task.deaths = 0
        if len(names) > 1:
            task.to_trace.extend((name,) for name in names)
        else:
            configuration = self.context.workloads[names[0]].workload.configuration
            task.traces = task.traces.joined(Traces(failed={(str(configuration), None): failed}))
        if not task.to_trace:
            task.job = replace(task.job, traces=task.traces)
        self._submit(slot)
        return None


def is_of_users_code(job: Job) -> bool:
    """Return True if a model is made by code that is neither torchvision's, timm's nor transformers'."""
    request = job.model.request
    library, colon, _ = request.words.partition(":")
    return bool((colon and library not in ("torchvision", "timm", "hf")) or request.inputs_from or request.prepare)


def cores() -> int:
    """Return the number of cores that this process may use."""
    with suppress(AttributeError):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_memory_bytes(workers: int) -> int | None:
    """Return the memory that one of several processes may take: an even share of most of the machine's. [bytes]"""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        return None
    limits = [free, *_group_limits()]
    return int(_SHARE_OF_MEMORY * min(limits) / workers)


def _group_limits() -> list[int]:
    """Return the memory limits that the control groups of this machine state. [bytes]"""
    found = []
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            found.append(int(Path(name).read_text()))
    return found
