"""The queue of models to trace: bounded, shared between identical requests, each in a process that can be ended."""

import asyncio
import contextlib
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from capplan.app.kept_traces.cache import TraceCache
from capplan.core.ops.checks import check_operators
from capplan.core.trace.format import load_trace
from capplan.errors import CapplanError, TraceError
from capplan.serve.planning.jobs import Failure, TraceJob
from capplan.serve.settings import Limits
from capplan.serve.sharing import Sharing
from capplan.serve.tracing.child import trace_in_child

WALL_PER_CPU = 4
"""How many times as long as its time of the processor a trace may last: on a busy machine it waits for its turns."""
_KEPT_FAILURES = 1_000
TRACES_NOTHING = "this service traces no models (--traces 0): upload a trace, which `capplan trace` makes."


class BusyError(Exception):
    """Too many models wait to be traced.

    Attributes:
        retry_after_s: When it is worth asking again. [s]
    """

    def __init__(self, retry_after_s: int) -> None:
        """Take when it is worth asking again.

        Args:
            retry_after_s: seconds from now. [s]
        """
        super().__init__(f"too many models wait to be traced; ask again in {retry_after_s} s.")
        self.retry_after_s = retry_after_s


class TraceQueue:
    """Traces models in processes of their own and keeps the traces on disk."""

    def __init__(self, *, limits: Limits, cache: TraceCache, timed: Callable[[float], None] = lambda _: None) -> None:
        """Prepare the queue; nothing is started yet.

        Args:
            limits: how many models are traced at once, how many wait, and what a trace may cost.
            cache: where traces are kept.
            timed: called with the time that each trace took. [s]
        """
        self._limits = limits
        self._cache = cache
        self._timed = timed
        self._turns = asyncio.Semaphore(limits.tracers)
        self._shared: Sharing[TraceJob, Failure | None] = Sharing()
        self._failures: dict[TraceJob, Failure] = {}
        self._context = multiprocessing.get_context("forkserver")
        self._last_s = 10.0
        self.running = 0

    @property
    def waiting(self) -> int:
        """Return how many models wait for their turn."""
        return len(self._shared) - self.running

    @property
    def failures(self) -> Mapping[TraceJob, Failure]:
        """Return what could not be traced, and why."""
        return self._failures

    async def warm_up(self) -> None:
        """Load the model libraries in the process from which those that trace are forked, if any is to be traced."""
        if not self._limits.tracers:
            return
        self._context.set_forkserver_preload(["capplan.serve.tracing.preload"])
        await asyncio.to_thread(self._run_nothing)

    def _run_nothing(self) -> None:
        process = self._context.Process(target=_do_nothing, daemon=True)
        process.start()
        process.join()

    async def obtain(self, job: TraceJob) -> Failure | None:
        """Trace a model, or wait for the trace that another request started.

        A cancelled call stops the trace, unless another request waits for it.

        Args:
            job: what to trace.

        Returns:
            None once the trace is kept, or why it could not be made.

        Raises:
            BusyError: too many models wait already.
        """
        if (failure := self._failures.get(job)) is not None:
            return failure
        if not self._limits.tracers:
            return Failure(message=TRACES_NOTHING, exit_code=TraceError.exit_code)
        if job not in self._shared and len(self._shared) >= self._limits.tracers + self._limits.waiting:
            raise BusyError(self._retry_after_s())
        return await self._shared.get(job, lambda: self._make(job))

    def _retry_after_s(self) -> int:
        turns = 1 + len(self._shared) // max(1, self._limits.tracers)
        return max(1, min(600, round(self._last_s * turns)))

    async def _make(self, job: TraceJob) -> Failure | None:
        async with self._turns:
            self.running += 1
            started = time.monotonic()
            try:
                made = await self._traced(job)
            finally:
                self.running -= 1
                self._last_s = time.monotonic() - started
                self._timed(self._last_s)
        failure = await asyncio.to_thread(self._keep, job, made) if isinstance(made, bytes) else made
        if failure is not None:
            while len(self._failures) >= _KEPT_FAILURES:
                self._failures.pop(next(iter(self._failures)))
            self._failures[job] = failure
        return failure

    def _keep(self, job: TraceJob, content: bytes) -> Failure | None:
        """Check what the other process sent, as any file from elsewhere, and keep it."""
        try:
            trace = load_trace(content, where=job.request.words)
            check_operators(trace, where=job.request.words)
        except CapplanError as error:
            return Failure(message=str(error), exit_code=error.exit_code)
        self._cache.keep(job.question, trace, files=[])
        return None

    async def _traced(self, job: TraceJob) -> bytes | Failure:
        folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="capplan-trace-")
        tracer = _Tracer()
        try:
            async with asyncio.timeout(WALL_PER_CPU * self._limits.trace_s):
                ours = await asyncio.to_thread(tracer.start, self._context, job, self._limits, folder)
                return await asyncio.to_thread(_received, ours, job)
        except TimeoutError:
            return Failure(
                message=f"{job.request.words}: tracing took longer than {WALL_PER_CPU * self._limits.trace_s:g} s, the "
                "limit of this service; trace it with `capplan trace` and upload the trace.",
                exit_code=3,
            )
        finally:
            tracer.stop()
            with contextlib.suppress(OSError):
                shutil.rmtree(Path(folder))


class _Tracer:
    """One process that traces, which may be ended at any time, also before it has started."""

    def __init__(self) -> None:
        self._process: BaseProcess | None = None
        self._is_stopped = False

    def start(
        self, context: multiprocessing.context.ForkServerContext, job: TraceJob, limits: Limits, folder: str
    ) -> Connection:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(
            target=trace_in_child,
            args=(theirs, job),
            kwargs={"added_bytes": limits.trace_bytes, "cpu_s": limits.trace_s, "folder": folder},
            daemon=True,
        )
        process.start()
        theirs.close()
        self._process = process
        if self._is_stopped:
            process.kill()
        return ours

    def stop(self) -> None:
        self._is_stopped = True
        if self._process is not None:
            self._process.kill()


def _received(connection: Connection, job: TraceJob) -> bytes | Failure:
    """Return what a tracing process sends; a process that ended without a word was stopped by a limit."""
    with connection:
        try:
            received: bytes | Failure = connection.recv()
        except (EOFError, OSError):
            return Failure(
                message=f"{job.request.words}: tracing was stopped, because it took more memory or time than allowed "
                "here, or crashed; trace it with `capplan trace` and upload the trace.",
                exit_code=3,
            )
    return received


def _do_nothing() -> None:
    """Run in the first forked process, which exists to have the libraries loaded."""
