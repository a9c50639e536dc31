"""The service itself, without HTTP: questions in, replies out, with what was answered before kept for a while."""

import asyncio
import contextlib
import hashlib
import os
from collections import OrderedDict
from collections.abc import Coroutine
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import msgspec

from capplan.app.sweep.results import changed_at
from capplan.core.trace.format import is_trace_content
from capplan.errors import UsageError
from capplan.processes.system import processor_s, resident_bytes
from capplan.serve.metrics import Metrics
from capplan.serve.page.question import LlmPageQuestion
from capplan.serve.planning.data import Folders, model_files, prepared
from capplan.serve.planning.files import ONNX_START, ZIP_MAGIC, Configs, Uploads
from capplan.serve.planning.messages import BUG, Refusal, Reply, Task, TraceJob
from capplan.serve.questions import ResultsQuestion
from capplan.serve.settings import Settings
from capplan.serve.sharing import BusyError, SharedTasks, Wanted, is_wanted
from capplan.serve.tracing.queue import TraceQueue
from capplan.serve.worker_pool import Lane, PlannerPool
from capplan.strict_json import GZIP_MAGIC
from capplan.verbs.statement.registry import verb_of

MOST_ROUNDS = 24
"""How often a question may turn out to need further traces."""
_MOST_KEPT_BYTES = 16 * 2**20
"""Size of the replies that are kept to be given again, which a service grows by as it is asked different questions."""
_MOST_BACKGROUND = 32
"""Questions of pages that are worked out although their request has been answered without them."""


def _size_of(reply: Reply) -> int:
    return len(reply.content) + len(reply.text)


