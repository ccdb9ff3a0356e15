"""Bounded queue of frames for one client. The connection closes if the client does not keep up."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import NoReturn

from prometheus_client import Histogram

from antiphon.edge.errors import Close, SlowConsumer
from antiphon.edge.settings import Unsent
from antiphon.edge.transport.connection import ClientConnection


class AllSent(Exception):
    """Every frame was sent and the connection is closed."""


class SendQueue:
    """`put` never waits; one task sends the frames in order."""

    def __init__(
        self, connection: ClientConnection, unsent: Unsent, stall_s: float, seconds: Histogram
    ) -> None:
        self._connection = connection
        self._unsent = unsent
        self._stall_s = stall_s
        self._seconds = seconds
        self._frames: deque[tuple[str | bytes, float]] = deque()
        self._bytes = 0
        self._close: Close | None = None
        self._wake = asyncio.Event()
        self._space = asyncio.Event()
        self._space.set()
        self.wait_for_space = self._space.wait
        """Returns once the queue is at most half full."""

    def put(self, frame: str | bytes) -> None:
        """Queue a frame; ignored after `close_after_sent`. Raises SlowConsumer.

        One frame may exceed the byte limit if the client has read everything before it.
        """
        if self._close is not None:
            return
        full = len(self._frames) >= self._unsent.messages
        if self._frames and (full or self._bytes + len(frame) > self._unsent.bytes):
            raise SlowConsumer
        self._frames.append((frame, time.perf_counter()))
        self._bytes += len(frame)
        self._wake.set()
        if len(self._frames) * 2 > self._unsent.messages:
            self._space.clear()

    def close_after_sent(self, close: Close) -> None:
        """Close the connection after the queued frames. Only the first call has an effect."""
        if self._close is None:
            self._close = close
            self._wake.set()

    async def run(self) -> NoReturn:
        """Raises AllSent, SlowConsumer or ClientGone."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                while self._frames:
                    frame, put_at = self._frames.popleft()
                    self._bytes -= len(frame)
                    if len(self._frames) * 2 <= self._unsent.messages:
                        self._space.set()
                    async with asyncio.timeout(self._stall_s):
                        await self._connection.send(frame)
                    self._seconds.observe(time.perf_counter() - put_at)
                if self._close is not None:
                    async with asyncio.timeout(self._stall_s):
                        await self._connection.close(self._close)
            except TimeoutError:
                raise SlowConsumer from None
            if self._close is not None:
                raise AllSent
