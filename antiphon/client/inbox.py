"""What a session's socket brings in, sorted: places in the queue, replies, and the conversation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from websockets.exceptions import ConnectionClosed

from antiphon.client.errors import ClientError, ServerError, SessionOver, UnreadableMessage
from antiphon.client.link import Link
from antiphon.client.parsing import Parser
from antiphon.shared_schemas.wire import Error, ServerMessage

UNREAD_ITEMS = 256
"""Items kept for a caller who does not fetch them; after that the socket is not read."""

Place = TypeVar("Place")
Item = TypeVar("Item")
Reply = TypeVar("Reply", bound=ServerMessage)


@dataclass(frozen=True, slots=True)
class Protocol(Generic[Place, Item]):
    """How the messages of one protocol are sorted; what none of these takes answers a request.

    `item` makes of a message what the caller iterates over, None where it is something else;
    `ending` gives the word for how a message ends the session, `error` what it complains of.
    """

    parser: Parser[Any]
    places: tuple[type[Place], ...]
    granted: tuple[type[ServerMessage], ...]
    item: Callable[[ServerMessage], Item | None]
    ending: Callable[[ServerMessage], str | None]
    error: Callable[[ServerMessage], Error | None]


def plain_error(message: ServerMessage) -> Error | None:
    """How all protocols but realtime complain."""
    return message if isinstance(message, Error) else None


class Inbox(Generic[Place, Item]):
    """Reads one socket; whoever waits for a message of some kind gets it, or the reason why not."""

    def __init__(self, link: Link, protocol: Protocol[Place, Item]) -> None:
        self.ended_by: str | None = None
        self.over: ClientError | None = None
        self._link = link
        self._protocol = protocol
        self._places: asyncio.Queue[Place | None] = asyncio.Queue()
        self._items: asyncio.Queue[Item | ClientError | None] = asyncio.Queue(UNREAD_ITEMS)
        self._replies: dict[type[ServerMessage], asyncio.Future[Any]] = {}
        self._turn: asyncio.Future[ServerMessage] = asyncio.get_running_loop().create_future()
        self._last_error: ServerError | None = None

    async def listen(self) -> None:
        """Read until the socket closes."""
        try:
            async for frame in self._link.frames():
                message = self._protocol.parser.parse(frame)
                if message is not None:
                    await self._take(message)
        except ConnectionClosed:
            await self._finish(self.farewell())
        except UnreadableMessage as error:
            await self._finish(error)
        else:
            await self._finish(self.farewell())

    async def places(self) -> AsyncIterator[Place]:
        """Places in the queue; ends when a worker holds the session."""
        while (place := await self._places.get()) is not None:
            yield place
        self._places.put_nowait(None)
        await asyncio.shield(self._turn)

    async def items(self) -> AsyncIterator[Item]:
        """The conversation until the session has ended; raises errors that nobody else waited for."""
        while (item := await self._items.get()) is not None:
            if isinstance(item, ClientError):
                raise item
            yield item
        self._items.put_nowait(None)  # another reader learns it too
        if self.ended_by is None and self.over is not None:
            raise self.over

    @contextmanager
    def reply(self, kind: type[Reply]) -> Iterator[asyncio.Future[Reply]]:
        """The next message of this kind; errors that arrive in the meantime are taken as its answer."""
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._replies[kind] = answer
        try:
            yield answer
        finally:
            self._replies.pop(kind, None)

    def farewell(self) -> ClientError:
        """Why the closed socket closed."""
        code = self._link.socket.close_code
        if self.ended_by is not None:
            return SessionOver(f"the session has ended ({self.ended_by})", code)
        if self._last_error is not None and not self._turn.done():
            return self._last_error
        reason = self._link.socket.close_reason or "no reason given"
        cause = f"; last error: {self._last_error}" if self._last_error else ""
        return SessionOver(f"the server closed the connection ({code}: {reason}){cause}", code)

    async def _take(self, message: ServerMessage) -> None:
        protocol = self._protocol
        if (item := protocol.item(message)) is not None:
            await self._items.put(item)
        if isinstance(message, protocol.places):
            self._places.put_nowait(message)
        elif isinstance(message, protocol.granted):
            _settle(self._turn, message)
            self._places.put_nowait(None)
        elif (error := protocol.error(message)) is not None:
            await self._take_error(ServerError(error))
        else:
            self.ended_by = protocol.ending(message) or self.ended_by
            self._answer(message)

    def _answer(self, message: ServerMessage) -> None:
        waiting = self._replies.get(type(message))
        if waiting is not None:
            _settle(waiting, message)

    async def _take_error(self, error: ServerError) -> None:
        self._last_error = error
        asked = [reply for reply in self._replies.values() if not reply.done()]
        for waiting in asked:
            _fail(waiting, error)
        if not asked and self._turn.done():
            await self._items.put(error)

    async def _finish(self, error: ClientError) -> None:
        self.over = error
        for waiting in (*self._replies.values(), self._turn):
            _fail(waiting, error)
        self._places.put_nowait(None)
        await self._items.put(None)


def _settle(waiting: asyncio.Future[Any], message: ServerMessage) -> None:
    if not waiting.done():
        waiting.set_result(message)


def _fail(waiting: asyncio.Future[Any], error: ClientError) -> None:
    if not waiting.done():
        waiting.set_exception(error)
        waiting.exception()  # nobody need be waiting
