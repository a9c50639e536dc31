"""The routes of the page: the form with its answer, the answer alone, suggestions, and what users hand over."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from functools import cache
from importlib.resources import files
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from capplan.errors import CapplanError
from capplan.serve.http.api import ask
from capplan.serve.http.bodies import content_response, read_body
from capplan.serve.http.guard import COOKIE
from capplan.serve.http.problems import ProblemError, refused
from capplan.serve.page.question import PageQuestion
from capplan.serve.page.render import render_page, render_template
from capplan.serve.planning.replies import Refusal, Reply, Task
from capplan.serve.questions.llm import LlmPageQuestion
from capplan.serve.questions.read import question_from_query
from capplan.serve.service import Service
from capplan.serve.suggestions import suggest
from capplan.serve.tracing.queue import BusyError
from capplan.specs.llm.catalogue import catalogue_ids

FIRST_ANSWER_S = 1.5
"""How long the page waits for its first answer before it is sent without, for the script to fetch."""
STATIC_TYPES = {"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}
Endpoint = Callable[[Request], Awaitable[Response]]


def page_routes(service: Service) -> list[Route]:
    """Return the routes of the page."""
    return [
        Route("/", _page(service), methods=["GET"]),
        Route("/answer", _answer(service), methods=["GET"]),
        Route("/llm", _llm_page(service), methods=["GET"]),
        Route("/llm/answer", _llm_answer(service), methods=["GET"]),
        Route("/suggest", _suggest(service), methods=["GET"]),
        Route("/own", _own(service), methods=["POST"]),
        Route("/login", _login(service), methods=["GET", "POST"]),
        Route("/static/{name}", _static, methods=["GET"]),
    ]


def _page(service: Service) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        try:
            question = question_from_query(PageQuestion, request.query_params.multi_items())
        except CapplanError as error:
            content = render_page(PageQuestion(), answer=None, error=str(error))
            return HTMLResponse(content, status_code=400)
        if not question.models:
            return HTMLResponse(render_page(question, answer=None))
        answer, reason = await _first_answer(service, question)
        content = render_page(question, answer=answer, error=reason, is_pending=not (answer or reason))
        return HTMLResponse(content, headers={"Cache-Control": "private, no-cache"})

    return endpoint


async def _first_answer(service: Service, question: PageQuestion | LlmPageQuestion) -> tuple[str | None, str]:
    """Return the answer, if it comes soon, and the sentence that says why there is none."""
    try:
        async with asyncio.timeout(FIRST_ANSWER_S):
            outcome = await service.answer(Task(question=question, spelling="html"))
    except TimeoutError:
        return None, ""
    except BusyError as error:
        return None, str(error)
    return (None, outcome.message) if isinstance(outcome, Refusal) else (outcome.content.decode(), "")


def _answer(service: Service) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        try:
            question = question_from_query(PageQuestion, request.query_params.multi_items())
            if not question.models:
                return HTMLResponse(render_template("start.html.j2"))
            reply = await ask(service, request, Task(question=question, spelling="html"))
        except CapplanError as error:
            return _said(str(error), 400)
        except ProblemError as error:
            return _said(error.detail, error.status)
        return content_response(request, reply)

    return endpoint


def _llm_page(service: Service) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        answer, reason, status = None, "", 200
        question = LlmPageQuestion()
        try:
            question = question_from_query(LlmPageQuestion, request.query_params.multi_items())
            if question.model:
                answer, reason = await _first_answer(service, question)
        except CapplanError as error:
            reason, status = str(error), 400
        is_pending = bool(question.model) and not (answer or reason)
        content = render_template(
            "llm.html.j2", q=question, answer=answer, error=reason, is_pending=is_pending, llms=catalogue_ids()
        )
        return HTMLResponse(content, status_code=status, headers={"Cache-Control": "private, no-cache"})

    return endpoint


def _llm_answer(service: Service) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        try:
            question = question_from_query(LlmPageQuestion, request.query_params.multi_items())
            if not question.model:
                return HTMLResponse("")
            reply = await ask(service, request, Task(question=question, spelling="html"))
        except CapplanError as error:
            return _said(str(error), 400)
        except ProblemError as error:
            return _said(error.detail, error.status)
        return content_response(request, reply)

    return endpoint


def _said(sentence: str, status: int) -> Response:
    return HTMLResponse(render_template("error.html.j2", error=sentence), status_code=status)


def _suggest(service: Service) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        words = request.query_params.get("q", "")[:200]
        found = await asyncio.to_thread(suggest, words, service.settings, service.uploads.all())
        return JSONResponse(found, headers={"Cache-Control": "private, max-age=60"})

    return endpoint


def _own(service: Service) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        content = await read_body(request, limit=service.settings.limits.upload_bytes)
        try:
            kept = await asyncio.to_thread(service.keep_own, content)
        except CapplanError as error:
            raise refused(str(error), error.exit_code) from error
        return JSONResponse(kept, status_code=201)

    return endpoint


def _login(service: Service) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        if request.method == "GET":
            return HTMLResponse(render_template("login.html.j2", error=""))
        form = parse_qs((await read_body(request, limit=10_000)).decode("ascii", "replace"))
        given, token = "".join(form.get("token", [""])), service.settings.token
        if token is None or not hmac.compare_digest(given.strip().encode(), token.encode()):
            return HTMLResponse(render_template("login.html.j2", error="That is not the token."), status_code=401)
        response = RedirectResponse("/", status_code=303)
        response.set_cookie(COOKIE, token, httponly=True, samesite="strict", max_age=30 * 86_400)
        return response

    return endpoint


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in STATIC_TYPES:
        raise ProblemError(404, "there is no such file.")
    content = _static_content(name)
    reply = Reply(content=content, media_type=STATIC_TYPES[name])
    return content_response(request, reply)


@cache
def _static_content(name: str) -> bytes:
    return (files("capplan.serve.page") / "static" / name).read_bytes()
