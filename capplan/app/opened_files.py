"""Notice which files a model opens while it is built, so that its kept trace is stale once one of them changes.

A model may read its width from a file of its own. Python reports every opening of a file to audit hooks; a hook
cannot be taken off again, so there is one for the process, which listens only while a model is watched.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from capplan.folders import is_installed

_NOT_THE_USERS = ("/proc", "/sys", "/dev")
_OUTSIDE = ("subprocess.Popen", "os.system", "os.posix_spawn", "socket.connect", "urllib.Request")


class OpenedFiles:
    """The files that were opened for reading, and whether anything else was asked that cannot be compared later."""

    def __init__(self) -> None:
        self.paths: set[Path] = set()
        self.asked_outside = False

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Record one event of the interpreter."""
        if event in _OUTSIDE:
            self.asked_outside = True
        elif event == "open" and (path := _read_path(*arguments[:3])) is not None:
            self.paths.add(path)

    def of_the_user(self) -> list[Path]:
        """Return the files that are neither installed nor capplan's own, whether they exist or were only looked for."""
        resolved = {Path(os.path.realpath(path)) for path in self.paths if str(path) not in sys.path}
        return sorted(filter(_is_of_the_user, resolved))


def _read_path(path: Any, mode: Any, flags: Any) -> Path | None:
    """Return the path of an opening that reads; None for a descriptor and for what is only written."""
    if not isinstance(path, str | bytes | os.PathLike):
        return None
    if isinstance(mode, str) and set(mode) & set("wax"):
        return None
    if mode is None and isinstance(flags, int) and flags & (os.O_WRONLY | os.O_CREAT):
        return None
    return Path(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100 - links are followed later, not in a hook


@contextmanager
def watched(opened: OpenedFiles) -> Iterator[None]:
    """Record the files that are opened inside the block."""
    listeners = _listeners()
    listeners.append(opened)
    try:
        yield
    finally:
        listeners.remove(opened)


@cache
def _listeners() -> list[OpenedFiles]:
    """Install the hook, once for the process, and return the list that it fills."""
    listeners: list[OpenedFiles] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        for listener in tuple(listeners):
            listener.note(event, arguments)

    sys.addaudithook(hook)
    return listeners


def _is_of_the_user(path: Path) -> bool:
    is_from_machine = any(map(path.is_relative_to, _NOT_THE_USERS))
    return not (path.suffix == ".pyc" or "__path_hook__" in path.name or is_from_machine or is_installed(path))
