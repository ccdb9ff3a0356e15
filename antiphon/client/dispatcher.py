"""Sorts received messages into queue positions, replies and items of the conversation."""

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
"""Items that wait for a caller. With more, reading from the socket stops until the caller reads."""

Place = TypeVar("Place")
Item = TypeVar("Item")
Reply = TypeVar("Reply", bound=ServerMessage)


@dataclass(frozen=True, slots=True)
class ClientProtocol(Generic[Place, Item]):
    """How to sort the messages of one protocol. Any other message is the answer to a request.

    `item` converts a message to an item of the conversation, `ending` to the name of how it ends the
    session, and `error` to an error; each returns None for other messages.
    """

    parser: Parser[Any]
    places: tuple[type[Place], ...]
    granted: tuple[type[ServerMessage], ...]
    item: Callable[[ServerMessage], Item | None]
    ending: Callable[[ServerMessage], str | None]
    error: Callable[[ServerMessage], Error | None]


def plain_error(message: ServerMessage) -> Error | None:
    """The error message of every protocol except realtime."""
    return message if isinstance(message, Error) else None


class MessageDispatcher(Generic[Place, Item]):
    """Reads one socket and gives each message, or the error that ended the session, to its reader."""

    def __init__(self, link: Link, protocol: ClientProtocol[Place, Item]) -> None:
        self.ended_by: str | None = None
        self.over: ClientError | None = None
        self._link = link
        self._protocol = protocol
        self._places: asyncio.Queue[Place | None] = asyncio.Queue()
        self._items: asyncio.Queue[Item | ClientError | None] = asyncio.Queue(UNREAD_ITEMS)
        self._replies: dict[type[ServerMessage], asyncio.Future[Any]] = {}
        self._turn: asyncio.Future[ServerMessage] = asyncio.get_running_loop().create_future()
        self._last_error: ServerError | None = None

    async def run(self) -> None:
        """Read the socket until it closes."""
        try:
            async for frame in self._link.frames():
                message = self._protocol.parser.parse(frame)
                if message is not None:
                    await self._take(message)
        except ConnectionClosed:
            await self._finish(self.close_error())
        except UnreadableMessage as error:
            await self._finish(error)
        else:
            await self._finish(self.close_error())

    async def places(self) -> AsyncIterator[Place]:
        """Queue positions; ends when a worker has the session."""
        while (place := await self._places.get()) is not None:
            yield place
        self._places.put_nowait(None)
        await asyncio.shield(self._turn)

    async def items(self) -> AsyncIterator[Item]:
        """The conversation until the session ends. Raises errors that are not answers to a request."""
        while (item := await self._items.get()) is not None:
            if isinstance(item, ClientError):
                raise item
            yield item
        self._items.put_nowait(None)  # for another reader
        if self.ended_by is None and self.over is not None:
            raise self.over

    @contextmanager
    def reply(self, kind: type[Reply]) -> Iterator[asyncio.Future[Reply]]:
        """The next message of this kind; an error that arrives first counts as its answer."""
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._replies[kind] = answer
        try:
            yield answer
        finally:
            self._replies.pop(kind, None)

    def close_error(self) -> ClientError:
        """The error that describes why the socket closed."""
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
        waiting.exception()  # marks it as retrieved: there may be no reader
