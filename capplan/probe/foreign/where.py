"""Find the line of the user's code that an error comes from."""

import sys
import sysconfig
import traceback
from functools import cache
from pathlib import Path

import torch

_OWN = Path(__file__).resolve().parents[2]


def user_line(raised: BaseException) -> str | None:
    """Return `net.py:12`, the innermost line of the user's own code on the way to an error.

    Where none of the frames is the user's, the innermost line of a model library is returned, as
    `diffusers/models/attention.py:120`; None where only torch's and the standard library's code ran.
    """
    frames = [frame for frame in traceback.extract_tb(raised.__traceback__) if frame.filename.endswith(".py")]
    library: str | None = None
    for frame in reversed(frames):
        installed = _kind_of(frame.filename)
        if installed is None:
            return f"{Path(frame.filename).name}:{frame.lineno}"
        if library is None and installed:
            library = f"{installed}:{frame.lineno}"
    return library


def calling_line() -> str | None:
    """Return the line of the user's code that is running now, as `user_line` does for an error."""
    frame = sys._getframe(1)
    library: str | None = None
    while frame is not None:
        name = frame.f_code.co_filename
        if name.endswith(".py"):
            below = _kind_of(name)
            if below is None:
                return f"{Path(name).name}:{frame.f_lineno}"
            if below and library is None:
                library = f"{below}:{frame.f_lineno}"
        back = frame.f_back
        if back is None or back.f_code.co_name == "_execute":  # the tracer's call of the model: users' frames are above
            break
        frame = back
    return library


@cache
def _kind_of(filename: str) -> str | None:
    return _installed_below(Path(filename).resolve())


def _installed_below(path: Path) -> str | None:
    """Return a file's path below site-packages; empty for code of torch, capplan and Python, None for the user's."""
    if path.is_relative_to(_OWN) or path.is_relative_to(_torch()) or path.is_relative_to(_kind("stdlib")):
        parts = path.parts
        if not path.is_relative_to(_torch()) and not path.is_relative_to(_OWN) and "site-packages" in parts:
            return _below_packages(path)
        return ""
    return _below_packages(path) if "site-packages" in path.parts or "dist-packages" in path.parts else None


def _below_packages(path: Path) -> str:
    parts = list(path.parts)
    last = max(index for index, part in enumerate(parts) if part in ("site-packages", "dist-packages"))
    return "/".join(parts[last + 1 :])


@cache
def _torch() -> Path:
    return Path(torch.__file__).resolve().parent


@cache
def _kind(name: str) -> Path:
    return Path(sysconfig.get_path(name)).resolve()
