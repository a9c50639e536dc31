"""The ASGI application: routes, what errors become, and what starts and ends with it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from capplan.errors import CapplanError
from capplan.serve.http.api import api_routes
from capplan.serve.http.bodies import GoneError
from capplan.serve.http.guard import Guard
from capplan.serve.http.pages import page_routes
from capplan.serve.http.problems import ProblemError, problem_response, refused
from capplan.serve.logs import LOGGER
from capplan.serve.service import PlanningService
from capplan.serve.settings import Settings
from capplan.version import __version__

if TYPE_CHECKING:
    from capplan.serve.mcp.http import McpEndpoints

CLIENT_GONE = 499
"""The status of a request whose client went away; nobody receives it, but logs and counters hold it."""


def make_application(settings: Settings, *, ready: Callable[[], None] = lambda: None) -> Starlette:
    """Return the application.

    Args:
        settings: how the service runs.
        ready: called once questions can be answered.
    """
    service = PlanningService(settings)
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
            *page_routes(service),
            *api_routes(service),
            *([] if assistants is None else assistants.routes),
            Route("/healthz", _health(service), methods=["GET"]),
            Route("/metrics", _metrics(service), methods=["GET"]),
        ],
        middleware=[
            Middleware(Guard, settings=settings, metrics=service.metrics),
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
    from capplan.serve.mcp.http import McpEndpoints

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
    return problem_response(ProblemError(500, detail, exit_code=70))
