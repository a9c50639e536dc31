"""The routes of the API: each reads a question, has it answered, and answers with a document or a problem."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from capplan.errors import CapplanError
from capplan.serve.http.bodies import ProblemError, content_response, read_body, refused, spooled_body, unless_gone
from capplan.serve.http.guard import body_limit
from capplan.serve.http.openapi import openapi_document
from capplan.serve.planning.data import Folders
from capplan.serve.planning.messages import MEDIA_TYPES, Refusal, Reply, Spelling, Task
from capplan.serve.questions import ResultsQuestion, question_from_json, question_from_mapping, question_from_query
from capplan.serve.service import PlanningService
from capplan.serve.sharing import BusyError
from capplan.verbs.gpus import GpuQuestion
from capplan.verbs.statement.contract import to_json
from capplan.verbs.statement.options import Door
from capplan.verbs.statement.registry import find_verb, served_verbs
from capplan.verbs.trace import TraceQuestion

QUESTIONS: dict[str, type[Any]] = {
    **{path.replace(" ", "/"): find_verb(path).question for path in served_verbs()},
    "results": ResultsQuestion,
}
"""What is asked at /api/v1/NAME, by GET with a query string or by POST with a JSON body."""

_ABOUT_WRITING = ("format", "width", "download")
_JSON_TYPES = re.compile(r"application/(?:[\w.+-]+\+)?json|application/x-www-form-urlencoded|")
"""What curl says of a body without being asked is taken for JSON, and so is a body of which nothing is said."""


def api_routes(service: PlanningService) -> list[Route]:
    """Return the routes of the API."""
    routes = [
        Route(f"/api/v1/{name}", _asking(service, kind), methods=["GET", "POST"]) for name, kind in QUESTIONS.items()
    ]
    return [
        *routes,
        Route("/api/v1/gpus/{gpu}", _one_gpu(service), methods=["GET"]),
        Route("/api/v1/traces", _traces(service), methods=["GET"]),
        Route("/api/v1/traces", _add_trace(service), methods=["POST"]),
        Route("/api/v1/models", _add_model(service), methods=["POST"]),
        Route("/api/v1/traces/{trace}", _one_trace(service), methods=["GET"]),
        Route("/api/v1/openapi.json", _openapi, methods=["GET"]),
        Route("/openapi.json", _openapi, methods=["GET"]),
    ]


Endpoint = Callable[[Request], Awaitable[Response]]


def _asking(service: PlanningService, kind: type[Any]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        pairs = request.query_params.multi_items()
        asked = [pair for pair in pairs if pair[0] not in _ABOUT_WRITING]
        if request.method == "POST":
            if asked:
                raise ProblemError(400, "a question by POST stands in its body; the query string takes `format` only.")
            question = question_from_json(kind, await read_json_body(service, request))
        else:
            question = question_from_query(kind, asked)
        return await answered(service, request, question)

    return endpoint


async def read_json_body(service: PlanningService, request: Request) -> bytes:
    """Read the JSON body of a request."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not _JSON_TYPES.fullmatch(kind):
        raise ProblemError(415, f"the body is {kind[:100]!r}; send a question as application/json.")
    return await read_body(request, limit=body_limit(request.url.path, service.settings))


async def answered(service: PlanningService, request: Request, question: Any) -> Response:
    """Answer a question in another process, and return the answer."""
    task = Task(question=question, spelling=spelling_of(request), width=_width(request))
    reply = await ask(service, request, task)
    headers = _download_headers(request, task)
    return content_response(request, reply, headers=headers)


async def ask(service: PlanningService, request: Request, task: Task) -> Reply:
    """Answer a task for a client that may disconnect meanwhile."""
    try:
        outcome = await unless_gone(request, service.answer(task))
    except BusyError as error:
        raise ProblemError(error.status, str(error), headers={"Retry-After": str(error.retry_after_s)}) from error
    if isinstance(outcome, Refusal):
        is_command = request.headers.get("capplan-door") == "command"
        door = Door.COMMAND if is_command else Door.HTTP
        raise refused(outcome.worded(task.question, door), outcome.exit_code)
    return outcome


