"""Notices a connection that was lost without a word: pings, and how long an answer to them may take."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

_PING_S = 5.0
_PONG_S = 10.0
"""Together less than the time for which an edge keeps the session of a lost client."""

_LONG_MESSAGE = 1 << 20
_LEAST_UPLOAD_RATE = 16 * 1024
"""Bytes per second that an edge allows for."""


class Keepalive:
    """Of one socket after the other. A pong comes behind what is being sent, so uploads delay it."""

    def __init__(self) -> None:
        self._sending = 0
        self._busy_until = 0.0

    @asynccontextmanager
    async def sending(self, size: int) -> AsyncIterator[None]:
        """While a message of `size` bytes is sent. Much of it may be in buffers afterwards."""
        self._sending += 1
        try:
            yield
        finally:
            self._sending -= 1
            if size > _LONG_MESSAGE:
                now = asyncio.get_running_loop().time()
                self._busy_until = max(self._busy_until, now) + size / _LEAST_UPLOAD_RATE

    @asynccontextmanager
    async def of(self, socket: ClientConnection) -> AsyncIterator[None]:
        """Until the block ends, close `socket` when the other side does not answer any more."""
        watching = asyncio.create_task(self._watch(socket), name="client-keepalive")
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    async def _watch(self, socket: ClientConnection) -> None:
        with suppress(ConnectionClosed):
            while True:
                await asyncio.sleep(_PING_S)
                pong = asyncio.ensure_future(await socket.ping())
                while not (await asyncio.wait([pong], timeout=_PONG_S))[0]:
                    if not self._is_busy():
                        socket.transport.abort()
                        return
                await pong

    def _is_busy(self) -> bool:
        return self._sending > 0 or asyncio.get_running_loop().time() < self._busy_until
