"""The queue of models to trace: bounded, shared between identical requests, each in a process that can be ended."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any

from capplan.app.trace_cache import TraceCache
from capplan.core.ops.flops import check_operators
from capplan.core.trace.format import load_trace
from capplan.errors import CapplanError, TraceError
from capplan.files import working_folder
from capplan.processes.supervisor import Death, Template, Worker, WorkerDiedError
from capplan.processes.system import can_fork
from capplan.processes.worker import UnexpectedError
from capplan.serve.metrics import log
from capplan.serve.planning.messages import Refusal, TraceJob
from capplan.serve.settings import ServiceLimits
from capplan.serve.sharing import BusyError, Line, SharedTasks, UnwantedError, Wanted
from capplan.serve.tracing.child import make_tracer

WALL_PER_CPU = 4
"""How many times as long as its time of the processor a trace may last: on a busy machine it waits for its turns."""
_KEPT_FAILURES = 1_000
_TRIES = 2
"""How often a model is traced whose process is lost."""
_MOST_STARTS = 12
"""How many processes are started for a model, if they are killed before they take it, as forks of a dying process."""
_START_AGAIN_S = 0.25
"""The time between two of these starts. [s]"""
_HINTS_LATER_S = 3600.0
"""A hint is traced after all models that questions wait for, unless it has waited so long. [s]"""
_MOST_HINTS = 64
"""Hints that may wait; further ones are left out until somebody asks again."""
TRACES_NOTHING = "this service traces no models (--traces 0): upload a trace, which `capplan trace` makes."


@dataclass(slots=True, eq=False)
class _Turn:
    """A recording that waits to be traced."""

    job: TraceJob
    made: "asyncio.Future[bytes | Refusal]"
    is_hint: bool
    is_taken: bool = False


class TraceQueue:
    """Traces models in processes of their own and keeps the traces on disk."""

    def __init__(
        self,
        *,
        limits: ServiceLimits,
        cache: TraceCache,
        timed: Callable[[float], None] = lambda _: None,
        lost: Callable[[str, str], None] = lambda _kind, _death: None,
    ) -> None:
        """Prepare the queue; nothing is started yet.

        Args:
            timed: called with the time that each trace took. [s]
        """
        self._limits = limits
        self._cache = cache
        self._timed = timed
        self._lost = lost
        self._shared: SharedTasks[TraceJob, Refusal | None] = SharedTasks()
        self._turns: dict[TraceJob, _Turn] = {}
        self._line: Line[_Turn] = Line(most_long=max(1, limits.tracers - 1))
        self._failures: dict[TraceJob, Refusal] = {}
        self._template = Template("capplan.serve.tracing.preload") if can_fork() else None
        self._threads = ThreadPoolExecutor(max(1, limits.tracers), thread_name_prefix="tracer")
        self._workers: set[Worker] = set()
        self._keepers: list[asyncio.Task[None]] = []
        self._stopping = Event()
        self._last_s = 10.0
        self.running = 0

    @property
    def waiting(self) -> int:
        """Return how many models that questions wait for wait for their turn."""
        return sum(1 for turn in self._waiting() if not turn.is_hint)

    @property
    def hints_waiting(self) -> int:
        """Return how many hints wait for their turn."""
        return sum(1 for turn in self._waiting() if turn.is_hint)

    @property
    def failures(self) -> Mapping[TraceJob, Refusal]:
        """Return what could not be traced, and why."""
        return self._failures

    @property
    def pids(self) -> list[int]:
        """The processes that trace at this moment."""
        return [worker.pid for worker in self._workers if worker.pid is not None]

    async def start(self) -> None:
        """Load the model libraries in the process from which those that trace are forked, if any is to be traced."""
        self._keepers = [asyncio.ensure_future(self._trace_on()) for _ in range(self._limits.tracers)]
        if self._limits.tracers and self._template is not None:
            first = Worker(make_nothing, template=self._template)
            await self._in_thread(partial(first.start, stop=self._stopping))
            first.close()

    async def stop(self) -> None:
        """End all processes."""
        for keeper in self._keepers:
            keeper.cancel()
        self._stopping.set()
        await asyncio.to_thread(self._threads.shutdown, wait=True, cancel_futures=True)

    def admit(self, jobs: Sequence[TraceJob]) -> None:
        """Refuse a question if the queue has no room for all of its first traces.

        A question that was admitted is answered: traces that it turns out to need later are made whatever waits.
        """
        new = [job for job in jobs if job not in self._failures and (job not in self._shared or self._is_hint(job))]
        if not new or not self._limits.tracers:
            return
        free = self._limits.tracers - self.running
        if self.waiting + len(new) > self._limits.waiting + free and (self.waiting or self.running):
            turns = 1 + (self.waiting + self.running) // max(1, self._limits.tracers)
            retry_after_s = max(1, min(600, round(self._last_s * turns)))
            raise BusyError("too many models wait to be traced", retry_after_s=retry_after_s)

    async def obtain(self, job: TraceJob, *, wanted: Wanted, is_hint: bool = False) -> Refusal | None:
        """Trace a model, or wait for the trace that another request started.

        Returns:
            None once the trace is kept, or why it could not be made.
        """
        if (failure := self._failures.get(job)) is not None:
            return failure
        if not self._limits.tracers:
            return Refusal(message=TRACES_NOTHING, exit_code=TraceError.exit_code)
        if is_hint and job not in self._shared and self.hints_waiting >= _MOST_HINTS:
            raise BusyError("too many hints wait to be traced", retry_after_s=60)
        if not is_hint and self._is_hint(job):
            await self._line_up(self._turns[job], wanted, is_hint=False)
        return await self._shared.get(job, lambda shared: self._make(job, shared, is_hint), wanted=wanted)

    def _waiting(self) -> set[_Turn]:
        return {turn for turn in self._line if not turn.is_taken}

    def _is_hint(self, job: TraceJob) -> bool:
        """Return True if a job waits as a hint."""
        return job in self._turns and self._turns[job].is_hint and not self._turns[job].is_taken

    async def _line_up(self, turn: _Turn, wanted: Wanted, *, is_hint: bool) -> None:
        turn.is_hint = is_hint

        def drop() -> None:
            if not turn.made.done() and not turn.is_taken:
                turn.made.set_exception(UnwantedError())

        await self._line.put(
            turn, delay_s=_HINTS_LATER_S if is_hint else 0.0, wanted=wanted, dropped=drop, is_long=is_hint
        )

    async def _make(self, job: TraceJob, wanted: Wanted, is_hint: bool) -> Refusal | None:
        turn = _Turn(job=job, made=asyncio.get_running_loop().create_future(), is_hint=is_hint)
        self._turns[job] = turn
        try:
            await self._line_up(turn, lambda: turn.is_taken or wanted(), is_hint=is_hint)
            result = await turn.made
        finally:
            del self._turns[job]
        failure = await asyncio.to_thread(self._keep, job, result) if isinstance(result, bytes) else result
        if failure is not None:
            while len(self._failures) >= _KEPT_FAILURES:
                self._failures.pop(next(iter(self._failures)))
            self._failures[job] = failure
        return failure

    async def _trace_on(self) -> None:
        """Trace one model after the other."""
        while True:
            turn, is_long = await self._line.take()
            if turn.is_taken or turn.made.done():
                await self._line.finish(is_long=is_long)
                continue
            turn.is_taken = True
            self.running += 1
            started = time.monotonic()
            try:
                result = await self._traced(turn.job)
                if not turn.made.done():
                    turn.made.set_result(result)
            except (BusyError, OSError) as error:
                turn.made.set_exception(error)
            finally:
                self.running -= 1
                self._last_s = time.monotonic() - started
                self._timed(self._last_s)
                await self._line.finish(is_long=is_long)

    def _keep(self, job: TraceJob, content: bytes) -> Refusal | None:
        """Check what the other process sent, as any file from elsewhere, and keep it."""
        try:
            trace = load_trace(content, where=job.request.words)
            check_operators(trace, where=job.request.words)
        except CapplanError as error:
            return Refusal(message=str(error), exit_code=error.exit_code)
        self._cache.keep(job.question, trace, files=[])
        return None

    async def _traced(self, job: TraceJob) -> bytes | Refusal:
        """Trace a model, and try a second time if its process is lost.

        A process that was killed before it took the model does not count as a try.
        """
        tries = 0
        for _ in range(_MOST_STARTS):
            result: bytes | Refusal | WorkerDiedError = await self._in_thread(partial(self._trace_once, job))
            if not isinstance(result, WorkerDiedError):
                return result
            died = result
            tries += died.began or died.death is not Death.KILLED
            log("a tracer was lost", death=died.death.value, reason=str(died), tries=tries)
            self._lost("tracer", died.death.value)
            if died.death is Death.TIME:
                return self._stopped(
                    job,
                    f"tracing took longer than {self._limits.trace_s:g} s of the processor or "
                    f"{WALL_PER_CPU * self._limits.trace_s:g} s in all, the limit of this service",
                )
            if tries == _TRIES:
                break
            if not died.began:
                await asyncio.sleep(_START_AGAIN_S)
        if died.death is Death.CRASH:
            return self._stopped(job, f"tracing was stopped, because {died}")
        raise BusyError("the processes that traced the model were lost", retry_after_s=5, status=503)

    def _trace_once(self, job: TraceJob) -> bytes | Refusal | WorkerDiedError:
        limits = self._limits
        with working_folder("trace") as folder:
            worker = Worker(
                make_tracer,
                limits.trace_bytes,
                limits.trace_s,
                str(folder),
                template=self._template,
                answers=bytes | Refusal,
            )
            self._workers.add(worker)
            try:
                result = worker.call(job, time_s=WALL_PER_CPU * limits.trace_s, stop=self._stopping)
            except WorkerDiedError as died:
                return died
            finally:
                self._workers.discard(worker)
                worker.close()
        if isinstance(result, UnexpectedError):
            log("a model could not be traced", error=result.message.partition(":")[0])
            return self._stopped(job, f"its code failed while it was traced ({result.message[:200]})")
        assert isinstance(result, bytes | Refusal)
        return result

    def _stopped(self, job: TraceJob, why: str) -> Refusal:
        return Refusal(
            message=f"{job.request.words}: {why}; trace it with `capplan trace` and upload the trace.", exit_code=3
        )

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        """Run what blocks in a thread of the tracers' own."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def make_nothing() -> Callable[[object], object]:
    """Return what does nothing: for the first forked process, which exists to have the libraries loaded."""
    return lambda task: task
