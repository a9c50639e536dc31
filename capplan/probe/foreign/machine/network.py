"""Behave as a machine without a network: nothing is downloaded on a model's behalf.

Look-ups and connections raise what the socket library raises where there is no network, so that code which copes with
that (asking at import whether it is online, falling back to a cache) goes on. Child processes get no way out either.
The Hugging Face Hub's client is set offline, because it would try ten times and wait a minute and a half.
"""

import atexit
import contextlib
import errno
import functools
import ipaddress
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from capplan.errors import chained


class Attempts:
    """The hosts that foreign code tried to reach, for the message if it then fails."""

    def __init__(self) -> None:
        self._hosts: list[str] = []

    def add(self, host: Any) -> None:
        name = host.decode(errors="replace") if isinstance(host, bytes) else str(host)
        if name not in self._hosts:
            self._hosts.append(name)

    def add_client_of(self, error: BaseException) -> None:
        """Record the Hugging Face Hub as a host that was asked for, if its client raised the error.

        What the client raises of connections and files is an OSError; its checks of a config's types are not.
        """
        failures = (raised for raised in chained(error) if isinstance(raised, OSError))
        if any(type(raised).__module__.startswith("huggingface_hub") for raised in failures):
            self.add("huggingface.co")

    def advice(self) -> str:
        """Return what to add to the message of a failure; empty where no host was asked for."""
        if not self._hosts:
            return ""
        hosts = ", ".join(self._hosts[:3]) + (", ..." if len(self._hosts) > 3 else "")
        return (
            f"; the model's code had tried to reach {hosts}, and nothing is downloaded: build it without pretrained "
            "weights or remote files."
        )


@contextlib.contextmanager
def no_network(attempts: Attempts) -> Iterator[None]:
    """Make look-ups and connections beyond this machine fail as without a network, and record them in `attempts`."""
    with contextlib.ExitStack() as stack:
        for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
            stack.enter_context(mock.patch.object(socket, name, _looking_up(getattr(socket, name), attempts)))
        for name in ("connect", "connect_ex"):
            stack.enter_context(mock.patch.object(socket.socket, name, _connecting(name, attempts), create=True))
        stack.enter_context(mock.patch.object(subprocess.Popen, "__init__", _starting(subprocess.Popen.__init__)))
        stack.enter_context(_hub_offline())
        yield


_OFFLINE_FLAGS = (("huggingface_hub.constants", "HF_HUB_OFFLINE"), ("transformers.utils.hub", "_is_offline_mode"))
"""What libraries keep of HF_HUB_OFFLINE from their import on."""


@contextlib.contextmanager
def _hub_offline() -> Iterator[None]:
    """Set the Hugging Face Hub's client offline, and restore its flags afterwards in all modules."""
    is_offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    before = {name: sys.modules.get(name) for name, _ in _OFFLINE_FLAGS}
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, {"HF_HUB_OFFLINE": "1"}))
        for name, flag in _OFFLINE_FLAGS:
            if hasattr(before[name], flag):
                stack.enter_context(mock.patch.object(before[name], flag, True))
        try:
            yield
        finally:
            for name, flag in _OFFLINE_FLAGS:
                if before[name] is None and hasattr(sys.modules.get(name), flag):
                    setattr(sys.modules[name], flag, is_offline)


def _looking_up(plain: Callable[..., Any], attempts: Attempts) -> Callable[..., Any]:
    def look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host is None or host in ("", "localhost", b"localhost") or _is_address(host):
            return plain(host, *args, **kwargs)
        attempts.add(host)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    return look_up


def _connecting(name: str, attempts: Attempts) -> Callable[..., Any]:
    plain = getattr(socket.socket, name)

    def connect(self: socket.socket, address: Any) -> Any:
        if not isinstance(address, tuple) or self.family not in (socket.AF_INET, socket.AF_INET6):
            return plain(self, address)
        host = address[0]
        if host in ("", "localhost") or (_is_address(host) and ipaddress.ip_address(host).is_loopback):
            return plain(self, address)
        attempts.add(host)
        if name == "connect_ex":
            return errno.ENETUNREACH
        raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))

    return connect


_NO_WAY_OUT = {
    "PIP_NO_INDEX": "1",
    **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9"),
}
"""Environment of child processes: installers find no index, downloaders a proxy where nothing listens (port 9)."""


def _starting(plain: Callable[..., None]) -> Callable[..., None]:
    def start(self: Any, *args: Any, env: Any = None, **kwargs: Any) -> None:
        plain(self, *args, env={**(os.environ if env is None else env), **_NO_WAY_OUT}, **kwargs)

    return start


def _is_address(host: Any) -> bool:
    try:
        ipaddress.ip_address(host.decode() if isinstance(host, bytes) else host)
    except ValueError:
        return False
    return True


_FOLDERS = ("YOLO_CONFIG_DIR",)
"""Variables that name the folder where a library writes settings at its first import: ultralytics."""


@contextlib.contextmanager
def settings_kept_out() -> Iterator[None]:
    """Point libraries to a temporary folder for settings, unless the user has set one."""
    unset = [name for name in _FOLDERS if name not in os.environ]
    with mock.patch.dict(os.environ, {name: _temporary_folder() for name in unset}):
        yield


@functools.cache
def _temporary_folder() -> str:
    """Choose the folder once for the process: a library keeps the path that it was given when it was imported.

    The library makes it, so that a process that is killed leaves none behind unless its model imports that library.
    """
    folder = Path(tempfile.gettempdir(), f"capplan-settings-{secrets.token_hex(16)}")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(folder)
