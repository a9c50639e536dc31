"""What the operating system says of processes and does for them; every question has an answer where it does not.

Linux answers all. macOS has no /proc, no end with the parent and no mask of cores; Windows lacks signals, groups, forks
and limits, too. What then works with less stands beside each function, and `lacks` puts it into a sentence.
"""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any, Final

IS_WINDOWS: Final = sys.platform == "win32"
KILLED: Final = -getattr(signal, "SIGKILL", 9)
"""Exit status of a process that a signal killed from outside, where the system has signals."""
OUT_OF_TIME: Final = -getattr(signal, "SIGXCPU", 24)
"""Exit status of a process that has used up its time of the processor, where the system limits it."""
_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""
_LOOK_FOR_PARENT_S = 1.0


def cores() -> int:
    """Return the number of cores that this process may use."""
    with contextlib.suppress(AttributeError):  # Linux alone reports it
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def can_fork() -> bool:
    """Return True if processes can be forked from one that has loaded its libraries; without, each loads its own."""
    return "forkserver" in multiprocessing.get_all_start_methods()


def resident_bytes(pid: int | None) -> int:
    """Return the memory that a process holds; 0 if the system does not report it. [bytes]"""
    return _statm_bytes(pid, 1)


def address_bytes() -> int | None:
    """Return the address space that this process takes; None if the system does not report it. [bytes]"""
    return _statm_bytes("self", 0) or None


def _statm_bytes(pid: int | str | None, field: int) -> int:
    try:
        pages = int(_said(f"/proc/{pid}/statm").split()[field])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def processor_s(pid: int | None) -> float:
    """Return the time of the processor that a process has used; 0 if the system does not report it. [s]"""
    try:
        fields = _said(f"/proc/{pid}/stat").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_bytes() -> int | None:
    """Return the memory of this machine; None if the system does not report it. [bytes]"""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def free_memory_bytes() -> int | None:
    """Return what the system can give without swapping; None if it does not report it. [bytes]"""
    return stated_bytes("/proc/meminfo", "MemAvailable")


def stated_bytes(path: str, key: str) -> int | None:
    """Return a line "key:  123 kB" of a /proc file; None where the system has none. [bytes]"""
    try:
        lines = _said(path).splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith(f"{key}:")]
    return int(found[0]) * 1024 if found else None


def _said(path: str) -> str:
    return Path(path).read_text(encoding="utf-8", errors="replace")


def has_ended(pid: int) -> bool:
    """Return True if no process has this number.

    Windows is not asked: there, signal 0 would interrupt the process. It keeps the working folder of one that runs
    from being removed, which is what the answer is for.
    """
    if IS_WINDOWS:
        return True
    try:
        os.kill(pid, 0)
    except PermissionError:
        return False
    except OSError:
        return True
    return False


def end(pid: int) -> None:
    """End a process at once, with those that it has started; on Windows it alone is ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if IS_WINDOWS:
            os.kill(pid, signal.SIGTERM)  # TerminateProcess, as `os.kill` documents
            return
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:  # a fork that has not made its own group yet
            os.kill(pid, signal.SIGKILL)


def name_of_end(status: int) -> str:
    """Return how a process ended, as the end of a sentence."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def lead_group() -> None:
    """Make this process the first of a group, so that it can be ended with those that it starts."""
    if hasattr(os, "setsid"):
        os.setsid()


def die_with_parent(parent: int) -> None:
    """End this process when its parent is killed, also in the midst of a task.

    macOS is asked each second; on Windows the process ends with its task, when it finds its connection closed.
    """
    if IS_WINDOWS:
        return
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    else:
        Thread(target=_watch_parent, args=(parent,), name="parent", daemon=True).start()
    if os.getppid() != parent:
        sys.exit(1)


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_FOR_PARENT_S)
    end_self()


def end_self() -> None:
    """End this process at once, whatever its threads do."""
    os.kill(os.getpid(), signal.SIGTERM if IS_WINDOWS else signal.SIGKILL)


def be_nice(niceness: int) -> None:
    """Let other processes go first, where the system has an order."""
    if hasattr(os, "nice"):
        os.nice(niceness)


def limit_self(*, added_bytes: int, cpu_s: float, file_bytes: int) -> None:
    """Bind this process to limits of memory, processor time and written files, as far as the system has them. [s]"""
    try:
        import resource  # noqa: PLC0415 - Windows has no such module
    except ImportError:
        return
    held = address_bytes()
    wanted = {
        "RLIMIT_AS": None if held is None else (held + added_bytes, held + added_bytes),
        "RLIMIT_CPU": (int(cpu_s) + 1, int(cpu_s) + 5),
        "RLIMIT_CORE": (0, 0),
        "RLIMIT_FSIZE": (file_bytes, file_bytes),
    }
    for name, limits in wanted.items():
        if limits is not None and (number := getattr(resource, name, None)) is not None:
            with contextlib.suppress(OSError, ValueError):  # macOS refuses some
                resource.setrlimit(number, limits)


@contextlib.contextmanager
def private_memory_limited(added_bytes: int) -> Any:
    """Limit the private memory of this process for a while; yields False where the system cannot. [bytes]"""
    used = stated_bytes("/proc/self/status", "VmData")
    try:
        import resource  # noqa: PLC0415 - Windows has no such module
    except ImportError:
        used = None
    if used is None:
        yield False
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = used + added_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    try:
        yield True
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def lacks() -> str | None:
    """Return in one sentence what processes that isolate work do without here; None where nothing is lacking."""
    missing = []
    if address_bytes() is None:
        missing.append("memory is not limited")
    if IS_WINDOWS:
        missing += ["time of the processor is not limited", "each process loads its libraries anew"]
    if sys.platform != "linux":
        missing.append("a model's code is kept from files and the network by Python alone")
    if not missing:
        return None
    return f"On this system processes work with less: {', '.join(missing)}; they are ended after a time all the same."
