"""Share work between identical requests: done once, and stopped once nobody waits for it any longer."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class _Shared(Generic[Result]):
    def __init__(self, task: "asyncio.Task[Result]") -> None:
        self.task = task
        self.waiting = 0


class Sharing(Generic[Key, Result]):
    """Tasks by what they work out."""

    def __init__(self) -> None:
        """Start with no task."""
        self._shared: dict[Key, _Shared[Result]] = {}

    def __contains__(self, key: Key) -> bool:
        """Return True if a task of this key runs."""
        return key in self._shared

    def __len__(self) -> int:
        """Return how many tasks run."""
        return len(self._shared)

    async def get(self, key: Key, make: Callable[[], Awaitable[Result]]) -> Result:
        """Return the result of the task of a key, which is started unless it runs already.

        Args:
            key: what is worked out.
            make: starts the work.
        """
        if key not in self._shared:
            self._shared[key] = self._start(key, make)
        shared = self._shared[key]
        shared.waiting += 1
        try:
            return await asyncio.shield(shared.task)
        finally:
            shared.waiting -= 1
            if shared.waiting == 0 and not shared.task.done():
                self._shared.pop(key, None)
                shared.task.cancel()

    def _start(self, key: Key, make: Callable[[], Awaitable[Result]]) -> _Shared[Result]:
        async def run() -> Result:
            return await make()

        shared = _Shared(asyncio.ensure_future(run()))
        shared.task.add_done_callback(lambda _: self._forget(key, shared))
        return shared

    def _forget(self, key: Key, shared: _Shared[Result]) -> None:
        if self._shared.get(key) is shared:
            del self._shared[key]
        if not shared.task.cancelled():
            shared.task.exception()  # read here, because nobody may be left to await it
