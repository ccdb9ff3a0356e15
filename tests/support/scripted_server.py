"""A real WebSocket server that follows a script of `/ws/duplex` messages, one script per connection."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import orjson
import pybase64
from websockets.asyncio.server import ServerConnection, serve

from antiphon.client.duplex import DuplexSession, connect_duplex

Script = Callable[["Wire"], Awaitable[None]]

SPOKEN = np.linspace(-0.5, 0.5, 2400, dtype=np.float32)


class Wire:
    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket
        self.received: list[dict[str, Any]] = []

    async def send(self, kind: str, /, **fields: Any) -> None:
        await self.socket.send(orjson.dumps({"type": kind, **fields}).decode())

    async def next(self) -> dict[str, Any]:
        raw = await self.socket.recv()
        assert isinstance(raw, str), "messages are text frames"
        message: dict[str, Any] = orjson.loads(raw)
        self.received.append(message)
        return message

    async def expect(self, kind: str) -> dict[str, Any]:
        message = await self.next()
        assert message["type"] == kind
        return message

    async def begin(self, chunk_ms: int = 1000) -> dict[str, Any]:
        await self.send("queue_done")
        prepare = await self.expect("prepare")
        await self.send(
            "prepared", prompt_length=12, recording_session_id="rec1", chunk_ms=chunk_ms
        )
        return prepare

    async def finish(self, *, during_audio: bool = False) -> None:
        """End the session when the client asks for it, `during_audio`: also behind more audio."""
        while (await self.next())["type"] == "audio_chunk" and during_audio:
            pass
        assert self.received[-1]["type"] == "stop"
        await self.send("stopped", session_id="s")


class Scripted:
    """A server that runs one script per connection; a failed script fails the test."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.url = ""
        self.path = ""
        self.key = ""
        self.failures: list[BaseException] = []

    async def _handle(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        self.path = socket.request.path
        self.key = socket.request.headers.get("Authorization", "")
        try:
            await self._script(Wire(socket))
        except BaseException as error:
            self.failures.append(error)
            raise

    @asynccontextmanager
    async def running(self) -> "AsyncIterator[Scripted]":
        async with serve(self._handle, "127.0.0.1", 0, compression=None, max_size=None) as server:
            host, port = server.sockets[0].getsockname()[:2]
            self.url = f"ws://{host}:{port}"
            yield self
        assert not self.failures


@asynccontextmanager
async def talking_to(script: Script, **options: Any) -> AsyncIterator[DuplexSession]:
    async with (
        Scripted(script).running() as server,
        connect_duplex(server.url, **options) as session,
    ):
        yield session


def speaking(text: str, **fields: Any) -> dict[str, Any]:
    audio = pybase64.b64encode_as_string(SPOKEN.tobytes())
    return {"is_listen": False, "text": text, "audio_data": audio, "current_time": 1000, **fields}
