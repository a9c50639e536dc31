"""The parent's side of a worker: start it, give it tasks, end it when it exceeds a limit, and say how it ended.

The standard library's `ProcessPoolExecutor` and loky give up all tasks when one process dies, and every start method of
`multiprocessing` runs the user's script again. So a worker is a plain child process with a socket: a new interpreter,
or a fork of a process that has loaded the libraries already. `tests/processes` kills workers in every state.
"""

import contextlib
import hmac
import json
import multiprocessing
import os
import pickle
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Event
from typing import IO, Any, Final, Protocol

import msgspec

from capplan.processes.system import IS_WINDOWS, KILLED, OUT_OF_TIME, end, name_of_end, resident_bytes
from capplan.processes.worker import ANSWER, FAILED, UnexpectedError, main_of_fork
from capplan.units import format_bytes

ONE_THREAD: Final[Mapping[str, str]] = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"
)
"""Environment of a process whose libraries use one thread."""
_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from capplan.processes.system import IS_WINDOWS, KILLED, OUT_OF_TIME, can_fork, end, name_of_end, resident_bytes
from capplan.processes.worker import main, main_of_port
{"socket": main, "port": main_of_port}[sys.argv[1]](int(sys.argv[3]))
"""
"""Imports from where this process imports. A module run by `-m` would have its types in `__main__`, which no other
process knows; PYTHONPATH is left alone, because kept traces depend on it."""
_SHOWN_STDERR = 300
_POLL_S = 0.05
_LONGEST_START_S = 600.0
_END_S = 10.0
"""How long a process whose connection is closed may take to end. [s]"""
_LOST_STATUS = 255
"""The exit status that `multiprocessing` states for a fork whose parent, the template, has died."""


class Death(Enum):
    """How a worker ended without an answer."""

    TIME = "time"
    MEMORY = "memory"
    CRASH = "crash"
    KILLED = "killed"
    """By SIGKILL from outside, such as the kernel's where memory is short: that says nothing of the task."""
    STOPPED = "stopped"


MOST_TRIES: Final[Mapping[Death, int]] = {
    Death.TIME: 1,
    Death.MEMORY: 1,
    Death.CRASH: 2,
    Death.KILLED: 11,
    Death.STOPPED: 1,
}
"""How often a task is tried in all before a death of this kind is its answer."""
TRIES_TO_MEASURE: Final[Mapping[Death, int]] = {**MOST_TRIES, Death.CRASH: 1, Death.KILLED: 2}
"""The same where the task is to measure: a crash is the answer, and a process that the kernel kills twice, because
memory is short, is one too. Each try takes as long as the measurement."""


class WorkerDiedError(Exception):
    """A worker ended without an answer.

    Attributes:
        death: How it ended.
        began: False where it had not received its task, so that its end says nothing of the task.
    """

    def __init__(self, death: Death, reason: str, *, began: bool = True) -> None:
        super().__init__(reason)
        self.death = death
        self.began = began


