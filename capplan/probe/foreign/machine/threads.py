"""Run what a model hands to threads in the thread that traces it: modes of dispatch belong to one thread."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from unittest import mock


@contextlib.contextmanager
def threads_inline() -> Iterator[None]:
    """Run submitted calls at once, and threads when they are started; daemons and classes of threads stay threads."""
    with (
        mock.patch.object(ThreadPoolExecutor, "submit", _submit),
        mock.patch.object(threading.Thread, "start", _starting(threading.Thread.start)),
        mock.patch.object(threading.Thread, "join", _joining(threading.Thread.join)),
    ):
        yield


def _submit(_: ThreadPoolExecutor, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    try:
        future.set_result(call(*args, **kwargs))
    except Exception as error:  # whatever it is, the caller's `result()` raises it, as with threads
        future.set_exception(error)
    return future


def _starting(plain: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    def start(thread: threading.Thread) -> None:
        if type(thread) is not threading.Thread or thread.daemon:
            plain(thread)
            return
        thread.__dict__["_ran_inline"] = True
        thread.run()

    return start


def _joining(plain: Callable[..., None]) -> Callable[..., None]:
    def join(thread: threading.Thread, timeout: float | None = None) -> None:
        if "_ran_inline" not in thread.__dict__:
            plain(thread, timeout)

    return join
