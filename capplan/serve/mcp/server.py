"""The server of the Model Context Protocol: over stdio, and over HTTP behind the service's guard."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import mcp_types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from capplan.errors import CapplanError, UnknownNameError
from capplan.serve.mcp.resources import filled_prompt, prompts, read_resource, resources, templates
from capplan.serve.mcp.tools import ASK, asked_by_tool, call_tool, tools
from capplan.serve.service import PlanningService
from capplan.serve.settings import Settings
from capplan.serve.sharing import BusyError
from capplan.version import __version__

INSTRUCTIONS = (
    "capplan predicts, without a GPU, how much memory and time a PyTorch model takes on the GPUs of its database and "
    "what that costs, and plans the serving of language models. Call `plan` for which GPU fits a model, `memory` and "
    "`estimate` for some GPUs, `llm_plan` to serve a language model, `plan` with `train` for training, `ask` for what "
    "has no tool of its own. Answers begin with the verdict and are short; the resource that they name holds all. "
    "Every figure is a bound, an estimate with an interval, or a measurement: keep that word when you repeat it."
)


Answering = Callable[[], Awaitable[PlanningService]]
"""Returns the service that answers, once it is started."""


class Started:
    """A service whose processes start with the first question, so that a client that never asks costs nothing."""

    def __init__(self, settings: Settings) -> None:
        """Prepare the service."""
        self._service = PlanningService(settings)
        self._starting = asyncio.Lock()
        self._is_started = False

    async def service(self) -> PlanningService:
        """Return the service, started."""
        async with self._starting:
            if not self._is_started:
                await self._service.start()
                self._is_started = True
        return self._service

    async def stop(self) -> None:
        """End its processes, if there are any."""
        if self._is_started:
            await self._service.stop()


def make_server(answering: Answering, *, is_text_only: bool = False) -> Server[Any]:
    """Return a server."""
    listed = mcp_types.ListToolsResult(tools=tools())

    async def list_tools(_context: Any, _params: Any) -> mcp_types.ListToolsResult:
        return listed

    async def call(context: Any, params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        if params.name != ASK and params.name not in asked_by_tool():
            raise _invalid(UnknownNameError("tool", params.name[:100], (ASK, *asked_by_tool())))
        place = None if context.request is None else str(context.request.base_url)
        return await call_tool(
            await answering(), params.name, params.arguments or {}, is_text_only=is_text_only, address=place
        )

    async def list_resources(_context: Any, _params: Any) -> mcp_types.ListResourcesResult:
        return mcp_types.ListResourcesResult(resources=resources())

    async def list_templates(_context: Any, _params: Any) -> mcp_types.ListResourceTemplatesResult:
        return mcp_types.ListResourceTemplatesResult(resource_templates=templates())

    async def read(_context: Any, params: mcp_types.ReadResourceRequestParams) -> mcp_types.ReadResourceResult:
        try:
            return await read_resource(answering, str(params.uri))
        except (CapplanError, BusyError) as error:
            raise _invalid(error) from error

    async def list_prompts(_context: Any, _params: Any) -> mcp_types.ListPromptsResult:
        return mcp_types.ListPromptsResult(prompts=prompts())

    async def get_prompt(_context: Any, params: mcp_types.GetPromptRequestParams) -> mcp_types.GetPromptResult:
        try:
            return filled_prompt(params.name, params.arguments or {})
        except CapplanError as error:
            raise _invalid(error) from error

    return Server(
        "capplan",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )


def _invalid(error: Exception) -> MCPError:
    return MCPError(mcp_types.INVALID_PARAMS, str(error))


def run_stdio(settings: Settings, *, is_text_only: bool = False) -> None:
    """Serve one client over standard input and output until it closes them."""
    asyncio.run(_served(Started(settings), is_text_only=is_text_only))


async def _served(started: Started, *, is_text_only: bool) -> None:
    server = make_server(started.service, is_text_only=is_text_only)

    async def end(status: int) -> None:
        await started.stop()
        os._exit(status)  # the thread that waits for the client's next line cannot be interrupted

    ending: list[asyncio.Task[None]] = []

    def begin_to_end(status: int) -> None:
        ending.append(asyncio.ensure_future(end(status)))

    for sent in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows has no handlers in the loop
            asyncio.get_running_loop().add_signal_handler(sent, begin_to_end, 128 + sent)
    # inside, descriptors 0 and 1 are not the client's, so that nothing that a worker prints is taken for a message
    try:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    finally:
        await started.stop()


WHOLE, TEXT_ONLY = "/mcp", "/mcp/text"
"""Where tools answer with the document besides their text, and with their text alone."""


class McpEndpoints:
    """The endpoints of assistants. They keep nothing of a client from one request to the next."""

    def __init__(self, service: PlanningService) -> None:
        """Prepare the endpoints; `running` must surround their use."""

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
