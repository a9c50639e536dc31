"""The processes that answer questions: one task each at a time; one that takes too long is ended and replaced."""

import asyncio
import contextlib
import multiprocessing
import os
from collections.abc import AsyncIterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from capplan.serve.planning.replies import Outcome, Refusal, Task
from capplan.serve.settings import Settings
from capplan.serve.workers.worker import run_planner


class _Planner:
    """One process and the connection to it."""

    def __init__(self, settings: Settings) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection: Connection
        self._connection, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(target=run_planner, args=(theirs, settings), daemon=True)
        self._process.start()
        theirs.close()

    def wait_until_ready(self) -> None:
        self._connection.recv()

    def ask(self, task: Task) -> Outcome:
        self._connection.send(task)
        outcome: Outcome = self._connection.recv()
        return outcome

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    @property
    def cpu_s(self) -> float:
        """Time of the processor that the process has used; 0 where the system does not state it. [s]"""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self._process.kill()
        self._process.join()
        self._connection.close()


class PlannerPool:
    """A fixed number of processes that answer questions."""

    def __init__(self, settings: Settings) -> None:
        """Prepare the pool; nothing is started yet.

        Args:
            settings: how the service runs, with the number of processes and the time that a question may take.
        """
        self._settings = settings
        self._idle: asyncio.Queue[_Planner] = asyncio.Queue()
        self._all: set[_Planner] = set()
        self.waiting = 0

    async def start(self) -> None:
        """Start the processes and wait until they have loaded their data."""
        started = await asyncio.gather(*(self._start_one() for _ in range(self._settings.limits.planners)))
        for each in started:
            self._idle.put_nowait(each)

    async def _start_one(self) -> _Planner:
        planner = await asyncio.to_thread(_Planner, self._settings)
        self._all.add(planner)
        await asyncio.to_thread(planner.wait_until_ready)
        return planner

    async def ask(self, task: Task) -> Outcome:
        """Answer a task in the next idle process; a cancelled one is ended, and its process replaced.

        Args:
            task: the question.
        """
        async with self._borrowed() as planner:
            return await self._answered(planner, task)

    async def _answered(self, planner: _Planner, task: Task) -> Outcome:
        asked = asyncio.ensure_future(asyncio.to_thread(planner.ask, task))
        try:
            return await asyncio.wait_for(asyncio.shield(asked), self._settings.limits.plan_s)
        except (TimeoutError, EOFError, OSError):
            return Refusal(
                message=f"the question took longer than {self._settings.limits.plan_s:g} s or too much memory, the "
                "limits of this service; ask for fewer GPUs or batches.",
                exit_code=2,
            )
        finally:
            if not asked.done() or asked.cancelled() or asked.exception() is not None:
                planner.stop()
                with contextlib.suppress(Exception):
                    await asked

    @contextlib.asynccontextmanager
    async def _borrowed(self) -> AsyncIterator[_Planner]:
        self.waiting += 1
        try:
            planner = await self._idle.get()
        finally:
            self.waiting -= 1
        try:
            yield planner
        finally:
            if planner.is_alive:
                self._idle.put_nowait(planner)
            else:
                self._all.discard(planner)
                self._replacing = asyncio.ensure_future(self._replace())

    async def _replace(self) -> None:
        self._idle.put_nowait(await self._start_one())

    @property
    def cpu_s(self) -> float:
        """Time of the processor that the processes of this moment have used. [s]"""
        return sum(each.cpu_s for each in self._all)

    def stop(self, *_: Any) -> None:
        """End all processes."""
        for each in self._all:
            each.stop()
