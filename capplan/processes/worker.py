"""The side of the process that works: it receives tasks over a socket, one at a time, and answers each.

`supervisor` starts it. It ends when its parent closes the socket or dies.
"""

import contextlib
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from threading import Thread

import msgspec

from capplan.processes.system import die_with_parent, end_self, lead_group


@dataclass(frozen=True, slots=True, kw_only=True)
class UnexpectedError:
    """An exception that nothing expected, as text: its last line and its traceback."""

    message: str
    trace: str


READY, ANSWER, FAILED = b"R", b"A", b"F"
"""First byte of what a process sends: it has loaded what its tasks need; an answer; an error that nothing expected."""


def main(descriptor: int) -> None:
    """Answer tasks from a socket, in a fresh interpreter."""
    die_with_parent(os.getppid())
    _work(Connection(descriptor))


def main_of_port(port: int) -> None:
    """Do the same where a process inherits no sockets: connect to the parent, and show it the key that it wrote."""
    key = sys.stdin.buffer.read()
    connected = socket.create_connection(("127.0.0.1", port))
    connected.sendall(key)
    main(connected.detach())


def main_of_fork(connection: Connection) -> None:
    """Answer tasks from a connection, in a process that was forked from one with its libraries loaded."""
    lead_group()
    die_with_parent(os.getppid())
    _die_with_starter()
    _work(connection)


def _work(connection: Connection) -> None:
    """Make what answers, then answer tasks until the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt ends
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        make, arguments, is_typed = connection.recv()
        encode = msgspec.msgpack.encode if is_typed else pickle.dumps
        answer = make(*arguments)
        connection.send_bytes(READY)
        while True:
            task = connection.recv()
            try:
                connection.send_bytes(ANSWER + encode(answer(task)))
            except (BrokenPipeError, ConnectionResetError):
                raise
            except Exception as error:
                failed = UnexpectedError(message=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
                connection.send_bytes(FAILED + msgspec.msgpack.encode(failed))


def _die_with_starter() -> None:
    """End this process when the one that asked for it is killed: its template lives as long as any fork of it does."""
    starter = multiprocessing.parent_process()
    assert starter is not None
    sentinel = starter.sentinel

    def watch() -> None:
        wait([sentinel])
        end_self()

    Thread(target=watch, name="starter", daemon=True).start()
