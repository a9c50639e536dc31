"""The service itself, without HTTP: questions in, replies out, with what was answered before kept for a while."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import msgspec

from capplan.core.trace.format import is_trace_content
from capplan.serve.metrics import Metrics
from capplan.serve.planning.configs import Configs
from capplan.serve.planning.data import Folders, prepared
from capplan.serve.planning.jobs import Failure, TraceJob
from capplan.serve.planning.replies import Refusal, Reply, Task, TracesNeeded
from capplan.serve.settings import Settings
from capplan.serve.sharing import Sharing
from capplan.serve.tracing.queue import TraceQueue
from capplan.serve.uploads import Uploads
from capplan.serve.workers.pool import PlannerPool
from capplan.strict_json import GZIP_MAGIC

MOST_ROUNDS = 24
"""How often a question may turn out to need further traces."""
_MOST_KEPT_BYTES = 16 * 2**20
"""Size of the replies that are kept to be given again, which a service grows by as it is asked different questions."""


class Answers:
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

    def keep(self, key: str, reply: Reply) -> None:
        """Keep a reply, and drop others for it."""
        if key in self._kept or len(reply.content) > _MOST_KEPT_BYTES // 8:
            return
        self._kept[key] = reply
        self._size_bytes += len(reply.content)
        while self._size_bytes > _MOST_KEPT_BYTES:
            _, dropped = self._kept.popitem(last=False)
            self._size_bytes -= len(dropped.content)


class Service:
    """Answers questions: plans in processes of its own, traces in others, both shared between identical requests."""

    def __init__(self, settings: Settings) -> None:
        """Prepare the service; `start` starts its processes.

        Args:
            settings: how the service runs.
        """
        settings = self.settings = prepared(settings)
        self.metrics = Metrics()
        folders = Folders(state=settings.state)
        self.uploads = Uploads(folder=folders.uploads, limit_bytes=settings.limits.kept_upload_bytes)
        self.configs = Configs(folder=folders.configs)
        self.planners = PlannerPool(settings)
        self.tracers = TraceQueue(limits=settings.limits, cache=folders.cache(), timed=self.metrics.observe_trace)
        self._answers = Answers()
        self._shared: Sharing[str, Reply | Refusal] = Sharing()
        self._warming: asyncio.Task[None] | None = None
        self.is_ready = False

    async def start(self) -> None:
        """Start the processes; the model libraries are loaded in the background."""
        await self.planners.start()
        self._warming = asyncio.ensure_future(self.tracers.warm_up())
        self.is_ready = True

    async def stop(self) -> None:
        """End the processes; whatever still ran was waited for by the server."""
        self.is_ready = False
        if self._warming is not None:
            self._warming.cancel()
        await asyncio.to_thread(self.planners.stop)

    def keep_own(self, content: bytes) -> dict[str, Any]:
        """Keep a trace or a config that a user hands over, and return the words that name it from now on.

        Args:
            content: a trace file, or a config.json.

        Raises:
            CapplanError: it is neither, or damaged.
        """
        if content[:2] == GZIP_MAGIC or is_trace_content(content):
            return self.uploads.keep(content)
        return self.configs.keep(content)

    async def answer(self, task: Task) -> Reply | Refusal:
        """Answer a question; identical ones are answered once.

        Args:
            task: the question and how its answer is written.

        Raises:
            BusyError: it needs a trace, and too many wait already.
        """
        key = _key(task)
        if (kept := self._answers.find(key)) is not None:
            self.metrics.count("capplan_answers_total", source="kept")
            return kept
        self.metrics.count("capplan_answers_total", source="shared" if key in self._shared else "worked out")
        reply = await self._shared.get(key, self._maker(task))
        if isinstance(reply, Reply):
            self._answers.keep(key, reply)
        return reply

    def _maker(self, task: Task) -> Callable[[], Awaitable[Reply | Refusal]]:
        return lambda: self._worked_out(task)

    async def _worked_out(self, task: Task) -> Reply | Refusal:
        failures: dict[TraceJob, Failure] = {}
        made: set[TraceJob] = set()
        for _ in range(MOST_ROUNDS):
            outcome = await self.planners.ask(replace(task, failures=failures))
            if not isinstance(outcome, TracesNeeded):
                return outcome
            if made & set(outcome.jobs):
                return Refusal(message="a trace could not be kept: the cache cannot be written.", exit_code=70)
            made |= set(outcome.jobs)
            for job, failure in zip(outcome.jobs, await self._traced(outcome.jobs), strict=True):
                if failure is not None:
                    failures[job] = failure
        return Refusal(message="the question needs too many traces; ask for fewer batches at once.", exit_code=2)

    async def _traced(self, jobs: tuple[TraceJob, ...]) -> list[Failure | None]:
        tasks = [asyncio.ensure_future(self.tracers.obtain(job)) for job in jobs]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for each in tasks:
                each.cancel()


def _key(task: Task) -> str:
    """Return what names a question: all that its answer depends on but the data, which is loaded once."""
    asked = msgspec.json.encode(
        [type(task.question).__name__, task.question, task.spelling, task.width], order="sorted"
    )
    return hashlib.sha256(asked + date.today().isoformat().encode()).hexdigest()


def state_folder() -> Path:
    """Return where a service keeps uploaded traces: `serve` in the user's cache folder."""
    from capplan.folders import cache_folder

    return cache_folder() / "serve"