def spelling_of(request: Request) -> Spelling:
    """Return the format asked for: by `format` in the query string, else by the Accept header, else JSON."""
    asked = request.query_params.get("format")
    if asked is not None:
        if asked not in MEDIA_TYPES:
            raise ProblemError(400, f"unknown format {asked[:100]!r}; use {', '.join(MEDIA_TYPES)}.")
        return cast("Spelling", asked)
    accepted = [kind.partition(";")[0].strip() for kind in request.headers.get("accept", "").split(",")]
    by_type = {value.partition(";")[0]: name for name, value in MEDIA_TYPES.items()}
    for kind in accepted:
        if kind in ("*/*", "application/*", "text/html"):
            break
        if kind in by_type:
            return by_type[kind]
    return "json"


def _width(request: Request) -> int:
    asked = request.query_params.get("width", "100")
    return min(max(int(asked), 40), 400) if asked.isascii() and asked.isdigit() and len(asked) < 5 else 100


def _download_headers(request: Request, task: Task) -> dict[str, str]:
    """Return the headers of a file that browsers keep: named by what is asked and of which model."""
    if task.spelling not in ("html", "pdf", "xlsx") and "download" not in request.query_params:
        return {}
    asked = request.url.path.removeprefix("/api/v1/").strip("/")
    about = getattr(task.question, "model", None) or getattr(task.question, "ask", None) or ""
    words = re.sub(r"[^A-Za-z0-9._-]+", "-", f"capplan-{asked}-{about}")[:100].strip("-.")
    extension = "txt" if task.spelling == "table" else task.spelling
    return {
        "Content-Disposition": f'attachment; filename="{words}.{extension}"',
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }


def _one_gpu(service: PlanningService) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        question = question_from_mapping(GpuQuestion, {"gpu": request.path_params["gpu"]})
        try:
            return await answered(service, request, question)
        except ProblemError as error:
            if error.exit_code == CapplanError.exit_code and error.detail.startswith("unknown GPU"):
                raise ProblemError(404, error.detail, exit_code=error.exit_code) from error
            raise

    return endpoint


def _traces(service: PlanningService) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        document = {"schema_version": 1, "traces": await asyncio.to_thread(service.uploads.all)}
        return content_response(request, _json_reply(document))

    return endpoint


def _add_trace(service: PlanningService) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        content = await read_body(request, limit=body_limit(request.url.path, service.settings))
        head = content[:4096].lstrip()
        if not head.startswith(b"{") or b'"format"' in head[:200]:  # a trace, and not a question that asks for one
            try:
                kept = await asyncio.to_thread(service.uploads.keep, content)
            except CapplanError as error:
                raise refused(str(error), error.exit_code) from error
            return _created(request, kept)
        question = question_from_json(TraceQuestion, content)
        reply = await ask(service, request, Task(question=question))
        return _created(request, await asyncio.to_thread(service.uploads.keep, reply.content))

    return endpoint


def _add_model(service: PlanningService) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        return content_response(request, _json_reply(await keep_own(service, request)), status=201)

    return endpoint


_UPLOADED_IN_S = 10
"""When it is worth handing over a file again. [s]"""


async def keep_own(service: PlanningService, request: Request) -> dict[str, Any]:
    """Keep the file that a body holds, and return the words that name its model."""
    limits, folder = service.settings.limits, Folders(state=service.settings.state).spool
    if service.uploading.locked():
        said = f"{limits.uploads} files of models arrive already; ask again in {_UPLOADED_IN_S} s."
        raise ProblemError(429, said, headers={"Retry-After": str(_UPLOADED_IN_S)})
    async with service.uploading, spooled_body(request, limit=limits.model_bytes, folder=folder) as path:
        try:
            return await asyncio.to_thread(service.keep_own, path, name=request.query_params.get("name", "")[:200])
        except CapplanError as error:
            raise refused(str(error), error.exit_code) from error


def _created(request: Request, kept: dict[str, Any]) -> Response:
    headers = {"Location": f"/api/v1/traces/{kept['id']}"}
    return content_response(request, _json_reply(kept), status=201, headers=headers)


def _one_trace(service: PlanningService) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        content = await asyncio.to_thread(service.uploads.content, request.path_params["trace"])
        if content is None:
            raise ProblemError(404, "there is no trace of this id here; GET /api/v1/traces lists what was uploaded.")
        return content_response(request, Reply(content=content, media_type=MEDIA_TYPES["json"]))

    return endpoint


def _json_reply(document: dict[str, Any]) -> Reply:
    return Reply(content=to_json(document).encode(), media_type=MEDIA_TYPES["json"])


async def _openapi(request: Request) -> Response:
    del request
    return JSONResponse(openapi_document())
