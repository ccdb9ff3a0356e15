"""What a session's socket brings in, sorted: places in the queue, replies, units."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import pybase64
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from client.errors import DuplexError, ServerError, SessionOver, UnreadableMessage
from client.parsing import parse_server_message
from shared_schemas.audio import PcmFormat, Samples, samples_from_bytes
from shared_schemas.server_messages import (
    DuplexServerMessage,
    Error,
    Paused,
    Prepared,
    Queued,
    QueueDone,
    Result,
    Resumed,
    Stopped,
    Timeout,
)

UNREAD_RESULTS = 256
"""Results kept for a caller who does not fetch them; after that the socket is not read."""

Reply = TypeVar("Reply", Prepared, Paused, Resumed, Stopped)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unit:
    """The answer to one second: the result as sent, its audio decoded, and when it came.

    `audio` is float32 mono at 24 kHz, empty while listening; `received_at` is `time.monotonic()`.
    """

    message: Result
    audio: Samples = field(repr=False)
    received_at: float

    @property
    def is_listen(self) -> bool:
        """True when the server kept silent."""
        return self.message.is_listen

    @property
    def text(self) -> str:
        """What `audio` says."""
        return self.message.text

    @property
    def end_of_turn(self) -> bool:
        """True when this unit finishes what the server had to say."""
        return self.message.end_of_turn

    @property
    def timing(self) -> dict[str, float] | None:
        """Milliseconds per hop, where `timing` was asked for."""
        return self.message.timing


class Inbox:
    """Reads one socket; whoever waits for a message of some kind gets it, or the reason why not."""

    def __init__(self, socket: ClientConnection) -> None:
        self.ended_by: Literal["stopped", "timeout"] | None = None
        self.over: DuplexError | None = None
        self._socket = socket
        self._places: asyncio.Queue[Queued | None] = asyncio.Queue()
        self._units: asyncio.Queue[Unit | DuplexError | None] = asyncio.Queue(UNREAD_RESULTS)
        self._replies: dict[type[DuplexServerMessage], asyncio.Future[Any]] = {}
        self._turn: asyncio.Future[QueueDone] = asyncio.get_running_loop().create_future()
        self._last_error: ServerError | None = None

    async def listen(self) -> None:
        """Read until the socket closes."""
        try:
            async for raw in self._socket:
                message = parse_server_message(raw)
                if message is not None:
                    await self._take(message)
        except ConnectionClosed:
            await self._finish(self.farewell())
        except UnreadableMessage as error:
            await self._finish(error)
        else:
            await self._finish(self.farewell())

    async def places(self) -> AsyncIterator[Queued]:
        """Places in the queue; ends when a worker holds the session."""
        while (place := await self._places.get()) is not None:
            yield place
        self._places.put_nowait(None)
        await asyncio.shield(self._turn)

    async def units(self) -> AsyncIterator[Unit]:
        """Units until the session has ended; raises each error that nobody else waited for."""
        while (unit := await self._units.get()) is not None:
            if isinstance(unit, DuplexError):
                raise unit
            yield unit
        self._units.put_nowait(None)  # another reader learns it too
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

    def farewell(self) -> DuplexError:
        """Why the closed socket closed."""
        code = self._socket.close_code
        if self.ended_by is not None:
            return SessionOver(f"the session has ended ({self.ended_by})", code)
        if self._last_error is not None and not self._turn.done():
            return self._last_error
        reason = self._socket.close_reason or "no reason given"
        cause = f"; last error: {self._last_error}" if self._last_error else ""
        return SessionOver(f"the server closed the connection ({code}: {reason}){cause}", code)

    async def _take(self, message: DuplexServerMessage) -> None:
        match message:
            case Result():
                await self._units.put(_decode(message))
            case Queued():
                self._places.put_nowait(message)
            case QueueDone():
                _settle(self._turn, message)
                self._places.put_nowait(None)
            case Error():
                await self._take_error(ServerError(message))
            case Stopped() | Timeout():
                self.ended_by = "stopped" if isinstance(message, Stopped) else "timeout"
                self._answer(message)
            case _:
                self._answer(message)

    def _answer(self, message: DuplexServerMessage) -> None:
        waiting = self._replies.get(type(message))
        if waiting is not None:
            _settle(waiting, message)

    async def _take_error(self, error: ServerError) -> None:
        self._last_error = error
        asked = [reply for reply in self._replies.values() if not reply.done()]
        for waiting in asked:
            _fail(waiting, error)
        if not asked and self._turn.done():
            await self._units.put(error)

    async def _finish(self, error: DuplexError) -> None:
        self.over = error
        for waiting in (*self._replies.values(), self._turn):
            _fail(waiting, error)
        self._places.put_nowait(None)
        await self._units.put(None)


def _decode(message: Result) -> Unit:
    received_at = time.monotonic()
    try:
        audio = samples_from_bytes(pybase64.b64decode(message.audio_data), PcmFormat.F32)
    except ValueError as error:
        raise UnreadableMessage(f"the server sent unreadable audio: {error}") from error
    return Unit(message=message, audio=audio, received_at=received_at)


def _settle(waiting: asyncio.Future[Any], message: DuplexServerMessage) -> None:
    if not waiting.done():
        waiting.set_result(message)


def _fail(waiting: asyncio.Future[Any], error: DuplexError) -> None:
    if not waiting.done():
        waiting.set_exception(error)
        waiting.exception()  # nobody need be waiting
