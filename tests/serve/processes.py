"""The processes of a running service, as /proc lists them; none where there is no /proc."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.serve.conftest import Served


def parents() -> dict[int, int]:
    """Return the parent of every process that runs."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z":
            found[int(path.parent.name)] = int(parent)
    return found


def words_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def planners(served: Served) -> list[int]:
    return [
        pid
        for pid, parent in parents().items()
        if parent == served.process.pid and "capplan.processes.worker" in words_of(pid)
    ]


def fork_server(served: Served) -> int | None:
    for pid, parent in parents().items():
        if parent == served.process.pid and "forkserver" in words_of(pid):
            return pid
    return None


def tracers(served: Served) -> list[int]:
    server = fork_server(served)
    return [pid for pid, parent in parents().items() if parent == server]


def kill(pids: list[int]) -> int:
    """Kill processes, and return how many there still were: one that is done ends by itself."""
    killed = 0
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed


def cpu_s(served: Served) -> float:
    """Return the processor time that the service itself has taken, without its planners and tracers. [s]"""
    fields = Path(f"/proc/{served.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
