"""The base of all client sessions: queue positions, requests with answers, closing."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Generic, TypeVar

from websockets.exceptions import ConnectionClosed

from antiphon.client.dispatcher import ClientProtocol, Item, MessageDispatcher, Place, Reply
from antiphon.client.errors import ClientError
from antiphon.client.link import CLOSE_TIMEOUT_S, Link


class Session(ABC, Generic[Place, Item]):
    """One connected session. Every call may raise ServerError or SessionOver."""

    def __init__(self, link: Link, protocol: ClientProtocol[Place, Item]) -> None:
        self._link = link
        self._dispatcher = MessageDispatcher(link, protocol)

    @property
    def ended_by(self) -> str | None:
        """How the server ended the session; None before the end."""
        return self._dispatcher.ended_by

    @property
    def binary(self) -> bool:
        """True if media travel as bytes."""
        return self._link.binary

    async def queue(self) -> AsyncIterator[Place]:
        """Positions in the queue; ends when a worker has the session."""
        async for place in self._dispatcher.places():
            yield place

    async def wait_for_turn(self, on_update: Callable[[Place], None] | None = None) -> None:
        """Return when a worker has the session; calls `on_update` with each queue position."""
        async for place in self.queue():
            if on_update is not None:
                on_update(place)

    async def close(self) -> None:
        """End the session if it still runs, and close the connection."""
        with suppress(ClientError, TimeoutError):  # the server may have ended it already
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._end()
        await self._link.close()

    async def receive(self) -> None:
        """Read the socket until it closes; `run_session` does this in a task."""
        await self._dispatcher.run()

    @abstractmethod
    async def _end(self) -> None: ...

    async def _request(self, message: Mapping[str, Any], kind: type[Reply]) -> Reply:
        with self._dispatcher.reply(kind) as answer:
            await self._send(message, self._link.request)
            try:
                return await answer
            finally:
                self._link.request_done()

    async def _send(
        self,
        message: Mapping[str, Any],
        send: Callable[[Mapping[str, Any]], Awaitable[None]] | None = None,
    ) -> None:
        if self._dispatcher.over is not None:
            raise self._dispatcher.over
        try:
            await (send or self._link.send)(message)
        except ConnectionClosed:
            raise self._dispatcher.close_error() from None


AnySession = TypeVar("AnySession", bound=Session[Any, Any])


@asynccontextmanager
async def run_session(session: AnySession) -> AsyncIterator[AnySession]:
    """Read the session's socket in a task until the block ends, then end the session."""
    reader = asyncio.create_task(session.receive(), name="client-reader")
    try:
        yield session
    finally:
        await session.close()
        reader.cancel()
        await asyncio.wait([reader])
