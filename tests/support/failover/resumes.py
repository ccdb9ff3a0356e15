"""Clients that resume again and again, also while the servers of a Redis are replaced."""

import asyncio
from typing import Any

from websockets.asyncio.client import ClientConnection

from support.chaos.clients import ChaosSession

_BREAKS_EVERY_S = (0.2, 2.5)


class ResumingSession(ChaosSession):
    """A full-duplex client whose connection breaks at random moments while `breaks` is set."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.breaks = asyncio.Event()

    async def _send(self, socket: ClientConnection, over: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as tasks:
            breaking = tasks.create_task(self._break(socket))
            await super()._send(socket, over)
            breaking.cancel()

    async def _break(self, socket: ClientConnection) -> None:
        await self._prepared.wait()
        await self.breaks.wait()
        await asyncio.sleep(self._rng.uniform(*_BREAKS_EVERY_S))
        if self.breaks.is_set():
            socket.transport.abort()
