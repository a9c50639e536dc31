"""The forms of request logs: how a line states when a request came, its tokens and how long it took.

Prompts and answers that a line holds are skipped by the decoder and never become values of this program; of the paths
of access logs only the answer to whether they begin as asked is kept.
"""

import csv
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

import msgspec

from capplan.app.observed.tally import Requests

NAN: Final = float("nan")
MOST_TOKENS = 1e8
_LATEST_S = 4e9
"""Times after the year 2096 are not times of a log. [s]"""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)


class BrokenLineError(ValueError):
    """A line that cannot be read; the message is one of a few, so that lines are counted by it."""


class UnrelatedRequest(Exception):  # noqa: N818 - not an error: the line is of a request that was not asked about
    """A line of a request that is not one of those asked about."""


class FailedRequest(Exception):  # noqa: N818 - not an error of this program
    """A line of a request that failed."""


class LogForm(ABC):
    """A form of log; an object reads the lines of one file."""

    name: str
    has_dates = True

    @abstractmethod
    def read(self, line: bytes, into: Requests) -> None:
        """Append the request of a line, or raise BrokenLineError, UnrelatedRequest or FailedRequest."""


def _time_s(text: str) -> float:
    """Return the seconds since 1970 of a date and time in ISO 8601, which is in UTC where no zone is stated."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BrokenLineError("its time cannot be read") from None
    if found.tzinfo is None:
        return (found - _NAIVE_EPOCH).total_seconds()
    return (found - _EPOCH).total_seconds()


def _seconds(given: float | str | None) -> float:
    """Return a time of a log in JSON: seconds since 1970, milliseconds where it is as large, or ISO 8601. [s]"""
    if given is None:
        return NAN
    if isinstance(given, str):
        return _time_s(given)
    return given / 1000 if given > _LATEST_S else float(given)


def _tokens(given: float | None) -> float:
    if given is None:
        return NAN
    if not 0 <= given <= MOST_TOKENS:
        raise BrokenLineError("its tokens are not a number of tokens")
    return float(given)


def _append(into: Requests, at_s: float, prompt: float, answer: float, *rest: float) -> None:
    if not 0 <= at_s < _LATEST_S:
        raise BrokenLineError("its time cannot be read" if at_s == at_s else "it has no time")  # noqa: PLR0124 - nan
    cached, ttft_s, e2e_s = rest or (NAN, NAN, NAN)
    into.append((at_s, prompt, answer, cached, ttft_s, e2e_s))


class TraceTable(LogForm):
    """A table of requests with times and tokens: the public traces of Azure and BurstGPT.

    Sources: Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md (at 1a61e6c) and 2024.md (at 04e28b8);
    HPMLL/BurstGPT, README, whose requests without an answer failed. All looked up on 2026-11-27.
    """

    _FORMS = (
        ("Azure trace", "TIMESTAMP", "ContextTokens", "GeneratedTokens", True),
        ("BurstGPT trace", "Timestamp", "Request tokens", "Response tokens", False),
    )

    def __init__(self, header: Sequence[str]) -> None:
        columns = [name.strip() for name in header]
        form = next((form for form in self._FORMS if set(form[1:4]) <= set(columns)), None)
        if form is None:
            raise BrokenLineError("no known columns")
        self.name, *named = form[:4]
        self.has_dates = form[4]
        self._places = tuple(columns.index(name) for name in named)

    def read(self, line: bytes, into: Requests) -> None:
        """Append the request of a row."""
        text = line.decode(errors="replace").rstrip("\r")
        cells = next(csv.reader([text])) if '"' in text else text.split(",")
        time, prompt, answer = self._places
        try:
            tokens = _tokens(float(cells[prompt])), _tokens(float(cells[answer]))
        except (IndexError, ValueError) as error:
            if isinstance(error, BrokenLineError):
                raise
            raise BrokenLineError("it has not the columns of the first line") from None
        try:
            at_s = _time_s(cells[time]) if self.has_dates else float(cells[time])
        except ValueError as error:
            if isinstance(error, BrokenLineError):
                raise
            raise BrokenLineError("its time cannot be read") from None
        if not self.has_dates and not tokens[1]:
            raise FailedRequest
        _append(into, at_s, *tokens)


class _CachedTokens(msgspec.Struct):
    cached_tokens: float | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: float | None = None
    completion_tokens: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    prompt_tokens_details: _CachedTokens | None = None
    input_tokens_details: _CachedTokens | None = None


class _Response(msgspec.Struct):
    status_code: int | None = None
    body: "_Line | None" = None


class _Line(msgspec.Struct):
    """What is read of a line in JSON; every other key, messages among them, is skipped undecoded."""

    created: float | None = None
    created_at: float | str | None = None
    timestamp: float | str | None = None
    usage: _Usage | None = None
    response: _Response | None = None
    startTime: float | str | None = None  # noqa: N815 - LiteLLM's names
    endTime: float | str | None = None  # noqa: N815
    completionStartTime: float | str | None = None  # noqa: N815
    prompt_tokens: float | None = None
    completion_tokens: float | None = None
    status: str | None = None
    stream: bool | None = None


class UsageLines(LogForm):
    """JSON lines: records with OpenAI's `usage`, or LiteLLM's standard logging payload.

    Sources: OpenAI API reference, chat completion, response and batch output objects; LiteLLM, "StandardLoggingPayload
    Specification", https://docs.litellm.ai/docs/proxy/logging_spec. Names from memory.
    """

    name = "usage records"

    def __init__(self) -> None:
        self._decode: Callable[[bytes], _Line] = msgspec.json.Decoder(_Line).decode

    def read(self, line: bytes, into: Requests) -> None:
        try:
            row = self._decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise BrokenLineError("it is not a JSON object of the known form") from None
        if row.startTime is not None:
            return self._read_call(row, into)
        body = row.response.body if row.response is not None else None
        if row.response is not None and row.response.status_code is not None and row.response.status_code >= 400:
            raise FailedRequest
        usage = row.usage or (body.usage if body else None)
        if usage is None:
            raise BrokenLineError("it has no usage")
        given = row.timestamp or row.created or row.created_at
        given = given or (body.created or body.created_at if body else None)
        details = usage.prompt_tokens_details or usage.input_tokens_details
        prompt = usage.prompt_tokens if usage.prompt_tokens is not None else usage.input_tokens
        answer = usage.completion_tokens if usage.completion_tokens is not None else usage.output_tokens
        cached = _tokens(details.cached_tokens) if details is not None else NAN
        return _append(into, _seconds(given), _tokens(prompt), _tokens(answer), cached, NAN, NAN)

    def _read_call(self, row: _Line, into: Requests) -> None:
        self.name = "LiteLLM payloads"
        if row.status is not None and row.status != "success":
            raise FailedRequest
        at_s, end_s, first_s = _seconds(row.startTime), _seconds(row.endTime), _seconds(row.completionStartTime)
        # without streaming LiteLLM states the end of the answer as its first token
        ttft_s = first_s - at_s if at_s <= first_s < end_s else NAN
        e2e_s = end_s - at_s if end_s >= at_s else NAN
        _append(into, at_s, _tokens(row.prompt_tokens), _tokens(row.completion_tokens), NAN, ttft_s, e2e_s)


@lru_cache(maxsize=4096)
def _apache_time_s(text: bytes) -> float:
    try:
        return datetime.strptime(text.decode(), "%d/%b/%Y:%H:%M:%S %z").timestamp()
    except ValueError:
        raise BrokenLineError("its time cannot be read") from None


class AccessLog(LogForm):
    """An access log: nginx's `combined` format, or Envoy's default one; of a line only time, status and duration.

    Sources: Envoy, "Access logging", default format string (1.20), looked up on 2026-11-27; nginx, ngx_http_log_module,
    from memory.
    """

    _NGINX = re.compile(
        rb'\S+ \S+ [^\[]*\[(?P<time>[^\]]{20,40})\] "\S+ (?P<path>\S*)[^"]*" (?P<status>\d{3}) (?:\d+|-)'
    )
    _ENVOY = re.compile(
        rb'\[(?P<time>[0-9T:.+Z-]{19,40})\] "\S+ (?P<path>\S*)[^"]*" (?P<status>\d{1,3}) (?:(?:\S+) )+?'
        rb"(?:\d+) (?:\d+) (?P<ms>\d+|-) "
    )

    def __init__(self, name: str, *, path: str) -> None:
        self.name = name
        self._is_envoy = name == ENVOY
        self._pattern = self._ENVOY if self._is_envoy else self._NGINX
        self._path = path.encode()

    @classmethod
    def is_of(cls, line: bytes) -> str | None:
        """Return the name of the form that a line has; None for neither."""
        if cls._ENVOY.match(line):
            return ENVOY
        return NGINX if cls._NGINX.match(line) else None

    def read(self, line: bytes, into: Requests) -> None:
        found = self._pattern.match(line)
        if found is None:
            raise BrokenLineError("it is not of the form of the first line")
        if self._path and not found["path"].startswith(self._path):
            raise UnrelatedRequest
        if int(found["status"]) >= 400 or int(found["status"]) == 0:
            raise FailedRequest
        e2e_s = NAN
        if self._is_envoy:
            at_s = _time_s(found["time"].decode())
            e2e_s = int(found["ms"]) / 1000 if found["ms"] != b"-" else NAN
        else:
            at_s = _apache_time_s(found["time"])
        _append(into, at_s, NAN, NAN, NAN, NAN, e2e_s)


NGINX: Final = "nginx access log"
ENVOY: Final = "Envoy access log"


def form_of(line: bytes, *, path: str) -> LogForm | None:
    """Return the form of a log by its first line, which of a table is the header; None for an unknown one."""
    if line.lstrip().startswith(b"{"):
        return UsageLines()
    named = AccessLog.is_of(line)
    if named is not None:
        return AccessLog(named, path=path)
    try:
        return TraceTable(next(csv.reader([line.decode("utf-8-sig", errors="replace").strip()])))
    except (BrokenLineError, csv.Error, StopIteration):
        return None
