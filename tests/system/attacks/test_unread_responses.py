"""Clients that request a recording and read little or nothing of it."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from antiphon.broker.settings import BrokerSettings
from antiphon.edge.access.guards import AccessPolicy
from antiphon.edge.recordings.download import RedactedFile
from support.edge_harness import WITHIN_S, RunningEdge, running_edge
from support.recordings import recorded
from support.stack import until

LARGE = 24 * 1024 * 1024
"""More than the buffers of a loopback connection."""


@pytest.fixture
def recording(tmp_path: Path) -> str:
    """A recording with a large uploaded file."""
    folder = tmp_path / "sessions"
    folder.mkdir()
    recording = recorded(folder, units=2)
    with (folder / recording / "frontend_replay.wav").open("wb") as file:
        file.truncate(LARGE)
    return recording


@asynccontextmanager
async def download(edge: RunningEdge, path: str) -> AsyncIterator[socket.socket]:
    """A socket that has requested `path` and has read nothing; with a small receive buffer."""
    host, port = edge.url.removeprefix("http://").split(":")
    with socket.socket() as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        caller.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(caller, (host, int(port)))
        await loop.sock_sendall(caller, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        yield caller


async def _received(caller: socket.socket, pause_s: float) -> int:
    """Bytes until the server closes or resets the connection, or until the file is complete."""
    loop, received = asyncio.get_running_loop(), 0
    try:
        while received < LARGE and (data := await loop.sock_recv(caller, 256 * 1024)):
            received += len(data)
            await asyncio.sleep(pause_s)
    except ConnectionResetError:
        pass
    return received


@pytest.mark.parametrize("rest", ["assets/frontend_replay.wav", "download"])
async def test_an_unread_download_is_cut_off(
    settings: BrokerSettings, tmp_path: Path, recording: str, rest: str
) -> None:
    limits = {"send_stall_s": 0.2, "data_dir": tmp_path}
    path = f"/api/sessions/{recording}/{rest}"
    async with running_edge(settings, **limits) as edge, download(edge, path) as caller:
        rejected = edge.edge.metrics.rejected.labels("slow_consumer")
        async with asyncio.timeout(WITHIN_S):
            await until(lambda: rejected._value.get() == 1)
        assert await _received(caller, 0.0) < LARGE


async def test_a_slow_download_is_completed(
    settings: BrokerSettings, tmp_path: Path, recording: str
) -> None:
    """It takes several times as long as a client may read nothing."""
    limits = {"send_stall_s": 1.0, "data_dir": tmp_path}
    path = f"/api/sessions/{recording}/assets/frontend_replay.wav"
    async with running_edge(settings, **limits) as edge, download(edge, path) as caller:
        assert await _received(caller, 0.03) >= LARGE


async def test_downloads_are_limited_by_address(
    settings: BrokerSettings, tmp_path: Path, recording: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the client's address also behind a proxy. Loopback is not counted, except in this test."""
    monkeypatch.setattr(AccessPolicy, "client_limit_key", lambda *_: "client")
    path = f"/api/sessions/{recording}/assets/frontend_replay.wav"
    limits = {"max_sockets_per_address": 3, "data_dir": tmp_path}
    async with (
        running_edge(settings, **limits) as edge,
        edge.http() as http,
        AsyncExitStack() as held,
    ):
        for _ in range(3):
            caller = await held.enter_async_context(download(edge, path))
            await asyncio.get_running_loop().sock_recv(caller, 100)
        answer = await http.get("/health")
        assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
        await held.aclose()
        async with asyncio.timeout(WITHIN_S):
            while (await http.get("/health")).status_code == 429:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("block", [1, 31, 32, 33, 1000])
def test_an_id_is_replaced_in_blocks_of_any_size(tmp_path: Path, block: int) -> None:
    path = tmp_path / "recording.json"
    recording, token = "0123456789abcdef" * 2, "share-token"
    text = f"{{'recording_id': '{recording}', 'near': '{recording[:-1]}', 'again': '{recording}'}}"
    path.write_text(text)
    with RedactedFile(path.open("rb"), recording, token) as file:
        data = b"".join(iter(lambda: file.read(block), b""))
    assert data.decode() == text.replace(recording, token)
