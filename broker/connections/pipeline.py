"""One connection for the commands of many callers; replies arrive in the order of the commands.

redis-py opens the connection: address, TLS, user, database, role. Then this module takes its transport
over, because redis-py needs several times as much CPU for each command.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import hiredis
from redis.asyncio.connection import DefaultParser
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from antiphon.broker.connections.pool import RedisConnection, disconnect_other, leads_to
from antiphon.broker.connections.shared_call import SharedCall
from antiphon.broker.errors import MasterChanged
from antiphon.broker.redis_address import Endpoint

LONG_BYTES = 256 * 1024
"""Longer commands are sent in pieces of this size. To pack 45 MiB at once takes 80 ms."""

_BYTES_PER_ITERATION = 1024 * 1024
"""Of long commands, in one iteration of the event loop."""

_ONE_PART = len("*1\r\n")

COPIED_BYTES = 8 * 1024
"""Longer parts of a command are not copied. hiredis copies a second of sound twice, which takes 8 us."""

_REPLID = re.compile(rb"\bmaster_replid:(\w+)")


class Pipeline:
    """Connects for the first call, and again for the first one after a loss. Never repeats a command.

    `new_connection` makes one of redis-py that is not open. Each caller waits for its reply, so at
    most one command per caller waits to be sent. `in_pieces`: for commands longer than LONG_BYTES, which
    take many iterations of the event loop to send.
    """

    def __init__(
        self,
        new_connection: Callable[[], RedisConnection],
        timeout_s: float,
        *,
        in_pieces: bool = False,
    ) -> None:
        self._new_connection = new_connection
        self._timeout_s = timeout_s
        self._in_pieces = in_pieces
        self._link: _Link | None = None
        self._opening: RedisConnection | None = None
        self._open = SharedCall(self._connect)

    @property
    def connection(self) -> RedisConnection | None:
        """The open connection. Its transport belongs to the pipeline."""
        return self._link.connection if self._link and self._link.is_open else None

    async def call(self, *command: Any, server: bytes | None = None, long: bool = False) -> Any:
        """The reply as Redis sends it. The reply of a caller that was cancelled is dropped.

        `long`: parts of the command may be longer than COPIED_BYTES.

        Raises redis-py's errors: TimeoutError `timeout_s` after the call, ConnectionError when the
        connection is lost, the error that the reply is. Raises BrokerUnavailable when `aclose` ends an
        attempt to connect, and MasterChanged if `server` is not the `server_id`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s
        link = self._link
        if link is None or not link.is_open:
            link = await self._open()
        while server is not None and link.server_id != server:
            if await self.server_id() != server:
                raise MasterChanged("another server takes the writes now")
            link = self._link or link
        if self._in_pieces:
            link.send_in_pieces(command)
        else:
            try:
                if long:
                    link.transport.writelines(_packed(command))
                else:
                    link.transport.write(hiredis.pack_command(command))
            except RuntimeError:  # uvloop, when a reset has closed the connection
                link.fail(RedisConnectionError, "the connection is lost")
        if not link.is_open:
            raise RedisConnectionError("the connection is lost")
        reply: asyncio.Future[Any] = loop.create_future()
        link.waiting.append((reply, deadline))
        if link.timer is None:
            link.timer = loop.call_at(deadline, link.check_deadline)
        return await reply

    async def server_id(self) -> bytes:
        """Changes when the next call goes to another server, or to one that has restarted.

        Connects if necessary. Empty if the user may not ask. Raises like `call`.
        """
        while (link := self._link) is None or not link.is_open or link.server_id is None:
            if link is None or not link.is_open:
                link = await self._open()
            try:
                found = _REPLID.search(await self.call("INFO", "replication"))
            except NoPermissionError:
                found = None
            link.server_id = found[1] if found else b""
        return link.server_id

    async def is_lost_within(self, seconds: float) -> bool:
        """Wait for the loss of the connection, at most for this time."""
        link = self._link
        if link is None or not link.is_open:
            return True
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await link.lost.wait()
        return not link.is_open

    def disconnect_others(self, endpoint: Endpoint) -> None:
        """Disconnect unless this is the server, also from one that has not answered yet."""
        if self.connection is not None and not leads_to(self.connection, endpoint):
            self.disconnect()
        if self._opening is not None:
            disconnect_other(self._opening, endpoint)

    def disconnect(self) -> None:
        """The calls in progress fail. The next call connects again."""
        if self._link is not None:
            self._link.fail(RedisConnectionError, "the connection was closed")

    async def aclose(self) -> None:
        """Disconnect, and stop an attempt to connect."""
        await self._open.aclose()
        self.disconnect()

    async def _connect(self) -> "_Link":
        connection = self._opening = self._new_connection()
        try:
            async with asyncio.timeout(self._timeout_s):
                await connection.connect()  # type: ignore[no-untyped-call]
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        finally:
            self._opening = None
        self._link = _Link(connection)
        return self._link


