"""Pools of connections to one server, which notice resets and refuse a replica.

A name server that does not answer delays neither other lookups of host names nor the exit. `loop.getaddrinfo`
uses few threads for all hosts, and the process waits for them when it ends. uvloop has two, so that two names
without an answer delay all others.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import hiredis
from redis.asyncio import BlockingConnectionPool
from redis.asyncio.connection import AbstractConnection, Connection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, ReadOnlyError

from antiphon.broker.errors import IncompatibleRedis
from antiphon.broker.redis_address import Endpoint, RedisAddress
from antiphon.broker.settings import BrokerSettings

_POOL_SIZE = 64
"""Connections per process. With few of them, calls wait for a connection (p50 in seconds)."""

_KEPT_IDLE = 4
"""Idle connections that stay open."""

_READ_SIZE = 256 * 1024
"""Bytes per socket read: results of about 100 kB arrive in one piece."""

LONGEST_BLOCK_MS = 2_000
"""How long a blocking read may ask Redis to wait."""

_BLOCKING_TIMEOUT_S = LONGEST_BLOCK_MS / 1000 + 2.5
"""A blocking read without a reply for this long means that the network failed. Clients notice a
half-open connection within five seconds."""

_STEP_SHARE, _LONGEST_STEP_S = 0.9, 60.0
"""Time for a lookup or a handshake: a share of that for a call, or a time if a call has no limit."""

_MANY_PARTS = 32
"""Of a command. redis-py packs each in Python."""

_NO_RETRY = Retry(NoBackoff(), 0)
"""Only the caller knows whether a call may be repeated: a second claim takes another session."""


LocateServer = Callable[[], Awaitable[Endpoint]]
"""Finds the server for a new connection. Raises BrokerUnavailable."""


def shared_pool(
    settings: BrokerSettings,
    address: RedisAddress,
    *,
    locate: LocateServer | None = None,
    only_master: bool,
) -> ShrinkingPool:
    """Connections for calls that give up after `redis_timeout_s`."""
    options = {"redis_connect_func": _refuse_replica} if only_master else {}
    place = _place(address, locate)
    pool = _pool(settings, address, _POOL_SIZE, settings.redis_timeout_s, **place, **options)
    pool.idle_s = settings.redis_idle_s
    return pool


def blocking_pool(
    settings: BrokerSettings, address: RedisAddress, *, locate: LocateServer | None
) -> ShrinkingPool:
    """Describes the connection of one task, whose reads may block for up to LONGEST_BLOCK_MS."""
    place = _place(address, locate)
    return _pool(settings, address, 1, _BLOCKING_TIMEOUT_S, **place, redis_connect_func=_identify)


def _place(address: RedisAddress, locate: LocateServer | None) -> dict[str, Any]:
    """How to reach a server: a path, or a function that finds host and port for each connection."""
    if address.path:
        return {"connection_class": _Unix, "path": address.path}
    if locate is None:
        host, port = address.endpoints[0]
        return {"connection_class": _Tcp, "tls": address.tls, "host": host, "port": port}
    return {"connection_class": _Tcp, "tls": address.tls, "locate": locate}


def _pool(
    settings: BrokerSettings, address: RedisAddress, size: int, timeout_s: float, **options: Any
) -> ShrinkingPool:
    return ShrinkingPool(
        db=address.db,
        username=address.user,
        password=address.password,
        max_connections=size,
        timeout=timeout_s,
        socket_timeout=None,
        socket_connect_timeout=settings.redis_timeout_s,
        socket_read_size=_READ_SIZE,
        retry=_NO_RETRY,
        protocol=2,
        driver_info=None,  # redis-py would look its own version up for each connection: 2 ms
        **options,
    )


class ShrinkingPool(BlockingConnectionPool):
    """Closes the connections beyond _KEPT_IDLE that were not used for `idle_s`.

    The pool hands out the connection that was released last. Hence the connections that a period
    did not need are the first ones of the list.
    """

    timeout: float
    idle_s = 30.0
    _timer: asyncio.TimerHandle | None = None
    _closing: asyncio.Future[list[BaseException | None]] | None = None
    _unneeded = 0
    """The smallest number of idle connections in this period."""

    def new_connection(self) -> RedisConnection:
        """A connection outside the pool that is not open."""
        connection: RedisConnection = self.connection_class(**self.connection_kwargs)  # type: ignore[assignment]
        return connection

    def disconnect_others(self, endpoint: Endpoint) -> None:
        """Close the connections that do not lead to this server.

        The calls in progress fail: a server that was suspended would answer them when it continues.
        """
        for connection in (*self._available_connections, *self._in_use_connections):
            disconnect_other(connection, endpoint)

    def get_available_connection(self) -> AbstractConnection:
        connection: AbstractConnection = super().get_available_connection()  # type: ignore[no-untyped-call]
        self._unneeded = min(self._unneeded, len(self._available_connections))
        return connection

    def make_connection(self) -> AbstractConnection:
        if self._timer is None and len(self._in_use_connections) >= _KEPT_IDLE:
            self._wait()
        connection: AbstractConnection = super().make_connection()  # type: ignore[no-untyped-call]
        return connection

    async def aclose(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await super().aclose()

    def _wait(self) -> None:
        self._unneeded = len(self._available_connections)
        self._timer = asyncio.get_running_loop().call_later(self.idle_s, self._shrink)

    def _shrink(self) -> None:
        closing = self._available_connections[: max(0, self._unneeded - _KEPT_IDLE)]
        del self._available_connections[: len(closing)]
        each = (connection.disconnect(nowait=True) for connection in closing)
        self._closing = asyncio.gather(*each, return_exceptions=True)
        self._timer = None
        if len(self._available_connections) + len(self._in_use_connections) > _KEPT_IDLE:
            self._wait()


class RedisConnection(AbstractConnection):
    """Reports a lost connection as ConnectionError on every event loop.

    uvloop raises RuntimeError when a command is written to a connection that a reset has closed.
    redis-py looks for the end of the stream before a command, and a reset has none.
    """

    client_id = 0
    """CLIENT ID of a connection whose reads block; it changes with each new connection."""

    @property
    def is_connected(self) -> bool:
        reader, writer = self._reader, self._writer
        if reader is None or writer is None:
            return False
        return reader.exception() is None and not writer.transport.is_closing()

    def pack_command(self, *args: Any) -> list[bytes]:
        """Packs a command of many parts in C, for example a heartbeat with all sessions of an edge."""
        if len(args) < _MANY_PARTS:
            return super().pack_command(*args)
        return [hiredis.pack_command(args)]

    async def send_packed_command(self, *args: Any, **options: Any) -> None:
        try:
            await super().send_packed_command(*args, **options)
        except RuntimeError as error:
            raise RedisConnectionError(f"the connection is lost: {error}") from error

    async def disconnect(self, *args: Any, **options: Any) -> None:
        await super().disconnect(*args, **options)
        self.forget()  # redis-py keeps the streams of a connection that is not connected

    def hand_over(self, protocol: asyncio.Protocol) -> asyncio.WriteTransport:
        """Let another protocol use the transport, which is closed if Redis has closed it.

        The owner keeps this object, which would close the transport when it is deleted.
        """
        reader, writer = self._reader, self._writer
        assert reader is not None
        assert writer is not None
        writer.transport.set_protocol(protocol)
        if reader.at_eof():
            writer.transport.abort()
        return writer.transport

    def abort(self) -> None:
        """Close the transport at once, also with TLS. Calls that wait for a reply get ConnectionError."""
        if self._writer is not None:
            self._writer.transport.abort()

    def forget(self) -> None:
        """Drop the transport, which is closed."""
        self._reader = self._writer = None


class _Tcp(RedisConnection, Connection):
    """`locate` finds the server whenever the connection is opened. All connections share `tls`.

    It looks the name up itself: otherwise a name service without an answer looks like such a Redis.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        locate: LocateServer | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._tls = tls
        self._locate = locate
        self._address = self.host

    async def _connect(self) -> None:
        if self._locate is not None:
            self.host, self.port = await self._locate()
        *others, last = await self._addresses()
        for self._address in others:
            with suppress(OSError):
                await super()._connect()  # type: ignore[no-untyped-call]
                return
        self._address = last
        await super()._connect()  # type: ignore[no-untyped-call]

    async def _addresses(self) -> list[str]:
        """Raises OSError with the reason."""
        try:
            async with asyncio.timeout(self._step_s):
                return await addresses_of(self.host)
        except TimeoutError:
            raise OSError(errno.EAGAIN, "the name service does not answer") from None

    @property
    def _step_s(self) -> float:
        """Time for a lookup or a handshake, which fails before the call does, with its own error."""
        return _STEP_SHARE * float(self.socket_connect_timeout or _LONGEST_STEP_S)

    def _connection_arguments(self) -> Mapping[str, Any]:
        place = {"host": self._address, "port": self.port}
        if self._tls is None:
            return place
        return {
            **place,
            "ssl": self._tls,
            "server_hostname": self.host,
            "ssl_handshake_timeout": self._step_s,  # a server without TLS never answers
        }


