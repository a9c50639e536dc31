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
from capplan.core.batches import BatchChoice, Batches
from capplan.core.gpus.spec import GpuSpec
from capplan.core.measurement.format import point_to_line
from capplan.core.sweep.conditions import Conditions
from capplan.core.workload import Workload

_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceTask:
    """Trace a model for these workloads."""

    model: SweepModel
    conditions: tuple[Conditions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmTask:
    """Import what tracing needs, before any model's time is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesTask:
    """List the devices that torch can use here, with what their drivers call them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureTask:
    """Time a model at a batch on a device; `gpu` is the spec that the estimate beside it rests on. [s]"""

    model: SweepModel
    workload: Workload
    gpu: GpuSpec
    batch: int
    device: str
    budget_s: float
    timeout_s: float
    command: str


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
        if isinstance(task, WarmTask):
            import capplan.probe.trace.tracer

            return capplan.probe.trace.tracer.__name__
        if isinstance(task, MeasureTask):
            return measure_point(task)
        if isinstance(task, DevicesTask):
            from capplan.probe.measure.open import devices_at_hand

            return devices_at_hand()
        assert isinstance(task, Job)
        assert context is not None
        return plan_model(task, context)
    except Exception as error:
        return UnexpectedError(message=f"{type(error).__name__}: {error}", trace=traceback.format_exc())


def measure_point(task: MeasureTask) -> str:
    """Time a point as `capplan measure --isolate` does, and return its line of the measurement file."""
    from capplan.app.measure.request import Curve, MeasureRequest, TheoryRequest
    from capplan.app.measure.run import measure
    from capplan.probe.measure.point import Rules
    from capplan.probe.measure.timing import StopRule

    answer = measure(
        MeasureRequest(
            model=task.model.request,
            curve=Curve(batches=Batches(choice=BatchChoice.LISTED, sizes=(task.batch,))),
            rules=Rules(stop=StopRule(budget_s=task.budget_s)),
            precision=task.workload.precision,
            framework=task.workload.framework,
            layout=task.workload.layout,
            device=task.device,
            theory=TheoryRequest(gpu=task.gpu),
            is_isolated=True,
            timeout_s=task.timeout_s,
            command=task.command,
        )
    )
    return "".join(map(point_to_line, answer.points))


def _die_with_parent(parent: int) -> None:
    """End this process when its parent is killed, also in the midst of a task; where the system can do so."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)
