"""Work that requests wait for: shared between identical ones, lined up by urgency, dropped when nobody wants it."""

import asyncio
import heapq
import itertools
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")
Item = TypeVar("Item")
Wanted = Callable[[], bool]
"""Returns False once nobody waits for a piece of work any longer."""


class BusyError(Exception):
    """The service cannot take a question now, or could not finish it; asking again may succeed.

    Attributes:
        retry_after_s: When it is worth asking again. [s]
        status: The HTTP status: 429 where too much waits, 503 where processes are missing.
    """

    def __init__(self, sentence: str, *, retry_after_s: int, status: int = 429) -> None:
        """Store the message."""
        super().__init__(f"{sentence}; ask again in {retry_after_s} s.")
        self.retry_after_s = retry_after_s
        self.status = status


class UnwantedError(Exception):
    """Work was dropped before it started, because nobody waited for it any longer."""


def is_wanted() -> bool:
    """Return True: for work that is wanted whoever waits."""
    return True


@dataclass(slots=True, eq=False)
class _Shared(Generic[Result]):
    """A running task, and those who wait for it."""

    task: "asyncio.Task[Result] | None" = None
    wants: dict[object, Wanted] = field(default_factory=dict)

    def is_wanted(self) -> bool:
        return any(wanted() for wanted in self.wants.values())


class SharedTasks(Generic[Key, Result]):
    """Tasks by what they work out. None is cancelled: what waits for a process asks whether it is still wanted."""

    def __init__(self) -> None:
        """Start with no task."""
        self._shared: dict[Key, _Shared[Result]] = {}

    def __contains__(self, key: Key) -> bool:
        """Return True if a task of this key runs."""
        return key in self._shared

    async def get(self, key: Key, make: Callable[[Wanted], Awaitable[Result]], *, wanted: Wanted = is_wanted) -> Result:
        """Return the result of the task of a key, which is started unless it runs already."""
        while True:
            shared = self._shared.get(key) or self._start(key, make)
            caller = object()
            shared.wants[caller] = wanted
            assert shared.task is not None
            try:
                return await asyncio.shield(shared.task)
            except UnwantedError:
                if not wanted():
                    raise
            finally:
                del shared.wants[caller]

    def _start(self, key: Key, make: Callable[[Wanted], Awaitable[Result]]) -> _Shared[Result]:
        shared = self._shared[key] = _Shared[Result]()

        async def run() -> Result:
            return await make(shared.is_wanted)

        def forget(task: "asyncio.Task[Result]") -> None:
            if self._shared.get(key) is shared:
                del self._shared[key]
            if not task.cancelled():
                task.exception()  # read here, because nobody may be left to await it

        shared.task = asyncio.ensure_future(run())
        shared.task.add_done_callback(forget)
        return shared


@dataclass(slots=True, order=True)
class _QueuePlace(Generic[Item]):
    """A place in a line; the lowest comes first."""

    rank_s: float
    number: int
    item: Item = field(compare=False)
    wanted: Wanted = field(compare=False)
    dropped: Callable[[], None] = field(compare=False)
    is_long: bool = field(compare=False)


class Line(Generic[Item]):
    """What waits for a process, the most urgent first; long work may have to wait although a process is idle."""

    def __init__(self, *, most_long: int) -> None:
        """Start with nobody."""
        self._most_long = most_long
        self._taken_long = 0
        self._short: list[_QueuePlace[Item]] = []
        self._long: list[_QueuePlace[Item]] = []
        self._numbers = itertools.count()
        self._takers: list[object] = []
        self._changed = asyncio.Condition()

    def __len__(self) -> int:
        """Return how many wanted items wait."""
        return sum(1 for place in (*self._short, *self._long) if place.wanted())

    def __iter__(self) -> Iterator[Item]:
        """Yield the wanted items that wait, in no order."""
        return (place.item for place in (*self._short, *self._long) if place.wanted())

    async def put(
        self, item: Item, *, delay_s: float, wanted: Wanted, dropped: Callable[[], None], is_long: bool = False
    ) -> None:
        """Queue an item."""
        place = _QueuePlace(time.monotonic() + delay_s, next(self._numbers), item, wanted, dropped, is_long)
        async with self._changed:
            heapq.heappush(self._long if is_long else self._short, place)
            self._changed.notify_all()

    async def take(self) -> tuple[Item, bool]:
        """Wait for the most urgent item, and return it and whether it is long; `finish` must follow.

        Of those who wait, the one that came last is served first: the process that has just answered holds what the
        next question about the same model needs.
        """
        taker = object()
        async with self._changed:
            self._takers.append(taker)
            try:
                while True:
                    heaps = [self._short, self._long] if self._taken_long < self._most_long else [self._short]
                    held = [heap for heap in heaps if heap]
                    if not held or self._takers[-1] is not taker:
                        await self._changed.wait()
                        continue
                    place = heapq.heappop(min(held, key=lambda heap: heap[0]))
                    if place.wanted():
                        self._taken_long += place.is_long
                        return place.item, place.is_long
                    place.dropped()
            finally:
                self._takers.remove(taker)
                self._changed.notify_all()

    async def finish(self, *, is_long: bool) -> None:
        """Note that an item that was taken is finished."""
        async with self._changed:
            self._taken_long -= is_long
            self._changed.notify_all()