class _Link(asyncio.Protocol):
    """An open connection and the callers that wait for a reply, oldest first."""

    def __init__(self, connection: RedisConnection) -> None:
        self.connection = connection
        self.is_open = True
        self.lost = asyncio.Event()
        self.server_id: bytes | None = None
        self.waiting: deque[tuple[asyncio.Future[Any], float]] = deque()
        self.timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._replies = hiredis.Reader(replyError=DefaultParser.parse_error)
        self._unsent = deque[bytes | memoryview]()
        """Pieces of commands."""
        self._full = False
        """The transport's buffer is full."""
        self._sends_later = False
        self.transport = connection.hand_over(self)
        if self.transport.is_closing():
            self.fail(RedisConnectionError, "the connection is lost")

    def send_in_pieces(self, command: tuple[Any, ...]) -> None:
        """Send a command after those before it, also if its caller is cancelled."""
        self._unsent.extend(_pieces(command))
        if not self._sends_later:
            self._send_more()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        if self._unsent and not self._sends_later:
            self._send_more()

    def _send_more(self) -> None:
        """Send what one iteration of the event loop may take."""
        self._sends_later = False
        sent = 0
        while self._unsent and not self._full:
            if sent >= _BYTES_PER_ITERATION:
                self._sends_later = True
                self._loop.call_soon(self._send_more)
                return
            piece = self._unsent.popleft()
            sent += len(piece)
            try:
                self.transport.write(piece)
            except RuntimeError:  # uvloop, when a reset has closed the connection
                self.fail(RedisConnectionError, "the connection is lost")

    def data_received(self, data: bytes) -> None:
        replies, waiting = self._replies, self.waiting
        replies.feed(data)
        try:
            while (value := replies.gets()) is not False:
                reply, _ = waiting.popleft()
                if reply.done():
                    continue
                if isinstance(value, RedisError):
                    reply.set_exception(value)
                else:
                    reply.set_result(value)
        except (hiredis.ProtocolError, IndexError) as error:
            self.fail(RedisConnectionError, f"the reply cannot be read: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        self.fail(RedisConnectionError, f"the connection is lost: {error or 'closed by Redis'}")
        self.connection.forget()

    def fail(self, kind: type[RedisError], reason: str) -> None:
        """Close the connection; every caller that waits gets an error."""
        self.is_open = False
        self._unsent.clear()
        self.lost.set()
        if self.timer is not None:
            self.timer.cancel()
        self.transport.abort()
        while self.waiting:
            reply, _ = self.waiting.popleft()
            if not reply.done():
                reply.set_exception(kind(reason))

    def check_deadline(self) -> None:
        """One timer serves all callers: the first one that waits has the first deadline."""
        self.timer = None
        if not self.waiting:
            return
        deadline = self.waiting[0][1]
        if self._loop.time() < deadline:
            self.timer = self._loop.call_at(deadline, self.check_deadline)
        else:
            self.fail(RedisTimeoutError, "no reply in time")


def _packed(command: tuple[Any, ...]) -> list[bytes]:
    """What `hiredis.pack_command` returns, without a copy of long parts."""
    packed: list[bytes] = []
    head, start = b"*%d\r\n" % len(command), 0
    for at, part in enumerate(command):
        if type(part) is bytes and len(part) > COPIED_BYTES:
            packed += (b"%b%b$%d\r\n" % (head, _without_count(command[start:at]), len(part)), part)
            head, start = b"\r\n", at + 1
    if not packed:
        return [hiredis.pack_command(command)]
    packed.append(head + _without_count(command[start:]))
    return packed


def _without_count(parts: tuple[Any, ...]) -> bytes:
    return hiredis.pack_command(parts).partition(b"\n")[2] if parts else b""


def _pieces(command: tuple[Any, ...]) -> Iterator[bytes | memoryview]:
    """What `_packed` returns, in pieces of up to LONG_BYTES."""
    short = b"*%d\r\n" % len(command)
    for part in command:
        if not isinstance(part, bytes) or len(part) <= LONG_BYTES:
            short += hiredis.pack_command((part,))[_ONE_PART:]
            if len(short) <= LONG_BYTES:
                continue
            yield short
            short = b""
        else:
            yield short + b"$%d\r\n" % len(part)
            view = memoryview(part)
            for start in range(0, len(part), LONG_BYTES):
                yield view[start : start + LONG_BYTES]
            short = b"\r\n"
    yield short
