"""The ASGI application, and its run until it receives SIGINT or SIGTERM."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from capplan.errors import CapplanError, UsageError
from capplan.processes.system import IS_WINDOWS
from capplan.serve.http.access import Access
from capplan.serve.http.api import api_routes
from capplan.serve.http.bodies import GoneError, ProblemError, problem_response, refused
from capplan.serve.http.guard import Guard
from capplan.serve.http.pages import page_routes
from capplan.serve.metrics import LOGGER, start_logging
from capplan.serve.planning.messages import BUG
from capplan.serve.service import PlanningService
from capplan.serve.settings import Settings
from capplan.serve.tracing.queue import WALL_PER_CPU
from capplan.version import __version__

if TYPE_CHECKING:
    from capplan.serve.mcp.server import McpEndpoints


LONGEST_HEADER_BYTES = 32 * 1024
_BACKLOG = 512
MOST_CONNECTIONS = 1_024
"""Connections that are open at once, streams of assistants with them; further ones are answered 503."""


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
        """Receive some bytes; while no request has begun they are of a head."""
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
        former = {number: signal.signal(number, self.handle_exit) for number in handled}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)


def run_service(settings: Settings, *, announce: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; then finish the requests that run, and return."""
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
        limit_concurrency=MOST_CONNECTIONS,
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
    if not IS_WINDOWS:  # there, the option lets two services share a port
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


CLIENT_GONE = 499
"""The status of a request whose client went away; nobody receives it, but logs and counters hold it."""


def make_application(settings: Settings, *, ready: Callable[[], None] = lambda: None) -> Starlette:
    """Return the application."""
    service = PlanningService(settings)
    access = None if settings.token is None else Access(settings.token)
    assistants = _assistants(service)

    @asynccontextmanager
    async def running(_: Starlette) -> AsyncIterator[None]:
        await service.start()
        ready()
        try:
            async with nullcontext() if assistants is None else assistants.running():
                yield
        finally:
            await service.stop()

    application = Starlette(
        routes=[
            *page_routes(service, access=access),
            *api_routes(service),
            *([] if assistants is None else assistants.routes),
            Route("/healthz", _health(service), methods=["GET"]),
            Route("/metrics", _metrics(service), methods=["GET"]),
        ],
        middleware=[
            Middleware(Guard, settings=settings, metrics=service.metrics, access=access),
            Middleware(GZipMiddleware, minimum_size=1000, compresslevel=3),
        ],
        exception_handlers={
            ProblemError: _problem,
            CapplanError: _sentence,
            GoneError: _gone,
            HTTPException: _http_error,
            Exception: _bug,
        },
        lifespan=running,
    )
    application.state.service = service
    return application


def _assistants(service: PlanningService) -> "McpEndpoints | None":
    """Return the endpoints of assistants; None where the SDK of the Model Context Protocol is not installed."""
    if find_spec("mcp") is None:
        return None
    from capplan.serve.mcp.server import McpEndpoints

    return McpEndpoints(service)


def _health(service: PlanningService) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(_: Request) -> Response:
        status = "ok" if service.is_ready else "no process that answers questions lives; new ones are being started"
        code = 200 if service.is_ready else 503
        return JSONResponse({"status": status, "version": __version__}, status_code=code)

    return endpoint


def _metrics(service: PlanningService) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(_: Request) -> Response:
        gauges = service.gauges
        return PlainTextResponse(service.metrics.render(gauges), media_type="text/plain; version=0.0.4; charset=utf-8")

    return endpoint


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return problem_response(error)


async def _sentence(_: Request, error: Exception) -> Response:
    assert isinstance(error, CapplanError)
    return problem_response(refused(str(error), error.exit_code))


async def _gone(_: Request, error: Exception) -> Response:
    del error
    return Response(status_code=CLIENT_GONE)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    details: dict[int, Any] = {
        404: f"there is nothing at {request.url.path[:100]!r}; /api/v1/openapi.json lists what there is.",
        405: f"{request.method[:20]} is not answered here; see /api/v1/openapi.json.",
    }
    detail = details.get(error.status_code, str(error.detail))
    return problem_response(ProblemError(error.status_code, detail, headers=dict(error.headers or {})))


async def _bug(_: Request, error: Exception) -> Response:
    LOGGER.error("unexpected error", exc_info=(type(error), error, error.__traceback__))
    detail = "unexpected error; this is a bug in capplan: please report it with the service's log."
    return problem_response(ProblemError(500, detail, exit_code=BUG))
