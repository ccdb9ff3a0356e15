"""What all conversations have in common: a place in the queue, requests and answers, a goodbye."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Generic, TypeVar

from websockets.exceptions import ConnectionClosed

from antiphon.client.errors import ClientError
from antiphon.client.inbox import Inbox, Item, Place, Protocol, Reply
from antiphon.client.link import GOODBYE_S, Link


class Session(ABC, Generic[Place, Item]):
    """One connected session; any call may raise ServerError or SessionOver."""

    def __init__(self, link: Link, protocol: Protocol[Place, Item]) -> None:
        self._link = link
        self._inbox = Inbox(link, protocol)

    @property
    def ended_by(self) -> str | None:
        """How the server ended the session, once it has."""
        return self._inbox.ended_by

    @property
    def binary(self) -> bool:
        """True where media travel as bytes."""
        return self._link.binary

    async def queue(self) -> AsyncIterator[Place]:
        """Places in the queue as they change; ends when a worker holds the session."""
        async for place in self._inbox.places():
            yield place

    async def wait_for_turn(self, on_update: Callable[[Place], None] | None = None) -> None:
        """Return when a worker holds the session; `on_update` hears of every place before that."""
        async for place in self.queue():
            if on_update is not None:
                on_update(place)

    async def close(self) -> None:
        """Say goodbye if the session still runs, and close the connection."""
        with suppress(ClientError, TimeoutError):  # the server may have been quicker, or be gone
            async with asyncio.timeout(GOODBYE_S):
                await self._goodbye()
        await self._link.close()

    async def listen(self) -> None:
        """Read the socket until it closes; `conversing` runs this in a task."""
        await self._inbox.listen()

    @abstractmethod
    async def _goodbye(self) -> None: ...

    async def _request(self, message: Mapping[str, Any], kind: type[Reply]) -> Reply:
        with self._inbox.reply(kind) as answer:
            await self._send(message, self._link.ask)
            try:
                return await answer
            finally:
                self._link.answered()

    async def _send(
        self,
        message: Mapping[str, Any],
        send: Callable[[Mapping[str, Any]], Awaitable[None]] | None = None,
    ) -> None:
        if self._inbox.over is not None:
            raise self._inbox.over
        try:
            await (send or self._link.send)(message)
        except ConnectionClosed:
            raise self._inbox.farewell() from None


AnySession = TypeVar("AnySession", bound=Session[Any, Any])


@asynccontextmanager
async def conversing(session: AnySession) -> AsyncIterator[AnySession]:
    """The session with its socket being read; leaving the block ends it."""
    reader = asyncio.create_task(session.listen(), name="client-reader")
    try:
        yield session
    finally:
        await session.close()
        reader.cancel()
        await asyncio.wait([reader])
