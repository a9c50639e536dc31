"""Run the service until it receives SIGINT or SIGTERM."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from capplan.errors import UsageError
from capplan.serve.http.application import make_application
from capplan.serve.logs import start_logging
from capplan.serve.settings import Settings
from capplan.serve.tracing.queue import WALL_PER_CPU

LONGEST_HEADER_BYTES = 32 * 1024
_BACKLOG = 512


LONGEST_HEAD_S = 30.0
"""Time within which the head of a request must have arrived; then the connection is closed. [s]"""


class _ImpatientProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # uvicorn chooses its base when imported
    """HTTP on one connection that is closed where no whole head of a request arrives in time.

    uvicorn waits for ever for a head that was begun, so that connections that send nothing more would fill the service.
    """

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take some bytes; while no request has begun they are of a head."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._waiting is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(LONGEST_HEAD_S, self._close_unless_answering)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _close_unless_answering(self) -> None:
        self._waiting = None
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if not is_answering and not self.transport.is_closing():
            self.transport.close()


class _Server(uvicorn.Server):
    """A server that ends without raising the signal again which asked it to: that is how a service is meant to end."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Finish what runs on the first SIGINT or SIGTERM, and end at once on the second."""
        handled = (signal.SIGINT, signal.SIGTERM)
        former = {each: signal.signal(each, self.handle_exit) for each in handled}
        try:
            yield
        finally:
            for each, handler in former.items():
                signal.signal(each, handler)


def run_service(settings: Settings, *, announce: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; then finish the requests that run, and return.

    Args:
        settings: how the service runs.
        announce: called with the address once questions can be answered.

    Raises:
        UsageError: the address cannot be bound.
    """
    start_logging()
    listening = _bound(settings)
    name = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http://{name}:{listening.getsockname()[1]}/"
    try:
        application = make_application(settings, ready=lambda: announce(address))
    except BaseException:
        listening.close()
        raise
    config = uvicorn.Config(
        application,
        http=_ImpatientProtocol,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        lifespan="on",
        ws="none",
        h11_max_incomplete_event_size=LONGEST_HEADER_BYTES,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=int(WALL_PER_CPU * settings.limits.trace_s) + 30,
        backlog=_BACKLOG,
        proxy_headers=False,
    )
    server = _Server(config)
    server.run(sockets=[listening])
    if not server.started:
        raise UsageError("the service could not start; its log says why.")


def _bound(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only where the protocol is stated; else a small answer waits for the client's delayed ACK
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host.strip("[]"), settings.port))
        listening.listen(_BACKLOG)  # before the address is announced, so that no first request is refused
    except (OSError, OverflowError) as error:
        listening.close()
        raise UsageError(
            f"cannot serve at {settings.host}, port {settings.port}: {getattr(error, 'strerror', None) or error}."
        ) from error
    return listening
