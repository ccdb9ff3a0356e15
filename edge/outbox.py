"""What waits to be sent to one client: bounded, in order, closed when the client does not keep up."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import NoReturn

from prometheus_client import Histogram

from antiphon.edge.connection import Line
from antiphon.edge.errors import SlowConsumer
from antiphon.edge.protocols.contract import Close
from antiphon.edge.settings import Unsent


class SessionOver(Exception):
    """Everything was said and the connection is closed."""


class Outbox:
    """Frames go in without waiting; one task sends them."""

    def __init__(
        self, connection: Line, unsent: Unsent, stall_s: float, seconds: Histogram
    ) -> None:
        self._connection = connection
        self._unsent = unsent
        self._stall_s = stall_s
        self._seconds = seconds
        self._frames: deque[tuple[str | bytes, float]] = deque()
        self._bytes = 0
        self._close: Close | None = None
        self._work = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def put(self, frame: str | bytes) -> None:
        """Queue a message; ignored after `finish`. Raises SlowConsumer when too much is unsent.

        A single message may be of any length: who has read all before it is not slow.
        """
        if self._close is not None:
            return
        full = len(self._frames) >= self._unsent.messages
        if self._frames and (full or self._bytes + len(frame) > self._unsent.bytes):
            raise SlowConsumer
        self._frames.append((frame, time.perf_counter()))
        self._bytes += len(frame)
        self._work.set()
        if len(self._frames) * 2 > self._unsent.messages:
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
        while self._frames:
            frame, put_at = self._frames.popleft()
            self._bytes -= len(frame)
            if len(self._frames) * 2 <= self._unsent.messages:
                self._room.set()
            await self._within_stall(frame)
            self._seconds.observe(time.perf_counter() - put_at)

    async def _within_stall(self, frame: str | bytes) -> None:
        try:
            async with asyncio.timeout(self._stall_s):
                await self._connection.send(frame)
        except TimeoutError:
            raise SlowConsumer from None

    async def _say_goodbye(self, close: Close) -> NoReturn:
        try:
            async with asyncio.timeout(self._stall_s):
                await self._connection.close(close)
        except TimeoutError:
            raise SlowConsumer from None
        raise SessionOver
