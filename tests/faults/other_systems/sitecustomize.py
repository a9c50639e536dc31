"""Let capplan see another operating system, in a process that finds this file on its path and in all that it starts.

CAPPLAN_TEST_SYSTEM names it. Only capplan's own modules see it: Python and the libraries run as they are. /proc and
/sys are missing for all. What a system lacks follows the "Availability" notes of Python's documentation.
"""

import builtins
import os
import sys
from types import ModuleType

SYSTEM = os.environ.get("CAPPLAN_TEST_SYSTEM", "")
POSIX = frozenset({"resource", "fcntl", "pwd", "grp", "termios", "tty", "pty", "syslog", "posix", "readline"})
LACKS = {
    "linux": {},
    "darwin": {"os": {"sched_getaffinity", "sched_setaffinity", "O_DIRECT"}},
    "win32": {
        "os": {
            "sched_getaffinity", "sched_setaffinity", "killpg", "setsid", "getpgid", "setpgid", "sysconf", "nice",
            "uname",
            "getuid", "geteuid", "getgid", "fork", "forkpty", "getloadavg", "mkfifo", "mknod", "O_NONBLOCK",
            "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "fchmod", "chown", "fchown", "statvfs", "wait", "set_blocking",
            "pread", "pwrite", "waitpid", "confstr", "register_at_fork", "posix_spawn", "WNOHANG", "getpriority",
        },
        "signal": {"SIGKILL", "SIGXCPU", "SIGALRM", "SIGHUP", "SIGCHLD", "SIGPIPE", "setitimer", "alarm"},
        "socket": {"AF_UNIX", "send_fds", "recv_fds"},
        "time": {"tzset"},
    },
}  # fmt: skip


class Seen(ModuleType):
    """A module without what a system lacks; all else is the module's own."""

    def __init__(self, real: ModuleType, lacks: set[str], changed: dict[str, object]) -> None:
        super().__init__(real.__name__)
        self.__dict__.update(_real=real, _lacks=lacks, _changed=changed)

    def __getattr__(self, name: str) -> object:
        if name in self._lacks:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} on {SYSTEM}")
        return self._changed[name] if name in self._changed else getattr(self._real, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._real, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._real, name)


def pretend() -> None:
    real_import = builtins.__import__
    lacks = LACKS[SYSTEM]
    seen: dict[str, ModuleType] = {}

    def module(name: str, real: ModuleType) -> ModuleType:
        if name not in seen:
            changed: dict[str, object] = {"sys": {"platform": SYSTEM}}.get(name, {})
            if name == "multiprocessing" and SYSTEM == "win32":
                changed = {"get_all_start_methods": lambda: ["spawn"], "get_context": _only_spawn}
            seen[name] = Seen(real, lacks.get(name, set()), changed)
        return seen[name]

    def imported(name, given=None, locals=None, fromlist=(), level=0):  # type: ignore[no-untyped-def]
        importer = (given or {}).get("__name__", "")
        if not importer.startswith("capplan") or level:
            return real_import(name, given, locals, fromlist, level)
        if SYSTEM == "win32" and name.partition(".")[0] in POSIX:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        real = real_import(name, given, locals, fromlist, level)
        return module(name, real) if name in {"sys", "os", "multiprocessing", *lacks} else real

    builtins.__import__ = imported
    sys.addaudithook(_hide)
    if SYSTEM == "win32":
        import asyncio.unix_events as events

        def refuse(*arguments: object) -> None:
            raise NotImplementedError

        for kind in (events._UnixSelectorEventLoop,):
            kind.add_signal_handler = refuse
            kind.add_reader = refuse  # type: ignore[method-assign]
            kind.remove_reader = refuse  # type: ignore[method-assign]


def _only_spawn(method: str | None = None) -> object:
    import multiprocessing

    if method not in (None, "spawn"):
        raise ValueError(f"cannot find context for {method!r}")
    return multiprocessing.get_context("spawn")


def _hide(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str) and arguments[0].startswith(("/proc/", "/sys/")):
        raise FileNotFoundError(2, "No such file or directory", arguments[0])


if SYSTEM:
    pretend()
