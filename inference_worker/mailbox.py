"""A session's input as the runner sees it: the stream's entries, less the audio that is too old."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from antiphon.broker.client import Broker
from antiphon.broker.stream_reader import Subscription
from antiphon.inference_worker.session.backlog import Backlog, Unread
from antiphon.shared_schemas.entries import InEntry
from antiphon.shared_schemas.stream_position import StreamPosition


class Mailbox:
    """Takes entries off the stream as they come; hands them out one by one."""

    def __init__(self, broker: Broker, backlog: Backlog) -> None:
        self._clock = broker.clock
        self._backlog = backlog
        self._arrived = asyncio.Event()
        self._failure: BaseException | None = None

    async def next(self, timeout_s: float | None) -> Unread | None:
        """The oldest entry, or None when none came in time. Raises what stopped the reading."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._arrived.wait()
        except TimeoutError:
            return None
        if self._failure is not None:
            raise self._failure
        item = self._backlog.pop()
        if not self._backlog:
            self._arrived.clear()
        return item

    async def pump(self, subscription: Subscription[InEntry]) -> None:
        """Read for as long as the session lasts."""
        try:
            await self._take_all(subscription)
            self._failure = BufferError(
                "input arrived faster than it could be taken off the stream"
            )
        except Exception as error:  # noqa: BLE001 - handed to whoever waits in `next`
            self._failure = error
        self._arrived.set()

    async def _take_all(self, subscription: Subscription[InEntry]) -> None:
        async for position, entry in subscription:
            self._backlog.push(Unread(position.n, entry, self._clock.now_ms()))
            if self._backlog:
                self._arrived.set()


@asynccontextmanager
async def open_mailbox(
    broker: Broker, sid: str, after: StreamPosition, backlog_chunks: int
) -> AsyncIterator[Mailbox]:
    """Follow `in:{sid}` from a position on, for as long as the context lasts."""
    mailbox = Mailbox(broker, Backlog(backlog_chunks))
    async with broker.reader.subscribe(broker.keys.inbound(sid), after) as subscription:
        reading = asyncio.create_task(mailbox.pump(subscription), name=f"mailbox:{sid}")
        try:
            yield mailbox
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
