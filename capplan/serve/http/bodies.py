"""Bodies within bounds, errors as problem documents (RFC 9457), and answers with an ETag."""

import asyncio
import contextlib
import hashlib
import json
import tempfile
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from capplan.serve.planning.messages import BUG, Reply

PROBLEM_TYPE = "application/problem+json"
STATUS_OF_EXIT_CODE = {2: 400, 3: 422, BUG: 500}
"""HTTP status by the exit code of the command line: bad input, a model that cannot be traced, a bug."""


class ProblemError(Exception):
    """A request that is refused, with its status and sentence."""

    def __init__(
        self, status: int, detail: str, *, exit_code: int | None = None, headers: Mapping[str, str] = {}
    ) -> None:
        """Store what the answer says."""
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.exit_code = exit_code
        self.headers = dict(headers)


def problem_response(error: ProblemError) -> Response:
    """Return the answer to a request that is refused."""
    document: dict[str, Any] = {
        "type": "about:blank",  # whose title is the phrase of the status, as RFC 9457 asks
        "title": HTTPStatus(error.status).phrase,
        "status": error.status,
        "detail": error.detail,
    }
    if error.exit_code is not None:
        document["exit_code"] = error.exit_code
    return Response(
        json.dumps(document, indent=2, ensure_ascii=False) + "\n",
        status_code=error.status,
        media_type=PROBLEM_TYPE,
        headers={"Cache-Control": "no-store", **error.headers},
    )


def refused(message: str, exit_code: int) -> ProblemError:
    """Return the problem for a question without an answer."""
    return ProblemError(STATUS_OF_EXIT_CODE.get(exit_code, 400), message, exit_code=exit_code)


Result = TypeVar("Result")


LONGEST_BODY_S = 60.0
"""Time within which the body of any other request must have arrived. [s]"""
LONGEST_UPLOAD_S = 600.0
"""Time within which a model's file must have arrived. [s]"""


class GoneError(Exception):
    """The client has closed its connection."""


async def read_body(request: Request, *, limit: int) -> bytes:
    """Read a body, and stop where it exceeds a limit; a gzip-encoded one is decompressed within the same limit."""
    pieces: list[bytes] = []

    async def keep(piece: bytes) -> None:
        pieces.append(piece)

    await _receive(request, keep, limit=limit, within_s=LONGEST_BODY_S)
    content = b"".join(pieces)
    if request.headers.get("content-encoding", "").lower() == "gzip":
        content = _unpacked(content, limit)
    return content


@asynccontextmanager
async def spooled_body(request: Request, *, limit: int, folder: Path) -> AsyncIterator[Path]:
    """Write a body of any size to a file, which is removed afterwards."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix="upload-", delete=False) as file:
        path = Path(file.name)

        async def keep(piece: bytes) -> None:
            await asyncio.to_thread(file.write, piece)

        try:
            await _receive(request, keep, limit=limit, within_s=LONGEST_UPLOAD_S)
            file.close()  # Windows opens no file a second time that is to vanish when it is closed
            yield path
        finally:
            file.close()
            path.unlink(missing_ok=True)


async def _receive(
    request: Request, take: Callable[[bytes], Awaitable[object]], *, limit: int, within_s: float
) -> None:
    """Yield a body as it arrives, within a size and a time. [bytes, s]"""
    size = 0
    try:
        async with asyncio.timeout(within_s):
            async for piece in request.stream():
                size += len(piece)
                if size > limit:
                    raise _too_long(limit)
                await take(piece)
    except TimeoutError as error:
        raise ProblemError(408, f"the body did not arrive within {within_s:g} s.") from error
    except ClientDisconnect as error:
        raise GoneError from error


def _unpacked(content: bytes, limit: int) -> bytes:
    try:
        unpacked = zlib.decompressobj(wbits=31).decompress(content, limit + 1)
    except zlib.error as error:
        raise ProblemError(400, f"the body is not gzip, as its Content-Encoding says ({error}).") from error
    if len(unpacked) > limit:
        raise _too_long(limit)
    return unpacked


def _too_long(limit: int) -> ProblemError:
    return ProblemError(413, f"the body is longer than {limit:,} bytes, the most that is read here.")


async def unless_gone(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of work, and stop it once the client has gone away."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise GoneError
        return working.result()
    finally:
        for task in (working, watching):
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def content_response(
    request: Request, reply: Reply, *, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Return an answer with its ETag; 304 where the client holds this very content.

    A question asked by POST changes nothing, so that its answer may be revalidated like that of a GET.
    """
    tag = f'W/"{hashlib.sha256(reply.content).hexdigest()[:32]}"'  # a weak one: it is sent compressed or not
    shared = {"ETag": tag, "Cache-Control": "private, no-cache", "Vary": "Accept", **(headers or {})}
    if reply.hints:
        shared["Capplan-Partial"] = "hints"
    if reply.exit_code:
        shared["Capplan-Exit-Code"] = str(reply.exit_code)
    if reply.warning:
        shared["Capplan-Warning"] = reply.warning.encode("ascii", "replace").decode()
    held = [part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")]
    if "*" in held or tag.removeprefix("W/") in held:
        return Response(status_code=304, headers=shared)
    return Response(reply.content, status_code=status, media_type=reply.media_type, headers=shared)