class _Unix(RedisConnection, UnixDomainSocketConnection): ...


def leads_to(connection: AbstractConnection, endpoint: Endpoint) -> bool:
    """Whether this is the server that the connection is, or was, open to."""
    return isinstance(connection, Connection) and (connection.host, connection.port) == endpoint


def disconnect_other(connection: AbstractConnection, endpoint: Endpoint) -> None:
    """Close a connection unless it leads to this server."""
    if isinstance(connection, RedisConnection) and not leads_to(connection, endpoint):
        connection.abort()


async def _refuse_replica(connection: AbstractConnection) -> None:
    """Set a new connection up. Raises ReadOnlyError when the server is not a master."""
    await connection.on_connect()
    await connection.send_command("ROLE")
    await require_master(connection.read_response())


async def require_master(asked: Awaitable[Any]) -> None:
    """Raises ReadOnlyError or IncompatibleRedis unless the reply to ROLE is a master's.

    A user that may not ask counts as connected to a master: a replica refuses its writes.
    """
    try:
        role = await asked
    except NoPermissionError:
        return
    if role[0] == b"sentinel":
        raise IncompatibleRedis("this is a Sentinel: use redis+sentinel:// in ANTIPHON_REDIS_URL")
    if role[0] != b"master":
        master = f"{role[1].decode()}:{int(role[2])}" if role[0] == b"slave" else "another server"
        raise ReadOnlyError(f"this server is a read only replica of {master}")


