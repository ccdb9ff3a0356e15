"""The base of all client sessions: sorts received messages, sends requests, closes."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
from msgspec import structs
from websockets.exceptions import ConnectionClosed

from antiphon.client.arguments import check_function, check_seconds
from antiphon.client.errors import (
    ClientError,
    NoAnswer,
    ServerError,
    SessionOver,
)
from antiphon.client.link import CLOSE_TIMEOUT_S, Link
from antiphon.client.pending_requests import PendingRequests, Reply, fail, settle
from antiphon.client.results import CONVERSIONS, Parser, SoundLimits
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.messages.chat import PrefillDone, PrefillProgress, UnstreamedChatDone
from antiphon.shared_schemas.messages.duplex import Timeout
from antiphon.shared_schemas.messages.half_duplex import (
    Generating,
    HalfDuplexTimeout,
    Interrupted,
    TurnDone,
    VadState,
)
from antiphon.shared_schemas.messages.realtime import (
    ErrorEvent,
    Listen,
    SessionClosed,
    SessionQueued,
    SessionQueueDone,
    SessionQueueUpdate,
)
from antiphon.shared_schemas.messages.realtime_v2 import ResponseDone, SessionClosedV2
from antiphon.shared_schemas.states import WaitReason, wait_reason_text
from antiphon.shared_schemas.wire import (
    Error,
    MediaBytes,
    Queued,
    QueueDone,
    ServerMessage,
    Stopped,
)

UNREAD_BYTES = 128 * 1024**2
"""Results that wait for the program: 23 minutes of speech. With more, the session ends.

