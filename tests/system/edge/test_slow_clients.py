"""Connections that never finish their request, and too many connections from one address."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import cycle

import pytest
import structlog

from antiphon.broker.settings import BrokerSettings
from antiphon.edge.access import bodies
from antiphon.edge.access.guards import AccessPolicy
from support.edge_harness import (
    WITHIN_S,
    PlayedWorker,
    RunningEdge,
    base64_audio,
    prepared_session,
    running_edge,
)

HEAD_S = 0.6


class RawConnection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send_bytes(self, text: str) -> None:
        self._writer.write(text.encode())
        await self._writer.drain()

    async def status(self) -> int:
        """Status of the next response, which is read completely."""
        async with asyncio.timeout(WITHIN_S):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
            size = int(head.partition("content-length: ")[2].partition("\r\n")[0])
            await self._reader.readexactly(size)
        return int(head.split()[1])

    async def dropped(self) -> bool:
        """Waits until the server closes the connection; ignores other data."""
        async with asyncio.timeout(WITHIN_S):
            try:
                while await self._reader.read(1024):
                    pass
            except ConnectionResetError:
                pass
        return True


@asynccontextmanager
async def raw_connection(edge: RunningEdge) -> AsyncIterator[RawConnection]:
    host, port = edge.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield RawConnection(reader, writer)
    finally:
        writer.close()


@pytest.mark.edge(request_head_s=HEAD_S)
async def test_a_connection_without_a_request_is_closed(edge: RunningEdge) -> None:
    half_a_handshake = "GET /ws/duplex/adx_x HTTP/1.1\r\nHost: x\r\n"
    half_a_request = "GET /health HTTP/1.1\r\nHost: x\r\nX-A: "
    with structlog.testing.capture_logs() as logs:
        async with AsyncExitStack() as held:
            callers = [await held.enter_async_context(raw_connection(edge)) for _ in range(30)]
            said = cycle(("", half_a_handshake, half_a_request))
            for connection, text in zip(callers, said, strict=False):
                await connection.send_bytes(text)
            for connection in callers:
                assert await connection.dropped()
    lines = [line for line in logs if line["event"] == "connections_cut_off"]
    assert len(lines) == 1, "one log line for all of them"
    refused = edge.edge.metrics.rejected.labels("request_timeout")
    assert refused._value.get() == 30


_HANDSHAKE = (
    "{} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{}\r\n"
)


_UNUSABLE = {
    "body": ("GET /ws/duplex/adx_x", "Content-Length: 5\r\n", 400),
    "chunks": ("GET /ws/duplex/adx_x", "Transfer-Encoding: chunked\r\n", 400),
    "post": ("POST /ws/duplex/adx_x", "", 405),
    "long header": ("GET /ws/duplex/adx_x", f"Cookie: {'a' * 9000}\r\n", 431),
    "many headers": ("GET /ws/duplex/adx_x", "X-A: 1\r\n" * 200, 431),
    "long path": (f"GET /ws/duplex/{'a' * 9000}", "", 414),
    "two versions": ("GET /ws/duplex/adx_x", "Sec-WebSocket-Version: 8\r\n", 400),
}


async def test_a_handshake_that_cannot_be_used_is_answered_and_closed(edge: RunningEdge) -> None:
    for name, (request_line, headers, status) in _UNUSABLE.items():
        async with raw_connection(edge) as connection:
            await connection.send_bytes(_HANDSHAKE.format(request_line, headers))
            assert await connection.status() == status, name
            assert await connection.dropped()


@pytest.mark.edge(request_head_s=HEAD_S)
async def test_a_slow_request_head_is_closed(edge: RunningEdge) -> None:
    async with raw_connection(edge) as connection:

        async def send_slowly() -> None:
            for number in range(1_000_000):
                await connection.send_bytes(f"X-{number}: 1\r\n")
                await asyncio.sleep(HEAD_S / 10)

        await connection.send_bytes("GET /health HTTP/1.1\r\nHost: x\r\n")
        dribbling = asyncio.create_task(send_slowly())
        assert await connection.dropped()
        dribbling.cancel()
        await asyncio.wait([dribbling])


@pytest.mark.edge(request_head_s=HEAD_S)
async def test_a_client_that_still_sends_can_read_the_error(edge: RunningEdge) -> None:
    """A client reads the response after its upload, even if the upload takes long."""
    async with raw_connection(edge) as connection:
        pieces, piece = 10, "x" * 64 * 1024
        await connection.send_bytes(
            f"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: {pieces * len(piece)}\r\n\r\n"
        )
        for _ in range(pieces):
            await connection.send_bytes(piece)
            await asyncio.sleep(HEAD_S / 6)
        assert 400 <= await connection.status() < 500


@pytest.mark.edge(request_head_s=HEAD_S)
async def test_the_deadline_applies_to_the_second_request(edge: RunningEdge) -> None:
    async with raw_connection(edge) as connection:
        for _ in range(3):
            await connection.send_bytes("GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await connection.status() == 200
        await connection.send_bytes("GET /health HTTP/1.1\r\nHo")
        assert await connection.dropped()


@pytest.mark.edge(request_head_s=HEAD_S)
async def test_the_deadline_does_not_apply_to_conversations(
    edge: RunningEdge, worker: PlayedWorker
) -> None:
    async with prepared_session(edge, worker) as (client, session):
        await asyncio.sleep(1.5 * HEAD_S)
        await client.send("audio_chunk", audio=base64_audio())
        await session.answer()
        await client.expect("result")


async def test_a_missing_body(settings: BrokerSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "_BODY_TIMEOUT_S", 0.2)
    async with (
        running_edge(settings, request_head_s=HEAD_S) as edge,
        raw_connection(edge) as connection,
    ):
        await connection.send_bytes("PUT /api/config/eta HTTP/1.1\r\nHost: localhost\r\n")
        await connection.send_bytes(
            "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        )
        assert await connection.status() == 408
        assert await connection.dropped(), "the missing body is not waited for"


async def test_a_missing_chat_request(settings: BrokerSettings) -> None:
    patience = {"request_head_s": HEAD_S, "chat_request_s": 0.2}
    async with running_edge(settings, **patience) as edge, raw_connection(edge) as connection:
        await connection.send_bytes(
            "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
        )
        assert await connection.status() == 408
        assert await connection.dropped()


async def test_f12_http_connections_are_limited_by_address_until_they_are_closed(
    settings: BrokerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loopback connections are not counted, except in this test."""
    monkeypatch.setattr(AccessPolicy, "peer_limit_key", lambda _, host: host)
    async with running_edge(settings, max_sockets_per_address=3) as edge, AsyncExitStack() as held:
        for _ in range(2):
            waiting = await held.enter_async_context(raw_connection(edge))
            await waiting.send_bytes(
                "POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"
            )
        async with raw_connection(edge) as third:
            await third.send_bytes("GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await third.status() == 200
            async with raw_connection(edge) as fourth:
                assert await fourth.dropped()
            await third.send_bytes("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert await third.status() == 200
            assert await third.dropped()
        async with raw_connection(edge) as fifth:
            await fifth.send_bytes("GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await fifth.status() == 200
