"""A raw client that receives every message unchanged and can send anything."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from antiphon.shared_schemas.audio import INPUT_RATE, Samples

PATIENCE_S = 120.0
"""Longest wait; only a failing test reaches it."""


class Wire:
    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def send(self, **message: Any) -> None:
        await self.socket.send(orjson.dumps(message).decode())

    async def send_second(self, samples: Samples | None = None, **fields: Any) -> None:
        """Sends one audio chunk; silence by default."""
        pcm = np.zeros(INPUT_RATE, np.float32) if samples is None else samples
        audio = base64.b64encode(pcm.astype("<f4").tobytes()).decode()
        await self.send(type="audio_chunk", audio=audio, **fields)

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            message: dict[str, Any] = orjson.loads(await self.socket.recv())
        return message

    async def until(self, kind: str) -> dict[str, Any]:
        """The next message of a type; skips others."""
        while (message := await self.next())["type"] != kind:
            assert message["type"] != "error", message
        return message

    async def expect(self, kind: str) -> dict[str, Any]:
        message = await self.next()
        assert message["type"] == kind, message
        return message

    async def closed(self) -> int:
        """Waits for the server's close; returns its code."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                while True:
                    await self.socket.recv()
            except ConnectionClosed:
                assert self.socket.close_code is not None
                return self.socket.close_code

    async def begin(self, **prepare: Any) -> dict[str, Any]:
        """Waits in the queue, prepares, and waits for `prepared`."""
        await self.until("queue_done")
        await self.send(type="prepare", **prepare)
        return await self.until("prepared")


@asynccontextmanager
async def open_path(base: str, path: str) -> AsyncIterator[Wire]:
    patient = {"open_timeout": PATIENCE_S, "ping_interval": None}
    async with connect(
        base + path, compression=None, max_size=None, proxy=None, **patient
    ) as socket:
        yield Wire(socket)


@asynccontextmanager
async def open_wire(base: str, sid: str, query: str = "") -> AsyncIterator[Wire]:
    async with open_path(base, f"/ws/duplex/{sid}{query}") as wire:
        yield wire