class _Process(Protocol):
    """The part of `subprocess.Popen` that a worker uses."""

    pid: int

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal; None while the process runs."""

    def wait(self) -> int:
        """Wait for the end, and return the exit status."""


class Template:
    """A process that imports modules once, and from which workers are forked."""

    def __init__(self, *modules: str) -> None:
        """Store the modules to import; the process starts with the first fork."""
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(modules))

    def fork(self, theirs: Connection) -> "_Process":
        """Start a worker that answers over a connection."""
        process = self._context.Process(target=main_of_fork, args=(theirs,), daemon=True)
        with _without_working_folder():
            process.start()
        return _Forked(process)


@contextlib.contextmanager
def _without_working_folder() -> Iterator[None]:
    """Start the template where it imports nothing from the working folder.

    `multiprocessing` starts it by `python -c`, for which that folder comes first: another version of capplan in it
    would be what workers are forked from. Python sets their own path after the fork.
    """
    held = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if held is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = held


_SAFE_PATH = "PYTHONSAFEPATH"


class _Forked:
    """A forked process in the form of `subprocess.Popen`."""

    def __init__(self, process: BaseProcess) -> None:
        self._process = process
        assert process.pid is not None
        self.pid = process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> int:
        self._process.join()
        status = self._process.exitcode
        assert status is not None
        return KILLED if status == _LOST_STATUS else status


class Worker:
    """A process that answers tasks. It is started with its first task, and again after it died.

    One thread at a time may call `start`, `call` and `close`; any thread may call `kill`.
    """

    def __init__(
        self,
        make: Callable[..., Callable[[Any], Any]],
        *arguments: Any,
        template: Template | None = None,
        memory_bytes: int | None = None,
        environment: Mapping[str, str] = {},
        keeps_stderr: bool = True,
        answers: Any = None,
    ) -> None:
        """Store what the process runs; nothing is started yet.

        `answers` is the type of its answers, where code of strangers runs in the process: they are then decoded as that
        type. Without it they are unpickled, which runs what an answer names.
        """
        self._made_by = (make, arguments, answers is not None)
        self._decode = pickle.loads if answers is None else msgspec.msgpack.Decoder(answers).decode
        self._template = template
        self._memory_bytes = memory_bytes
        self._environment = environment
        self._keeps_stderr = keeps_stderr
        self._process: _Process | None = None
        self._connection: Connection | None = None
        self._stderr: IO[bytes] | None = None
        self._ended: tuple[Death, str] | None = None

    @property
    def is_alive(self) -> bool:
        """Return True if the process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """Return the process's id; None before it is started."""
        return self._process.pid if self._process else None

    def fileno(self) -> int:
        """Return the descriptor of the connection: readable when an answer has come, or the process has died."""
        assert self._connection is not None
        return self._connection.fileno()

    def start(self, *, stop: Event | None = None) -> None:
        """Start the process, and wait until it has loaded what its tasks need."""
        self.close()
        self._ended = None
        try:
            if IS_WINDOWS:
                self._connection = Connection(self._spawned_on_port().detach())
            else:
                ours, theirs = socket.socketpair()
                self._connection = Connection(ours.detach())
                with theirs:
                    self._process = self._fork(theirs) if self._template is not None else self._spawn(theirs)
        except (OSError, EOFError) as error:  # the system is short of processes, or the template has just died
            self.close()
            raise WorkerDiedError(Death.KILLED, f"its process could not be started ({error})", began=False) from error
        try:
            answer = self.ask(self._made_by, time_s=_LONGEST_START_S, stop=stop)
        except WorkerDiedError as died:
            died.began = False
            raise
        assert answer is None

    def call(self, task: object, *, time_s: float | None = None, stop: Event | None = None) -> Any:
        """Send the process a task and wait for its answer; start the process if it does not run."""
        if not self.is_alive:
            self.start(stop=stop)
        return self.ask(task, time_s=time_s, stop=stop)

    def ask(self, task: object, *, time_s: float | None = None, stop: Event | None = None) -> Any:
        """Do the same as `call` with a process that was started; one that has died meanwhile is not replaced."""
        connection = self._connection
        assert connection is not None
        deadline_s = None if time_s is None else time.monotonic() + time_s
        is_sent = False
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its death is noticed below
                connection.send(task)
                is_sent = True
            while not connection.poll(_POLL_S):
                if stop is not None and stop.is_set():
                    self.kill()
                elif deadline_s is not None and time.monotonic() > deadline_s:
                    self.kill(Death.TIME, f"took more than {time_s:g} s and was ended")
                elif self._memory_bytes is not None and (held := resident_bytes(self.pid)) > self._memory_bytes:
                    what = f"held {format_bytes(held)} of memory, more than {format_bytes(self._memory_bytes)}"
                    self.kill(Death.MEMORY, f"{what}, and was ended")
            return self._read(connection.recv_bytes())
        except (EOFError, OSError) as error:
            # Linux resets a socket whose other end was closed with unread data in it: unix_release_sock in af_unix.c
            raise self._death(began=is_sent and not isinstance(error, ConnectionResetError)) from error

    def _read(self, content: bytes) -> Any:
        """Return what the process sent; None for the word that it is ready."""
        kind, rest = content[:1], content[1:]
        try:
            if kind == FAILED:
                return msgspec.msgpack.decode(rest, type=UnexpectedError)
            return self._decode(rest) if kind == ANSWER else None
        except msgspec.MsgspecError as error:
            self.kill(Death.CRASH, "its process sent what is no answer")
            raise EOFError from error

    def call_again(
        self,
        task: object,
        *,
        time_s: float | None = None,
        stop: Event | None = None,
        most_tries: Mapping[Death, int] = MOST_TRIES,
    ) -> Any:
        """Return the answer to a task after as many tries as the deaths of the process are worth."""
        tries = 0
        while True:
            tries += 1
            try:
                return self.call(task, time_s=time_s, stop=stop)
            except WorkerDiedError as died:
                if tries >= most_tries[died.death]:
                    raise

    def kill(self, death: Death = Death.STOPPED, reason: str = "was ended") -> None:
        """End the process; a call that waits for its answer then fails."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        self._ended = self._ended or (death, reason)
        end(process.pid)

    def close(self) -> None:
        if self._process is not None:
            self.kill()
            self._process.wait()
            self._process = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None

    def _fork(self, theirs: socket.socket) -> _Process:
        assert self._template is not None
        connection = Connection(os.dup(theirs.fileno()))
        with connection:
            return self._template.fork(connection)

    def _spawn(self, theirs: socket.socket) -> _Process:
        return self._popen("socket", theirs.fileno(), pass_fds=[theirs.fileno()], start_new_session=True)

    def _spawned_on_port(self) -> socket.socket:
        """Start a process that inherits no socket, and return the connection that it has made.

        It shows a key that it is given over its standard input: whoever else connects to the port is sent away.
        """
        key = secrets.token_bytes(32)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            started = self._popen("port", listening.getsockname()[1], stdin=subprocess.PIPE)
            self._process = started
            assert started.stdin is not None
            with started.stdin as standard_input:
                standard_input.write(key)
            listening.settimeout(_POLL_S)
            deadline_s = time.monotonic() + _LONGEST_START_S
            while started.poll() is None and time.monotonic() < deadline_s:
                with contextlib.suppress(TimeoutError):
                    connected, _ = listening.accept()
                    connected.settimeout(_END_S)
                    if hmac.compare_digest(connected.recv(len(key), socket.MSG_WAITALL), key):
                        connected.settimeout(None)
                        return connected
                    connected.close()
        raise EOFError("it did not connect")

    def _popen(self, way: str, number: int, **options: Any) -> "subprocess.Popen[bytes]":
        self._stderr = tempfile.TemporaryFile() if self._keeps_stderr else None  # noqa: SIM115 - closed with the worker
        paths = [path or str(Path.cwd()) for path in sys.path]
        return subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, way, json.dumps(paths), str(number)],
            stdout=subprocess.DEVNULL if self._keeps_stderr else 2,
            stderr=self._stderr,
            env={**os.environ, **self._environment},
            **{"stdin": subprocess.DEVNULL, **options},
        )

    def _death(self, *, began: bool) -> WorkerDiedError:
        """Return how the process ended, once it has."""
        assert self._process is not None
        # The exit status; a process that closed its connection and lives on is ended.
        assert self._process is not None
        deadline_s = time.monotonic() + _END_S
        while self._process.poll() is None and time.monotonic() < deadline_s:
            time.sleep(0.005)
        self.kill(Death.CRASH, "its process closed its connection without an answer")
        status = self._process.wait()
        if self._ended is not None:
            death, reason = self._ended
        elif status == KILLED:
            death, reason = Death.KILLED, "its process was killed by SIGKILL"
        elif status == OUT_OF_TIME:
            death, reason = Death.TIME, "its process used up its time of the processor"
        else:
            death, reason = Death.CRASH, f"its process {name_of_end(status)}{self._last_words()}"
        self.close()
        return WorkerDiedError(death, reason, began=began)

    def _last_words(self) -> str:
        """Return the last line that the process wrote to stderr."""
        if self._stderr is None:
            return ""
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - 10_000))
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return f": {lines[-1].strip()[:_SHOWN_STDERR]}" if lines else ""
