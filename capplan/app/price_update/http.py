"""Fetch a document over HTTP within limits: of time, of size once unpacked, of attempts."""

import contextlib
import http.client
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import Any, BinaryIO

from capplan.units import whole_number
from capplan.version import __version__

_CHUNK = 1 << 16
_AGAIN = frozenset({429, 500, 502, 503, 504})
"""Answers after which asking again may help: too many requests, and faults of the server."""
_LONGEST_WAIT_S = 20.0
_SCHEMES = ("https", "http")


class FetchError(Exception):
    """An address did not give its document; the message says why, without the address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """How often an address is asked, the longest silence and document, and the first wait, which doubles."""

    attempts: int = 3
    socket_s: float = 20.0
    whole_s: float = 900.0
    wait_s: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What an address gave: whether its document is as it was, and what it is asked for again with."""

    unchanged: bool = False
    validator: str = ""


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches documents; a proxy that the environment names (HTTPS_PROXY, NO_PROXY) is used."""

    limits: FetchLimits = field(default_factory=FetchLimits)
    sleep: Callable[[float], None] = time.sleep

    def fetch(
        self,
        url: str,
        target: Path,
        *,
        at_most: int,
        headers: Mapping[str, str] | None = None,
        post: str = "",
        validator: str = "",
    ) -> Document:
        """Write the document of an address into a file.

        Args:
            url: The address; blanks and quotes in it may stand as they are.
            at_most: Bytes of the document at most, unpacked.
            headers: Sent to this host alone, such as a key: a server elsewhere that it points to does not get them.
            post: What is posted; else the address is got.
            validator: What an earlier answer was marked with, so that an unchanged document is not sent again.
        """
        split = urllib.parse.urlsplit(url)
        if split.scheme not in _SCHEMES:
            raise FetchError(f"an address begins with {' or '.join(_SCHEMES)}")
        quoted = urllib.parse.quote(url, safe="%/:=&?~#+!$,;@()*[]'")
        sent = {"User-Agent": f"capplan/{__version__}", "Accept-Encoding": "gzip", **(headers or {})}
        if post:
            sent["Content-Type"] = "application/json"
        if validator:
            name, _, value = validator.partition(": ")
            sent[name] = value
        opener = urllib.request.build_opener(_Redirects(private=frozenset(headers or ())))
        request = urllib.request.Request(quoted, data=post.encode() or None, headers=sent)
        for attempt in range(1, self.limits.attempts + 1):
            try:
                return self._once(opener, request, target, at_most)
            except _RetryError as error:
                if attempt == self.limits.attempts:
                    raise FetchError(f"{error}, after {attempt} attempts") from error
                self.sleep(error.wait_s or self.limits.wait_s * 2 ** (attempt - 1))
        raise AssertionError("unreachable")

    def _once(
        self, opener: urllib.request.OpenerDirector, request: urllib.request.Request, target: Path, at_most: int
    ) -> Document:
        try:
            with opener.open(request, timeout=self.limits.socket_s) as answer, target.open("wb") as stream:
                self._copy(answer, stream, at_most)
                return Document(validator=_validator(answer.headers))
        except urllib.error.HTTPError as error:
            with contextlib.closing(error):
                if error.code == 304:
                    return Document(unchanged=True)
                if error.code in _AGAIN:
                    raise _RetryError(_words(error.code), _stated_wait(error.headers)) from error
                raise FetchError(_words(error.code)) from error
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, EOFError) as error:
            reason = getattr(error, "reason", None) or error
            raise _RetryError(f"the connection failed ({reason!s:.120})") from error

    def _copy(self, answer: Any, stream: BinaryIO, at_most: int) -> None:
        """Copy an answer, unpacked; what ends before its stated length is asked for again."""
        ends = time.monotonic() + self.limits.whole_s
        packed = 0
        written = 0
        unpacker = zlib.decompressobj(wbits=31) if answer.headers.get("Content-Encoding") == "gzip" else None
        for chunk in iter(lambda: answer.read(_CHUNK), b""):
            packed += len(chunk)
            for part in _unpacked(chunk, unpacker):
                written += len(part)
                if written > at_most:
                    raise FetchError(f"it has more than the {at_most:,} bytes that are read")
                stream.write(part)
            if time.monotonic() > ends:
                raise FetchError(f"it takes more than {self.limits.whole_s:g} s")
        stated = whole_number(answer.headers.get("Content-Length", ""))
        if stated is not None and packed < stated:
            raise _RetryError(f"the answer broke off after {packed:,} of {stated:,} bytes")
        if unpacker is not None and not unpacker.eof:
            raise _RetryError("the answer broke off")


class _RetryError(Exception):
    """An attempt that failed in a way that may pass; `wait_s` is the time that the server asks for."""

    def __init__(self, words: str, wait_s: float | None = None) -> None:
        super().__init__(words)
        self.wait_s = wait_s


def _unpacked(chunk: bytes, unpacker: Any) -> Iterator[bytes]:
    """Yield what a chunk holds in pieces of limited size, so that a bomb is found before it is in memory."""
    if unpacker is None:
        yield chunk
        return
    try:
        while chunk:
            yield unpacker.decompress(chunk, _CHUNK * 16)
            chunk = unpacker.unconsumed_tail
    except zlib.error as error:
        raise _RetryError(f"the answer is damaged ({error})") from error


def _words(code: int) -> str:
    if 300 < code < 400:
        return "the server points from address to address without an end"
    known = http.client.responses.get(code, "")
    return f"the server answered {code}{f' {known}' if known else ''}"


def _stated_wait(headers: Message) -> float | None:
    """Return the time after which a server wants to be asked again. [s]"""
    stated = headers.get("Retry-After", "")
    return min(_LONGEST_WAIT_S, float(stated)) if stated.isdecimal() else None


def _validator(headers: Message) -> str:
    """Return the header that asks for a document again only if it has changed."""
    if tag := headers.get("ETag"):
        return f"If-None-Match: {tag}"
    changed = headers.get("Last-Modified")
    return f"If-Modified-Since: {changed}" if changed else ""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows addresses that a server points to, never from https to http, and never with a key to another host."""

    def __init__(self, *, private: frozenset[str]) -> None:
        self._private = frozenset(name.lower() for name in private)

    def redirect_request(  # noqa: PLR0917 - the form of the standard library
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        old, new = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
        if new.scheme not in _SCHEMES or (old.scheme == "https" and new.scheme == "http"):
            raise FetchError(f"the server points to {new.scheme or 'nothing'}, which is not followed")
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made is not None and old.netloc != new.netloc:
            for name in [name for name in made.headers if name.lower() in self._private]:
                made.remove_header(name)
        return made
