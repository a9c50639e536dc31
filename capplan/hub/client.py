"""Ask the Hugging Face Hub by its own library: its session, proxies, token, mirror and offline switch.

Only JSON files and the beginnings of weight files are read, each within a limit of bytes and of time.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from capplan.errors import UsageError
from capplan.hub.refusals import (
    TooLargeError,
    UnreachableError,
    cut_off,
    missing_library,
    offline,
    refusal_of_status,
    unreachable,
)
from capplan.units import whole_number

TIMEOUT_S = 10.0
"""How long the Hub may be silent."""
LONGEST_ANSWER_S = 120.0
"""How long one answer may take as a whole, however slowly it comes."""
LARGEST_FILE_BYTES = 32_000_000
"""The largest configuration or listing that is read."""
_STEP_BYTES = 2**16


def endpoint() -> str:
    """Return the address of the Hub, or of the mirror that `HF_ENDPOINT` names."""
    address = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    if not address.startswith(("https://", "http://")):
        raise UsageError(f"HF_ENDPOINT {address!r} is not an http or https address.")
    return address


def is_offline() -> bool:
    """Return True if the Hub's offline switch is set."""
    return any(
        os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE")
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    )


def listing_address(repository: str, revision: str | None) -> str:
    at = f"/revision/{quote(revision, safe='')}" if revision is not None else ""
    return f"{endpoint()}/api/models/{quote(repository)}{at}?blobs=true"


def file_address(repository: str, commit: str, file: str) -> str:
    return f"{endpoint()}/{quote(repository)}/resolve/{commit}/{quote(file)}"


def get(address: str, *, name: str, at_most: int = LARGEST_FILE_BYTES) -> bytes:
    """Return the whole content of an address."""
    with _answer(address, name, {}) as answer:
        if answer.status_code != 200:
            raise cut_off(name)
        content = _read(answer, at_most + 1, name)
        stated = whole_number(answer.headers.get("Content-Length", ""))
        if len(content) > at_most:
            raise TooLargeError(
                f"{name}: {address.rpartition('/')[2]} has more than {at_most:,} bytes, and is not read."
            )
        if stated is not None and not answer.headers.get("Content-Encoding") and len(content) < stated:
            raise cut_off(name)
        return content


def get_range(address: str, *, name: str, start: int, length: int) -> tuple[bytes, int]:
    """Return a stretch of a file, shorter at its end, and the size of the whole file. [bytes]"""
    with _answer(address, name, {"Range": f"bytes={start}-{start + length - 1}"}) as answer:
        size = whole_number(answer.headers.get("Content-Range", "").rpartition("/")[2])
        if answer.status_code != 206 or size is None:
            raise UnreachableError(
                f"{name}: {endpoint()} does not serve parts of a file, and whole weights are not fetched."
            )
        content = _read(answer, length, name)
        if len(content) < min(length, size - start):
            raise cut_off(name)
        return content, size


@contextmanager
def _answer(address: str, name: str, headers: dict[str, str]) -> Iterator[Any]:
    """Ask for an address, and word whatever fails; the answer's content is not read yet."""
    if is_offline():
        raise offline(name)
    try:
        from huggingface_hub.errors import HTTPError, OfflineModeIsEnabled
        from huggingface_hub.utils import build_hf_headers, get_session
    except ImportError as error:
        raise missing_library(name) from error
    sent = build_hf_headers(library_name="capplan") | {"Accept-Encoding": "identity"} | headers
    try:
        with get_session().stream("GET", address, headers=sent, timeout=TIMEOUT_S, follow_redirects=True) as answer:
            if answer.status_code >= 400:
                raise refusal_of_status(answer, name, has_token="authorization" in {key.lower() for key in sent})
            yield answer
    except OfflineModeIsEnabled as error:
        raise offline(name) from error
    except (HTTPError, OSError, ValueError) as error:
        raise _failure(error, name) from error


def _failure(error: Exception, name: str) -> UnreachableError:
    """Return the error of a connection that failed before, or within, an answer."""
    kind = type(error).__name__
    if "Protocol" in kind or "ReadError" in kind:
        return cut_off(name)
    reason = f"no answer within {TIMEOUT_S:.0f} s" if "Timeout" in kind else str(error) or kind
    return unreachable(name, endpoint(), reason)


def _read(answer: Any, at_most: int, name: str, clock: Callable[[], float] = time.monotonic) -> bytes:
    """Return the beginning of an answer's content, as much of it as comes in time."""
    content, end = bytearray(), clock() + LONGEST_ANSWER_S
    for piece in answer.iter_bytes(_STEP_BYTES):
        content += piece
        if len(content) >= at_most:
            break
        if clock() > end:
            raise unreachable(name, endpoint(), f"its answer takes more than {LONGEST_ANSWER_S:.0f} s")
    return bytes(content[:at_most])
