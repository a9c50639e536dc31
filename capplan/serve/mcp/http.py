"""The Model Context Protocol over streamable HTTP, as routes of the service, which stand behind its guard."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from capplan.serve.mcp.server import make_server
from capplan.serve.service import PlanningService

WHOLE, TEXT_ONLY = "/mcp", "/mcp/text"
"""Where tools answer with the document besides their text, and with their text alone."""


class McpEndpoints:
    """The endpoints of assistants. They keep nothing of a client from one request to the next."""

    def __init__(self, service: PlanningService) -> None:
        """Prepare the endpoints; `running` must surround their use.

        Args:
            service: what answers.
        """

        async def answering() -> PlanningService:
            return service

        self._managers = {
            path: StreamableHTTPSessionManager(
                make_server(answering, is_text_only=is_text_only),
                json_response=True,
                stateless=True,
                max_request_body_size=service.settings.limits.question_bytes,
            )
            for path, is_text_only in ((WHOLE, False), (TEXT_ONLY, True))
        }

    @property
    def routes(self) -> list[Route]:
        """Return the routes of the endpoints."""
        return [
            Route(path, _Endpoint(manager), methods=["GET", "POST", "DELETE"])
            for path, manager in self._managers.items()
        ]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer while the block runs."""
        async with AsyncExitStack() as stack:
            for manager in self._managers.values():
                await stack.enter_async_context(manager.run())
            yield


class _Endpoint:
    """An ASGI application; a class, because Starlette takes a function for one of requests and responses."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)
