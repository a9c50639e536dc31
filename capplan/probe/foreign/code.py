"""The border to code that is not ours: a model's constructor and forward, an input function.

Inside `model_code` what is printed goes to stderr, nothing is fetched from the network, global state is put back, and
whatever the code raises becomes one sentence. Inside `no_weights` initialisation is skipped.
"""

import contextlib
import socket
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import torch

from capplan.errors import CapplanError, TraceError
from capplan.probe.foreign.preserve import globals_preserved


@contextlib.contextmanager
def model_code(doing: str, *, error: type[CapplanError] = TraceError) -> Iterator[None]:
    """Run foreign code: "building timm:resnet50"; its exceptions are raised again as `error`, with their message."""
    with _Translated(doing, error), globals_preserved(), _no_network(), contextlib.redirect_stdout(sys.stderr):
        yield


class _Translated:
    """Turn any exception of foreign code, `SystemExit` included, into one of ours."""

    def __init__(self, doing: str, error: type[CapplanError]) -> None:
        self.doing = doing
        self.error = error

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(raised, Exception | SystemExit) and not isinstance(raised, CapplanError):
            raise self.error(f"{self.doing} failed: {first_line(raised)}") from raised


def first_line(raised: BaseException) -> str:
    """An exception's kind and message on one line of at most 300 characters."""
    words = " ".join(str(raised).split())
    text = f"{type(raised).__name__}: {words}" if words else type(raised).__name__
    return text if len(text) <= 300 else text[:297] + "..."


@contextlib.contextmanager
def _no_network() -> Iterator[None]:
    """Refuse to look up hosts: nothing is downloaded on a model's behalf."""

    def refuse(host: Any, *_args: Any, **_kwargs: Any) -> Any:
        raise TraceError(
            f"the model's code tries to reach {host}, and nothing is downloaded: build it without pretrained weights "
            "or remote files."
        )

    looked_up = socket.getaddrinfo
    socket.getaddrinfo = refuse
    try:
        yield
    finally:
        socket.getaddrinfo = looked_up


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
