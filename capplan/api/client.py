"""Ask a service that `capplan serve` runs: the documents of the command line, over HTTP.

Only the standard library is needed on this side.
"""

import json
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from capplan.api.served import ServedVerbs
from capplan.errors import CapplanError, MeasurementError, TraceError, UsageError

if TYPE_CHECKING:
    from urllib.error import HTTPError
    from urllib.request import Request

    from capplan.core.trace.types import Trace

MOST_KEPT = 64
LONGEST_WAIT_S = 120.0
_COME_AGAIN, _NOT_CHANGED = frozenset({429, 503}), 304
_ERRORS: Mapping[int, type[CapplanError]] = {3: TraceError, 4: MeasurementError}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceReply:
    """What a service answered.

    Attributes:
        exit_code: What the command line would exit with: 1 where nothing fits.
        warning: What the command line would print beside the answer.
    """

    content: bytes
    etag: str = ""
    exit_code: int = 0
    warning: str = ""


class Client(ServedVerbs):
    """A service at an address.

    It has a method for each verb that services answer (`plan`, `memory`, `llm_plan`, ...), which takes the options of
    `capplan.plan` and its like, and returns the document that `--format json` prints; with another format, such as
    `format="pdf"` of a report, the content of the file. A trace in the place of a model's name is uploaded.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout_s: float = 600.0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Store the address of a service; nothing is sent yet."""
        from urllib.parse import urlsplit

        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a port that is not a number, or half of an IPv6 address
            is_address = False
        if not is_address:
            raise UsageError(f"{url!r} is not the address of a service; write http://HOST:PORT.")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._token = token
        self._timeout_s = timeout_s
        self._headers = dict(headers or {})
        self._kept: OrderedDict[str, ServiceReply] = OrderedDict()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def trace(self, model: "str | None" = None, **question: Any) -> bytes:
        """Have the service trace a model, and return the content of the trace file.

        Args:
            model: its name; None where `config` is given.
            **question: the options of `capplan.trace`, such as `precision="fp16"`, `inputs=["x=3x224x224"]`.

        Raises:
            CapplanError: the service refuses the question, or the model cannot be traced.
        """
        body = json.dumps({**({} if model is None else {"model": model}), **question}).encode()
        kept = self._send("POST", "/api/v1/traces", body, {"Content-Type": "application/json"})
        return self.get(f"/api/v1/traces/{json.loads(kept.content)['id']}").content

    def results(self, **question: Any) -> Any:
        """Return rows of the sweep that the service offers (`ask="cheapest"`, `model`, `gpu`, `limit`).

        Raises:
            CapplanError: it offers none, or refuses the question.
        """
        return json.loads(self.ask("results", question).content)["rows"]

    def gpu(self, name: str) -> Any:
        """Return every value of one GPU, with its source."""
        return json.loads(self.get(f"/api/v1/gpus/{quote(name, safe='')}").content)

    def traces(self) -> Any:
        """Return the traces that were uploaded."""
        return json.loads(self.get("/api/v1/traces").content)["traces"]

    def upload(self, trace: "str | Path | bytes | Trace") -> str:
        """Upload a trace, and return the words that name it as a model.

        Args:
            trace: a trace file, its content, or a `Trace`.

        Raises:
            CapplanError: the file cannot be read, or the service refuses it.
        """
        kept = self._send("POST", "/api/v1/traces", _content(trace), {"Content-Type": "application/octet-stream"})
        return str(json.loads(kept.content)["model"])

    def upload_model(self, path: "str | Path") -> str:
        """Upload an ONNX or `.pt2` file without its weights, and return the words that name it as a model.

        Args:
            path: the file.

        Raises:
            CapplanError: the file cannot be read, or the service refuses it.
        """
        from capplan.probe.onnx.skeleton import read_skeleton
        from capplan.probe.target.sources.exported import without_weights

        found = Path(path)
        content = read_skeleton(found) if found.suffix == ".onnx" else without_weights(found)
        address = f"/api/v1/models?name={quote(found.name, safe='')}"
        kept = self._send("POST", address, content, {"Content-Type": "application/octet-stream"})
        return str(json.loads(kept.content)["model"])

    def health(self) -> Any:
        """Return whether the service answers, and its version."""
        return json.loads(self.get("/healthz").content)

    def ask(self, name: str, question: Mapping[str, Any], *, spelling: str = "json", width: int = 100) -> ServiceReply:
        """Return the answer to a question as it was sent.

        Args:
            name: what is asked: plan, memory, estimate, report, gpus, prices, results, or llm/plan and its like.
            question: its fields.
            spelling: the format of the answer.
            width: characters in a line of a table.

        Raises:
            CapplanError: the service refuses the question, or cannot be reached.
        """
        body = json.dumps(question).encode()
        path = f"/api/v1/{name}?format={spelling}" + (f"&width={width}" if spelling == "table" else "")
        return self._send("POST", path, body, {"Content-Type": "application/json"})

    def get(self, path: str) -> ServiceReply:
        """Return what lies at a path of the service.

        Raises:
            CapplanError: the service refuses the request, or cannot be reached.
        """
        return self._send("GET", path, None, {})

    def _send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> ServiceReply:
        from urllib.request import Request

        key = json.dumps([method, path, body.decode("latin-1") if body else ""])
        kept = self._kept.get(key)
        given = {**self._headers, **headers, **({"If-None-Match": kept.etag} if kept and kept.etag else {})}
        if self._token is not None:
            given["Authorization"] = f"Bearer {self._token}"
        request = Request(self.url + path, data=body, headers=given, method=method)
        reply = self._patiently(request, kept)
        if reply.etag and len(reply.content) < 2**20:
            self._kept[key] = reply
            self._kept.move_to_end(key)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return reply

    def _patiently(self, request: "Request", kept: ServiceReply | None) -> ServiceReply:
        """Send a request, and again where the service says that it is busy, as long as is worth waiting."""
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import urlopen

        until = time.monotonic() + LONGEST_WAIT_S
        while True:
            try:
                with urlopen(request, timeout=self._timeout_s) as answer:
                    return ServiceReply(
                        content=answer.read(),
                        etag=answer.headers.get("ETag", ""),
                        exit_code=int(answer.headers.get("Capplan-Exit-Code", "0")),
                        warning=answer.headers.get("Capplan-Warning", ""),
                    )
            except HTTPError as error:
                with error:
                    if error.code == _NOT_CHANGED and kept is not None:
                        return kept
                    wait_s = _seconds(error.headers.get("Retry-After"))
                    if error.code not in _COME_AGAIN or time.monotonic() + wait_s > until:
                        raise _refusal(error) from None
                time.sleep(wait_s)
            except (OSError, ValueError, HTTPException) as error:
                reason = getattr(error, "reason", None) or error
                reason = getattr(reason, "strerror", None) or reason  # without the number of the error
                raise UsageError(f"cannot reach the service at {self.url}: {str(reason).strip()}.") from error


def _seconds(retry_after: str | None) -> float:
    """Return how long to wait: a service says seconds, while a proxy before it may say a day, which is not read. [s]"""
    return float(retry_after) if retry_after is not None and retry_after.isdecimal() else 1.0


def _refusal(error: "HTTPError") -> CapplanError:
    """Return the error that a problem document stands for."""
    try:
        problem = json.loads(error.read())
        sentence, code = str(problem["detail"]), problem.get("exit_code", UsageError.exit_code)
    except (ValueError, KeyError, TypeError):
        return UsageError(f"{error.url} answered {error.code} {error.reason}; is it a capplan service?")
    return _ERRORS.get(code, UsageError)(sentence)


def _content(trace: "str | Path | bytes | Trace") -> bytes:
    if isinstance(trace, bytes):
        return trace
    if isinstance(trace, str | Path):
        try:
            return Path(trace).read_bytes()
        except OSError as error:
            raise UsageError(f"cannot read {trace}: {error.strerror or error}.") from error
    from capplan.core.trace.format import dump_trace

    return dump_trace(trace, compress=True)
