"""Kill the process of any worker once at each stage of its life, whichever pool it belongs to."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from capplan.processes.supervisor import Worker
from tests.processes.slow_work import WORK_S

STAGES = ("starting", "idle", "handed a task", "working")


def is_gone(pid: int) -> bool:
    """Return True if a process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def kill_at_each_stage(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kill one process at each stage; the next is killed only after a task was answered since the last.

    Returns:
        The stages at which a process was killed, which grows while the test runs.
    """
    killed: list[str] = []
    state = {"armed": True}
    original = Worker.ask

    def ask(worker: Worker, task: Any, **limits: Any) -> Any:
        starts = task is worker._made_by
        stage = STAGES[len(killed)] if state["armed"] and len(killed) < len(STAGES) else None
        if stage is not None and starts == (stage == "starting"):
            killed.append(stage)
            state["armed"] = False
            assert worker.pid is not None
            _kill(worker.pid, stage)
        answer = original(worker, task, **limits)
        state["armed"] = state["armed"] or not starts
        return answer

    monkeypatch.setattr(Worker, "ask", ask)
    return killed


def _kill(pid: int, stage: str) -> None:
    """Kill a process at a stage: at once, or while the task that it is about to be handed waits or is worked on."""
    if stage in ("handed a task", "working"):
        if stage == "handed a task":
            os.kill(pid, signal.SIGSTOP)  # reads nothing any more, as one that is being killed
        threading.Timer(WORK_S / 2, os.kill, (pid, signal.SIGKILL)).start()
        return
    os.kill(pid, signal.SIGKILL)
    while stage == "idle" and not is_gone(pid):
        time.sleep(0.005)
