"""A client whose attempt to resume stalls, so that it tries again while the edge serves the first attempt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from antiphon.client import link
from antiphon.client.duplex import DuplexSession, connect_duplex
from support.fault_stack import FaultStack, fault_stack
from support.resuming_client import Resumer
from support.stack import until
from support.tcp_proxy import TcpProxy, tcp_proxy

SECOND = np.zeros(16_000, np.float32)
PATH = "/ws/duplex/adx_1"
_HANDSHAKE = (
    "GET {path}?resume=1&resume_token={token}&seq={seq}&attempt={attempt} HTTP/1.1\r\n"
    "Host: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


@asynccontextmanager
async def _deaf_attempt(faults: FaultStack, client: Resumer, attempt: int) -> AsyncIterator[None]:
    """A connection that resumes the session and never answers the edge, not even a ping."""
    reader, writer = await asyncio.open_connection("127.0.0.1", faults.stack.edge_port)
    request = _HANDSHAKE.format(path=PATH, token=client.token, seq=client.last, attempt=attempt)
    writer.write(request.encode())
    try:
        async with asyncio.timeout(20):
            await reader.readuntil(b'"resumed"')
        yield
    finally:
        writer.close()


async def test_f21_the_newest_attempt_replaces_an_older_one_that_stalls(tmp_path: Path) -> None:
    async with fault_stack(tmp_path) as faults:
        await faults.edge()
        await faults.worker()
        client, url = Resumer(PATH), faults.stack.ws_url
        async with client.connected(url):
            await client.expect("queue_done")
            await client.send("prepare")
            await client.expect("prepared")
            await client.drop()
        async with _deaf_attempt(faults, client, 1), client.back(url, attempt=2):
            await client.send("stop")
            await client.expect("stopped")
        await faults.no_slot_leaked()


async def test_f21_an_older_attempt_that_arrives_late_is_refused(tmp_path: Path) -> None:
    """The newer attempt stalls, too, so its token is not confirmed."""
    async with fault_stack(tmp_path) as faults:
        await faults.edge()
        await faults.worker()
        client, url = Resumer(PATH), faults.stack.ws_url
        async with client.connected(url):
            await client.expect("queue_done")
            await client.drop()
        first, late = client.token, Resumer(PATH)
        async with _deaf_attempt(faults, client, 2):
            refused = late._open(late._url(url, resume_token=first, seq=1, attempt=1))
            async with refused:
                assert (await late.closed())[0] == 4410
        async with client.back(url, token=first, attempt=3):
            await client.send("stop")
            await client.expect("stopped")
        await faults.no_slot_leaked()


@asynccontextmanager
async def _talking(faults: FaultStack, proxy: TcpProxy) -> AsyncIterator[DuplexSession]:
    """A client of the library, connected through the proxy, with its next address behind it."""
    how = {"resume": True, "other_edges": [faults.stack.ws_url]}
    async with connect_duplex(f"ws://{proxy.address}", **how) as session:
        await session.wait_for_turn()
        await session.prepare()
        await _exchange(session, 1000)
        yield session
        await _exchange(session, 2000)
        await session.stop()


async def _exchange(session: DuplexSession, until_ms: int) -> None:
    async with asyncio.timeout(20):
        await session.send_audio(SECOND)
        assert (await anext(session.results())).message.current_time == until_ms


async def test_the_client_library_resumes_beside_its_stalled_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt reaches the edge, but the answer does not reach the client."""
    monkeypatch.setattr(link, "_ATTEMPT_S", 1.0)
    async with fault_stack(tmp_path) as faults:
        edge = await faults.edge()
        await faults.worker()
        async with tcp_proxy(faults.stack.edge_port) as proxy, _talking(faults, proxy):
            proxy.freeze_replies()
            proxy.reset()
            await until(lambda: edge.log.count("session_resumed") == 2)
            proxy.thaw()
        await faults.no_slot_leaked()


async def test_f21_the_client_library_survives_a_stall_of_all_its_attempts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several attempts arrive at the edge together when the network forwards again."""
    monkeypatch.setattr(link, "_ATTEMPT_S", 0.5)
    async with fault_stack(tmp_path) as faults:
        await faults.edge()
        await faults.worker()
        async with (
            tcp_proxy(faults.stack.edge_port) as proxy,
            connect_duplex(f"ws://{proxy.address}", resume=True) as session,
        ):
            await session.wait_for_turn()
            await session.prepare()
            await _exchange(session, 1000)
            before = proxy.accepted
            proxy.freeze()
            proxy.reset()
            await until(lambda: proxy.accepted >= before + 4)
            monkeypatch.setattr(link, "_ATTEMPT_S", 4.0)
            proxy.thaw()
            await _exchange(session, 2000)
            await session.stop()
        await faults.no_slot_leaked()