The socket is read in any case: without the pongs of the client, the edge would close it.
"""
_ITEM_BYTES = 1024
"""Of a result without its audio."""

_LOADING = WaitReason.WORKER_LOADING
_PLACES: tuple[type[Any], ...] = (Queued, SessionQueued, SessionQueueUpdate)
_GRANTED = (QueueDone, SessionQueueDone, PrefillProgress, PrefillDone)
_ENDINGS: tuple[type[Any], ...] = (Stopped, Timeout, HalfDuplexTimeout, UnstreamedChatDone)
_UNCHANGED = (VadState, Generating, TurnDone, Interrupted, Listen, PrefillProgress, PrefillDone)
_ITEMS = CONVERSIONS | dict.fromkeys(
    (*_UNCHANGED, UnstreamedChatDone, ResponseDone), lambda message: message
)
"""Messages of the conversation in every protocol, and what becomes of each."""

_NO_TEXT = "the server sent an error without a text"

_LOST = (None, 1006)
"""Close codes of a connection that ended without a close frame."""

Place = TypeVar("Place", bound=Queued | SessionQueued | SessionQueueUpdate)
Item = TypeVar("Item")


class Session(ABC, Generic[Place, Item]):
    """One connected session. Every call may raise ServerError or SessionOver.

    `ended_by` is how the server ended the session, None before the end.
    """

    def __init__(self, link: Link, parser: Parser) -> None:
        self.ended_by: str | None = None
        self._link = link
        self._parser = parser
        self._over: ClientError | None = None
        self._places: asyncio.Queue[Place | None] = asyncio.Queue()
        self._waits: asyncio.Queue[Place | ClientError | None] = asyncio.Queue()
        self._waiting_again = False
        self._items: asyncio.Queue[Item | ClientError | None] = asyncio.Queue()
        self._unread_bytes = 0
        self._is_read = False
        self._sender: asyncio.Task[None] | None = None
        self._requests = PendingRequests()
        self._sent_types: set[str] = set()
        self._turn: asyncio.Future[ServerMessage] = asyncio.get_running_loop().create_future()
        self._last_error: ServerError | None = None
        self._limits = SoundLimits()

    @property
    def binary(self) -> bool:
        """True if media travel as bytes."""
        return self._link.binary

    def watch_connection(self, on_change: Callable[[bool], None]) -> None:
        """Call `on_change` with False when the connection breaks, and with True once it is resumed.

        It is not called without the option `resume`.
        """
        check_function("on_change", on_change)
        self._link.on_change = on_change

    async def queue(self) -> AsyncIterator[Place]:
        """Positions in the queue; ends when a worker has the session."""
        while (place := await self._places.get()) is not None:
            yield place
        self._places.put_nowait(None)
        await asyncio.shield(self._turn)

    async def wait_for_turn(
        self,
        on_update: Callable[[Place], None] | None = None,
        *,
        no_worker_s: float | None = None,
    ) -> None:
        """Return when a worker has the session; calls `on_update` with each queue position.

        Raises NoAnswer if no worker could take the session for `no_worker_s`, and none was loading, or if the
        server says nothing for this time. The realtime API does not report that one is loading.
        """
        if on_update is not None:
            check_function("on_update", on_update)
        if no_worker_s is not None:
            check_seconds("no_worker_s", no_worker_s)
        newest: Place | None = None
        try:
            async with asyncio.timeout(no_worker_s) as limit:
                async for newest in self.queue():
                    if on_update is not None:
                        on_update(newest)
                    if newest.estimated_wait_s is not None or newest.reason == _LOADING:
                        limit.reschedule(None)
                    elif no_worker_s is not None and limit.when() is None:
                        limit.reschedule(asyncio.get_running_loop().time() + no_worker_s)
        except TimeoutError:
            if newest is None:
                raise NoAnswer(f"no answer came within {no_worker_s:g} s") from None
            raise NoAnswer(wait_reason_text(newest.reason)) from None

    async def waits(self) -> AsyncIterator[Place | None]:
        """Positions in the queue after the session has lost its worker; ends with the session.

        None means that a worker serves the session again.
        """
        while not isinstance(wait := await self._waits.get(), ClientError):
            yield wait
        self._waits.put_nowait(wait)  # for another reader

    async def events(self) -> AsyncIterator[Item]:
        """The conversation until the session ends.

        Raises ServerError for each error that is not the answer to another call (call again to continue),
        and SessionOver if the connection broke.
        """
        while (item := await self._next_item()) is not None:
            if isinstance(item, ClientError):
                raise item
            yield item
        self._items.put_nowait(None)  # for another reader
        if self.ended_by is None and self._over is not None:
            raise self._over

    async def _events_while(
        self, send: Callable[[], Coroutine[Any, Any, None]]
    ) -> AsyncGenerator[Item, None]:
        """The events, while `send` runs in a task. Raises its errors.

        A generator that is left but not closed sends until the next one begins, or the session ends.
        """
        self._check_reader()
        await self._stop_sending()
        sending = self._sender = asyncio.create_task(send())
        receiving: asyncio.Task[Item | None] | None = None
        try:
            while True:
                receiving = asyncio.create_task(_next(self.events()))
                pending = {receiving} if sending.done() else {receiving, sending}
                await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                if self._sender is not sending:
                    raise RuntimeError("another `converse` of this session has begun")
                if sending.done() and not sending.cancelled():
                    sending.result()
                if (item := await receiving) is None:
                    return
                yield item
        finally:
            for task in filter(None, (sending, receiving)):
                task.cancel()
                await asyncio.wait([task])

    async def _stop_sending(self) -> None:
        """End what a `converse` sends."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait([self._sender])

    def _check_reader(self) -> None:
        """Raises RuntimeError for a second reader, which would get half of the items."""
        if self._is_read:
            raise RuntimeError("another task reads the results of this session now")

    async def _next_item(self) -> Item | ClientError | None:
        """Raises RuntimeError."""
        self._check_reader()
        self._is_read = True
        try:
            item = await self._items.get()
        finally:
            self._is_read = False
        if item is not None:
            self._unread_bytes -= _size(item)
        return item

    async def close(self) -> None:
        """End the session if it still runs, and close the connection."""
        try:
            await self._stop_sending()
            with suppress(ClientError, TimeoutError):  # the server may have ended it already
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self._end()
        finally:  # also after a second cancellation
            await self._link.close()

    async def receive(self) -> None:
        """Read the socket until it closes; `run_session` does this in a task."""
        over: ClientError
        try:
            with suppress(ConnectionClosed):
                async with aclosing(self._link.frames()) as frames:
                    async for frame in frames:
                        message = self._parser.parse(frame)
                        if message is not None:
                            self._take(message)
        except ClientError as error:
            over = error
        except Exception as error:  # noqa: BLE001 - the calls that wait must end
            over = SessionOver(f"the session has ended, because the client failed: {error!r}")
            over.__cause__ = error
        else:
            over = self._close_error()
        self.finish(over)
        await self._link.close()  # ends a call that still sends

    async def begin(self) -> None:
        """What the client sends before the session is used."""

    @abstractmethod
    async def stop(self) -> Any:
        """Ask the server to end the session."""

    async def _end(self) -> None:
        await self.stop()

    def _sound(self, samples: Samples, reference: str = "") -> MediaBytes:
        """Audio (float32 mono 16 kHz) as a field of a message: a chunk, or this argument with a voice.

        Raises InvalidAudio.
        """
        limit = self._limits.reference_audio_s if reference else self._limits.chunk_s
        return self._link.sound(samples, limit, reference or "audio")

    async def _request(self, message: Mapping[str, Any], kind: type[Reply]) -> Reply:
        """The answer to a request, as of `PendingRequests.ask`."""
        send = partial(self._send, send=self._link.request)
        return await self._requests.ask(message, kind, send, self._link.request_done)

    async def _send(
        self,
        message: Mapping[str, Any],
        send: Callable[[Mapping[str, Any]], Awaitable[None]] | None = None,
    ) -> None:
        if self._over is not None:
            raise self._over
        try:
            self._sent_types.add(message.get("type", ""))
            await (send or self._link.send)(message)
        except ConnectionClosed:
            raise self._over or self._close_error() from None

    def _take(self, message: Any) -> None:
        """Any other message than those in the tables above is the answer to a request."""
        if message.capabilities is not None:
            self._limits = SoundLimits.of(message.capabilities)
        if (item := self._item(message)) is not None:
            self._served_again()
            self._put(item)
        if isinstance(message, _PLACES):
            self._take_place(message)
        elif isinstance(message, _GRANTED):
            settle(self._turn, message)
            self._places.put_nowait(None)
        elif isinstance(message, Error | ErrorEvent):
            self._take_error(_server_error(message))
        else:
            if isinstance(message, _ENDINGS):
                self.ended_by = message.type
            elif isinstance(message, SessionClosed | SessionClosedV2):
                self.ended_by = str(message.reason)
            self._requests.settle(message)

    def _item(self, message: Any) -> Item | None:
        """What `events` yields for a message; None if it is no part of the conversation."""
        convert = _ITEMS.get(type(message))
        return convert(message) if convert is not None else None

    def _take_place(self, place: Any) -> None:
        if not self._turn.done():
            self._places.put_nowait(place)
        elif place.position > 0:
            self._waiting_again = True
            self._waits.put_nowait(place)
        else:
            self._served_again()

    def _served_again(self) -> None:
        if self._waiting_again:
            self._waiting_again = False
            self._waits.put_nowait(None)

    def _take_error(self, error: ServerError) -> None:
        self._last_error = error
        if not self._requests.fail(error, self._sent_types):
            self._put(error)

    def _put(self, item: Item | ClientError) -> None:
        """Raises SessionOver if the program has left too much unread."""
        self._items.put_nowait(item)
        self._unread_bytes += _size(item)
        if self._unread_bytes > UNREAD_BYTES:
            raise SessionOver(
                f"the program has not read the results: {UNREAD_BYTES >> 20} MiB wait; read them while you "
                "send, in another task, or with `converse`"
            )

    def finish(self, error: ClientError) -> None:
        """End what waits for a message, once nothing is read any more. The first error counts."""
        if self._over is not None:
            return
        self._over = error
        self._requests.finish(error)
        fail(self._turn, error)
        self._places.put_nowait(None)
        self._waits.put_nowait(error)
        self._items.put_nowait(None)

    def _close_error(self) -> ClientError:
        """The error that describes why the socket closed."""
        code = self._link.socket.close_code
        if self.ended_by is not None:
            return SessionOver(f"the session has ended ({self.ended_by})", code)
        if self._last_error is not None and not self._turn.done():
            return self._last_error
        cause = f"; last error: {self._last_error}" if self._last_error else ""
        if code in _LOST:
            text = "the connection broke, because the edge or the network failed; "
            return SessionOver(text + self._link.remedy + cause, code)
        reason = self._link.socket.close_reason or "no reason given"
        return SessionOver(f"the server closed the connection ({code}: {reason}){cause}", code)


