"""The WebSocket client of tests."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import numpy as np
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from antiphon.shared_schemas.audio import INPUT_RATE, Samples

PATIENCE_S = 120.0
"""Longest wait; only a failing test reaches it."""


class Wire:
    """A WebSocket client that receives every message unchanged and can send anything."""

    socket: ClientConnection

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def send(self, type_: str | None = None, /, **fields: Any) -> None:
        message = fields if type_ is None else {"type": type_, **fields}
        await self.socket.send(json.dumps(message))

    async def send_second(self, samples: Samples | None = None, **fields: Any) -> None:
        """Sends one audio chunk; silence by default."""
        pcm = np.zeros(INPUT_RATE, np.float32) if samples is None else samples
        audio = base64.b64encode(pcm.astype("<f4").tobytes()).decode()
        await self.send("audio_chunk", audio=audio, **fields)

    async def message(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            message: dict[str, Any] = json.loads(await self.socket.recv())
        return message

    async def expect(self, type_: str, *, skip: tuple[str, ...] = ()) -> dict[str, Any]:
        while (message := await self.message())["type"] in skip:
            pass
        assert message["type"] == type_, message
        return message

    async def expect_error(self, code: str, field: str | None = None) -> dict[str, Any]:
        message = await self.expect("error")
        assert message["code"] == code, message
        assert message.get("field") == field, message
        assert message["error"] == message["message"]
        return message

    async def until(self, type_: str) -> dict[str, Any]:
        """The next message of a type; skips others."""
        while (message := await self.message())["type"] != type_:
            assert message["type"] != "error", message
        return message

    async def begin(self, **prepare: Any) -> dict[str, Any]:
        """Waits in the queue, prepares, and waits for `prepared`."""
        await self.until("queue_done")
        await self.send("prepare", **prepare)
        return await self.until("prepared")

    async def close_code(self) -> int | None:
        """Waits for the server's close; fails on any other message."""
        try:
            message = await self.message()
        except ConnectionClosed:
            return self.socket.close_code
        raise AssertionError(f"expected a close, got {message}")

    async def close_code_after_all(self) -> int | None:
        """Waits for the server's close; skips messages."""
        with suppress(ConnectionClosed):
            while True:
                await self.message()
        return self.socket.close_code

    async def abort(self) -> None:
        """Cuts the connection without a WebSocket close."""
        self.socket.transport.abort()
        await self.socket.wait_closed()


@asynccontextmanager
async def open_path(base: str, path: str, **options: Any) -> AsyncIterator[Wire]:
    patient = {"open_timeout": PATIENCE_S, "ping_interval": None} | options
    async with connect(
        base + path, compression=None, max_size=None, proxy=None, **patient
    ) as socket:
        yield Wire(socket)


@asynccontextmanager
async def open_wire(base: str, sid: str, query: str = "") -> AsyncIterator[Wire]:
    async with open_path(base, f"/ws/duplex/{sid}{query}") as wire:
        yield wire
