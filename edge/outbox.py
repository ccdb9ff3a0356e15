"""What waits to be sent to one client: bounded, in order, closed when the client does not keep up."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NoReturn

from edge.connection import Line
from edge.errors import SlowConsumer
from edge.protocols.contract import Close
from edge.settings import Unsent


class SessionOver(Exception):
    """Everything was said and the connection is closed."""


class Outbox:
    """Text goes in without waiting; one task sends it."""

    def __init__(self, connection: Line, unsent: Unsent, stall_s: float) -> None:
        self._connection = connection
        self._unsent = unsent
        self._stall_s = stall_s
        self._texts: deque[str] = deque()
        self._bytes = 0
        self._close: Close | None = None
        self._work = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def put(self, text: str) -> None:
        """Queue a message; ignored after `finish`. Raises SlowConsumer when too much is unsent.

        A single message may be of any length: who has read all before it is not slow.
        """
        if self._close is not None:
            return
        full = len(self._texts) >= self._unsent.messages
        if self._texts and (full or self._bytes + len(text) > self._unsent.bytes):
            raise SlowConsumer
        self._texts.append(text)
        self._bytes += len(text)
        self._work.set()
        if len(self._texts) * 2 > self._unsent.messages:
            self._room.clear()

    def finish(self, close: Close) -> None:
        """Close the connection behind what is queued; the first call counts."""
        if self._close is None:
            self._close = close
            self._work.set()

    async def room(self) -> None:
        """Return once no more than half of the space is taken."""
        await self._room.wait()

    async def run(self) -> NoReturn:
        """Send until finished. Raises SessionOver, SlowConsumer or ClientGone."""
        while True:
            await self._work.wait()
            self._work.clear()
            await self._send_all()
            if self._close is not None:
                await self._say_goodbye(self._close)

    async def _send_all(self) -> None:
        while self._texts:
            text = self._texts.popleft()
            self._bytes -= len(text)
            if len(self._texts) * 2 <= self._unsent.messages:
                self._room.set()
            await self._within_stall(text)

    async def _within_stall(self, text: str) -> None:
        try:
            async with asyncio.timeout(self._stall_s):
                await self._connection.send(text)
        except TimeoutError:
            raise SlowConsumer from None

    async def _say_goodbye(self, close: Close) -> NoReturn:
        try:
            async with asyncio.timeout(self._stall_s):
                await self._connection.close(close)
        except TimeoutError:
            raise SlowConsumer from None
        raise SessionOver
