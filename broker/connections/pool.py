"""Pools of connections to one server, which notice resets and refuse a replica."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

from redis.asyncio import BlockingConnectionPool
from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    SSLConnection,
    UnixDomainSocketConnection,
    parse_url,
)
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, ReadOnlyError

from antiphon.broker.errors import BadPasswordFile
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

_NO_RETRY = Retry(NoBackoff(), 0)
"""Only the caller knows whether a call may be repeated: a second claim takes another session."""


def shared_pool(settings: BrokerSettings, *, only_master: bool = True) -> ShrinkingPool:
    """Connections for calls that give up after `redis_timeout_s`."""
    options = {} if only_master else {"redis_connect_func": None}
    pool = _pool(settings, _POOLED, _POOL_SIZE, settings.redis_timeout_s, **options)
    pool.idle_s = settings.redis_idle_s
    return pool


def blocking_pool(settings: BrokerSettings) -> ShrinkingPool:
    """The connection of one task, whose reads may block for up to LONGEST_BLOCK_MS."""
    options = {"redis_connect_func": _identify, "socket_keepalive": True}
    return _pool(settings, _SINGLE, 1, _BLOCKING_TIMEOUT_S, **options)


def _pool(
    settings: BrokerSettings,
    classes: Mapping[type[AbstractConnection], type[AbstractConnection]],
    size: int,
    timeout_s: float,
    **options: Any,
) -> ShrinkingPool:
    address: dict[str, Any] = dict(parse_url(settings.redis_url))
    kind = address.pop("connection_class", Connection)
    if kind is UnixDomainSocketConnection:
        options.pop("socket_keepalive", None)
    elif "host" not in address:
        address["host"] = "localhost"
    return ShrinkingPool(
        **{
            "password": _password(settings),
            "redis_connect_func": _refuse_replica,
            **address,
            **options,
        },
        connection_class=classes[kind],
        max_connections=size,
        timeout=timeout_s,
        socket_timeout=None,
        socket_connect_timeout=settings.redis_timeout_s,
        socket_read_size=_READ_SIZE,
        retry=_NO_RETRY,
        protocol=2,
    )


class ShrinkingPool(BlockingConnectionPool):
    """Closes the connections beyond _KEPT_IDLE that were not used for `idle_s`.

    The pool hands out the connection that was released last. Hence the connections that a period
    did not need are the first ones of the list.
    """

    idle_s = 30.0
    _timer: asyncio.TimerHandle | None = None
    _closing: asyncio.Future[list[BaseException | None]] | None = None
    _unneeded = 0
    """The smallest number of idle connections in this period."""

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


class ReportsLoss(AbstractConnection):
    """Reports a lost connection as ConnectionError on every event loop.

    uvloop raises RuntimeError when a command is written to a connection that a reset has closed.
    """

    client_id = 0
    """CLIENT ID of a connection whose reads block; it changes with each new connection."""

    async def send_packed_command(self, *args: Any, **options: Any) -> None:
        try:
            await super().send_packed_command(*args, **options)
        except RuntimeError as error:
            raise RedisConnectionError(f"the connection is lost: {error}") from error


class _NoticesReset(ReportsLoss):
    """Connects again before a command when the connection was reset while it was idle.

    redis-py looks for the end of the stream only, and a reset has none.
    """

    @property
    def is_connected(self) -> bool:
        reader, writer = self._reader, self._writer
        if reader is None or writer is None:
            return False
        return reader.exception() is None and not writer.transport.is_closing()

    async def disconnect(self, *args: Any, **options: Any) -> None:
        await super().disconnect(*args, **options)
        # redis-py keeps the streams of a connection that is not connected.
        self._reader = self._writer = None


class _SingleTcp(ReportsLoss, Connection): ...


class _SingleTls(ReportsLoss, SSLConnection): ...


class _SingleUnix(ReportsLoss, UnixDomainSocketConnection): ...


class _PooledTcp(_NoticesReset, Connection): ...


class _PooledTls(_NoticesReset, SSLConnection): ...


class _PooledUnix(_NoticesReset, UnixDomainSocketConnection): ...


_SINGLE = {
    Connection: _SingleTcp,
    SSLConnection: _SingleTls,
    UnixDomainSocketConnection: _SingleUnix,
}
_POOLED = {
    Connection: _PooledTcp,
    SSLConnection: _PooledTls,
    UnixDomainSocketConnection: _PooledUnix,
}


async def _refuse_replica(connection: AbstractConnection) -> None:
    """Set a new connection up. Raises ReadOnlyError when the server is not a master."""
    await connection.on_connect()
    await connection.send_command("ROLE")
    await require_master(connection.read_response())


async def require_master(asked: Awaitable[Any]) -> None:
    """Raises ReadOnlyError unless the reply to ROLE is a master's.

    A user that may not ask counts as connected to a master: a replica refuses its writes.
    """
    try:
        role = await asked
    except NoPermissionError:
        return
    if role[0] != b"master":
        raise ReadOnlyError("this server is a read only replica")


async def _identify(connection: AbstractConnection) -> None:
    """Set a blocking connection up, and store its CLIENT ID, with which a read is interrupted."""
    await _refuse_replica(connection)
    await connection.send_command("CLIENT", "ID")
    assert isinstance(connection, ReportsLoss)
    connection.client_id = int(await connection.read_response())


def _password(settings: BrokerSettings) -> str | None:
    """Read the file for each client; a password in the URL wins. Raises BadPasswordFile."""
    path = settings.redis_password_file
    if path is None:
        return None
    try:
        password = path.read_text().strip()
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        raise BadPasswordFile(f"redis_password_file {path} {reason}") from error
    if not password:
        raise BadPasswordFile(f"redis_password_file {path} is empty")
    return password