async def _next(items: AsyncIterator[Item]) -> Item | None:
    return await anext(items, None)


def _size(item: Any) -> int:
    """Roughly. The one message of an answer that is not streamed counts little."""
    audio = getattr(item, "audio", None)
    return _ITEM_BYTES + (audio.nbytes if isinstance(audio, np.ndarray) else 0)


@asynccontextmanager
async def prepared_within(limit_s: float) -> AsyncIterator[None]:
    """Raises NoAnswer if the block, which prepares a session, takes longer."""
    try:
        async with asyncio.timeout(limit_s):
            yield
    except TimeoutError:
        text = f"the server did not prepare the session within {limit_s:g} s"
        raise NoAnswer(text) from None


def _server_error(message: Error | ErrorEvent) -> ServerError:
    if isinstance(message, Error):
        text = message.message or message.error or _NO_TEXT
        return ServerError(structs.replace(message, error=text, message=text))
    text, code = (str(message.error.get(name) or "") for name in ("message", "code"))
    text = text or _NO_TEXT
    return ServerError(Error(error=text, message=text, code=code))


AnySession = TypeVar("AnySession", bound=Session[Any, Any])


@asynccontextmanager
async def run_session(
    connect: Callable[[], Awaitable[Link]], create: Callable[[Link], AnySession]
) -> AsyncIterator[AnySession]:
    """Connect, read the session's socket in a task until the block ends, then end the session."""
    session = create(await connect())
    reader = asyncio.create_task(session.receive(), name="client-reader")
    try:
        await session.begin()
        yield session
    finally:
        try:
            await session.close()
        finally:
            reader.cancel()
            try:
                await asyncio.wait([reader])
            finally:
                session.finish(SessionOver("the session has ended, because its block was left"))
