"""Run a sweep on this machine: a few slots, each with a process that plans and, when needed, one that traces.

A model whose process crashes, hangs or takes too much memory costs its own rows. A process that was killed from
outside is started again with the same model.
"""

import queue
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Lock, Thread

from capplan.app.sweep.engines.isolation import IsolatedStages, planning_worker, tracing_worker
from capplan.app.sweep.request import Limits, PlanContext
from capplan.app.sweep.stages import Job, JobAnswer

_SHARE_OF_MEMORY = 0.8


@dataclass(slots=True, kw_only=True)
class LocalEngine:
    """Runs jobs on a number of processes of this machine."""

    context: PlanContext
    workers: int
    limits: Limits

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, JobAnswer]]:
        """Yield each job with its answer, as it is finished; leaving the iteration ends the processes."""
        limits = replace(self.limits, memory_bytes=self.limits.memory_bytes or default_memory_bytes(self.workers))
        shared = _Shared(jobs=iter(jobs))
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
class _Shared:
    """What the threads of a run share: the jobs still to do, the answers, and whether to stop."""

    jobs: Iterator[Job]
    answers: "queue.SimpleQueue[tuple[Job, JobAnswer] | BaseException | None]" = field(
        default_factory=queue.SimpleQueue
    )
    stop: Event = field(default_factory=Event)
    lock: Lock = field(default_factory=Lock)

    def next_job(self) -> Job | None:
        """Return the next job; None when there is none, or when the run is to stop."""
        with self.lock:
            return None if self.stop.is_set() else next(self.jobs, None)

    def take(self) -> tuple[Job, JobAnswer] | None:
        """Wait for the next answer; None when a thread has ended."""
        found = self.answers.get()
        if isinstance(found, BaseException):
            raise found
        return found


def _work(shared: _Shared, context: PlanContext, limits: Limits) -> None:
    """Work on jobs with a process of each stage until none is left."""
    stages = IsolatedStages(
        planner=planning_worker(limits, context),
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
