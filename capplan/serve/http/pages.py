"""The routes of the page: the form with its answer, the answer alone, suggestions, and what users hand over."""

import asyncio
import importlib.util
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from capplan.errors import CapplanError
from capplan.llm.read.catalogue import catalogue_ids
from capplan.probe.target.names import source_names
from capplan.serve.http.access import COOKIE, COOKIE_S, Access, client_of, is_over_tls
from capplan.serve.http.api import ask, keep_own
from capplan.serve.http.bodies import ProblemError, content_response, read_body
from capplan.serve.http.openapi import operation_rows
from capplan.serve.page.question import PLAN_FORM, SERVING_FORM
from capplan.serve.page.render import render_page, render_template
from capplan.serve.page.verb_page import VERB_PAGES, read_verb_page, verb_forms
from capplan.serve.planning.data import Data
from capplan.serve.planning.messages import Refusal, Reply, Task
from capplan.serve.questions import CannedName, ResultsQuestion, question_from_query
from capplan.serve.service import PlanningService
from capplan.serve.settings import Settings
from capplan.serve.sharing import BusyError
from capplan.verbs.llm.fields import ENGINES
from capplan.wording import WordOf, option_of, worded

FIRST_ANSWER_S = 1.5
"""How long the page waits for its first answer before it is sent without, for the script to fetch."""
STATIC_TYPES = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "answer.js": "text/javascript; charset=utf-8",
}
Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _FormPage:
    """A page with a form.

    Attributes:
        address: Its path.
        read: Reads the state of the form from a query string.
        is_asked: Whether there is anything to answer yet.
        render: Renders the page from the state, with what is known of its answer.
        start: Renders what stands in the place of an answer where nothing is asked.
        word_of: What errors call fields.
    """

    address: str
    read: Callable[[list[tuple[str, str]]], Any]
    is_asked: Callable[[Any], bool]
    render: Callable[..., str]
    start: Callable[[], str] = str
    word_of: WordOf = option_of


def page_routes(service: PlanningService, *, access: Access | None) -> list[Route]:
    """Return the routes of the page."""
    forms: tuple[_FormPage, ...] = (
        _FormPage(
            address="/",
            read=PLAN_FORM.read,
            is_asked=lambda question: bool(question.models),
            render=render_page,
            start=partial(render_template, "start.html.j2"),
            word_of=PLAN_FORM.word_of,
        ),
        _FormPage(
            address="/llm",
            read=SERVING_FORM.read,
            is_asked=lambda question: "model" in question.options,
            render=partial(render_template, "llm.html.j2", form=SERVING_FORM, llms=catalogue_ids(), engines=ENGINES),
            word_of=SERVING_FORM.word_of,
        ),
        _FormPage(
            address="/results",
            read=partial(question_from_query, ResultsQuestion),
            is_asked=lambda _: True,
            render=partial(render_template, "results.html.j2", asks=get_args(CannedName)),
        ),
    )
    forms += tuple(
        _FormPage(
            address=VERB_PAGES + path.replace(" ", "-"),
            read=partial(read_verb_page, path),
            is_asked=lambda question: question.is_asked,
            render=partial(render_template, "verb.html.j2", form=form, llms=catalogue_ids(), engines=ENGINES),
            word_of=form.word_of,
        )
        for path, form in verb_forms().items()
    )
    return [
        *(Route(form.address, _form_page(service, form), methods=["GET"]) for form in forms),
        *(Route(f"{form.address.rstrip('/')}/answer", _form_answer(service, form), methods=["GET"]) for form in forms),
        Route("/suggest", _suggest(service), methods=["GET"]),
        Route("/api", _api(service), methods=["GET"]),
        Route(VERB_PAGES.rstrip("/"), _questions(service), methods=["GET"]),
        Route("/own", _own(service), methods=["POST"]),
        Route("/login", _login(access), methods=["GET", "POST"]),
        Route("/static/{name}", _static, methods=["GET"]),
    ]


_MOST_FIELDS = 50
"""Fields of a refused address that its form keeps; it has some thirty."""


def _readable(read: Callable[[list[tuple[str, str]]], Any], pairs: Sequence[tuple[str, str]]) -> Any:
    """Return the state of a form without the fields that cannot be read, so that a typing error empties one field."""
    kept: list[tuple[str, str]] = []
    for pair in pairs[:_MOST_FIELDS]:
        with suppress(CapplanError):
            read([*kept, pair])
            kept.append(pair)
    return read(kept)


async def _first_answer(service: PlanningService, question: Any) -> tuple[str | None, str]:
    """Return the answer, if it comes soon, and the sentence that says why there is none.

    A question that takes longer is worked out nevertheless, so that a page without its script finds the answer when it
    is loaded again.
    """
    task = Task(question=question, spelling="html")
    try:
        async with asyncio.timeout(FIRST_ANSWER_S):
            outcome = await service.answer(task)
    except TimeoutError:
        service.answer_later(task)
        return None, ""
    except BusyError as error:
        return None, str(error)
    return (None, outcome.message) if isinstance(outcome, Refusal) else (outcome.content.decode(), "")


