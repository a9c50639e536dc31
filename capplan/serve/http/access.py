"""Who may ask: the token, the cookie of the page that stands for it, and what slows down those who guess."""

import asyncio
import hashlib
import hmac
import time
from collections import OrderedDict, deque
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers

from capplan.serve.http.bodies import ProblemError

COOKIE = "capplan_session"
COOKIE_S = 30 * 86_400
"""How long a page stays signed in. [s]"""
MOST_WRONG, WITHIN_S = 10, 60.0
"""Wrong tokens from one address in this time that cost nothing; further requests from it wait. [s]"""
WAIT_S, MOST_WAITING = 1.0, 16
"""How long each of these waits before its token is looked at, and how many wait at once; others are refused. [s]"""
_MOST_ADDRESSES = 10_000


class Access:
    """The one token of a service."""

    def __init__(self, token: str) -> None:
        """Store the token."""
        self._token = token.encode()
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()
        self._waiting = 0

    async def admits(self, presented: str | None, *, client: str) -> bool:
        """Return True if words are the token; where many wrong ones came from an address, after a wait."""
        await self._slow_down(client)
        if presented is None:
            return False
        is_right = hmac.compare_digest(presented.encode(), self._token)
        if not is_right:
            self._note(client)
        return is_right

    async def admits_request(self, headers: Headers, *, client: str) -> bool:
        """Return True if a request presents the token, or the cookie of one who did."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return await self.admits(token.strip(), client=client)
        held = _cookie(headers)
        if held is None:
            return False
        await self._slow_down(client)
        is_right = self._is_cookie(held)
        if not is_right:
            self._note(client)
        return is_right

    def cookie(self) -> str:
        """Return what a page presents from now on: a time and a digest, from which the token does not follow."""
        until = str(int(time.time()) + COOKIE_S)
        return f"{until}.{self._digest(until)}"

    def _is_cookie(self, held: str) -> bool:
        until, _, digest = held.partition(".")
        if not (until.isascii() and until.isdigit() and len(until) <= 12):
            return False
        return hmac.compare_digest(digest.encode(), self._digest(until).encode()) and time.time() < int(until)

    def _digest(self, until: str) -> str:
        return hmac.digest(self._token, f"capplan page until {until}".encode(), hashlib.sha256).hex()

    async def _slow_down(self, client: str) -> None:
        since = time.monotonic() - WITHIN_S
        wrong = self._wrong.get(client, deque[float]())
        while wrong and wrong[0] < since:
            wrong.popleft()
        if len(wrong) < MOST_WRONG:
            return
        if self._waiting >= MOST_WAITING:
            said = "too many wrong tokens came from this address"
            raise ProblemError(429, f"{said}; ask again in {WAIT_S:g} s.", headers={"Retry-After": f"{WAIT_S:.0f}"})
        self._waiting += 1
        try:
            await asyncio.sleep(WAIT_S)
        finally:
            self._waiting -= 1

    def _note(self, client: str) -> None:
        self._wrong.setdefault(client, deque(maxlen=MOST_WRONG)).append(time.monotonic())
        self._wrong.move_to_end(client)
        while len(self._wrong) > _MOST_ADDRESSES:
            self._wrong.popitem(last=False)


def _cookie(headers: Headers) -> str | None:
    try:
        held = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return None if held is None else held.value


def is_over_tls(scheme: str, headers: Headers) -> bool:
    """Return True if a client says that it came over TLS, to this service or to a proxy before it.

    A false claim only keeps its own cookie from being sent without TLS.
    """
    forwarded = headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return scheme == "https" or forwarded == "https" or "proto=https" in headers.get("forwarded", "").lower()


def client_of(scope_client: object) -> str:
    """Return the address that a request came from."""
    return str(scope_client[0]) if isinstance(scope_client, tuple | list) and scope_client else "unknown"
