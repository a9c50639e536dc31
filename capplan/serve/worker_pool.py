"""The processes that answer questions: each question goes to the next idle one, and one that dies is replaced."""

import asyncio
import os
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from capplan.processes.supervisor import Death, Worker, WorkerDiedError
from capplan.processes.worker import UnexpectedError
from capplan.serve.metrics import log
from capplan.serve.page import render as _answers  # noqa: F401 - registers the answer to the page's form
from capplan.serve.page import results as _results  # noqa: F401 - and about a sweep's results
from capplan.serve.page import serving_form as _form  # noqa: F401 - and those about language models
from capplan.serve.planning.answer import answer
from capplan.serve.planning.data import Data, Folders
from capplan.serve.planning.messages import BUG, Outcome, Refusal, Task
from capplan.serve.settings import Settings
from capplan.serve.sharing import BusyError, Line, UnwantedError, Wanted

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 5.0
"""Pauses before a process that died while it started is replaced: doubled from the first to the longest. [s]

One that was ready says by its end nothing of the next one's start. Twelve of the longest fit into a question's time."""
_LOOK_AGAIN_S = 0.5
"""Time between two looks at an idle process where the system does not report its end. [s]"""
_TRIES = 2
"""How often a question is asked whose process is lost."""


class Lane(Enum):
    """How urgent a question is: by how many seconds those of the short lane may come later and still overtake it."""

    SHORT = 0.0
    ORDINARY = 1.0
    LONG = 5.0


@dataclass(slots=True, eq=False)
class _PoolTask:
    task: Task
    outcome: "asyncio.Future[Outcome]"
    lane: Lane
    wanted: Wanted
    is_running: bool = False
    is_late: bool = False
    tries: int = 0
    """Processes that were lost while they worked on it."""

    def is_wanted(self) -> bool:
        """Return True while somebody waits for the answer in time."""
        return not self.is_late and self.wanted()