def _form_page(service: PlanningService, form: _FormPage) -> Endpoint:
    has_results = service.settings.results is not None

    async def endpoint(request: Request) -> Response:
        answer, reason, status, is_pending = None, "", 200, False
        pairs = request.query_params.multi_items()
        try:
            question = form.read(pairs)
        except CapplanError as error:
            question, reason, status = _readable(form.read, pairs), str(error), 400
        if status == 200 and form.is_asked(question):
            answer, reason = await _first_answer(service, question)
            is_pending = not (answer or reason)
        content = form.render(
            q=question,
            address=form.address,
            answer=answer,
            error=worded(reason, form.word_of),
            is_pending=is_pending,
            has_results=has_results,
        )
        return HTMLResponse(content, status_code=status, headers={"Cache-Control": "private, no-cache"})

    return endpoint


def _form_answer(service: PlanningService, form: _FormPage) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        try:
            question = form.read(request.query_params.multi_items())
            if not form.is_asked(question):
                return HTMLResponse(form.start())
            reply = await ask(service, request, Task(question=question, spelling="html"))
        except CapplanError as error:
            return _said(worded(str(error), form.word_of), 400)
        except ProblemError as error:
            return _said(error.detail, error.status)
        return content_response(request, reply)

    return endpoint


def _said(sentence: str, status: int) -> Response:
    return HTMLResponse(render_template("error.html.j2", error=sentence), status_code=status)


def _api(service: PlanningService) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        has_results = service.settings.results is not None
        address = str(request.base_url).rstrip("/")
        content = render_template("api.html.j2", operations=operation_rows(), has_results=has_results, address=address)
        return HTMLResponse(content, headers={"Cache-Control": "private, no-cache"})

    return endpoint


def _questions(service: PlanningService) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        del request
        has_results = service.settings.results is not None
        content = render_template("ask.html.j2", forms=verb_forms(), place=VERB_PAGES, has_results=has_results)
        return HTMLResponse(content, headers={"Cache-Control": "private, no-cache"})

    return endpoint


def _suggest(service: PlanningService) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        words = request.query_params.get("q", "")[:200]
        found = await asyncio.to_thread(lambda: suggest(words, service.settings, service.uploads.all()))
        return JSONResponse(found, headers={"Cache-Control": "private, max-age=60"})

    return endpoint


def _own(service: PlanningService) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        return JSONResponse(await keep_own(service, request), status_code=201)

    return endpoint


def _login(access: Access | None) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        if request.method == "GET":
            return HTMLResponse(render_template("login.html.j2", error=""))
        form = parse_qs((await read_body(request, limit=10_000)).decode("ascii", "replace"))
        given = "".join(form.get("token", [""])).strip()
        if access is None or not await access.admits(given, client=client_of(request.scope.get("client"))):
            return HTMLResponse(render_template("login.html.j2", error="That is not the token."), status_code=401)
        response = RedirectResponse("/", status_code=303)
        is_secure = is_over_tls(request.url.scheme, request.headers)
        response.set_cookie(
            COOKIE, access.cookie(), httponly=True, samesite="strict", max_age=COOKIE_S, secure=is_secure
        )
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


MOST_SUGGESTED = 40
_COMMON = (
    "torchvision:resnet50",
    "torchvision:mobilenet_v3_large",
    "torchvision:efficientnet_b0",
    "timm:vit_base_patch16_224",
    "timm:convnext_tiny",
    "timm:swin_tiny_patch4_window7_224",
    "hf:bert",
    "hf:gpt2",
    "hf:vit",
    "hf:whisper",
)


def suggest(words: str, settings: Settings, uploads: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return models whose names hold the words, the shortest first, and all GPUs and providers."""
    own = [{"value": upload["model"], "label": f"{upload['name']} (a saved trace)"} for upload in uploads]
    if not words.strip():
        gpus, providers = _lists(settings)
        models = [{"value": name, "label": name} for name in _COMMON]
        return {"models": [*own, *models], "gpus": gpus, "providers": providers}
    folded = words.strip().lower()
    names = [name for name in _all_models() if _squeeze(folded) in _squeeze(name)]
    names.sort(key=lambda name: (not name.partition(":")[2].startswith(folded.rpartition(":")[2]), len(name), name))
    named = [{"value": name, "label": name} for name in names[:MOST_SUGGESTED]]
    return {"models": [*(trace for trace in own if folded in str(trace).lower()), *named]}


def _squeeze(name: str) -> str:
    return re.sub(r"[^a-z0-9:]", "", name.lower())


@cache
def _all_models() -> tuple[str, ...]:
    named = [f"{library}:{name}" for library in ("torchvision", "timm") for name in sorted(source_names(library))]
    return (*named, *(f"hf:{name}" for name in architectures()))


@cache
def architectures() -> tuple[str, ...]:
    """Return the architectures of transformers, read from its sources: importing it takes seconds."""
    spec = importlib.util.find_spec("transformers")
    if spec is None or spec.origin is None:
        return ()
    folder = Path(spec.origin).parent / "models" / "auto"
    sources = [path.read_text(encoding="utf-8") for path in folder.glob("*.py") if "mapping" in path.name]
    sources.append((folder / "configuration_auto.py").read_text(encoding="utf-8"))
    blocks = (re.findall(r"CONFIG_MAPPING_NAMES\b[^=]*= OrderedDict.*?\n\)", source, re.DOTALL) for source in sources)
    names = (re.findall(r'\(\s*"([\w.-]+)",\s*"\w+Config"', block) for held in blocks for block in held)
    return tuple(sorted({name for listed in names for name in listed}))


@cache
def _lists(settings: Settings) -> tuple[list[str], list[str]]:
    data = Data(settings)
    return sorted(data.gpus), sorted({price.provider for price in data.prices.hourly})
