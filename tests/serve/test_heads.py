"""Connections whose requests never become whole are closed."""

import asyncio

import pytest
import uvicorn

from capplan.serve import run
from tests.serve.conftest import LONGEST_S


async def _plain(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def _exchange(pieces, *, pause_s):
    config = uvicorn.Config(_plain, http=run._ImpatientProtocol, lifespan="off", log_config=None, port=0)
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server.serve())
    try:
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_s)
        answer = await asyncio.wait_for(reader.read(), timeout=LONGEST_S)
        writer.close()
        return answer
    finally:
        server.should_exit = True
        await serving


@pytest.mark.parametrize(
    ("pieces", "answers"),
    [
        ([b""], 0),
        ([b"GET / HTTP/1.1\r\nHost: l"], 0),
        ([b"GET / HTTP/1.1\r\nHost: l\r\n\r\n", b"GET / HTT"], 1),
        ([b"GET / HTTP/1.1\r\n", b"Host: l\r\n\r\n"], 1),
    ],
)
def test_a_connection_without_a_whole_head_is_closed(pieces, answers, monkeypatch):
    monkeypatch.setattr(run, "LONGEST_HEAD_S", 2.0)
    answer = asyncio.run(_exchange(pieces, pause_s=0.1))
    assert answer.count(b"HTTP/1.1 200") == answers
