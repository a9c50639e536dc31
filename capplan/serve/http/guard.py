"""What every request passes: checks of Host, Origin and token; a bound on its body; headers, a log line, counters."""

import ipaddress
import socket
import time
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from capplan.serve.http.access import Access, client_of
from capplan.serve.http.bodies import ProblemError, problem_response
from capplan.serve.metrics import Metrics, log
from capplan.serve.settings import Settings, is_loopback

OPEN_PATHS = ("/healthz", "/login", "/static/")
"""Paths that need no token: whether the service lives, and how to hand the token in."""
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, *, settings: Settings, metrics: Metrics, access: Access | None) -> None:
        """Store the application that is guarded."""
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._access = access
        names = {"localhost", "127.0.0.1", "[::1]", settings.host.lower(), *(host.lower() for host in settings.hosts)}
        if not is_loopback(settings.host):
            names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        self._names = frozenset(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, and hand it on or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        request_id = uuid.uuid4().hex[:16]
        sent: dict[str, int] = {"status": 500, "bytes": 0}

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent["status"] = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                headers["X-Request-Id"] = request_id
            elif message["type"] == "http.response.body":
                sent["bytes"] += len(message.get("body", b""))
            await send(message)

        try:
            await self._passed(scope, receive, send_counted)
        finally:
            elapsed_s = time.monotonic() - started
            # the pattern of the route that answered: a path may hold names of models
            route = str(getattr(scope.get("route"), "path", "unknown"))
            self._metrics.observe_request(
                route=route, method=_method(scope), status=sent["status"], elapsed_s=elapsed_s
            )
            log(
                "request",
                id=request_id,
                method=_method(scope),
                route=route,
                status=sent["status"],
                seconds=round(elapsed_s, 4),
                bytes=sent["bytes"],
                client=client_of(scope.get("client")),
            )

    async def _passed(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        try:
            self._check_source(headers)
            self._check_framing(headers)
            self._check_length(scope, headers)
            refusal = await self._check_token(scope, headers)
        except ProblemError as error:
            self._metrics.count("capplan_refused_total", reason=str(error.status))
            refusal = problem_response(error)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check_source(self, headers: Headers) -> None:
        """Refuse a name that is not this service's, and pages of other origins."""
        host = headers.get("host", "")
        if not self._is_own(host):
            raise ProblemError(
                403,
                f"the host {host[:100]!r} is not a name of this service; start it with --allow-host NAME for others.",
            )
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            raise ProblemError(
                403, f"the origin {origin[:100]!r} is not this service's; pages of others may not ask here."
            )
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and headers.get("sec-fetch-mode") != "navigate":
            raise ProblemError(403, "pages of other sites may not ask here.")

    def _is_own(self, host: str) -> bool:
        name, colon, port = host.lower().rpartition(":")
        if not (colon and port.isdigit()):
            name = host.lower()
        return name in self._names or (not is_loopback(self._settings.host) and _is_address(name))

    def _check_framing(self, headers: Headers) -> None:
        """Refuse a request that states its length in two ways: a proxy in front may go by the other one."""
        if "content-length" in headers and "transfer-encoding" in headers:
            raise ProblemError(
                400,
                "a request has either Content-Length or Transfer-Encoding, not both.",
                headers={"Connection": "close"},
            )

    def _check_length(self, scope: Scope, headers: Headers) -> None:
        """Refuse a body that says to be longer than what is read; `read_body` counts what comes without saying."""
        limit = body_limit(scope["path"], self._settings)
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or int(length[:18]) > limit:
            raise ProblemError(413, f"the body is longer than {limit:,} bytes, the most that is read here.")

    async def _check_token(self, scope: Scope, headers: Headers) -> Response | None:
        path = scope["path"]
        if self._access is None or path == OPEN_PATHS[0] or path.startswith(OPEN_PATHS[1:]):
            return None
        if await self._access.admits_request(headers, client=client_of(scope.get("client"))):
            return None
        if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            return RedirectResponse("/login", status_code=303)
        raise ProblemError(
            401,
            "a token is needed: send `Authorization: Bearer TOKEN` with the content of the service's token file.",
            headers={"WWW-Authenticate": "Bearer"},
        )


def body_limit(path: str, settings: Settings) -> int:
    """Return the largest body that is read at a path. [bytes]"""
    limits = settings.limits
    own = {"/api/v1/traces": limits.upload_bytes, "/api/v1/models": limits.model_bytes, "/own": limits.model_bytes}
    return own.get(path, limits.question_bytes)


def _is_address(name: str) -> bool:
    """Return True for an address: only a name can be made to point to another machine."""
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _method(scope: Scope) -> str:
    method = str(scope["method"])
    return method if method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH") else "other"
