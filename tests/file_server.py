"""A server of files on this machine that behaves as servers do, well and badly; `server` is a fixture."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from capplan.specs.providers import load_providers

Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Answers from a table of functions by path, and keeps what it was asked."""

    answers: ClassVar[dict[str, Answer]] = {}
    asked: ClassVar[list[tuple[str, dict[str, str], bytes]]] = []
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.asked.append((self.path, dict(self.headers), body))
        self.answers.get(self.path.partition("?")[0], status(404))(self)

    do_POST = do_GET  # noqa: N815 - the name of the standard library

    def log_message(self, format: str, *args: object) -> None:
        return

    def send(self, body: bytes, *, code: int = 200, length: int | None = None, **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)


def text(body: str | bytes, **headers: str) -> Answer:
    content = body.encode() if isinstance(body, str) else body
    return lambda handler: handler.send(content, **headers)


def status(code: int, **headers: str) -> Answer:
    return lambda handler: handler.send(b"", code=code, **headers)


def in_turn(*answers: Answer) -> Answer:
    left = list(answers)

    def answer(handler: Handler) -> None:
        following = left.pop(0) if len(left) > 1 else left[0]
        following(handler)

    return answer


def cut(body: bytes) -> Answer:
    def answer(handler: Handler) -> None:
        handler.send(body, length=len(body) * 2)
        handler.close_connection = True

    return answer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.delenv("CAPPLAN_PRICES", raising=False)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    Handler.answers, Handler.asked = {}, []
    held = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=held.serve_forever, daemon=True)
    thread.start()
    load_providers.cache_clear()
    yield f"http://127.0.0.1:{held.server_port}"
    load_providers.cache_clear()
    held.shutdown()
    held.server_close()
    thread.join()