async def _identify(connection: AbstractConnection) -> None:
    """Set a blocking connection up, and store its CLIENT ID, with which a read is interrupted."""
    await _refuse_replica(connection)
    await connection.send_command("CLIENT", "ID")
    assert isinstance(connection, RedisConnection)
    connection.client_id = int(await connection.read_response())


_lookups: dict[str, Future[list[str]]] = {}
"""By host: the lookup in progress, or the last one."""


async def addresses_of(host: str) -> list[str]:
    """In the order in which to try them. Callers that come during a lookup of the host share it.

    Raises OSError.
    """
    if _is_address(host):
        return [host]
    lookup = _lookups.get(host)
    if lookup is None or lookup.done():
        lookup = _lookups[host] = _begin_lookup(host)
    return await asyncio.wrap_future(lookup)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _begin_lookup(host: str) -> Future[list[str]]:
    lookup: Future[list[str]] = Future()
    lookup.set_running_or_notify_cancel()  # a caller that gives up cannot cancel it for the others

    def look_up() -> None:
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except Exception as error:  # noqa: BLE001 - the callers get it
            lookup.set_exception(error)
        else:
            lookup.set_result([str(place[0]) for *_, place in found])

    threading.Thread(target=look_up, name="host-lookup", daemon=True).start()
    return lookup
