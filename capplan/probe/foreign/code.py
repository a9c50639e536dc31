"""Run code that is not ours, such as a model's constructor and forward or an input function.

Inside `model_code` what is printed goes to stderr, there is no network, compilation and scripting are off (a trace
records operators below both, and the graph that a compiler makes is worked out later, from the trace), global state is
put back, and whatever the code raises becomes one sentence.
"""

import contextlib
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any
from unittest import mock

import torch
from torch import nn

from capplan.errors import CapplanError, TraceError
from capplan.probe.foreign.libraries import torchaudio_importable, torchvision_importable
from capplan.probe.foreign.machine.cuda import cuda_present
from capplan.probe.foreign.machine.network import Attempts, no_network, settings_kept_out
from capplan.probe.foreign.preserve import globals_preserved


@contextlib.contextmanager
def model_code(doing: str, *, error: type[CapplanError] = TraceError, answers_cuda: bool = False) -> Iterator[None]:
    """Run foreign code, such as "building timm:resnet50"."""
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
        cuda_present(lambda _: None) if answers_cuda else contextlib.nullcontext(),
        _output_to_stderr(),
    ):
        yield


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
            advice = self.attempts.advice()
            if not advice and isinstance(raised, ModuleNotFoundError) and raised.name:
                advice = f"; install {raised.name.partition('.')[0]} in the environment that capplan runs in."
            raise self.error(f"{self.doing} failed: {first_line(raised)}{line}{advice}") from raised


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


_OWN = Path(__file__).resolve().parents[2]


def user_line(raised: BaseException) -> str | None:
    """Return `net.py:12`, the innermost line of the user's own code on the way to an error.

    Where none of the frames is the user's, the innermost line of a model library is returned, as
    `diffusers/models/attention.py:120`; None where only torch's and the standard library's code ran.
    """
    frames = [frame for frame in traceback.extract_tb(raised.__traceback__) if frame.filename.endswith(".py")]
    library: str | None = None
    for frame in reversed(frames):
        installed = _installed_below(frame.filename)
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
            below = _installed_below(name)
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
def _installed_below(filename: str) -> str | None:
    """Return a file's path below site-packages; empty for code of torch, capplan and Python, None for the user's."""
    path = Path(filename).resolve()
    if path.is_relative_to(_OWN) or path.is_relative_to(_torch()) or path.is_relative_to(_standard_library()):
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
def _standard_library() -> Path:
    return Path(sysconfig.get_path("stdlib")).resolve()


@contextlib.contextmanager
def compilation_off() -> Iterator[None]:
    """Make `torch.compile`, `torch.jit.script` and `torch.jit.trace` return what they are given."""
    jit_state: Any = torch.jit._state
    was_enabled = jit_state._enabled.enabled
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            mock.patch.object(torch, "compile", lambda model=None, *_, **__: _same if model is None else model)
        )
        for name in ("freeze", "optimize_for_inference"):
            stack.enter_context(mock.patch.object(torch.jit, name, _unless_plain(getattr(torch.jit, name))))
        if "torch._dynamo" in sys.modules:  # functions that were compiled before
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        jit_state._enabled.enabled = False
        try:
            yield
        finally:
            jit_state._enabled.enabled = was_enabled


def uncompiled(module: nn.Module) -> nn.Module:
    """Return the module that wrappers of `torch.compile` and nn.DataParallel hold, or the module itself."""
    while True:
        if "_orig_mod" in module._modules and type(module).__name__ == "OptimizedModule":
            inner = module._modules["_orig_mod"]
        elif isinstance(module, nn.DataParallel):
            inner = module.module
        else:
            return module
        assert inner is not None
        module = inner


def _same(thing: Any) -> Any:
    return thing


def _unless_plain(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Pass a module through that was not scripted, because scripting is off."""

    def optimise(module: Any, *args: Any, **kwargs: Any) -> Any:
        return plain(module, *args, **kwargs) if isinstance(module, torch.jit.ScriptModule) else module

    return optimise