class PlannerPool:
    """A fixed number of processes that answer questions."""

    def __init__(self, settings: Settings, *, lost: Callable[[str, str], None] = lambda _kind, _death: None) -> None:
        """Prepare the pool; nothing is started yet."""
        self._settings = settings
        self._limits = settings.limits
        self._lost = lost
        self._line: Line[_PoolTask] = Line(most_long=max(1, self._limits.planners - 1))
        self._threads = ThreadPoolExecutor(self._limits.planners, thread_name_prefix="planner")
        self._workers: set[Worker] = set()
        self._ready: set[Worker] = set()
        self._keepers: list[asyncio.Task[None]] = []
        self._stopping = Event()

    @property
    def waiting(self) -> int:
        """Return how many questions wait for a process."""
        return len(self._line)

    @property
    def alive(self) -> int:
        """Return how many processes can answer or are answering."""
        return sum(1 for worker in self._ready if worker.is_alive)

    @property
    def pids(self) -> list[int]:
        """The processes of this moment."""
        return [worker.pid for worker in self._workers if worker.pid is not None]

    async def start(self) -> None:
        """Start the processes, and wait until each has loaded its data or failed to."""
        tried = [asyncio.get_running_loop().create_future() for _ in range(self._limits.planners)]
        self._keepers = [asyncio.ensure_future(self._keep_one(first)) for first in tried]
        deaths = [death for death in await asyncio.gather(*tried) if death is not None]
        if len(deaths) == len(tried):
            raise deaths[0]

    async def ask(self, task: Task, *, lane: Lane, wanted: Wanted, is_admitted: bool = False) -> Outcome:
        """Answer a task in the next idle process."""
        if not is_admitted and len(self._line) >= self._limits.questions:
            raise BusyError("too many questions wait to be answered", retry_after_s=self._retry_after_s())
        loop = asyncio.get_running_loop()
        asked = _PoolTask(task=task, outcome=loop.create_future(), lane=lane, wanted=wanted)
        await self._put(asked)
        await asyncio.wait({asked.outcome}, timeout=self._limits.plan_s)
        if asked.is_running:  # started late: its own time ends it
            await asyncio.wait({asked.outcome}, timeout=self._limits.plan_s)
        if asked.outcome.done():
            return asked.outcome.result()
        asked.is_late = True
        raise self._unanswered(f"no process became free within {self._limits.plan_s:g} s")

    async def stop(self) -> None:
        """End all processes."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self._stopping.set()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for worker in tuple(self._workers):
            worker.close()

    def _retry_after_s(self) -> int:
        return max(1, min(60, len(self._line) // (4 * max(1, self.alive))))

    def _unanswered(self, sentence: str) -> BusyError:
        return BusyError(sentence, retry_after_s=max(2, self._retry_after_s()), status=503)

    async def _put(self, asked: _PoolTask) -> None:
        def drop() -> None:
            if not asked.outcome.done():
                asked.outcome.set_exception(UnwantedError())

        await self._line.put(
            asked,
            delay_s=asked.lane.value,
            wanted=asked.is_wanted,
            dropped=drop,
            is_long=asked.lane is Lane.LONG,
        )

    async def _keep_one(self, first: "asyncio.Future[WorkerDiedError | None]") -> None:
        """Keep one process alive: start it, have it answer until it dies, and start another one."""
        pause_s = FIRST_PAUSE_S
        while True:
            worker = Worker(make_planner, self._settings, memory_bytes=self._limits.plan_bytes, keeps_stderr=False)
            self._workers.add(worker)
            try:
                await self._in_thread(partial(worker.start, stop=self._stopping))
                if not first.done():
                    first.set_result(None)
                self._ready.add(worker)
                pause_s = FIRST_PAUSE_S
                answered = await self._answer_with(worker)
            except WorkerDiedError as died:
                self._note_loss(died, "while it started")
                if not first.done():
                    first.set_result(died)
                answered = False
            finally:
                self._ready.discard(worker)
            await self._in_thread(worker.close)
            self._workers.discard(worker)
            if not answered:
                await asyncio.sleep(pause_s)
                pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)

    async def _answer_with(self, worker: Worker) -> bool:
        """Answer questions in a process until it dies, and return whether it has answered any."""
        answered = False
        while True:
            taken = await self._next(worker)
            if taken is None:
                self._note_loss(None, "while it was idle")
                return answered
            asked, is_long = taken
            try:
                if worker.is_alive:
                    await self._answer_one(asked, worker)
                    answered = True
                else:
                    await self._put(asked)
            except WorkerDiedError as died:
                self._note_loss(died, "while it answered" if died.began else "before it took a question")
                await self._after_death(asked, died)
                return answered
            finally:
                await self._line.finish(is_long=is_long)

    async def _next(self, worker: Worker) -> tuple[_PoolTask, bool] | None:
        """Wait for the next question; None where the process dies before there is one."""
        loop = asyncio.get_running_loop()
        died = loop.create_future()

        def note_end() -> None:
            if not died.done():
                died.set_result(None)

        try:
            loop.add_reader(worker.fileno(), note_end)
            has_reader = True
        except NotImplementedError:  # the loop of Windows watches no sockets of others
            has_reader = False
        taking = asyncio.ensure_future(self._line.take())
        try:
            while not taking.done() and not died.done() and worker.is_alive:
                within_s = None if has_reader else _LOOK_AGAIN_S
                await asyncio.wait({died, taking}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            return taking.result() if taking.done() else None
        finally:
            if has_reader:
                loop.remove_reader(worker.fileno())
            if not taking.done():
                taking.cancel()

    async def _answer_one(self, asked: _PoolTask, worker: Worker) -> None:
        asked.is_running = True
        try:
            call = partial(worker.ask, asked.task, time_s=self._limits.plan_s, stop=self._stopping)
            outcome: Outcome | UnexpectedError = await self._in_thread(call)
        finally:
            asked.is_running = False
        if isinstance(outcome, UnexpectedError):
            log("unexpected error in a planner", error=outcome.message.partition(":")[0])
            outcome = Refusal(message="unexpected error; this is a bug in capplan.", exit_code=BUG)
        if not asked.outcome.done():
            asked.outcome.set_result(outcome)

    async def _after_death(self, asked: _PoolTask, died: WorkerDiedError) -> None:
        """Refuse a question that exceeded a limit; ask one whose process was lost again, once.

        A process that was dying when it was handed the question, and did not receive it, does not count as a try.
        """
        asked.tries += died.began
        if asked.outcome.done():
            return
        if died.death in (Death.TIME, Death.MEMORY):
            asked.outcome.set_result(
                Refusal(
                    message=f"the question took longer than {self._limits.plan_s:g} s or too much memory, the limits "
                    "of this service; ask for fewer GPUs or batches.",
                    exit_code=2,
                )
            )
        elif asked.tries < _TRIES:
            await self._put(asked)
        else:
            asked.outcome.set_exception(self._unanswered("the processes that worked on the question were lost"))

    def _note_loss(self, died: WorkerDiedError | None, when: str) -> None:
        death = died.death if died is not None else Death.KILLED
        if death is Death.STOPPED:
            return
        log("a planner was lost", when=when, death=death.value, reason=str(died or "its connection was closed"))
        self._lost("planner", death.value)

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        """Run what blocks in a thread of the planners' own, so that traces leave no question without one."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def make_planner(settings: Settings) -> Callable[[Task], Outcome]:
    """Load the data, and return what answers a task."""
    # an empty folder of this process's own, so that no word of a question names a file by accident
    folder = Folders(state=settings.state).empty / str(os.getpid())
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    data = Data(settings)
    return lambda task: _outcome(task, data)


def _outcome(task: Task, data: Data) -> Outcome:
    """Answer a task; what nothing expected becomes a refusal here, because one question must not end the process."""
    try:
        return answer(task, data)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        sys.stderr.write(f"capplan serve: unexpected {type(error).__name__} in {where.filename}, line {where.lineno}\n")
        return Refusal(
            message=f"unexpected {type(error).__name__} in {Path(where.filename).name}, line {where.lineno}; "
            "this is a bug in capplan.",
            exit_code=BUG,
        )
