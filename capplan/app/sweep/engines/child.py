"""The parent's side of a worker: start it, give it a task, and end it when it exceeds its time or memory."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event
from typing import IO, Any

from capplan.app.sweep.request import Limits
from capplan.core.sweep.overview import Failed
from capplan.core.sweep.schema import FailureKind
from capplan.units import format_bytes, format_seconds

_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from capplan.app.sweep.engines.worker import main
main(int(sys.argv[1]))
"""
"""Imports from where this process imports. A module run by `-m` would have its types in `__main__`, which no other
process knows; PYTHONPATH is left alone, because kept traces depend on it."""
_SHOWN_STDERR = 300
_POLL_S = 0.05
_LONGEST_START_S = 600.0
_RETRIES_AFTER_CRASH, _RETRIES_AFTER_KILL = 1, 10


class ChildDiedError(Exception):
    """A worker ended without an answer; `failed` says how.

    `may_retry` is how often the task is worth another try: never after it exceeded a limit, a few times after a crash,
    more often after a kill from outside, which says nothing of the task.
    """

    def __init__(self, failed: Failed, *, may_retry: int) -> None:
        super().__init__(failed.reason)
        self.failed = failed
        self.may_retry = may_retry


@dataclass(slots=True, kw_only=True)
class Child:
    """A worker process. It is started with its first task, and again after it died.

    `first_task` is given to it whenever it was started; it counts for no other task's time.
    """

    limits: Limits
    context: Any = None
    first_task: Any = None
    is_single_threaded: bool = True
    connection: Connection | None = None
    _process: "subprocess.Popen[bytes] | None" = None
    _stderr: IO[bytes] | None = None
    _ended: Failed | None = field(default=None)

    @property
    def is_alive(self) -> bool:
        """Return True if the process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """Return the process's id; None before it is started."""
        return self._process.pid if self._process else None

    def call(self, task: object, *, stop: Event | None = None) -> Any:
        """Send the worker a task and wait for its answer; start the worker if it does not run.

        Args:
            task: a `TraceTask` or a `Job`.
            stop: ends the worker and the wait when it is set.

        Raises:
            ChildDiedError: the worker ended without an answer, of itself or because it exceeded a limit.
        """
        if not self.is_alive:
            self._start()
            if self.first_task is not None:
                self._answer_to(self.first_task, stop=stop, time_s=_LONGEST_START_S)
        return self._answer_to(task, stop=stop, time_s=self.limits.time_s)

    def _answer_to(self, task: object, *, stop: Event | None, time_s: float) -> Any:
        connection = self.connection
        assert connection is not None
        deadline_s = time.monotonic() + time_s
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its death is noticed below
            connection.send(task)
        while not connection.poll(_POLL_S):
            if stop is not None and stop.is_set():
                self._end(Failed(kind=FailureKind.CRASH.value, reason="the sweep was ended"))
            self._check(deadline_s, time_s)
        try:
            return connection.recv()
        except (EOFError, OSError) as error:
            raise self._death() from error

    def _check(self, deadline_s: float, time_s: float) -> None:
        """End the worker if it exceeds its limits; its death is then received."""
        if self._ended is not None:
            return
        limit = self.limits.memory_bytes
        if time.monotonic() > deadline_s:
            what = f"took more than {format_seconds(time_s)} and was ended"
            self._end(Failed(kind=FailureKind.TIMEOUT.value, reason=what))
        elif limit is not None and (held := resident_bytes(self.pid)) > limit:
            what = f"held {format_bytes(held)} of memory, more than {format_bytes(limit)}, and was ended"
            self._end(Failed(kind=FailureKind.MEMORY.value, reason=what))

    def close(self) -> None:
        """End the worker and wait for it."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None

    def _start(self) -> None:
        self.close()
        self._ended = None
        ours, theirs = socket.socketpair()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        paths = [path or str(Path.cwd()) for path in sys.path]
        command = [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), json.dumps(paths)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._stderr,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            env={**os.environ, **(dict.fromkeys(_ONE_THREAD, "1") if self.is_single_threaded else {})},
        )
        theirs.close()
        self.connection = Connection(ours.detach())
        if self.context is not None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.connection.send(self.context)

    def _end(self, failed: Failed) -> None:
        self._ended = failed
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _death(self) -> ChildDiedError:
        assert self._process is not None
        status = self._process.wait()
        if self._ended is not None:
            died = ChildDiedError(self._ended, may_retry=0)
        else:
            how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
            reason = f"its process {how}{self._last_words()}"
            retries = _RETRIES_AFTER_KILL if status == -signal.SIGKILL else _RETRIES_AFTER_CRASH
            died = ChildDiedError(Failed(kind=FailureKind.CRASH.value, reason=reason), may_retry=retries)
        self.close()
        return died

    def _last_words(self) -> str:
        """Return the last line that the worker wrote to stderr."""
        if self._stderr is None:
            return ""
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - 10_000))
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return f": {lines[-1].strip()[:_SHOWN_STDERR]}" if lines else ""


def resident_bytes(pid: int | None) -> int:
    """Return the memory that a process holds; 0 if the system does not report it. [bytes]"""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
