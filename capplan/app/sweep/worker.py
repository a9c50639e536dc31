"""A child process of a sweep: receives tasks over a socket, one at a time, and answers each.

`child` starts it. It ends when its parent closes the socket or dies.
"""

import contextlib
import ctypes
import os
import signal
import sys
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from capplan.app.sweep.request import PlanContext, SweepModel
from capplan.app.sweep.stages import Job, plan_model, trace_model
from capplan.core.sweep.grid import Conditions

_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceTask:
    """Trace a model for these workloads."""

    model: SweepModel
    conditions: tuple[Conditions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnexpectedError:
    """An exception that nothing expected, as text: its last line and its traceback."""

    message: str
    trace: str


def main(descriptor: int) -> None:
    """Answer tasks until the socket is closed."""
    _die_with_parent(os.getppid())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt ends
    connection = Connection(descriptor)
    context: PlanContext | None = None
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            task = connection.recv()
            if isinstance(task, PlanContext):
                context = task
            else:
                connection.send(_answer(task, context))


def _answer(task: object, context: PlanContext | None) -> Any:
    try:
        if isinstance(task, TraceTask):
            return trace_model(task.model, task.conditions)
        assert isinstance(task, Job)
        assert context is not None
        return plan_model(task, context)
    except Exception as error:
        return UnexpectedError(message=f"{type(error).__name__}: {error}", trace=traceback.format_exc())


def _die_with_parent(parent: int) -> None:
    """End this process when its parent is killed, also in the midst of a task; where the system can do so."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)
