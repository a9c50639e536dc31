"""Run code that is not ours, such as a model's constructor and forward or an input function.

Inside `model_code` what is printed goes to stderr, there is no network, compilation and scripting are off, global state
is put back, and whatever the code raises becomes one sentence. Inside `no_weights` initialisation is skipped.
"""

import contextlib
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from capplan.errors import CapplanError, TraceError
from capplan.probe.foreign.compilation import compilation_off
from capplan.probe.foreign.compiled_libraries import torchaudio_importable, torchvision_importable
from capplan.probe.foreign.machine.cuda import cuda_present
from capplan.probe.foreign.machine.network import Attempts, no_network, settings_kept_out
from capplan.probe.foreign.preserve import globals_preserved


@contextlib.contextmanager
def model_code(doing: str, *, error: type[CapplanError] = TraceError, answers_cuda: bool = False) -> Iterator[None]:
    """Run foreign code, such as "building timm:resnet50".

    Args:
        doing: what is done, for messages.
        error: the class of the error that is raised.
        answers_cuda: whether `torch.cuda` answers as on a machine with a CUDA device.

    Raises:
        CapplanError: the code raised; `error` carries its message, and the line of the user's code.
    """
    attempts = Attempts()
    with (
        _child_processes_ended(),
        _Translated(doing, error, attempts),
        globals_preserved(),
        no_network(attempts),
        settings_kept_out(),
        compilation_off(),
        torchaudio_importable(),
        torchvision_importable(),
        cuda_present(_unnoted) if answers_cuda else contextlib.nullcontext(),
        _output_to_stderr(),
    ):
        yield


def _unnoted(_: str) -> None:
    """Leave out what is asked while modules are imported and built."""


class _Translated:
    """Turn any exception of foreign code, `SystemExit` included, into one of ours."""

    def __init__(self, doing: str, error: type[CapplanError], attempts: Attempts) -> None:
        self.doing = doing
        self.error = error
        self.attempts = attempts

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(raised, Exception | SystemExit) and not isinstance(raised, CapplanError):
            where = user_line(raised)
            line = f" (at {where})" if where else ""
            self.attempts.add_client_of(raised)
            advice = self.attempts.advice() or _missing(raised)
            raise self.error(f"{self.doing} failed: {first_line(raised)}{line}{advice}") from raised


def _missing(raised: BaseException) -> str:
    """Return what to install where a module was not found; empty for any other error."""
    if not isinstance(raised, ModuleNotFoundError) or not raised.name:
        return ""
    return f"; install {raised.name.partition('.')[0]} in the environment that capplan runs in."


def first_line(raised: BaseException) -> str:
    """Return an exception's kind and message on one line of at most 300 characters."""
    words = " ".join(str(raised).split()) or _asserted(raised)
    text = f"{type(raised).__name__}: {words}" if words else type(raised).__name__
    return text if len(text) <= 300 else text[:297] + "..."


def _asserted(raised: BaseException) -> str:
    """Return the condition of an assertion without a message, and its file and line; empty for other errors."""
    frames = traceback.extract_tb(raised.__traceback__) if isinstance(raised, AssertionError) else None
    if not frames or not frames[-1].line:
        return ""
    place = Path(frames[-1].filename)
    return f"{frames[-1].line} in {place.parent.name}/{place.name}:{frames[-1].lineno}"


@contextlib.contextmanager
def _child_processes_ended() -> Iterator[None]:
    """End a process that the code forked off when it comes back: it would write a second answer."""
    own = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != own:
            os._exit(0)


@contextlib.contextmanager
def _output_to_stderr() -> Iterator[None]:
    """Send what the code, its libraries and its child processes print to stderr: stdout is for answers."""
    with contextlib.redirect_stdout(sys.stderr):
        _flush()
        try:
            kept = os.dup(1)
            os.dup2(2, 1)
        except OSError:  # a process without these descriptors
            yield
            return
        try:
            yield
        finally:
            _flush()
            os.dup2(kept, 1)
            os.close(kept)


def _flush() -> None:
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.__stdout__.flush()  # type: ignore[union-attr]  # None is suppressed


@contextlib.contextmanager
def no_weights() -> Iterator[None]:
    """Skip weight initialisation, as befits modules on the meta device."""
    names = [name for name in vars(torch.nn.init) if name.endswith("_") and not name.startswith("_")]
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(_replaced(torch.nn.init, name, _keep))
        if (of_timm := sys.modules.get("timm.layers.weight_init")) is not None:
            stack.enter_context(_replaced(of_timm, "_trunc_normal_", _keep))
        yield


@contextlib.contextmanager
def _replaced(holder: Any, name: str, value: Any) -> Iterator[None]:
    original = getattr(holder, name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, original)


def _keep(tensor: torch.Tensor, *_args: Any, **_kwargs: Any) -> torch.Tensor:
    return tensor


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