class AnswerCache:
    """Replies that were given before, the least recently used dropped beyond a size."""

    def __init__(self) -> None:
        """Start with none."""
        self._kept: OrderedDict[str, Reply] = OrderedDict()
        self._size_bytes = 0

    def find(self, key: str) -> Reply | None:
        """Return the reply that was given before."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def drop(self, key: str) -> None:
        """Forget a reply."""
        if (dropped := self._kept.pop(key, None)) is not None:
            self._size_bytes -= _size_of(dropped)

    def keep(self, key: str, reply: Reply) -> None:
        """Keep a reply, and drop others for it."""
        if key in self._kept or _size_of(reply) > _MOST_KEPT_BYTES // 8:
            return
        self._kept[key] = reply
        self._size_bytes += _size_of(reply)
        while self._size_bytes > _MOST_KEPT_BYTES:
            _, dropped = self._kept.popitem(last=False)
            self._size_bytes -= _size_of(dropped)


class PlanningService:
    """Answers questions: plans in processes of its own, traces in others, both shared between identical requests."""

    def __init__(self, settings: Settings) -> None:
        """Prepare the service; `start` starts its processes."""
        settings = self.settings = prepared(settings)
        self.metrics = Metrics()
        folders = Folders(state=settings.state)
        self.uploads = Uploads(folder=folders.uploads, limit_bytes=settings.limits.kept_upload_bytes)
        self.configs = Configs(folder=folders.configs)
        self.files = model_files(settings)
        self.planners = PlannerPool(settings, lost=self._count_loss)
        self.tracers = TraceQueue(
            limits=settings.limits,
            cache=folders.cache(),
            timed=self.metrics.observe_trace,
            lost=self._count_loss,
        )
        self.uploading = asyncio.Semaphore(settings.limits.uploads)
        self._answers = AnswerCache()
        self._shared: SharedTasks[str, Reply | Refusal] = SharedTasks()
        self._background: dict[str, asyncio.Task[None]] = {}

    @property
    def is_ready(self) -> bool:
        """Return True if questions can be answered: at least one process that plans lives."""
        return self.planners.alive > 0

    @property
    def gauges(self) -> dict[str, float]:
        """Return the state of the moment by the names of its metrics, that of processes by their kind, too."""
        kinds = {"front": [os.getpid()], "planner": self.planners.pids, "tracer": self.tracers.pids}
        memory = {kind: float(sum(map(resident_bytes, pids))) for kind, pids in kinds.items()}
        by_kind = {
            "capplan_processes": {kind: float(len(pids)) for kind, pids in kinds.items()},
            "capplan_process_cpu_seconds": {kind: sum(map(processor_s, pids)) for kind, pids in kinds.items()},
            "capplan_process_memory_bytes": memory,
        }
        return {
            "capplan_traces_running": self.tracers.running,
            "capplan_traces_waiting": self.tracers.waiting,
            "capplan_hints_waiting": self.tracers.hints_waiting,
            "capplan_questions_waiting": self.planners.waiting,
            "capplan_planners_alive": self.planners.alive,
            "capplan_resident_memory_bytes": sum(memory.values()),
            **{f'{name}{{kind="{kind}"}}': value for name, values in by_kind.items() for kind, value in values.items()},
        }

    def _count_loss(self, kind: str, death: str) -> None:
        self.metrics.count("capplan_processes_lost_total", kind=kind, death=death)

    async def start(self) -> None:
        """Start the processes; the model libraries are loaded in the background."""
        await self.planners.start()
        self._background["libraries"] = asyncio.ensure_future(self.tracers.start())

    async def stop(self) -> None:
        """End the processes; whatever still ran was waited for by the server."""
        for task in self._background.values():
            task.cancel()
        await self.tracers.stop()
        await self.planners.stop()

    def keep_own(self, path: Path, *, name: str) -> dict[str, Any]:
        """Keep what a user hands over, and return the words that name it from now on."""
        with path.open("rb") as file:
            head = file.read(4)
            if head.startswith(ZIP_MAGIC) or head[:1] == ONNX_START:
                return self.files.keep(path, name=name)
            content = head + file.read(self.settings.limits.upload_bytes)
        if len(content) > self.settings.limits.upload_bytes:
            raise UsageError(f"what was handed over is longer than {self.settings.limits.upload_bytes:,} bytes.")
        if content[:2] == GZIP_MAGIC or is_trace_content(content):
            return self.uploads.keep(content)
        return self.configs.keep(content)

    async def answer(self, task: Task) -> Reply | Refusal:
        """Answer a question; identical ones are answered once."""
        key = self._key(task)
        if (kept := self._answers.find(key)) is not None:
            self.metrics.count("capplan_answers_total", source="kept")
            return kept
        self.metrics.count("capplan_answers_total", source="shared" if key in self._shared else "worked out")
        return await self._shared.get(key, lambda wanted: self._worked_out(key, task, wanted))

    def _key(self, task: Task) -> str:
        """Return what names a question: all that its answer depends on but the data, which is loaded once.

        Results of a sweep are read anew when they have changed: a sweep may run meanwhile.
        """
        asked = msgspec.json.encode(
            [type(task.question).__name__, task.question, task.spelling, task.width, task.has_text], order="sorted"
        )
        results = self.settings.results if isinstance(task.question, ResultsQuestion) else None
        changed = "" if results is None else str(changed_at(results))
        return hashlib.sha256(asked + f"{date.today().isoformat()} {changed}".encode()).hexdigest()

    def answer_later(self, task: Task) -> None:
        """Continue a question whose request is answered without it, so that the next request finds its answer."""
        self._in_background(self._key(task), self.answer(task))

    def _in_background(self, key: str, work: Coroutine[Any, Any, object]) -> None:
        if key in self._background or len(self._background) >= _MOST_BACKGROUND:
            work.close()
            return

        async def run() -> None:
            try:
                with contextlib.suppress(BusyError):
                    await work
            finally:
                self._background.pop(key, None)

        self._background[key] = asyncio.ensure_future(run())

    async def _worked_out(self, key: str, task: Task, wanted: Wanted) -> Reply | Refusal:
        failures: dict[TraceJob, Refusal] = {}
        traced: set[TraceJob] = set()
        for _ in range(MOST_ROUNDS):
            asked = replace(task, failures=failures)
            outcome = await self.planners.ask(asked, lane=lane_of(task), wanted=wanted, is_admitted=bool(traced))
            if isinstance(outcome, Reply):
                self._keep(key, outcome)
                return outcome
            if isinstance(outcome, Refusal):
                return outcome
            if traced & set(outcome):
                return Refusal(message="a trace could not be kept: the cache cannot be written.", exit_code=BUG)
            if not traced:
                self.tracers.admit(outcome)
            traced |= set(outcome)
            obtained = await asyncio.gather(*(self.tracers.obtain(job, wanted=wanted) for job in outcome))
            failures |= {job: why for job, why in zip(outcome, obtained, strict=True) if why is not None}
        return Refusal(message="the question needs too many traces; ask for fewer batches at once.", exit_code=2)

    def _keep(self, key: str, reply: Reply) -> None:
        """Keep a reply; one whose remarks lack traces until these are made."""
        self._answers.keep(key, reply)
        hints = [job for job in reply.hints if job not in self.tracers.failures]
        if hints and self.settings.limits.tracers:
            self._in_background(f"hints of {key}", self._trace_hints(key, hints))

    async def _trace_hints(self, key: str, hints: list[TraceJob]) -> None:
        try:
            await asyncio.gather(
                *(self.tracers.obtain(job, wanted=is_wanted, is_hint=True) for job in hints), return_exceptions=True
            )
        finally:
            self._answers.drop(key)


def lane_of(task: Task) -> Lane:
    """Return how urgent a question is: lists need no model, reports and searches take seconds."""
    question = task.question
    if isinstance(question, LlmPageQuestion):
        return Lane.LONG if question.find == "deployments" else Lane.ORDINARY
    verb = verb_of(question)
    return Lane.ORDINARY if verb is None else Lane[verb.effort.name]


def state_folder() -> Path:
    """Return where a service keeps uploaded traces: `serve` in the user's cache folder."""
    from capplan.files import cache_folder

    return cache_folder() / "serve"
